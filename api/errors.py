"""Turns every error of the application into a problem document."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from api.access.headers import HEADERS
from api.problems import ProblemError, problem
from api.store_calls import UnavailableError
from storage.store.cursors import BadCursorError
from storage.store.errors import BadValueError

log = structlog.get_logger(__name__)

_INVALID = "Invalid input"


AsPage = Callable[[Request, int, str, str, dict[str, str]], Response | None]
"""From a request and its error (status, title, detail, headers) to a page; None: it wants none."""


def install(app: FastAPI, as_page: AsPage) -> None:
    """Register a handler for each kind of error, and one for all others; ``as_page`` shows one to a browser."""

    def answer(
        request: Request,
        status: int,
        detail: str,
        *,
        title: str = "",
        headers: dict[str, str] | None = None,
        **more: Any,
    ) -> Response:
        title = title or HTTPStatus(status).phrase
        page = as_page(request, status, title, detail, headers or {})
        return problem(request, status, detail, title=title, headers=headers, **more) if page is None else page

    @app.exception_handler(ProblemError)
    async def known(request: Request, error: ProblemError) -> Response:
        return answer(request, error.status, error.detail, title=error.title)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        phrase = HTTPStatus(error.status_code).phrase
        detail = "" if error.detail == phrase else str(error.detail)
        if error.status_code == HTTPStatus.NOT_FOUND and not detail:
            detail = "There is nothing at this address; /docs lists what there is."
        return answer(request, error.status_code, detail, headers=dict(error.headers or {}))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        errors = [
            {"where": ".".join(str(part) for part in item["loc"]), "what": str(item["msg"])} for item in error.errors()
        ]
        detail = "; ".join(f"{item['where']}: {item['what']}" for item in errors)
        return answer(request, 422, detail, title=_INVALID, errors=errors)

    @app.exception_handler(UnavailableError)
    async def unavailable(request: Request, error: UnavailableError) -> Response:
        detail = f"The {error.what} is not available ({error.detail}). Probing goes on; ask again."
        return answer(request, 503, detail, title="Temporarily unavailable", headers={"Retry-After": "5"})

    @app.exception_handler(BadCursorError)
    @app.exception_handler(BadValueError)
    async def bad_input(request: Request, error: BadCursorError | BadValueError) -> Response:
        place = "query.cursor: " if isinstance(error, BadCursorError) else ""
        return answer(request, 422, f"{place}{error}", title=_INVALID)

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        log.error("request_failed", path=request.url.path, exc_info=error)
        return answer(request, 500, "An error of the API itself; its log says more.", headers=dict(HEADERS))
