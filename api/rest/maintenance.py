"""GET, POST, DELETE maintenance: planned windows. What happens in one is recorded as planned, without an alert."""

from dataclasses import asdict
from datetime import datetime

from fastapi import APIRouter, Request, Response
from pydantic import ConfigDict, Field

from api.access.auth import all_clusters
from api.access.record import note
from api.judgement.known_places import find, find_cluster
from api.principal import principal_of
from api.problems import ProblemError, documented
from api.shapes import LATEST_NS, Cursor, Limit, Listing, Moment, Shape, nanoseconds
from api.state import Shared, State
from storage.store.values import Maintenance

router = APIRouter(prefix="/maintenance", tags=["maintenance"], responses=documented(422, 503))

LONGEST_NS = 7 * 86_400 * 10**9


class MaintenanceOut(Shape):
    """A planned window."""

    id: str
    cluster: str | None = Field(description="null: all clusters.")
    begins_at: Moment = Field(validation_alias="begin_ns")
    ends_at: Moment = Field(validation_alias="end_ns")
    reason: str
    requested_by: str
    active: bool


class MaintenanceRequest(Shape):
    """A window to plan."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"cluster": "prod-eu", "ends_at": "2026-01-01T04:00:00Z", "reason": "upgrade to 4.1"}]
        }
    )

    cluster: str | None = Field(None, min_length=1, max_length=249, description="null: all clusters.")
    begins_at: datetime | None = Field(None, description="null: now.")
    ends_at: datetime
    reason: str = Field(min_length=1, max_length=1000)


@router.get("", summary="Planned windows, the latest beginning first")
async def windows(shared: Shared, cursor: Cursor = None, limit: Limit = 100) -> Listing[MaintenanceOut]:
    """List past, present and future windows."""
    page = await shared.calls(shared.store.maintenance.page, cursor, limit)
    return Listing[MaintenanceOut](items=[_out(row, shared) for row in page.items], next_cursor=page.next_cursor)


@router.post("", status_code=201, summary="Plan a window", responses=documented(404))
async def plan(request: Request, shared: Shared, response: Response, body: MaintenanceRequest) -> MaintenanceOut:
    """Plan a window of one cluster, or of all; at most a week."""
    begin, end = nanoseconds(body.begins_at) or shared.now_ns(), nanoseconds(body.ends_at) or 0
    if not begin < end <= begin + LONGEST_NS:
        raise ProblemError(422, "body.ends_at: a window ends after it begins, and within a week.")
    if not -LATEST_NS < begin < end < LATEST_NS:
        raise ProblemError(422, "body.ends_at: the window is beyond the times that can be stored (1678 to 2262).")
    if body.cluster is None:
        all_clusters(request)
    else:
        find_cluster(await shared.knowledge(), body.cluster)
    await note(request, "plan-maintenance", f"cluster {body.cluster or '*'}", reason=body.reason)
    actor = principal_of(request).name
    row = await shared.calls(shared.store.maintenance.plan, body.cluster, begin, end, body.reason, actor)
    response.headers["Location"] = f"/api/v1/maintenance/{row.id}"
    return _out(row, shared)


@router.delete("/{maintenance_id}", summary="End a window now", responses=documented(404))
async def end(request: Request, shared: Shared, maintenance_id: str) -> MaintenanceOut:
    """End a window; one that has not begun is deleted."""
    window = await find(shared, shared.store.maintenance, "window", maintenance_id)
    if window.cluster is None:
        all_clusters(request)
    await note(request, "end-maintenance", f"maintenance {maintenance_id}")
    row = await shared.calls(shared.store.maintenance.end, maintenance_id, shared.now_ns())
    return _out(row or window, shared)


def _out(row: Maintenance, state: State) -> MaintenanceOut:
    return MaintenanceOut.model_validate(asdict(row) | {"active": row.begin_ns <= state.now_ns() < row.end_ns})
