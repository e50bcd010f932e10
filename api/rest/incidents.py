"""GET incidents, incidents/{id}; POST incidents/{id}/acknowledge, incidents/{id}/resolve."""

from datetime import datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import Field

from api.access.record import note
from api.judgement.known_places import must_exist
from api.problems import documented, existing
from api.rest.violations import Acknowledge, ViolationOut
from api.shapes import (
    ClusterName,
    Cursor,
    Limit,
    Listing,
    Moment,
    Partition,
    Shape,
    TopicName,
    ViolationState,
    nanoseconds,
)
from api.state import Shared, State
from canary.anomalies.anomaly import Severity
from storage.store.values import Incident, IncidentFilter, ViolationFilter

router = APIRouter(prefix="/incidents", tags=["incidents"], responses=documented(422, 503, 404))

SHOWN = 1000
"""At most so many violations are in the answer; GET violations lists all."""


class IncidentOut(Shape):
    """Violations that belong together; the first cause leads."""

    id: str
    cluster: str
    topic: str
    partition: int | None
    kind: str
    severity: Severity
    state: ViolationState
    summary: str
    first_seen_at: Moment = Field(validation_alias="first_ns")
    last_seen_at: Moment = Field(validation_alias="last_ns")
    reason: str | None
    note: str | None


class IncidentDetail(IncidentOut):
    """An incident with its violations (the first 1,000 of them)."""

    violations: list[ViolationOut]


class Resolve(Shape):
    """The reason why an incident is over."""

    reason: Literal["lost", "planned", "false"] = Field(description="Data was lost, it was planned, or a false alarm.")
    note: str = Field("", max_length=10_000)


@router.get("", summary="Incidents, newest first")
async def incidents(
    shared: Shared,
    *,
    cluster: ClusterName = None,
    topic: TopicName = None,
    partition: Partition = None,
    severity: Severity | None = None,
    state: ViolationState | None = None,
    since: Annotated[datetime | None, Query(description="Lasted until this time or later (RFC 3339).")] = None,
    until: Annotated[datetime | None, Query(description="Begun at this time or before (RFC 3339).")] = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Listing[IncidentOut]:
    """List incidents: violations of one place and time, under their first cause."""
    filters = IncidentFilter(
        cluster=cluster,
        topic=topic,
        partition=partition,
        severity=severity,
        state=state,
        since_ns=nanoseconds(since),
        until_ns=nanoseconds(until),
    )
    page = await shared.calls(shared.store.incidents.page, filters, cursor, limit)
    if not page.items:
        await must_exist(shared, cluster, topic, partition)
    return Listing[IncidentOut].model_validate(page)


@router.get("/{incident_id}", summary="One incident with its violations")
async def incident(state: Shared, incident_id: str) -> IncidentDetail:
    """Return an incident with its violations."""
    row = await find_incident(state, incident_id)
    page = await state.calls(state.store.violations.page, ViolationFilter(incident_id=incident_id), None, SHOWN)
    own = IncidentOut.model_validate(row).model_dump()
    return IncidentDetail.model_validate(own | {"violations": page.items})


@router.post("/{incident_id}/acknowledge", summary="Acknowledge it")
async def acknowledge(request: Request, shared: Shared, incident_id: str, body: Acknowledge) -> IncidentDetail:
    """Mark an incident and all its open violations as acknowledged."""
    await find_incident(shared, incident_id)
    await note(request, "acknowledge", f"incident {incident_id}", note=body.note)
    await shared.calls(shared.store.incidents.acknowledge, incident_id, body.note)
    return await incident(shared, incident_id)


@router.post("/{incident_id}/resolve", summary="Resolve it")
async def resolve(request: Request, shared: Shared, incident_id: str, body: Resolve) -> IncidentDetail:
    """Resolve an incident and all its violations at once, with a reason."""
    await find_incident(shared, incident_id)
    await note(request, "resolve", f"incident {incident_id}", reason=body.reason, note=body.note)
    await shared.calls(shared.store.incidents.resolve, incident_id, body.reason, shared.now_ns(), body.note)
    return await incident(shared, incident_id)


async def find_incident(state: State, incident_id: str) -> Incident:
    """Return an incident, or raise the ProblemError 404."""
    return existing(await state.calls(state.store.incidents.get, incident_id), "incident", incident_id)
