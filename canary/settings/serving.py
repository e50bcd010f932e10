"""How the API is served, and which requests it answers."""

import ipaddress
import socket
from pathlib import Path
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, StringConstraints, model_validator

from canary.settings.fields import Name, Seconds, Section, problem

Open = Literal["metrics", "readyz"]
Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"]
LOOPBACK_NAMES: Final = frozenset({"localhost", "ip6-localhost"})
HostName = Annotated[
    str, StringConstraints(strip_whitespace=True, to_lower=True, pattern=r"^(\*|(\*\.)?[A-Za-z0-9_][A-Za-z0-9_.-]*)$")
]
"""A host's name without a port, ``*.`` and a domain for every name below it, or ``*`` for any."""


class TlsSettings(Section):
    """TLS by the server itself; a proxy in front may do it instead."""

    certificate: Path = Field(description="Certificate chain in PEM (path).")
    key: Path = Field(description="Private key in PEM (path).")


class OidcSettings(Section):
    """Tokens (JWT) and sign-ins of an identity provider, beside the canary's own tokens."""

    issuer: str = Field(pattern=r"^https?://", description="The provider, as in the tokens' iss (URL).")
    audience: str = Field(min_length=1, description="What the tokens' aud must hold: this canary's name there.")
    jwks_url: str | None = Field(
        None,
        pattern=r"^https?://",
        description="Where the provider's keys are (URL). Left out: asked of ISSUER/.well-known/openid-configuration.",
    )
    scope_claim: str = Field(
        "scope", min_length=1, description="The claim that says what a token allows: words with spaces, or a list."
    )
    read: str = Field("canary:read", min_length=1, description="The word in it that allows reading.")
    operate: str = Field("canary:operate", min_length=1, description="The word in it that allows everything.")
    name_claim: str = Field(
        "sub", min_length=1, description="The claim that names the person in the record of actions."
    )
    algorithms: tuple[Algorithm, ...] = Field(
        ("RS256", "ES256"), min_length=1, description="Signatures that are accepted; never symmetric ones."
    )
    leeway: Seconds = Field(30.0, ge=0, le=300, description="How far clocks may be apart (duration).")
    keys_for: Seconds = Field(600.0, ge=10, description="How long the provider's keys are believed (duration).")
    clusters_claim: str | None = Field(
        None,
        min_length=1,
        description="The claim that names the clusters that a token is for: words with spaces, or a list; * is all. A "
        "token without it opens nothing. Left out: every token is for all clusters.",
    )
    login: bool = Field(False, description="Whether a browser without a token signs in at the provider.")
    client_id: str | None = Field(
        None, min_length=1, description="The canary's name at the provider, for login; the aud of its ID tokens."
    )
    client_secret_file: Path | None = Field(
        None, description="File with the client's secret (path), read at each sign-in. Left out: a public client."
    )
    scopes: tuple[str, ...] = Field(
        ("profile", "email"),
        description="What a sign-in asks for beside openid, so that the ID token has the claims above.",
    )
    session: Seconds = Field(
        8 * 3600.0,
        ge=60,
        le=7 * 86_400,
        description="A sign-in lasts as long as its ID token, and at most so long (duration).",
    )

    @model_validator(mode="after")
    def _provider_is_authentic(self) -> Self:
        for name in ("issuer", "jwks_url"):
            url = getattr(self, name)
            if url is not None and not is_confidential(url):
                raise problem(
                    "whoever is between here and there could sign in as anybody",
                    "write https:// (http is for loopback addresses alone)",
                    name,
                )
        return self

    @model_validator(mode="after")
    def _login_is_complete(self) -> Self:
        if self.login and self.client_id is None:
            raise problem("login needs to know what the provider calls the canary", "set it", "client_id")
        return self


class AuthSettings(Section):
    """Access to the API."""

    required: Literal["auto", "always", "never"] = Field(
        "auto",
        description="Whether a token is needed. auto: unless api.host is a loopback address. never lets everyone who "
        "reaches the port acknowledge and resolve: only behind a proxy that authenticates.",
    )
    open: tuple[Open, ...] = Field(
        (), description="What is answered without a token even so: metrics, readyz. /healthz always is."
    )
    failures: int = Field(
        10,
        ge=1,
        description="So many failed attempts a minute from one address are answered 401 and recorded, more are "
        "answered 429; a valid token is never refused (count).",
    )
    oidc: OidcSettings | None = Field(None, description="An identity provider.")


class ApiSettings(Section):
    """REST, metrics and pages."""

    host: str = Field("127.0.0.1", min_length=1, description="Address to listen on (host name or IP address).")
    port: int = Field(8080, ge=0, le=65_535, description="Port to listen on; 0 = any free one (number).")
    url: str | None = Field(
        None,
        pattern=r"^https?://",
        description="Address of the pages for browsers, for links in alerts and dashboards (URL). Left out: host and "
        "port; no links where host is a wildcard (0.0.0.0, ::).",
    )
    hosts: tuple[HostName, ...] = Field(
        (),
        description="Names by which clients reach the API; a request with another Host is refused. IP addresses, "
        "loopback names, host and the host of url are always known (names, *.DOMAIN, or * for any).",
    )
    tls: TlsSettings | None = Field(None, description="TLS by the server itself.")
    auth: AuthSettings = Field(default_factory=AuthSettings, description="Access.")  # type: ignore[arg-type]
    shadow: tuple[Name, ...] = Field(
        (),
        description="Clusters in shadow mode, for a roll-out: what is found there is recorded and shown, and no alert "
        "fires (names of clusters).",
    )
    cardinality: Literal["partition", "topic"] = Field(
        "partition",
        description="How fine /metrics is: a series for each partition, or summed to one for each topic (gauges: the "
        "worst one). A cluster with thousands of probed partitions wants topic.",
    )
    metrics_cache: Seconds = Field(
        1.0,
        ge=0,
        le=10,
        description="How long a rendering of /metrics serves other scrapes; runners store what they know once a second "
        "(duration).",
    )

    answers_cache: Seconds = Field(
        0.25,
        ge=0,
        le=5,
        description="How long an answer of REST is reused for the same request; a change made through this "
        "process shows at once (duration).",
    )

    @property
    def address(self) -> str | None:
        """Where people reach the pages, without a slash at the end: ``url``, or host and port; None: unknown."""
        if self.url is not None:
            return self.url.rstrip("/")
        return None if is_wildcard(self.host) or not self.port else self.local_address

    @property
    def local_address(self) -> str:
        """Where this machine reaches the pages, without a slash at the end."""
        host = reachable(self.host)
        return f"{'https' if self.tls else 'http'}://{f'[{host}]' if ':' in host else host}:{self.port}"

    @property
    def needs_token(self) -> bool:
        """Whether a token is needed."""
        return self.auth.required == "always" or (self.auth.required == "auto" and not is_loopback(self.host))

    @model_validator(mode="after")
    def _links_lead_somewhere(self) -> Self:
        if self.url is None:
            return self
        host = urlsplit(self.url).hostname
        if not host or is_wildcard(host):
            raise problem("no browser reaches this address", "name the host that people use, or leave url out", "url")
        return self

    @model_validator(mode="after")
    def _provider_is_used(self) -> Self:
        if self.auth.required == "never" and self.auth.oidc is not None:
            raise problem(
                "an identity provider is set, and no request needs a token",
                "set required: always, or leave oidc out",
                "auth",
                "required",
            )
        if self.auth.oidc is None or not self.auth.oidc.login:
            return self
        if not self.needs_token:
            raise problem(
                "browsers are to sign in, and no request needs a token",
                "set required: always, or leave login out",
                "auth",
                "required",
            )
        if self.address is None:
            raise problem("the provider has to send browsers back here", "set the address that people use", "url")
        return self


def is_confidential(url: str) -> bool:
    """Return whether nobody on the way to a URL can read or change what is said: it is https, or stays here."""
    parts = urlsplit(url)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address to listen on."""
    if host.lower() in LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_wildcard(host: str) -> bool:
    """Return whether a host to listen on means every address of the machine; no client can connect to it."""
    try:
        if ":" not in host:
            return not any(socket.inet_aton(host))  # 0 and 0x0 are 0.0.0.0, too
        address = ipaddress.IPv6Address(host.strip("[]"))
    except (OSError, ValueError):
        return False
    return (address.ipv4_mapped or address).is_unspecified


def reachable(host: str) -> str:
    """Return the address by which this machine reaches a host to listen on."""
    if not is_wildcard(host):
        return host
    return "::1" if ":" in host else "127.0.0.1"
