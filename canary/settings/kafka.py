"""The librdkafka properties under ``kafka:``: how they are named, which are secret, and which are refused.

Any property passes through, security ones above all, except those that decide whether an acknowledgement is a promise
(acks, idempotence, isolation level): ``canary.settings.clients`` sets them, because jepsen-redpanda found the defaults
to be the unsafe ones, and an override is refused by name.
"""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import SecretStr

from canary.extras import lacking
from canary.settings.credentials import MSK_REGION, FileSecret, with_token
from canary.settings.fields import problem, property_text, secret

#: Properties whose value is a secret, wherever the canary shows or logs settings.
SECRETS: Final = frozenset(
    {
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "sasl.oauthbearer.assertion.private.key.pem",
        "sasl.oauthbearer.client.credentials.client.secret",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config",
        "sasl.password",
        "ssl.key.password",
        "ssl.key.pem",
        "ssl.keystore.password",
    }
)
_SECRET_WORDS: Final = ("password", "secret", "passphrase", "private.key.pem", "token.value")

_BOTH_LEVELS: Final = "the canary always reads at both isolation levels: leave it out"
_OWN_COMMITS: Final = "the canary's assigned readers keep their own position: leave it out"
_PLAIN: Final = "leave it out; what weaker settings cost is the business of the mode 'plain' under modes"
#: Property: the values that change nothing, and what to do instead of any other.
_GUARDED: Final[dict[str, tuple[frozenset[str], str]]] = {
    "acks": (frozenset({"all", "-1"}), _PLAIN),
    "request.required.acks": (frozenset({"all", "-1"}), _PLAIN),
    "enable.idempotence": (frozenset({"true"}), _PLAIN),
    "isolation.level": (frozenset(), _BOTH_LEVELS),
    "auto.offset.reset": (frozenset({"error"}), "out of range is a fact to judge, not a jump to make: leave it out"),
    "enable.auto.commit": (frozenset({"false"}), _OWN_COMMITS),
    "enable.auto.offset.store": (frozenset({"false"}), _OWN_COMMITS),
    "enable.partition.eof": (frozenset({"true"}), "the end of a partition tells loss from delay: leave it out"),
    "check.crcs": (frozenset({"true"}), "corruption on the wire must be seen: leave it out"),
    "allow.auto.create.topics": (frozenset({"false"}), "the canary creates its topics itself, as set under topic"),
    "transactional.id": (frozenset(), "the mode 'transactional' under modes makes its own from identifier_prefix"),
    "group.id": (frozenset(), "set identifier_prefix instead; groups are probed by the mode 'group' under modes"),
    "group.instance.id": (frozenset(), "groups are probed by the mode 'group' under modes"),
}


def properties(given: Mapping[str, object]) -> dict[str, str | SecretStr]:
    """Return the properties under ``kafka:`` by librdkafka's names: values as text, secrets wrapped or read from files.

    ``bootstrap_servers`` is ``bootstrap.servers``; a secret ``X`` may stand as ``X_file: PATH`` or ``X: {file: PATH}``.

    Raises:
        PydanticCustomError: a value is none, a file cannot be read, a guarded property is overridden, a name is twice.
    """
    taken: dict[str, str | SecretStr] = {}
    for key, raw in given.items():
        base = _named(key[: -len("_file")]) if key.endswith(("_file", ".file")) else ""
        name, value = (base, {"file": raw}) if is_secret(base) else (_named(key), raw)
        if name in taken:
            raise problem(f"{name} is set twice", "keep one of the two", key)
        text = property_text(secret(value, key), key)
        if name in _GUARDED:
            harmless, remedy = _GUARDED[name]
            if text.strip().lower() not in harmless:
                raise problem(f"{name} is not for the settings to choose", remedy, key)
        if is_secret(name):
            taken[name] = FileSecret(value["file"], text) if isinstance(value, dict) else SecretStr(text)
        else:
            taken[name] = text
    if MSK_REGION in taken and (missing := lacking("msk", MSK_REGION)):
        what, _, remedy = missing.partition(": ")
        raise problem(what, remedy, MSK_REGION)
    return taken


def is_secret(name: str) -> bool:
    """Return whether a property's value must never be shown."""
    return name in SECRETS or any(word in name for word in _SECRET_WORDS)


def revealed(kafka: Mapping[str, str | SecretStr]) -> dict[str, Any]:
    """Return properties as a client takes them, secrets as their files are now. Never log what this returns."""
    return with_token(
        {
            name: value.get_secret_value() if isinstance(value, SecretStr) else value
            for name, value in kafka.items()
            if name not in _GUARDED
        }
    )


def _named(key: str) -> str:
    return key.replace("_", ".")
