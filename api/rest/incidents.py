"""GET incidents, incidents/{id}; POST incidents/{id}/acknowledge, incidents/{id}/resolve."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from api.actions import note
from api.paging import Cursor, Limit
from api.places import must_exist
from api.ports import Incident, IncidentFilter, ViolationFilter
from api.problems import RESPONSES, ProblemError
from api.shapes import (
    Acknowledge,
    IncidentDetail,
    IncidentOut,
    Listing,
    Resolve,
    Severity,
    ViolationState,
    moment,
    nanoseconds,
)
from api.state import State, state_of
from api.violations import violation_out

router = APIRouter(prefix="/incidents", tags=["incidents"], responses={k: RESPONSES[k] for k in (422, 503)})

SHOWN = 1000
"""So many violations of an incident are shown with it; the list of violations has all."""


@router.get("", summary="Incidents, newest first", responses={404: RESPONSES[404]})
async def incidents(
    request: Request,
    *,
    cluster: Annotated[str | None, Query(max_length=249)] = None,
    topic: Annotated[str | None, Query(max_length=249)] = None,
    partition: Annotated[int | None, Query(ge=0, lt=2**31)] = None,
    severity: Severity | None = None,
    state: ViolationState | None = None,
    since: Annotated[datetime | None, Query(description="Still going on at this time or later (RFC 3339).")] = None,
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
    shared = state_of(request)
    page = await shared.calls(shared.store.incidents, filters, cursor, limit)
    if not page.items:
        await must_exist(shared, cluster, topic, partition)
    return Listing[IncidentOut](items=[_out(row) for row in page.items], next_cursor=page.next_cursor)


@router.get("/{incident_id}", summary="One incident with its violations", responses={404: RESPONSES[404]})
async def incident(request: Request, incident_id: str) -> IncidentDetail:
    """Return an incident and what it gathers."""
    return await _detail(state_of(request), incident_id)


@router.post("/{incident_id}/acknowledge", summary="Say that somebody is on it", responses={404: RESPONSES[404]})
async def acknowledge(request: Request, incident_id: str, body: Acknowledge) -> IncidentDetail:
    """Mark an incident and all its open violations as acknowledged."""
    shared = state_of(request)
    await _find(shared, incident_id)
    await note(request, "acknowledge", f"incident {incident_id}", note=body.note)
    await shared.calls(shared.store.acknowledge_incident, incident_id, body.note)
    return await _detail(shared, incident_id)


@router.post("/{incident_id}/resolve", summary="Say that it is dealt with", responses={404: RESPONSES[404]})
async def resolve(request: Request, incident_id: str, body: Resolve) -> IncidentDetail:
    """Resolve an incident and all its violations at once, with a reason."""
    shared = state_of(request)
    await _find(shared, incident_id)
    await note(request, "resolve", f"incident {incident_id}", reason=body.reason, note=body.note)
    await shared.calls(shared.store.resolve_incident, incident_id, body.reason, shared.now_ns(), body.note)
    return await _detail(shared, incident_id)


async def _find(state: State, incident_id: str) -> Incident:
    row = await state.calls(state.store.incident, incident_id)
    if row is None:
        raise ProblemError(404, f"There is no incident with the id {incident_id!r}.")
    return row


async def _detail(state: State, incident_id: str) -> IncidentDetail:
    row = await _find(state, incident_id)
    page = await state.calls(state.store.violations, ViolationFilter(incident_id=incident_id), None, SHOWN)
    return IncidentDetail(**_fields(row), violations=[violation_out(item) for item in page.items])


def _out(row: Incident) -> IncidentOut:
    return IncidentOut(**_fields(row))


def _fields(row: Incident) -> dict[str, Any]:
    return {
        "id": row.id,
        "cluster": row.cluster,
        "topic": row.topic,
        "partition": row.partition,
        "kind": row.kind,
        "severity": row.severity,
        "state": row.state,
        "summary": row.summary,
        "first_seen_at": moment(row.first_ns),
        "last_seen_at": moment(row.last_ns),
        "reason": row.reason,
        "note": row.note,
    }
