"""Who asks, and may they: in front of every route, so that no route can forget it.

A credential is ``Authorization: Bearer TOKEN`` or, for browsers, which ask for it by themselves, ``Basic`` with the
token as the password. A token is one of ours (``canary token create``) or a JWT of the identity provider. Reading needs
the scope read; whatever changes something needs operate. What stays open without a token: /healthz, and what
``api.auth.open`` names.

Wrong tokens are counted by address, and after ``api.auth.failures`` in a minute no more of them are looked at. A token
that was right within the last seconds still is, so that nobody behind the same proxy is locked out.

Whether or not a token is needed, a browser that another site sent is not let change anything (CSRF).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import structlog
from starlette.requests import Request

from api.calls import UnavailableError
from api.problems import problem

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.datastructures import Headers
    from starlette.types import ASGIApp, Receive, Scope, Send

    from canary.settings.serving import ApiSettings

log = structlog.get_logger(__name__)

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
NOBODY: Final = "anonymous"
REMEMBERED_S: Final = 10.0
"""So long a token that was right is not looked up again: a revoked one opens nothing after that."""
WINDOW_S: Final = 60.0
ADDRESSES: Final = 10_000


@dataclass(frozen=True, slots=True)
class Principal:
    """Who asks: ``name`` for the record of actions."""

    name: str
    operate: bool


def principal_of(request: Request) -> Principal:
    """Return who asks."""
    found: Principal = request.scope.get("canary.principal") or Principal(NOBODY, operate=True)
    return found


class Failures:
    """How often each address was wrong lately; forgets the oldest addresses when there are too many."""

    def __init__(self, most: int, monotonic: Callable[[], float]) -> None:
        """Allow ``most`` failures of an address in a minute."""
        self._most = most
        self._monotonic = monotonic
        self._seen: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def wait_s(self, address: str) -> float:
        """Return for how long nothing of this address is looked at; 0 = it is."""
        began, count = self._seen.get(address, (0.0, 0))
        left = began + WINDOW_S - self._monotonic()
        return left if count >= self._most and left > 0 else 0.0

    def add(self, address: str) -> None:
        """Count a failure."""
        now = self._monotonic()
        began, count = self._seen.pop(address, (now, 0))
        self._seen[address] = (began, count + 1) if now - began < WINDOW_S else (now, 1)
        while len(self._seen) > ADDRESSES:
            self._seen.popitem(last=False)


class Authentication:
    """ASGI middleware that lets through who may."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: ApiSettings,
        verify: Callable[[str], Awaitable[Principal | None]],
        monotonic: Callable[[], float],
    ) -> None:
        """Ask ``verify`` whose a credential is; ``monotonic`` is a clock in s."""
        self._app = app
        self._needed = settings.needs_token
        self._open = {"/healthz", *(f"/{name}" for name in settings.auth.open)}
        self._verify = verify
        self._monotonic = monotonic
        self._failures = Failures(settings.auth.failures, monotonic)
        self._right: OrderedDict[bytes, tuple[float, Principal]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401, 403 or 429, or hand on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        refusal = await self._refusal(request)
        if refusal is None:
            await self._app(scope, receive, send)
            return
        status, detail, headers = refusal
        await problem(request, status, detail, headers=headers)(scope, receive, send)

    async def _refusal(self, request: Request) -> tuple[int, str, dict[str, str]] | None:
        changing = request.method not in SAFE
        if changing and not same_origin(request.headers):
            return 403, "A page of another site may change nothing here.", {}
        if self._needed and (changing or request.scope["path"] not in self._open):
            return await self._identify(request, changing=changing)
        return None

    async def _identify(self, request: Request, *, changing: bool) -> tuple[int, str, dict[str, str]] | None:
        credential = credential_of(request.headers.get("authorization", ""))
        if credential is None:
            return 401, "A token is needed: Authorization: Bearer TOKEN (canary token create).", _ASK
        address = request.client.host if request.client else ""
        try:
            principal, wait_s = await self._whose(credential, address)
        except UnavailableError as error:
            return 503, f"The {error.what} is not available, so the token cannot be checked; ask again.", _AGAIN
        if wait_s:
            log.warning("too_many_wrong_tokens", address=address)
            return 429, "Too many wrong tokens from this address.", {"Retry-After": str(int(wait_s) + 1)}
        if principal is None:
            log.warning("wrong_token", address=address, path=request.url.path)
            return 401, "This token opens nothing: it is unknown, revoked or expired.", _ASK
        request.scope["canary.principal"] = principal
        forbidden = changing and not principal.operate
        return (403, "This token may read; changing something needs the scope operate.", {}) if forbidden else None

    async def _whose(self, credential: str, address: str) -> tuple[Principal | None, float]:
        """Return whose a credential is, or for how long none of this address is looked at."""
        digest = hashlib.sha256(credential.encode()).digest()
        known = self._right.get(digest)
        if known is not None and self._monotonic() - known[0] < REMEMBERED_S:
            return known[1], 0.0
        wait_s = self._failures.wait_s(address)
        if wait_s:
            return None, wait_s
        principal = await self._verify(credential)
        if principal is None:
            self._right.pop(digest, None)
            self._failures.add(address)
            return None, 0.0
        self._right[digest] = (self._monotonic(), principal)
        while len(self._right) > ADDRESSES:
            self._right.popitem(last=False)
        return principal, 0.0


_ASK: Final = {"WWW-Authenticate": 'Bearer realm="canary", Basic realm="canary (the token is the password)"'}
_AGAIN: Final = {"Retry-After": "5"}


def credential_of(header: str) -> str | None:
    """Return the token in an Authorization header, or None."""
    scheme, _, words = header.strip().partition(" ")
    words = words.strip()
    if scheme.lower() == "bearer" and words:
        return words
    if scheme.lower() == "basic":
        try:
            _, colon, password = base64.b64decode(words, validate=True).decode().partition(":")
        except (binascii.Error, UnicodeDecodeError):
            return None
        return password if colon and password else None
    return None


def same_origin(headers: Headers) -> bool:
    """Return whether a request comes from our own page or from no page at all, as far as the browser tells."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in {"same-origin", "none"}
    origin = headers.get("origin")
    return origin is None or urlsplit(origin).netloc == headers.get("host")
