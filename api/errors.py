"""Turns every error of the application into a problem document."""

from http import HTTPStatus

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


def install(app: FastAPI) -> None:
    """Register a handler for each kind of error, and one for all others."""

    @app.exception_handler(ProblemError)
    async def known(request: Request, error: ProblemError) -> Response:
        return problem(request, error.status, error.detail, title=error.title)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        phrase = HTTPStatus(error.status_code).phrase
        detail = "" if error.detail == phrase else str(error.detail)
        if error.status_code == HTTPStatus.NOT_FOUND and not detail:
            detail = "There is nothing at this address; /docs lists what there is."
        return problem(request, error.status_code, detail, headers=dict(error.headers or {}))

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        errors = [
            {"where": ".".join(str(part) for part in item["loc"]), "what": str(item["msg"])} for item in error.errors()
        ]
        detail = "; ".join(f"{item['where']}: {item['what']}" for item in errors)
        return problem(request, 422, detail, title=_INVALID, errors=errors)

    @app.exception_handler(UnavailableError)
    async def unavailable(request: Request, error: UnavailableError) -> Response:
        detail = f"The {error.what} is not available ({error.detail}). Probing goes on; ask again."
        return problem(request, 503, detail, title="Temporarily unavailable", headers={"Retry-After": "5"})

    @app.exception_handler(BadCursorError)
    @app.exception_handler(BadValueError)
    async def bad_input(request: Request, error: BadCursorError | BadValueError) -> Response:
        place = "query.cursor: " if isinstance(error, BadCursorError) else ""
        return problem(request, 422, f"{place}{error}", title=_INVALID)

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        log.error("request_failed", path=request.url.path, exc_info=error)
        return problem(request, 500, "An error of the API itself; its log says more.", headers=dict(HEADERS))
