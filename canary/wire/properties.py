"""librdkafka properties as kafka-python takes them: addresses, TLS, and SASL PLAIN, SCRAM and OAUTHBEARER."""

import contextlib
import ssl
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from kafka.errors import KafkaConnectionError
from kafka.net.sasl.oauth import AbstractTokenProvider

from canary.wire.errors import NotSupportedError, WireError

_MECHANISMS: Final = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"})
_NOT_HERE: Final = {
    "ssl.certificate.pem": "set ssl.certificate.location",
    "ssl.key.pem": "set ssl.key.location",
    "ssl.keystore.location": "set ssl.certificate.location and ssl.key.location",
}
"""Properties with which librdkafka is as safe as it is told to be, and this client would not be."""


class _Token(AbstractTokenProvider):  # type: ignore[misc]  # the library has no types
    def __init__(self, callback: Callable[[str], tuple[str, float]]) -> None:
        super().__init__()
        self._callback = callback

    def token(self) -> str:
        try:
            return self._callback("")[0]
        except Exception as error:  # of a file, or of AWS: the library expects its own errors alone
            raise KafkaConnectionError(f"there is no OAUTHBEARER token: {type(error).__name__}: {error}") from error


def translated(config: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
    """Return the configuration of a KafkaAdminClient. It holds secrets.

    Args:
        config: what ``canary.settings.admin_config`` returns.
        timeout_s: how long the cluster is waited for at the beginning, and then each answer.

    Raises:
        NotSupportedError: a property says how to log in or what to trust, and this client cannot do that.
        WireError: a property is wrong; it is named.
    """
    protocol = str(config.get("security.protocol", "plaintext")).upper()
    servers = config.get("bootstrap.servers") or config.get("metadata.broker.list") or ""
    found: dict[str, Any] = {
        "bootstrap_servers": _addresses(str(servers)),
        "client_id": str(config.get("client.id", "durability-canary")),
        "security_protocol": protocol,
        "bootstrap_timeout_ms": int(timeout_s * 1000),
        "request_timeout_ms": int(timeout_s * 1000),
        "reconnect_backoff_ms": 250,
        "reconnect_backoff_max_ms": 2000,
        "receive_message_max_bytes": 100_000_000,  # librdkafka's, too; a batch may be larger than what is asked for
    }
    if protocol.endswith("SSL"):
        found["ssl_context"] = _context(config)
    if protocol.startswith("SASL"):
        found |= _login(config)
    return found


def _addresses(servers: str) -> list[str]:
    found = [one for each in servers.split(",") if (one := each.rpartition("://")[2].strip())]
    for one in found:
        host, colon, port = one.rpartition(":")
        if colon and not one.endswith("]") and not (host and port.isdecimal()):
            raise WireError(f"bootstrap.servers: {one} is no HOST:PORT")
    if not found:
        raise WireError("bootstrap.servers names no broker")
    return found


@contextlib.contextmanager
def _of(*names: str) -> Iterator[None]:
    """Say which properties it was, of which Python's errors tell nothing."""
    try:
        yield
    except OSError as error:  # a file is not there, or is no certificate, or the password is wrong
        raise WireError(f"{' or '.join(names)}: {error}") from error


def _login(config: Mapping[str, Any]) -> dict[str, Any]:
    mechanism = str(config.get("sasl.mechanisms") or config.get("sasl.mechanism") or "GSSAPI").upper()
    if mechanism not in _MECHANISMS:
        raise NotSupportedError(f"sasl.mechanisms {mechanism}", "use PLAIN, SCRAM or OAUTHBEARER")
    if mechanism != "OAUTHBEARER":
        return {
            "sasl_mechanism": mechanism,
            "sasl_plain_username": config.get("sasl.username"),
            "sasl_plain_password": config.get("sasl.password"),
        }
    callback = config.get("oauth_cb")
    if callback is None:
        raise NotSupportedError(
            "an OAUTHBEARER token of librdkafka's own",
            "set sasl.oauthbearer.token.file, or sasl.oauthbearer.msk.region",
        )
    return {"sasl_mechanism": mechanism, "sasl_oauth_token_provider": _Token(callback)}


def _context(config: Mapping[str, Any]) -> ssl.SSLContext:
    for name, remedy in _NOT_HERE.items():
        if config.get(name):
            raise NotSupportedError(name, remedy)
    where = str(config.get("ssl.ca.location") or "")
    file, folder = (None, where) if Path(where).is_dir() else (where, None)
    if where in {"", "probe"}:
        file = folder = None
    with _of(f"ssl.ca.location {where}" if file or folder else "ssl.ca.pem"):
        context = ssl.create_default_context(cafile=file, capath=folder, cadata=config.get("ssl.ca.pem"))
    if revoked := config.get("ssl.crl.location"):
        with _of(f"ssl.crl.location {revoked}"):
            context.load_verify_locations(revoked)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    verified = str(config.get("enable.ssl.certificate.verification", "true")).lower() == "true"
    named = str(config.get("ssl.endpoint.identification.algorithm", "https")).lower() == "https"
    context.check_hostname = verified and named
    if not verified:
        context.verify_mode = ssl.CERT_NONE
    if certificate := config.get("ssl.certificate.location"):
        key = config.get("ssl.key.location")
        with _of(f"ssl.certificate.location {certificate}", *([f"ssl.key.location {key}"] if key else [])):
            context.load_cert_chain(certificate, key, config.get("ssl.key.password") or "")
    return context
