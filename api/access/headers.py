"""Security headers of every answer."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self'; font-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
"""No scripts, nothing from other sites, no inline styles."""

HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


_RAW = [(name.lower().encode(), value.encode()) for name, value in (HEADERS | {"Cache-Control": "no-store"}).items()]


def security_headers(app: ASGIApp) -> ASGIApp:
    """Return ``app`` with the headers in each HTTP answer, except those that a route has set.

    It is the outermost middleware, so that errors have the headers too.
    """

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = message["headers"]
                there = {name for name, _ in own}
                message["headers"] = [*own, *(header for header in _RAW if header[0] not in there)]
            await send(message)

        await app(scope, receive, with_headers if scope["type"] == "http" else send)

    return guarded
