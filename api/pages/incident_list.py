"""The page that alerts and dashboards link to: the incidents of a cluster or kind."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.responses import Response

from api.pages.rendering import render, unavailable
from api.state import Shared
from api.store_calls import UnavailableError
from storage.store.values import IncidentFilter

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

SHOWN = 100


@router.get("/incidents")
async def incidents(
    state: Shared,
    cluster: Annotated[str | None, Query(max_length=249)] = None,
    kind: Annotated[str | None, Query(max_length=64)] = None,
) -> Response:
    """Show incidents, of each cluster the worst first. If a kind is named and one is unresolved, go to its page."""
    wanted = IncidentFilter(cluster=cluster or None, kind=kind or None)
    try:
        unresolved, totals = await state.calls(state.store.incidents.worst, SHOWN, wanted)
        over = await state.calls(state.store.incidents.page, replace(wanted, state="resolved"), None, SHOWN)
    except UnavailableError as error:
        return unavailable(error, refresh=5)
    if kind and len(unresolved) == 1:
        return RedirectResponse(f"/incidents/{unresolved[0].id}", 303)
    total = sum(totals.values())
    return render(
        "incidents.html",
        refresh=0,
        groups=[
            ("Not resolved, the worst first", unresolved, total if total > len(unresolved) else None),
            ("Resolved, the newest first", over.items, "more" if over.next_cursor is not None else None),
        ],
        cluster=cluster,
        kind=kind,
    )
