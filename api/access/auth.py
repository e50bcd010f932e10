"""Authentication, in front of every route.

A credential is ``Authorization: Bearer TOKEN`` or, for browsers, ``Basic`` with the token as the password, or the
cookie of a browser that has signed in (`api.access.login`). A token is one of ours (``canary token create``) or a JWT
of the identity provider. Reading needs the scope read, changes need operate. /healthz and the paths in
``api.auth.open`` need no token. With ``api.auth.oidc.login``, a browser without a credential that asks for a page is
sent to sign in.

Failed attempts are counted by address and recorded as actions; after ``api.auth.failures`` in a minute they are
answered 429 and no longer recorded. A valid token is accepted whatever other clients of the same address (an ingress,
for example) do.

With or without tokens, requests from pages of other sites may change nothing (CSRF); one with a session's cookie has to
say that it comes from a page of ours, as every browser does. A request must use a name by which the API is known: a
page whose name was bound to this address (DNS rebinding) can read nothing.
"""

import base64
import binascii
import hashlib
import ipaddress
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlsplit

import structlog
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from api.access.login import ENTRANCE, Login
from api.principal import NOBODY, OPEN, SAFE, SIGNED_IN, Principal, principal_of
from api.store_calls import UnavailableError
from canary.settings.serving import LOOPBACK_NAMES, ApiSettings
from storage.store.errors import AllClustersError

log = structlog.get_logger(__name__)

REMEMBERED_S: Final = 10.0
"""A valid token is looked up again after so long: a revoked one works no longer."""
WINDOW_S: Final = 60.0
ADDRESSES: Final = 10_000
MOST_RECORDED: Final = 100
"""At most so many failed attempts of all addresses are recorded in a minute."""
_ALL: Final = "*"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The answer to a refused request.

    ``failure``: a failed attempt, which is counted and recorded. ``actor``: its sender, as far as known.
    """

    status: int
    detail: str
    headers: dict[str, str]
    failure: bool = True
    actor: str = NOBODY


class RefusedError(Exception):
    """A route refuses its request: it is counted, recorded and answered as every failed attempt is."""

    def __init__(self, refusal: Refusal) -> None:
        """Take the answer."""
        super().__init__(refusal.detail)
        self.refusal = refusal


def all_clusters(request: Request) -> None:
    """Refuse a sender that may see some clusters only, before what is of all clusters is noted and done.

    Raises:
        AllClustersError: it may.
    """
    if principal_of(request).clusters is not None:
        raise AllClustersError


def source_of(request: Request) -> dict[str, str]:
    """Return the peer's address and, unproven, the X-Forwarded-For header.

    Of a long header it is the end: proxies append there, after what a client made up.
    """
    source = {"address": request.client.host if request.client else ""}
    forwarded = ", ".join(request.headers.getlist("x-forwarded-for"))
    return source | ({"forwarded_for": forwarded[-200:]} if forwarded else {})


class Failures:
    """Failures of each address in the last minute; the oldest addresses are dropped if there are too many."""

    def __init__(self, most: int, monotonic: Callable[[], float]) -> None:
        """Allow ``most`` failures of an address in a minute."""
        self._most = most
        self._monotonic = monotonic
        self._seen: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def wait_s(self, address: str) -> float:
        """Return for how many s failed attempts of this address are answered 429; 0: they are not."""
        began, count = self._seen.get(address, (0.0, 0))
        left = began + WINDOW_S - self._monotonic()
        return left if count >= self._most and left > 0 else 0.0

    def add(self, address: str) -> bool:
        """Count a failure; return whether to record it: floods are not recorded."""
        return self._count(address) <= self._most and self._count(_ALL) <= MOST_RECORDED

    def _count(self, address: str) -> int:
        now = self._monotonic()
        began, count = self._seen.pop(address, (now, 0))
        self._seen[address] = began, count = (began, count + 1) if now - began < WINDOW_S else (now, 1)
        while len(self._seen) > ADDRESSES:
            self._seen.popitem(last=False)
        return count


class Authentication:
    """ASGI middleware that refuses requests without the right to what they ask."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: ApiSettings,
        verify: Callable[[str], Awaitable[Principal | None]],
        record: Callable[[str, str, dict[str, object]], Awaitable[object]],
        monotonic: Callable[[], float],
        answer: Callable[[Request, Refusal], Response],
        login: Login | None,
        signed_in: Callable[[str], Awaitable[Principal | None]],
    ) -> None:
        """Take the functions from a credential to its principal, and from a failed attempt to its record.

        ``record`` gets the attempt's sender (as far as known), its target, and why it was refused; ``answer`` makes the
        answer of a refusal. With ``login``, ``signed_in`` returns the principal of a session's cookie.
        """
        self._app = app
        self._needed = settings.needs_token
        self._open = {OPEN, *(f"/{name}" for name in settings.auth.open)}
        own = {settings.host.lower(), urlsplit(settings.url or "").hostname or ""} - {""}
        self._hosts = LOOPBACK_NAMES | own | set(settings.hosts)
        self._verify = verify
        self._answer = answer
        self._login = login
        self._begin = f"{settings.address}/login"
        self._signed_in = signed_in
        self._record = record
        self._monotonic = monotonic
        self._failures = Failures(settings.auth.failures, monotonic)
        self._right: OrderedDict[bytes, tuple[float, Principal]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401, 403, 421, 429 or 503, or pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        try:
            refusal = await self._refusal(request)
            if refusal is None:
                await self._app(scope, receive, send)
                return
        except RefusedError as error:
            refusal = error.refusal
        except AllClustersError:
            refusal = Refusal(403, _LIMITED, {}, actor=principal_of(request).name)
        if refusal.failure:
            refusal = await self._failed(request, refusal)
        await self._answer(request, refusal)(scope, receive, send)

    async def _refusal(self, request: Request) -> Refusal | None:
        path: str = request.scope["path"]
        # Every Host header has to be known; a request without one is not from a browser.
        if path != OPEN and not all(_known(self._hosts, one) for one in request.headers.getlist("host")):
            return Refusal(
                421, "The API is not known by this name; api.hosts lists the names that clients may use.", {}
            )
        changing = request.method not in SAFE
        if changing and not same_origin(request.headers):
            return Refusal(403, "A page of another site may change nothing here.", {})
        if self._needed and not self._is_open(path, changing=changing):
            return await self._identify(request, changing=changing)
        return None

    def _is_open(self, path: str, *, changing: bool) -> bool:
        if self._login is not None and (path in ENTRANCE or (path.startswith("/static/") and not changing)):
            return True
        return path in self._open and not changing

    async def _identify(self, request: Request, *, changing: bool) -> Refusal | None:
        credential = credential_of(request.headers.get("authorization", ""))
        cookie = None if credential or self._login is None else request.cookies.get(self._login.session_cookie)
        if credential is None and cookie is None:
            words = "A token is needed: Authorization: Bearer TOKEN (canary token create)."
            return self._to_login(request) or Refusal(401, words, _ASK, failure=changing)
        try:
            principal = await (self._whose(credential) if credential else self._of_session(cookie or ""))
        except UnavailableError as error:
            words = f"The {error.what} is not available, so the token cannot be checked; ask again."
            return Refusal(503, words, _AGAIN, failure=False)
        if principal is None:
            if credential:
                return Refusal(401, "This token opens nothing: it is unknown, revoked or expired.", _ASK)
            return self._to_login(request) or Refusal(
                401, "This session is over; sign in again at /login.", _ASK_NO_PASSWORD
            )
        request.scope["canary.principal"] = principal
        return _beyond(request, principal, session=credential is None) if changing else None

    def _to_login(self, request: Request) -> Refusal | None:
        """Return the answer that sends a browser to sign in; None for a request that is none for a page."""
        if self._login is None or request.method != "GET" or "text/html" not in request.headers.get("accept", ""):
            return None
        query = request.scope["query_string"].decode("latin-1")
        place = quote(f"{request.scope['path']}{'?' if query else ''}{query}", safe="")
        return Refusal(303, "Sign in first.", {"Location": f"{self._begin}?next={place}"}, failure=False)

    async def _of_session(self, cookie: str) -> Principal | None:
        """Return the principal of a session, which is looked up each time: a sign-out is heeded at once."""
        principal = await self._signed_in(cookie)
        SIGNED_IN.set(principal.name if principal else "")
        return principal

    async def _whose(self, credential: str) -> Principal | None:
        """Return the principal of a credential, which is remembered for REMEMBERED_S."""
        digest = hashlib.sha256(credential.encode()).digest()
        known = self._right.get(digest)
        if known is not None and self._monotonic() - known[0] < REMEMBERED_S:
            return known[1]
        principal = await self._verify(credential)
        if principal is None:
            self._right.pop(digest, None)
            return None
        self._right[digest] = (self._monotonic(), principal)
        while len(self._right) > ADDRESSES:
            self._right.popitem(last=False)
        return principal

    async def _failed(self, request: Request, refusal: Refusal) -> Refusal:
        """Count and record a failed attempt; return its answer."""
        source = source_of(request)
        wait_s = self._failures.wait_s(source["address"])
        recorded = self._failures.add(source["address"])
        raw = request.scope.get("raw_path") or request.scope["path"].encode()
        path = raw.decode("ascii", "backslashreplace")[:200]
        log.warning("attempt_failed", **source, method=request.method, path=path, status=refusal.status)
        if recorded:
            detail: dict[str, object] = {**source, "status": refusal.status, "why": refusal.detail}
            try:
                await self._record(refusal.actor, f"{request.method} {path}", detail)
            except UnavailableError as error:
                log.warning("attempt_not_recorded", reason=str(error))
        if wait_s and refusal.status == 401:
            words = "Too many failed attempts from this address; a valid token is answered all the same."
            return Refusal(429, words, {"Retry-After": str(int(wait_s) + 1)})
        return refusal


def _beyond(request: Request, principal: Principal, *, session: bool) -> Refusal | None:
    """Return why a sender may not change anything; None: it may."""
    if session and not {"origin", "sec-fetch-site"} & set(request.headers):
        words = "A session changes something from a page of the canary only; programs use a token."
        return Refusal(403, words, {}, actor=principal.name)
    if not principal.operate:
        words = "This token may read; changing something needs the scope operate."
        return Refusal(403, words, {}, actor=principal.name)
    return None


def _known(names: frozenset[str], host: str) -> bool:
    """Return whether a Host header has one of the names by which clients may reach the API.

    A page can bind its own name to our address and so read what the browser may read. It cannot use an IP address as
    its name, so IP addresses are always known.
    """
    try:
        name = (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        above = {f"*.{name.split('.', number)[-1]}" for number in range(1, name.count(".") + 1)}
        return not names.isdisjoint({name, "*"} | above)
    return True


_ASK: Final = {"WWW-Authenticate": 'Bearer realm="canary", Basic realm="canary (the token is the password)"'}
_ASK_NO_PASSWORD: Final = {"WWW-Authenticate": 'Bearer realm="canary"'}
"""For a browser that has signed in: it would ask its user for a password."""
_AGAIN: Final = {"Retry-After": "5"}
_LIMITED: Final = (
    "This is of all clusters, and this token is for some of them; it needs one made without --cluster "
    "(canary token create)."
)


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
    """Return whether a request comes from our own page or from no page, according to the browser's headers."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in {"same-origin", "none"}
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2] == headers.get("host")
