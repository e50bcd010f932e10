"""Errors as problem documents (RFC 9457): what is wrong and what to do, without a traceback."""

from http import HTTPStatus
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field
from starlette.requests import Request
from starlette.responses import Response

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
    """An error that becomes the answer, as a problem document."""

    def __init__(self, status: int, detail: str, *, title: str | None = None) -> None:
        """Take the status, and the detail: what is wrong, where, and what to do."""
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
    title = title or HTTPStatus(status).phrase
    body = Problem(
        type="about:blank", title=title, status=status, detail=detail, instance=request.url.path, errors=errors
    )
    return Response(body.model_dump_json(exclude_none=True), status, headers=headers, media_type=MEDIA_TYPE)


_MEANINGS: Final = {
    401: "A token is needed, or this one opens nothing.",
    403: "This token may not do that.",
    404: "There is no such thing.",
    409: "What is there now does not allow it.",
    421: "The API is not known by this name (api.hosts).",
    422: "The input is not valid.",
    429: "Too many failed attempts from this address.",
    503: "The store (or the probe log) does not answer; probing goes on.",
}


def documented(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the errors that a route may answer with, for the OpenAPI document."""
    return {
        status: {"model": Problem, "description": _MEANINGS[status], "content": {MEDIA_TYPE: {}}} for status in statuses
    }
