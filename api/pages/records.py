"""The pages of what was checked and tried: the audit of settings, the reconciliations, and the drills."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse

from api.pages.rendering import render, unavailable
from api.rest.actions import drills as drills_of
from api.rest.reconciliations import reconciliations as reconciliations_of
from api.rest.watched import audit as audit_of
from api.shapes import Cursor
from api.state import Shared
from api.store_calls import UnavailableError

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

SHOWN = 100
Cluster = Annotated[str | None, Query(max_length=249)]


@router.get("/audit")
async def audit(state: Shared, cluster: Cluster = None) -> HTMLResponse:
    """Show what is unsafe about the settings, by cluster."""
    return await _page("audit.html", lambda: audit_of(state, cluster), cluster)


@router.get("/reconciliations")
async def reconciliations(state: Shared, cluster: Cluster = None, cursor: Cursor = None) -> HTMLResponse:
    """Show the reconciliations, newest first."""
    ask = lambda: reconciliations_of(state, cluster=cluster, cursor=cursor, limit=SHOWN)  # noqa: E731
    try:
        clusters = (await state.knowledge()).clusters.values()
    except UnavailableError as error:
        return unavailable(error, refresh=5)
    without = [view for view in clusters if view.no_nights and cluster in {None, view.name}]
    return await _page("reconciliations.html", ask, cluster, without=without)


@router.get("/drills")
async def drills(state: Shared, cursor: Cursor = None) -> HTMLResponse:
    """Show the drills of live clusters, the latest first."""
    return await _page("drills.html", lambda: drills_of(state, cursor=cursor, limit=SHOWN), None)


async def _page(template: str, ask: Callable[[], Awaitable[Any]], cluster: str | None, **more: Any) -> HTMLResponse:
    """Return a page of what REST answers to the same question."""
    try:
        found = await ask()
    except UnavailableError as error:
        return unavailable(error, refresh=5)
    return render(template, refresh=0, found=found, cluster=cluster, **more)
