"""Translates librdkafka properties to those of the Java client, which Spark's Kafka source uses.

Only addresses, security and client names are translated; everything else keeps Java's defaults. PEM material is passed
inline, so that workers on other machines need no files.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from canary.settings.credentials import MSK_REGION, TOKEN_FILE
from spark_reconcile.errors import BadInputError

_SAME: Final = ("client.id", "client.rack", "sasl.kerberos.service.name", "ssl.key.password", "ssl.keystore.password")
_LOGIN: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule",
    "GSSAPI": "com.sun.security.auth.module.Krb5LoginModule",
}
_TOKENS: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
_PLACE: Final = "settings, kafka"


def java_properties(given: Mapping[str, Any]) -> dict[str, str]:
    """Return properties of a Java consumer; they hold secrets.

    Raises:
        BadInputError: Java cannot do it, or a file cannot be read.
    """
    text = {name: str(value) for name, value in given.items()}
    servers = text.get("bootstrap.servers") or text.get("metadata.broker.list", "")
    result = {"bootstrap.servers": servers} | {name: text[name] for name in _SAME if name in text}
    protocol = text.get("security.protocol", "plaintext").upper()
    result["security.protocol"] = protocol
    if protocol.startswith("SASL"):
        result |= _sasl(text)
    if protocol.endswith("SSL"):
        result |= _ssl(text)
    return result


def _sasl(text: Mapping[str, str]) -> dict[str, str]:
    mechanism = text.get("sasl.mechanism", text.get("sasl.mechanisms", "GSSAPI")).upper()
    if mechanism not in _LOGIN:
        raise BadInputError(f"{_PLACE}.sasl.mechanism", f"{mechanism} is unknown to Java", ", ".join(_LOGIN))
    result = {"sasl.mechanism": mechanism}
    login: dict[str, str | None] = {}
    if mechanism == "OAUTHBEARER":
        for ours in {TOKEN_FILE, MSK_REGION} & text.keys():
            raise BadInputError(
                f"{_PLACE}.{ours}",
                "Spark's Kafka source cannot use it",
                "give the nightly dump a user with SCRAM or TLS",
            )
        if text.get("sasl.oauthbearer.method", "default").lower() != "oidc":
            raise BadInputError(f"{_PLACE}.sasl.oauthbearer.method", "only oidc can be used from Spark")
        result["sasl.oauthbearer.token.endpoint.url"] = text.get("sasl.oauthbearer.token.endpoint.url", "")
        result["sasl.login.callback.handler.class"] = _TOKENS
        login = {
            "clientId": text.get("sasl.oauthbearer.client.id"),
            "clientSecret": text.get("sasl.oauthbearer.client.secret"),
            "scope": text.get("sasl.oauthbearer.scope"),
        }
    elif mechanism == "GSSAPI":
        keytab = text.get("sasl.kerberos.keytab")
        login = {
            "useKeyTab": "true" if keytab else None,
            "storeKey": "true" if keytab else None,
            "useTicketCache": None if keytab else "true",
            "keyTab": keytab,
            "principal": text.get("sasl.kerberos.principal"),
        }
    else:
        login = {"username": text.get("sasl.username"), "password": text.get("sasl.password")}
    options = "".join(f" {name}={_quoted(value)}" for name, value in login.items() if value is not None)
    result["sasl.jaas.config"] = f"{_LOGIN[mechanism]} required{options};"
    return result


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _ssl(text: Mapping[str, str]) -> dict[str, str]:
    if text.get("enable.ssl.certificate.verification", "true").lower() == "false":
        raise BadInputError(
            f"{_PLACE}.enable.ssl.certificate.verification", "Java always verifies", "give the authority as ssl.ca.pem"
        )
    result = {}
    if text.get("ssl.endpoint.identification.algorithm", "https").lower() == "none":
        result["ssl.endpoint.identification.algorithm"] = ""
    authority = _pem(text, "ssl.ca")
    if authority:
        result |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority}
    certificate, key = _pem(text, "ssl.certificate"), _pem(text, "ssl.key")
    if certificate and key:
        result |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": certificate,
            "ssl.keystore.key": key,
        }
    elif "ssl.keystore.location" in text:
        result |= {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": text["ssl.keystore.location"]}
    return result


def _pem(text: Mapping[str, str], name: str) -> str | None:
    inline = text.get(f"{name}.pem")
    if inline:
        return inline
    location = text.get(f"{name}.location")
    if not location or (name == "ssl.ca" and location == "probe"):
        return None
    try:
        return Path(location).read_text()
    except OSError as error:
        raise BadInputError(f"{_PLACE}.{name}.location", f"{location} cannot be read ({error.strerror})") from error
