"""Errors as RFC 9457 problem documents: one shape for all of them, with a remedy and never a traceback."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import orjson
import structlog
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.responses import Response

from api.calls import UnavailableError
from api.security import HEADERS
from storage.store.errors import BadValueError
from storage.store.pages import BadCursorError

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.requests import Request

log = structlog.get_logger(__name__)

MEDIA_TYPE = "application/problem+json"


class Problem(BaseModel):
    """An error (RFC 9457)."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"type": "about:blank", "title": "Not Found", "status": 404}]}
    )

    type: str = Field("about:blank", description="Identifies the kind of problem.")
    title: str = Field(description="The kind of problem, for people.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field("", description="This occurrence, and what to do about it.")
    instance: str = Field("", description="The path that was asked for.")
    errors: list[dict[str, Any]] | None = Field(None, description="Which inputs were wrong, where they were.")


class ProblemError(Exception):
    """Raise it anywhere below a route: becomes a problem document."""

    def __init__(self, status: int, detail: str, *, title: str | None = None) -> None:
        """Answer with ``status`` and ``detail`` (what, where, what to do)."""
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.title = title or HTTPStatus(status).phrase


def problem(
    request: Request,
    status: int,
    detail: str,
    *,
    title: str | None = None,
    errors: list[dict[str, Any]] | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    """Return the answer with a problem document."""
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": title or HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "instance": request.url.path,
    }
    if errors is not None:
        body["errors"] = errors
    return Response(orjson.dumps(body), status, headers=headers, media_type=MEDIA_TYPE)


RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": description, "content": {MEDIA_TYPE: {}}}
    for status, description in (
        (404, "There is no such thing."),
        (409, "What is there now does not allow it."),
        (422, "The input is not valid."),
        (503, "The store (or the probe log) does not answer; probing goes on."),
    )
}
"""What any route may answer besides success, for the OpenAPI document."""

GUARDED: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": description, "content": {MEDIA_TYPE: {}}}
    for status, description in (
        (401, "A token is needed, or this one opens nothing."),
        (403, "This token may not do that."),
        (421, "The API is not known by this name (api.hosts)."),
        (429, "Too many failed attempts from this address."),
    )
}
"""What every route answers whom it does not let in."""


def install(app: FastAPI) -> None:
    """Turn every error of ``app`` into a problem document."""

    async def known(request: Request, error: Exception) -> Response:
        assert isinstance(error, ProblemError)  # noqa: S101  # registered for it
        return problem(request, error.status, error.detail, title=error.title)

    async def http(request: Request, error: Exception) -> Response:
        assert isinstance(error, StarletteHTTPException)  # noqa: S101  # registered for it
        phrase = HTTPStatus(error.status_code).phrase
        detail = "" if error.detail == phrase else str(error.detail)
        if error.status_code == HTTPStatus.NOT_FOUND and not detail:
            detail = "There is nothing at this address; /docs lists what there is."
        return problem(request, error.status_code, detail, headers=dict(error.headers or {}))

    async def invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)  # noqa: S101  # registered for it
        errors = [
            {"where": ".".join(str(part) for part in item["loc"]), "what": str(item["msg"])} for item in error.errors()
        ]
        detail = "; ".join(f"{item['where']}: {item['what']}" for item in errors)
        return problem(request, 422, detail, title="Invalid input", errors=errors)

    async def unavailable(request: Request, error: Exception) -> Response:
        assert isinstance(error, UnavailableError)  # noqa: S101  # registered for it
        detail = f"The {error.what} is not available ({error.detail}). Probing goes on; ask again."
        return problem(request, 503, detail, title="Temporarily unavailable", headers={"Retry-After": "5"})

    async def bad_cursor(request: Request, error: Exception) -> Response:
        return problem(request, 422, f"query.cursor: {error}", title="Invalid input")

    async def bad_value(request: Request, error: Exception) -> Response:
        return problem(request, 422, str(error), title="Invalid input")

    async def unexpected(request: Request, error: Exception) -> Response:
        log.error("request_failed", path=request.url.path, exc_info=error)
        return problem(request, 500, "An error of the API itself; its log says more.", headers=dict(HEADERS))

    app.add_exception_handler(ProblemError, known)
    app.add_exception_handler(StarletteHTTPException, http)
    app.add_exception_handler(RequestValidationError, invalid)
    app.add_exception_handler(UnavailableError, unavailable)
    app.add_exception_handler(BadCursorError, bad_cursor)
    app.add_exception_handler(BadValueError, bad_value)
    app.add_exception_handler(Exception, unexpected)
