"""Settings as they may be shown: every default filled in, every secret hidden."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from pydantic import SecretStr

if TYPE_CHECKING:
    from canary.settings.model import Settings

HIDDEN: Final = "**********"
_USER_INFO: Final = re.compile(r"(://[^/?#@:]*):[^/?#]*@")
_URL_SECRET: Final = re.compile(r"((?:password|secret|token|key)[^=&]*=)[^&]*", re.IGNORECASE)


def redacted_url(url: str) -> str:
    """Return a URL with its password, and any password in its query, hidden; what comes after is left to see."""
    return _URL_SECRET.sub(rf"\1{HIDDEN}", _USER_INFO.sub(rf"\1:{HIDDEN}@", url))


def redacted(settings: Settings) -> dict[str, Any]:
    """Return the settings as JSON values, in the shape of the file; whatever is secret is asterisks."""
    shown = settings.model_dump(mode="json", exclude_none=True)
    shown["store"]["url"] = redacted_url(settings.store.url.get_secret_value())
    shown["probe_log"]["url"] = redacted_url(settings.probe_log.url)
    for cluster, model in zip(shown["clusters"], settings.clusters, strict=True):
        cluster["kafka"] = {
            name: HIDDEN if isinstance(value, SecretStr) else value for name, value in model.kafka.items()
        }
    return shown


def secrets_of(settings: Settings) -> frozenset[str]:
    """Return every secret text of the settings, so that a log can leave them out. Short ones (under 4) are no use."""
    url = settings.store.url.get_secret_value()
    password = re.search(r"://[^/?#@:]*:([^/?#]*)@", url)
    values = {url, password[1]} if password else set()
    for cluster in settings.clusters:
        given = (*cluster.kafka.values(), cluster.watch.redpanda.password)
        values |= {value.get_secret_value() for value in given if isinstance(value, SecretStr)}
    for receiver in settings.notify:
        values |= receiver.secrets
    return frozenset(value for value in values if len(value) >= 4)
