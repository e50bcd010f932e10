"""The page that alerts and dashboards link to: the incidents of a cluster or kind."""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.responses import Response

from api.pages.rendering import render, unavailable
from api.state import Shared
from api.store_calls import UnavailableError
from storage.store.values import Incident, IncidentFilter

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

SHOWN = 100


@router.get("/incidents")
async def incidents(
    state: Shared,
    cluster: Annotated[str | None, Query(max_length=249)] = None,
    kind: Annotated[str | None, Query(max_length=64)] = None,
) -> Response:
    """Show incidents, unresolved ones first. If a kind is named and one incident is unresolved, go to its page."""
    found: list[Incident] = []
    try:
        for one in ("open", "acknowledged", "resolved"):
            wanted = IncidentFilter(cluster=cluster or None, kind=kind or None, state=one)
            found += (await state.calls(state.store.incidents.page, wanted, None, SHOWN)).items
    except UnavailableError as error:
        return unavailable(error, refresh=5)
    found.sort(key=lambda row: -row.first_ns)
    unresolved = [row for row in found if row.state != "resolved"]
    if kind and len(unresolved) == 1:
        return RedirectResponse(f"/incidents/{unresolved[0].id}", 303)
    return render(
        "incidents.html",
        refresh=0,
        groups=[
            ("Not resolved", unresolved),
            ("Resolved", [row for row in found if row.state == "resolved"]),
        ],
        cluster=cluster,
        kind=kind,
    )
