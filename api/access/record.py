"""The record of actions: each route that changes something adds to it first."""

from typing import Any

from fastapi import Request

from api.access.auth import source_of
from api.principal import principal_of
from api.state import State


async def note(request: Request, action: str, target: str, **detail: Any) -> None:
    """Record an action and its actor before it is done.

    Raises:
        UnavailableError: the store does not answer, so the action must not be done.
    """
    shared: State = request.app.state.canary
    actor = principal_of(request).name
    await shared.calls(shared.store.actions.record, actor, action, target, shared.now_ns(), detail | source_of(request))
