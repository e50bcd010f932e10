"""The identity provider: its tokens (JWT) are valid if it signed them, for us, and their time is now; and its sign-in.

The claims of a bearer's token and of a browser's ID token become a principal in the same way. Only their audience
differs: ``audience`` is the API, ``client_id`` the application that people sign in to.
"""

import hmac
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import quote_plus

import httpx
import structlog
from joserfc import jwk, jwt
from joserfc.errors import InvalidKeyIdError, JoseError

from api.access.login import LoginError, error_word
from api.principal import Principal
from canary.settings.serving import OidcSettings, is_confidential

log = structlog.get_logger(__name__)

TIMEOUT_S: Final = 5.0
AGAIN_S: Final = 30.0
"""For an unknown key the keys are fetched again at most this often."""
_BASIC: Final = "client_secret_basic"
_OURS: Final = frozenset({"invalid_client", "unauthorized_client", "unsupported_grant_type", "invalid_scope"})
"""Errors of the token endpoint that the settings cause, not the person."""


class ProviderError(Exception):
    """The identity provider does not answer, or not as OpenID Connect says."""


class Provider:
    """An identity provider, its description and its keys, fetched when first needed. Safe for several threads."""

    def __init__(
        self,
        settings: OidcSettings,
        *,
        now: Callable[[], float],
        monotonic: Callable[[], float],
        fetch: Callable[[str], Mapping[str, Any]] | None = None,
    ) -> None:
        """Take ``now`` (s since the epoch) for the tokens' times and ``monotonic`` (s) for the keys' age."""
        self._settings = settings
        self._now = now
        self._monotonic = monotonic
        self._fetch = fetch or _get
        self._lock = threading.RLock()
        self._keys: jwk.KeySet | None = None
        self._fetched = 0.0
        self._described: tuple[float, Mapping[str, Any]] | None = None
        """When the provider was last asked what it says of itself (s, monotonic), and what it said."""

    def principal(self, token: str) -> Principal | None:
        """Return the principal of a JWT, or None if it is not valid here.

        Raises:
            ProviderError: the provider's keys are needed, and it does not answer.
        """
        try:
            claims = self._claims(token, self._settings.audience)
        except JoseError as error:
            log.info("jwt_refused", reason=error.error)
            return None
        return self._allowed(claims)

    def authorization_url(self, parameters: Mapping[str, str]) -> str:
        """Return where a browser signs in.

        Raises:
            ProviderError: the provider does not answer.
        """
        return str(
            httpx.URL(self._endpoint(self._description(), "authorization_endpoint")).copy_merge_params(parameters)
        )

    def exchange(self, code: str, verifier: str, redirect_uri: str) -> str:
        """Return the ID token for a code (RFC 6749, 4.1.3; RFC 7636, 4.5).

        Raises:
            LoginError: the provider refuses the code or us.
            ProviderError: it does not answer.
        """
        client = self._settings.client_id or ""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "client_id": client,
            "code_verifier": verifier,
        }
        description = self._description()
        auth: httpx.BasicAuth | None = None
        if (secret := self._secret()) is not None:
            if _BASIC in description.get("token_endpoint_auth_methods_supported", [_BASIC]):
                auth = httpx.BasicAuth(quote_plus(client), quote_plus(secret))
            else:
                form["client_secret"] = secret
        try:
            answer = httpx.post(self._endpoint(description, "token_endpoint"), data=form, auth=auth, timeout=TIMEOUT_S)
            content = answer.json()
        except (httpx.HTTPError, ValueError) as error:
            raise self._away(error) from error
        token = content.get("id_token") if answer.is_success and isinstance(content, dict) else None
        if isinstance(token, str):
            return token
        word = error_word(content.get("error") if isinstance(content, dict) else None)
        remedy = "see api.auth.oidc in the canary's settings" if word in _OURS else "sign in again"
        raise LoginError(f"The identity provider gave no ID token ({word}); {remedy}.")

    def signed_in(self, id_token: str, nonce: str) -> tuple[Principal, float]:
        """Return the principal of an ID token, and when the token expires (OpenID Connect Core 1.0, 3.1.3.7).

        Raises:
            LoginError: the token is not valid here, of another sign-in, or of a person without a right.
            ProviderError: the provider's keys are needed, and it does not answer.
        """
        settings = self._settings
        client = settings.client_id or ""
        try:
            claims = self._claims(id_token, client)
        except JoseError as error:
            log.info("id_token_refused", reason=error.error)
            raise LoginError(f"The identity provider's ID token is not valid here ({error.error}).") from None
        if not hmac.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()):
            raise LoginError("The identity provider's ID token is of another sign-in; sign in again.")
        if claims.get("azp", client) != client:
            raise LoginError("The identity provider's ID token was made for another application.")
        principal = self._allowed(claims)
        if principal is None:
            words = f"the claim {settings.scope_claim} of its ID token needs {settings.read} or {settings.operate}"
            more = f", and {settings.clusters_claim} the names of clusters" if settings.clusters_claim else ""
            raise LoginError(f"Your account has no right to this canary: {words}{more}.", 403)
        return principal, float(claims["exp"])

    def _claims(self, token: str, audience: str) -> dict[str, Any]:
        """Return the claims of a token, all checked that every token has.

        Raises:
            JoseError: it is not valid.
            ProviderError: the provider's keys are needed, and it does not answer.
        """
        try:
            claims = self._verified(token, self._recent(self._settings.keys_for))
        except InvalidKeyIdError:
            claims = self._verified(token, self._recent(AGAIN_S))  # the provider may have a new key
        jwt.JWTClaimsRegistry(
            now=int(self._now()),
            leeway=int(self._settings.leeway),
            iss={"essential": True, "value": self._settings.issuer},
            aud={"essential": True, "value": audience},
            exp={"essential": True},
        ).validate(claims)
        return claims

    def _verified(self, token: str, keys: jwk.KeySet) -> dict[str, Any]:
        return jwt.decode(token, keys, algorithms=list(self._settings.algorithms)).claims

    def _allowed(self, claims: Mapping[str, Any]) -> Principal | None:
        settings = self._settings
        words = _words(claims, settings.scope_claim)
        operate = settings.operate in words
        if not operate and settings.read not in words:
            log.info("jwt_refused", reason="no_scope")
            return None
        clusters = None if settings.clusters_claim is None else _words(claims, settings.clusters_claim)
        if clusters is not None and not clusters:
            log.info("jwt_refused", reason="no_clusters")
            return None
        name = str(claims.get(settings.name_claim) or claims.get("sub") or "jwt")
        return Principal(name, operate, None if clusters is None or "*" in clusters else clusters)

    def _recent(self, at_most_s: float) -> jwk.KeySet:
        """Return the keys, fetched again if they are older than that."""
        with self._lock:
            if self._keys is None or self._monotonic() - self._fetched > at_most_s:
                self._keys = self._load()
            return self._keys

    def _load(self) -> jwk.KeySet:
        url = self._settings.jwks_url or self._endpoint(self._description(), "jwks_uri")
        try:
            keys = jwk.KeySet.import_key_set(self._fetch(url))  # type: ignore[arg-type]  # a mapping, as it says
        except (httpx.HTTPError, ValueError, KeyError, JoseError) as error:
            raise self._away(error) from error
        self._fetched = self._monotonic()
        return keys

    def _description(self) -> Mapping[str, Any]:
        """Return what the provider says of itself (OpenID Connect Discovery 1.0, 4), as old as keys may be.

        So a browser that begins to sign in, which anybody may, asks nothing of the provider.
        """
        with self._lock:
            if self._described is None or self._monotonic() - self._described[0] > self._settings.keys_for:
                self._described = self._monotonic(), self._describe()
            return self._described[1]

    def _describe(self) -> Mapping[str, Any]:
        try:
            found = self._fetch(f"{self._settings.issuer.rstrip('/')}/.well-known/openid-configuration")
        except (httpx.HTTPError, ValueError) as error:
            raise self._away(error) from error
        if found.get("issuer") != self._settings.issuer:
            raise ProviderError(
                f"{self._settings.issuer}: its description is of another issuer; see api.auth.oidc.issuer"
            )
        return found

    def _endpoint(self, description: Mapping[str, Any], name: str) -> str:
        url = description.get(name)
        if not isinstance(url, str) or not is_confidential(url):
            raise ProviderError(f"{self._settings.issuer}: its {name} is no https address")
        return url

    def _secret(self) -> str | None:
        file = self._settings.client_secret_file
        try:
            return None if file is None else file.expanduser().read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            log.warning("client_secret_unreadable", file=str(file), reason=type(error).__name__)
            words = "The canary cannot read its client's secret; see api.auth.oidc.client_secret_file."
            raise LoginError(words, 503) from None

    def _away(self, error: Exception) -> ProviderError:
        return ProviderError(f"{self._settings.issuer}: {type(error).__name__}")


def _words(claims: Mapping[str, Any], name: str) -> frozenset[str]:
    """Return the words of a claim: a text with spaces, or a list."""
    said: object = claims.get(name)
    return frozenset(said.split() if isinstance(said, str) else map(str, said) if isinstance(said, list) else ())


def _get(url: str) -> Mapping[str, Any]:
    answer = httpx.get(url, timeout=TIMEOUT_S, follow_redirects=False)
    answer.raise_for_status()
    content = answer.json()
    if not isinstance(content, dict):
        raise ValueError("no JSON object")  # noqa: TRY004  # like what is no JSON
    return content
