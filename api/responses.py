"""JSON answers to GET: an ETag and 304 for each, and one reading of the store for all who ask the same at one moment.

What somebody changes through this process shows at once; what others write shows after ``api.answers_cache`` at most.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

KEPT: Final = "/api/v1/"
"""Only answers below this path are kept: the others say how this process is."""
MOST: Final = 128
LARGEST: Final = 2 * 2**20
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of 200 with JSON: when it was asked for (monotonic, s), its headers with the ETag, its body."""

    at_s: float
    headers: Headers
    tag: bytes
    body: bytes


class Answers:
    """ASGI middleware behind authentication: what it keeps is the same for everybody who may read."""

    def __init__(self, app: ASGIApp, *, keep_s: float, monotonic: Callable[[], float]) -> None:
        """Keep answers for ``keep_s`` seconds; 0 = not at all. ``monotonic`` is a clock in s."""
        self._app = app
        self._keep_s = keep_s
        self._monotonic = monotonic
        self._kept: OrderedDict[str, Answer] = OrderedDict()
        self._asked: dict[str, asyncio.Future[Answer | None]] = {}
        """What is being read at this moment; the result is None where it is nothing to share."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer from what is kept, or ask; whatever is no JSON goes through as it comes."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif scope["method"] == "GET":
            await self._get(scope, receive, send)
        elif scope["method"] in _SAFE:
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
        key = f"{scope['path']}?{scope['query_string'].decode('latin-1')}"
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
            if self._asked.get(key) is reader.answer:  # else somebody has changed something meanwhile
                del self._asked[key]
                self._keep(key, reader.answer.result())

    def _keep(self, key: str, answer: Answer | None) -> None:
        self._kept.pop(key, None)
        if answer is not None and len(answer.body) <= LARGEST:
            self._kept[key] = answer
            if len(self._kept) > MOST:
                self._kept.popitem(last=False)

    def _forget(self) -> None:
        self._kept.clear()
        self._asked.clear()


class _Reader:
    """Asks the application once, and sends what it answers; ``answer`` is what can be given to others as well."""

    def __init__(self, app: ASGIApp, monotonic: Callable[[], float]) -> None:
        self._app = app
        self._at_s = monotonic()
        self.answer: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()

    async def ask(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hold back the answer's head until its body is known."""
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
