"""Sign-in of a browser: the authorization code flow with PKCE (RFC 6749, RFC 7636, OpenID Connect Core 1.0, 3.1).

The browser is sent to the provider with ``state``, ``nonce`` and the SHA-256 of ``verifier``, and keeps all three in a
cookie of ten minutes. It comes back with ``state`` and a code; the provider gives an ID token for the code and the
verifier, once, and the token holds the nonce. So a code, a token or an address of another browser opens nothing.

Nothing here loads a library: `api.access.oidc` talks to the provider.
"""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Final, Protocol

from api.principal import Principal
from canary.settings.serving import OidcSettings
from canary.threads import system

ENTRANCE: Final = frozenset({"/login", "/login/callback", "/logout"})
ATTEMPT_S: Final = 600
"""So long a person may take at the provider."""
_LONGEST_PLACE: Final = 1000


class LoginError(Exception):
    """A sign-in is refused; the message is a sentence for the person, without a token or a code."""

    def __init__(self, sentence: str, status: int = 400) -> None:
        """Take the sentence and the HTTP status of the page that shows it."""
        super().__init__(sentence)
        self.status = status


class Provider(Protocol):
    """What a sign-in needs of the identity provider; each method raises LoginError if it refuses."""

    def authorization_url(self, parameters: Mapping[str, str]) -> str:
        """Return where the browser signs in."""

    def exchange(self, code: str, verifier: str, redirect_uri: str) -> str:
        """Return the ID token for a code."""

    def signed_in(self, id_token: str, nonce: str) -> tuple[Principal, float]:
        """Return the principal of an ID token, and when the token expires (s since the epoch)."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A sign-in that has begun; ``place``: the path to go on to."""

    state: str
    nonce: str
    verifier: str
    place: str

    def cookie(self) -> str:
        """Return the value of its cookie."""
        return _plain(json.dumps(asdict(self)).encode())


def attempt_of(cookie: str | None) -> Attempt | None:
    """Return the attempt in a cookie; None if it is no such cookie."""
    if cookie is None:
        return None
    try:
        found = json.loads(base64.urlsafe_b64decode(cookie + "=" * (-len(cookie) % 4)))
        attempt = Attempt(**found)
    except (binascii.Error, ValueError, TypeError):
        return None
    return attempt if all(isinstance(value, str) and value.isascii() for value in found.values()) else None


def place_of(given: str) -> str:
    """Return a path of ours to go on to: ``given``, or / if it is no such path or leads elsewhere.

    Browsers read two slashes, of either kind, as the begin of another host, and leave out tabs and line breaks.
    """
    plain = given.isascii() and given.isprintable() and "\\" not in given and len(given) <= _LONGEST_PLACE
    return given if plain and given.startswith("/") and not given.startswith("//") else "/"


class Login:
    """Signs browsers in at the provider; its methods wait for the provider, and are safe for several threads."""

    def __init__(self, provider: Provider, settings: OidcSettings, address: str, *, now: Callable[[], float]) -> None:
        """Take where browsers reach the pages (without a slash at the end), and the time (s since the epoch)."""
        self.issuer = settings.issuer
        self.secure = address.startswith("https://")
        self._prefix = "__Host-" if self.secure else ""
        self.session_cookie = f"{self._prefix}canary-session"
        self._provider = provider
        self._settings = settings
        self._back = f"{address}/login/callback"
        self._now = now

    def attempt_cookie(self, state: str) -> str:
        """Return the name of the cookie of the attempt with this state: each tab of a browser may have its own."""
        return f"{self._prefix}canary-login-{hashlib.sha256(state.encode()).hexdigest()[:16]}"

    def begin(self, place: str) -> tuple[str, Attempt]:
        """Return where the browser signs in, and what it keeps meanwhile."""
        attempt = Attempt(system.token_hex(32), system.token_hex(32), system.token_hex(32), place_of(place))
        parameters = {
            "response_type": "code",
            "client_id": self._settings.client_id or "",
            "redirect_uri": self._back,
            "scope": " ".join(dict.fromkeys(("openid", *self._settings.scopes))),
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": _plain(hashlib.sha256(attempt.verifier.encode()).digest()),
            "code_challenge_method": "S256",
        }
        return self._provider.authorization_url(parameters), attempt

    def finish(self, attempt: Attempt | None, answer: Mapping[str, str]) -> tuple[Principal, float]:
        """Return the person who has signed in, and for how long the session lasts (s).

        ``answer``: the parameters with which the provider sent the browser back.

        Raises:
            LoginError: the provider refused, or what came back is not what was asked for.
        """
        if attempt is None or not hmac.compare_digest(attempt.state.encode(), answer.get("state", "").encode()):
            raise LoginError(
                "This sign-in was not begun in this browser, or more than ten minutes ago; begin it again."
            )
        if "error" in answer:
            raise LoginError(f"The identity provider refused the sign-in ({error_word(answer['error'])}).", 403)
        if answer.get("iss", self.issuer) != self.issuer:  # RFC 9207
            raise LoginError("Another identity provider than the one asked has answered; sign in again.")
        token = self._provider.exchange(answer.get("code", ""), attempt.verifier, self._back)
        principal, expires_s = self._provider.signed_in(token, attempt.nonce)
        left_s = min(expires_s - self._now(), self._settings.session)
        if left_s <= 0:
            raise LoginError("The identity provider's token has expired already; set both machines' clocks.")
        return principal, left_s


def _plain(content: bytes) -> str:
    """Return bytes as text that URLs and cookies take as it is (base64url without padding)."""
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def error_word(said: object) -> str:
    """Return the provider's error code (RFC 6749, 5.2) if it is one: other text of a request is not repeated."""
    word = said if isinstance(said, str) else ""
    return word if word.replace("_", "").isalpha() and word.isascii() and len(word) <= 40 else "without a reason"
