"""GET actions: what people did; and the way in which every route that changes something writes it down."""

from typing import Any

from fastapi import APIRouter, Request

from api.auth import principal_of, source_of
from api.paging import Cursor, Limit
from api.problems import RESPONSES
from api.shapes import ActionOut, Listing, moment
from api.state import state_of

_SOURCE = ("address", "forwarded_for")

router = APIRouter(prefix="/actions", tags=["actions"], responses={k: RESPONSES[k] for k in (422, 503)})


async def note(request: Request, action: str, target: str, **detail: Any) -> None:
    """Write down what is about to be done, and by whom: what cannot be written down is not done.

    Raises:
        UnavailableError: the store does not answer.
    """
    shared = state_of(request)
    actor = principal_of(request).name
    await shared.calls(shared.store.note_action, actor, action, target, shared.now_ns(), detail | source_of(request))


@router.get("", summary="What people did, newest first")
async def actions(request: Request, cursor: Cursor = None, limit: Limit = 100) -> Listing[ActionOut]:
    """List who acknowledged, resolved, planned, asked for what, when and from where; failed attempts are "refused"."""
    shared = state_of(request)
    page = await shared.calls(shared.store.actions, cursor, limit)
    items = [
        ActionOut(
            id=row.id,
            at=moment(row.at_ns),
            actor=row.actor,
            action=row.action,
            target=row.target,
            address=row.detail.get("address"),
            forwarded_for=row.detail.get("forwarded_for"),
            detail={name: value for name, value in row.detail.items() if name not in _SOURCE},
        )
        for row in page.items
    ]
    return Listing[ActionOut](items=items, next_cursor=page.next_cursor)
