"""ETag and 304 for JSON answers, so that whoever polls a list is told cheaply that nothing changed."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send


class Etags:
    """ASGI middleware: a GET of JSON that succeeds gets a weak ETag; If-None-Match with it gets 304."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap ``app``."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hold back the answer's head until its body is known; whatever is no JSON goes through as it comes."""
        if scope["type"] != "http" or scope["method"] != "GET":
            await self._app(scope, receive, send)
            return
        head: Message | None = None
        parts: list[bytes] = []

        async def held(message: Message) -> None:
            nonlocal head
            if message["type"] == "http.response.start":
                kind = Headers(raw=message["headers"]).get("content-type", "")
                if message["status"] == 200 and kind.partition(";")[0] == "application/json":
                    head = message
                    return
            elif head is not None:
                parts.append(message.get("body", b""))
                if not message.get("more_body"):
                    await _answer(head, b"".join(parts), Headers(scope=scope), send)
                return
            await send(message)

        await self._app(scope, receive, held)


async def _answer(head: Message, body: bytes, asked: Headers, send: Send) -> None:
    tag = f'W/"{hashlib.blake2b(body, digest_size=12).hexdigest()}"'
    headers = MutableHeaders(raw=head["headers"])
    headers["ETag"] = tag
    headers["Cache-Control"] = "private, no-cache"
    wanted = [one.strip() for one in asked.get("if-none-match", "").split(",")]
    if tag in wanted or "*" in wanted:
        for name in ("content-length", "content-type"):
            if name in headers:
                del headers[name]
        head["status"], body = 304, b""
    await send(head)
    await send({"type": "http.response.body", "body": body})
