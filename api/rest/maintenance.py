"""GET, POST, DELETE maintenance: planned windows. What is found in one is recorded as planned and alarms nobody."""

from fastapi import APIRouter, Request, Response

from api.actions import note
from api.auth import principal_of
from api.paging import Cursor, Limit
from api.places import find_cluster
from api.ports import Maintenance
from api.problems import RESPONSES, ProblemError
from api.shapes import LATEST_NS, Listing, MaintenanceOut, MaintenanceRequest, moment, nanoseconds
from api.state import State, state_of

router = APIRouter(prefix="/maintenance", tags=["maintenance"], responses={k: RESPONSES[k] for k in (422, 503)})

LONGEST_NS = 7 * 86_400 * 10**9


@router.get("", summary="Planned windows, the latest beginning first")
async def windows(request: Request, cursor: Cursor = None, limit: Limit = 100) -> Listing[MaintenanceOut]:
    """List the windows that are over, those that are now, and those to come."""
    shared = state_of(request)
    page = await shared.calls(shared.store.maintenance, cursor, limit)
    return Listing[MaintenanceOut](items=[_out(row, shared) for row in page.items], next_cursor=page.next_cursor)


@router.post("", status_code=201, summary="Plan a window", responses={404: RESPONSES[404]})
async def plan(request: Request, response: Response, body: MaintenanceRequest) -> MaintenanceOut:
    """Plan a window of one cluster, or of all; at most a week."""
    shared = state_of(request)
    begin, end = nanoseconds(body.begins_at) or shared.now_ns(), nanoseconds(body.ends_at) or 0
    if not begin < end <= begin + LONGEST_NS:
        raise ProblemError(422, "body.ends_at: a window ends after it begins, and within a week.")
    if not -LATEST_NS < begin < end < LATEST_NS:
        raise ProblemError(422, "body.ends_at: the window is beyond the times that can be stored (1678 to 2262).")
    if body.cluster is not None:
        find_cluster(await shared.knowledge(), body.cluster)
    await note(request, "plan-maintenance", f"cluster {body.cluster or '*'}", reason=body.reason)
    actor = principal_of(request).name
    row = await shared.calls(shared.store.plan_maintenance, body.cluster, begin, end, body.reason, actor)
    response.headers["Location"] = f"/api/v1/maintenance/{row.id}"
    return _out(row, shared)


@router.delete("/{maintenance_id}", summary="End a window now", responses={404: RESPONSES[404]})
async def end(request: Request, maintenance_id: str) -> MaintenanceOut:
    """End a window; one that has not begun never was."""
    shared = state_of(request)
    await note(request, "end-maintenance", f"maintenance {maintenance_id}")
    row = await shared.calls(shared.store.end_maintenance, maintenance_id, shared.now_ns())
    if row is None:
        raise ProblemError(404, f"There is no window with the id {maintenance_id!r}.")
    return _out(row, shared)


def _out(row: Maintenance, state: State) -> MaintenanceOut:
    return MaintenanceOut(
        id=row.id,
        cluster=row.cluster,
        begins_at=moment(row.begin_ns),
        ends_at=moment(row.end_ns),
        reason=row.reason,
        requested_by=row.requested_by,
        active=row.begin_ns <= state.now_ns() < row.end_ns,
    )
