"""JSON answers to GET: each has an ETag (and 304), and equal requests at the same time share one answer. And HEAD.

Requests are equal if their senders may see the same clusters, too.
A change through this process shows at once, a change by another process after at most ``api.answers_cache``.
"""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.principal import SAFE, principal_of

KEPT: Final = "/api/v1/"
"""Only answers below this path are kept; others are about this process."""
MOST: Final = 128
LARGEST: Final = 2 * 2**20

Headers = list[tuple[bytes, bytes]]
Key = tuple[frozenset[str] | None, str, bytes]
"""The clusters that a client may see (None: all), the path and the query."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A JSON answer with status 200; ``at_s``: the time of its request (monotonic, s)."""

    at_s: float
    headers: Headers
    tag: bytes
    body: bytes


class Answers:
    """ASGI middleware behind authentication: all clients that may see the same clusters get the same answer."""

    def __init__(self, app: ASGIApp, *, keep_s: float, monotonic: Callable[[], float]) -> None:
        """Keep answers for ``keep_s`` seconds (0: not at all)."""
        self._app = app
        self._keep_s = keep_s
        self._monotonic = monotonic
        self._kept: OrderedDict[Key, Answer] = OrderedDict()
        self._asked: dict[Key, asyncio.Future[Answer | None]] = {}
        """Answers being made; the result is None if it cannot be shared."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer from the kept answers, or ask the application; what is not JSON passes unchanged."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["method"] == "GET":
            await self._get(scope, receive, send)
        elif scope["method"] in SAFE:
            await self._app(scope, receive, send)
        else:
            self._forget()
            try:
                await self._app(scope, receive, send)
            finally:
                self._forget()

    async def _get(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._keep_s or not scope["path"].startswith(KEPT):
            await _Reader(self._app, self._monotonic).ask(scope, receive, send)
            return
        key = principal_of(HTTPConnection(scope)).clusters, scope["path"], scope["query_string"]
        kept = self._kept.get(key)
        if kept is None or self._monotonic() - kept.at_s >= self._keep_s:
            asked = self._asked.get(key)
            kept = None if asked is None else await asyncio.shield(asked)
        if kept is not None:
            await _give(kept, scope, send)
            return
        reader = _Reader(self._app, self._monotonic)
        self._asked[key] = reader.answer
        try:
            await reader.ask(scope, receive, send)
        finally:
            if not reader.answer.done():
                reader.answer.set_result(None)
            if self._asked.get(key) is reader.answer:  # else a change has emptied it meanwhile
                del self._asked[key]
                self._keep(key, reader.answer.result())

    def _keep(self, key: Key, answer: Answer | None) -> None:
        self._kept.pop(key, None)
        if answer is not None and len(answer.body) <= LARGEST:
            self._kept[key] = answer
            if len(self._kept) > MOST:
                self._kept.popitem(last=False)

    def _forget(self) -> None:
        self._kept.clear()
        self._asked.clear()


def heads(app: ASGIApp) -> ASGIApp:
    """Return ``app`` with an answer to HEAD wherever it has one to GET: the same, without its body."""

    async def answered(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await app(scope, receive, send)
            return

        async def without_body(message: Message) -> None:
            if message["type"] != "http.response.body":
                await send(message)
                return
            await send({"type": "http.response.body", "body": b""})
            if message.get("more_body"):
                raise _ENOUGH

        with suppress(ClientDisconnect):  # what Starlette makes of _ENOUGH: a stream would never end
            await app({**scope, "method": "GET"}, receive, without_body)

    return answered


_ENOUGH: Final = OSError("the answer to HEAD is complete")


class _Reader:
    """Asks the application once and sends its answer; ``answer`` is the one to share."""

    def __init__(self, app: ASGIApp, monotonic: Callable[[], float]) -> None:
        self._app = app
        self._at_s = monotonic()
        self.answer: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()

    async def ask(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hold back the head of a JSON answer until its body is complete."""
        head: Message | None = None
        parts: list[bytes] = []

        async def held(message: Message) -> None:
            nonlocal head
            if message["type"] == "http.response.start":
                if message["status"] == 200 and _is_json(message["headers"]):
                    head = message
                    return
                if not self.answer.done():
                    self.answer.set_result(None)
            elif head is not None:
                parts.append(message.get("body", b""))
                if not message.get("more_body"):
                    answer = self._made(head["headers"], b"".join(parts))
                    self.answer.set_result(answer)
                    await _give(answer, scope, send)
                return
            await send(message)

        await self._app(scope, receive, held)

    def _made(self, headers: Headers, body: bytes) -> Answer:
        tag = b'W/"%s"' % hashlib.blake2b(body, digest_size=12).hexdigest().encode()
        own = [(name, value) for name, value in headers if name != b"cache-control"]
        return Answer(self._at_s, [*own, (b"etag", tag), (b"cache-control", b"private, no-cache")], tag, body)


def _is_json(headers: Headers) -> bool:
    kind = next((value for name, value in headers if name == b"content-type"), b"")
    return kind.partition(b";")[0] == b"application/json"


async def _give(answer: Answer, scope: Scope, send: Send) -> None:
    asked = next((value for name, value in scope["headers"] if name == b"if-none-match"), b"")
    unchanged = bool(asked) and bool({answer.tag, b"*"} & {one.strip() for one in asked.split(b",")})
    headers = answer.headers.copy()
    if unchanged:
        headers = [(name, value) for name, value in headers if name not in {b"content-length", b"content-type"}]
    await send({"type": "http.response.start", "status": 304 if unchanged else 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if unchanged else answer.body})
