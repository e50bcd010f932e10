"""Tokens of an identity provider: a JWT is valid if the provider signed it, for us, and its time is now."""

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

import httpx
import structlog
from joserfc import jwk, jwt
from joserfc.errors import InvalidKeyIdError, JoseError

from api.access.auth import Principal
from canary.settings.serving import OidcSettings

log = structlog.get_logger(__name__)

TIMEOUT_S: Final = 5.0
AGAIN_S: Final = 30.0
"""For an unknown key the keys are fetched again at most this often."""


class ProviderError(Exception):
    """The identity provider does not answer."""


class Provider:
    """An identity provider and its keys, fetched when first needed. Safe for several threads."""

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
        self._lock = threading.Lock()
        self._keys: jwk.KeySet | None = None
        self._fetched = 0.0

    def principal(self, token: str) -> Principal | None:
        """Return the principal of a JWT, or None if it is not valid here.

        Raises:
            ProviderError: the provider's keys are needed, and it does not answer.
        """
        try:
            try:
                claims = self._claims(token, self._recent(self._settings.keys_for))
            except InvalidKeyIdError:
                claims = self._claims(token, self._recent(AGAIN_S))  # the provider may have a new key
        except JoseError as error:
            log.info("jwt_refused", reason=error.error)
            return None
        return self._allowed(claims)

    def _claims(self, token: str, keys: jwk.KeySet) -> dict[str, Any]:
        claims = jwt.decode(token, keys, algorithms=list(self._settings.algorithms)).claims
        jwt.JWTClaimsRegistry(
            now=int(self._now()),
            leeway=int(self._settings.leeway),
            iss={"essential": True, "value": self._settings.issuer},
            aud={"essential": True, "value": self._settings.audience},
            exp={"essential": True},
        ).validate(claims)
        return claims

    def _allowed(self, claims: Mapping[str, Any]) -> Principal | None:
        said = claims.get(self._settings.scope_claim) or []
        words = set(said.split() if isinstance(said, str) else map(str, said) if isinstance(said, list) else ())
        operate = self._settings.operate in words
        if not operate and self._settings.read not in words:
            log.info("jwt_refused", reason="no_scope")
            return None
        return Principal(str(claims.get(self._settings.name_claim) or claims.get("sub") or "jwt"), operate)

    def _recent(self, at_most_s: float) -> jwk.KeySet:
        """Return the keys, fetched again if they are older than that."""
        with self._lock:
            if self._keys is None or self._monotonic() - self._fetched > at_most_s:
                self._keys = self._load()
            return self._keys

    def _load(self) -> jwk.KeySet:
        try:
            url = self._settings.jwks_url
            if url is None:
                place = f"{self._settings.issuer.rstrip('/')}/.well-known/openid-configuration"
                url = str(self._fetch(place)["jwks_uri"])
            keys = jwk.KeySet.import_key_set(self._fetch(url))  # type: ignore[arg-type]  # a mapping, as it says
        except (httpx.HTTPError, ValueError, KeyError, JoseError) as error:
            raise ProviderError(f"{self._settings.issuer}: {type(error).__name__}") from error
        self._fetched = self._monotonic()
        return keys


def _get(url: str) -> Mapping[str, Any]:
    answer = httpx.get(url, timeout=TIMEOUT_S, follow_redirects=False)
    answer.raise_for_status()
    content: Mapping[str, Any] = answer.json()
    return content
