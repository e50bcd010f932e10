"""The page to which alerts and dashboards lead: the incidents of a cluster or kind, or the one there is."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.responses import Response

from api.calls import UnavailableError
from api.judgement import STORE_AWAY
from api.pages import render
from api.ports import Incident, IncidentFilter
from api.state import State, state_of

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

SHOWN = 100


@router.get("/incidents")
async def incidents(
    request: Request,
    cluster: Annotated[str | None, Query(max_length=249)] = None,
    kind: Annotated[str | None, Query(max_length=64)] = None,
) -> Response:
    """Show incidents, those that are not resolved first; the only one not resolved itself, if a kind is named."""
    state = state_of(request)
    try:
        found = await _found(state, cluster or None, kind or None)
    except UnavailableError as error:
        return render("unavailable.html", 503, refresh=5, judgement=STORE_AWAY, detail=error.detail)
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
        now_ns=state.now_ns(),
    )


async def _found(state: State, cluster: str | None, kind: str | None) -> list[Incident]:
    """Return the incidents of a cluster that hold a violation of a kind, newest first."""
    found: list[Incident] = []
    for one in ("open", "acknowledged", "resolved"):
        wanted = IncidentFilter(cluster=cluster, kind=kind, state=one)
        found += (await state.calls(state.store.incidents, wanted, None, SHOWN)).items
    return sorted(found, key=lambda row: -row.first_ns)
