"""GET actions: what people did through the API or the command line."""

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter
from pydantic import Field

from api.problems import documented
from api.shapes import Cursor, Limit, Listing, Moment, Shape
from api.state import Shared
from storage.store.values import Action

router = APIRouter(prefix="/actions", tags=["actions"], responses=documented(422, 503))


class ActionOut(Shape):
    """An action of a person."""

    id: str
    at: Moment = Field(validation_alias="at_ns")
    actor: str = Field(description="The token's name, or the name in the JWT.")
    action: str
    target: str
    address: str | None = Field(None, description="Where it came from; null: the command line.")
    forwarded_for: str | None = Field(None, description="The X-Forwarded-For header; unproven.")
    detail: dict[str, Any]


@router.get("", summary="What people did, newest first")
async def actions(shared: Shared, cursor: Cursor = None, limit: Limit = 100) -> Listing[ActionOut]:
    """List what was acknowledged, resolved, planned or requested, by which actor; failed attempts are "refused"."""
    page = await shared.calls(shared.store.actions.page, cursor, limit)
    return Listing[ActionOut](items=[_out(row) for row in page.items], next_cursor=page.next_cursor)


def _out(row: Action) -> ActionOut:
    detail = dict(row.detail)
    source = {name: detail.pop(name, None) for name in ("address", "forwarded_for")}
    return ActionOut.model_validate(asdict(row) | source | {"detail": detail})
