"""What may stand under ``kafka:``, and the safe configuration of each client made from it.

Any librdkafka property passes through, security ones above all. What decides whether an acknowledgement is a promise
does not: those are set here, as jepsen-redpanda found the defaults to be the unsafe ones (acks=all, idempotence on,
retries high, read_committed, no auto-commit, no auto-created topics), and an override is refused by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from pydantic import SecretStr

from canary.settings.credentials import FileSecret, with_token
from canary.settings.fields import problem, property_text, secret

if TYPE_CHECKING:
    from collections.abc import Mapping

    from canary.settings.clusters import ClusterSettings

Isolation = Literal["read_committed", "read_uncommitted"]

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
    },
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
    "enable.partition.eof": (
        frozenset({"true"}),
        "the end of a partition is how loss is told from delay: leave it out",
    ),
    "check.crcs": (frozenset({"true"}), "corruption on the wire must be seen: leave it out"),
    "allow.auto.create.topics": (frozenset({"false"}), "the canary creates its topics itself, as set under topic"),
    "transactional.id": (frozenset(), "the mode 'transactional' under modes makes its own from identifier_prefix"),
    "group.id": (frozenset(), "set identifier_prefix instead; groups are probed by the mode 'group' under modes"),
    "group.instance.id": (frozenset(), "groups are probed by the mode 'group' under modes"),
}

#: For producers: retried without end until the delivery timeout, which the user may set.
_DELIVERY: Final[dict[str, Any]] = {
    "linger.ms": 5,
    "message.timeout.ms": 120_000,
    "retries": 2_147_483_647,
}
#: For consumers: at most 16 MB fetched ahead, not 64.
_READING: Final[dict[str, Any]] = {"queued.max.messages.kbytes": 16_384}
#: For every client. Backoffs so that a cluster that stands still costs no CPU (FIELD-NOTES, "odds and ends").
_ANY_CLIENT: Final[dict[str, Any]] = {
    "allow.auto.create.topics": False,
    "log.connection.close": False,
    "reconnect.backoff.ms": 250,
    "reconnect.backoff.max.ms": 5_000,
    "retry.backoff.ms": 250,
    "retry.backoff.max.ms": 5_000,
    "socket.connection.setup.timeout.ms": 10_000,
    "socket.keepalive.enable": True,
    "topic.metadata.refresh.interval.ms": 30_000,
}


def properties(given: Mapping[str, object]) -> dict[str, str | SecretStr]:
    """Return what stands under ``kafka:`` with librdkafka's names, all values text, secrets wrapped or read from files.

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
        _guard(key, name, text)
        if is_secret(name):
            taken[name] = FileSecret(value["file"], text) if isinstance(value, dict) else SecretStr(text)
        else:
            taken[name] = text
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


def admin_config(cluster: ClusterSettings) -> dict[str, Any]:
    """Return the configuration of an admin client: safe defaults, then what the user set. Holds secrets."""
    return _ANY_CLIENT | {"client.id": cluster.identifier_prefix} | cluster.client_config()


def producer_config(cluster: ClusterSettings) -> dict[str, Any]:
    """Return the configuration of an idempotent producer: acks=all, retried until ``message.timeout.ms``. Secrets."""
    return _DELIVERY | admin_config(cluster) | {"acks": "all", "enable.idempotence": True}


def transactional_config(cluster: ClusterSettings, transactional_id: str) -> dict[str, Any]:
    """Return the configuration of a transactional producer; its id is put behind ``identifier_prefix``. Secrets.

    A message is given up no later than its transaction: librdkafka insists.
    """
    config = {"transaction.timeout.ms": 60_000} | producer_config(cluster)
    longest = config["transaction.timeout.ms"]
    return config | {
        "message.timeout.ms": min(config["message.timeout.ms"], longest, key=int),
        "transactional.id": f"{cluster.identifier_prefix}-{transactional_id}",
    }


def consumer_config(cluster: ClusterSettings, isolation: Isolation) -> dict[str, Any]:
    """Return the configuration of an assigned (never subscribed) consumer at one isolation level. Holds secrets.

    It is told of the end of each partition, commits nothing, and an offset that is not in the log is an error.
    """
    return (
        _READING
        | admin_config(cluster)
        | {
            "auto.offset.reset": "error",
            "check.crcs": True,
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "group.id": f"{cluster.identifier_prefix}-assigned",  # librdkafka wants one; nothing ever joins it
            "isolation.level": isolation,
        }
    )


def _named(key: str) -> str:
    return key.replace("_", ".")


def _guard(key: str, name: str, text: str) -> None:
    if name in _GUARDED:
        harmless, remedy = _GUARDED[name]
        if text.strip().lower() not in harmless:
            raise problem(f"{name} is not for the settings to choose", remedy, key)
