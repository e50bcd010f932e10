"""GET violations, violations/{id}; POST violations/{id}/acknowledge."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from api.actions import note
from api.paging import Cursor, Limit
from api.places import must_exist
from api.ports import StoredViolation, ViolationFilter
from api.problems import RESPONSES, ProblemError
from api.shapes import (
    Acknowledge,
    Listing,
    ProbeIdentity,
    Severity,
    Sighting,
    ViolationDetail,
    ViolationOut,
    ViolationState,
    moment,
    nanoseconds,
    rfc3339,
)
from api.state import ALERT_TEST, State, state_of
from api.timeline import topology_around
from canary.anomalies.catalogue import CATALOGUE

router = APIRouter(prefix="/violations", tags=["violations"], responses={k: RESPONSES[k] for k in (422, 503)})


@router.get(
    "",
    summary="Broken promises, newest first",
    response_model=Listing[ViolationOut],
    responses={404: RESPONSES[404]},
)
async def violations(
    request: Request,
    *,
    kind: Annotated[str | None, Query(max_length=64, description="A name of the anomaly catalogue.")] = None,
    severity: Severity | None = None,
    cluster: Annotated[str | None, Query(max_length=249)] = None,
    topic: Annotated[str | None, Query(max_length=249)] = None,
    partition: Annotated[int | None, Query(ge=0, lt=2**31)] = None,
    offset: Annotated[int | None, Query(ge=0, lt=2**63, description="Of this offset, or of a range with it.")] = None,
    since: Annotated[datetime | None, Query(description="Seen at this time or later (RFC 3339).")] = None,
    until: Annotated[datetime | None, Query(description="Seen at this time or before (RFC 3339).")] = None,
    state: ViolationState | None = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Response:
    """List violations that fit every filter given; without filters, those of every state."""
    if kind is not None and kind not in CATALOGUE and kind != ALERT_TEST:
        raise ProblemError(422, f"query.kind: {kind!r} is no anomaly; there are: {', '.join(CATALOGUE)}.")
    filters = ViolationFilter(
        kind=kind,
        severity=severity,
        cluster=cluster,
        topic=topic,
        partition=partition,
        offset=offset,
        since_ns=nanoseconds(since),
        until_ns=nanoseconds(until),
        state=state,
    )
    shared = state_of(request)
    page = await shared.calls(shared.store.violations, filters, cursor, limit)
    if not page.items:
        await must_exist(shared, cluster, topic, partition)
    return listed(page.items, page.next_cursor)


def listed(rows: Sequence[StoredViolation], next_cursor: str | None) -> Response:
    """Return the body of Listing[ViolationOut], written at once: a thousand models would cost a tenth of a second."""
    items = [
        _fields(row)
        | {
            "identity": row.identity._asdict() if row.identity else None,
            "last_identity": row.last_identity._asdict() if row.last_identity else None,
            "first_seen_at": rfc3339(row.first_seen_ns),
            "last_seen_at": rfc3339(row.last_seen_ns),
            "sightings": [{"by": sighting.by, "at": rfc3339(sighting.at_ns)} for sighting in row.sightings],
        }
        for row in rows
    ]
    return Response(orjson.dumps({"items": items, "next_cursor": next_cursor}), media_type="application/json")


@router.get("/{violation_id}", summary="One broken promise with its evidence", responses={404: RESPONSES[404]})
async def violation(request: Request, violation_id: str) -> ViolationDetail:
    """Return a violation with the evidence and what to do first."""
    state = state_of(request)
    row = await find_violation(state, violation_id)
    detail = violation_detail(row)
    detail.evidence["topology"] = await topology_around(state, row)
    return detail


@router.post("/{violation_id}/acknowledge", summary="Say that somebody is on it", responses={404: RESPONSES[404]})
async def acknowledge(request: Request, violation_id: str, body: Acknowledge) -> ViolationDetail:
    """Mark a violation as acknowledged; a resolved one stays resolved."""
    shared = state_of(request)
    await find_violation(shared, violation_id)
    await note(request, "acknowledge", f"violation {violation_id}", note=body.note)
    await shared.calls(shared.store.acknowledge, violation_id, body.note)
    return violation_detail(await find_violation(shared, violation_id))


async def find_violation(state: State, violation_id: str) -> StoredViolation:
    """Return a violation.

    Raises:
        ProblemError: 404, there is none with this id.
    """
    row = await state.calls(state.store.violation, violation_id)
    if row is None:
        raise ProblemError(404, f"There is no violation with the id {violation_id!r}.")
    return row


def violation_out(row: StoredViolation) -> ViolationOut:
    """Return the body of a violation in a list."""
    return ViolationOut(**_fields(row), **_models(row))


def violation_detail(row: StoredViolation) -> ViolationDetail:
    """Return the body of a single violation."""
    entry = CATALOGUE.get(row.kind)
    return ViolationDetail(
        **_fields(row),
        **_models(row),
        evidence=evidence_of(row),
        meaning=entry.meaning if entry else "",
        implies=entry.implies if entry else "",
        do_first=entry.do_first if entry else "",
        runbook=f"/runbooks/{row.kind}",
    )


def evidence_of(row: StoredViolation) -> dict[str, Any]:
    """Return the evidence; of a range with its records, in runs: offset, size, the first one's identity."""
    if not row.records:
        return dict(row.evidence)
    return {
        **row.evidence,
        "records": [[run.offset, run.size, run.identity and list(run.identity)] for run in row.records],
    }


def _fields(row: StoredViolation) -> dict[str, Any]:
    return {
        "id": row.id,
        "kind": row.kind,
        "severity": row.severity,
        "cluster": row.cluster,
        "topic": row.topic,
        "partition": row.partition,
        "offset": row.offset,
        "last_offset": row.last_offset,
        "count": row.count,
        "mode": row.mode,
        "state": row.state,
        "incident_id": row.incident_id,
        "summary": row.summary,
        "note": row.note,
        "planned": row.reason == "planned",
    }


def _models(row: StoredViolation) -> dict[str, Any]:
    return {
        "identity": ProbeIdentity(**row.identity._asdict()) if row.identity else None,
        "last_identity": ProbeIdentity(**row.last_identity._asdict()) if row.last_identity else None,
        "first_seen_at": moment(row.first_seen_ns),
        "last_seen_at": moment(row.last_seen_ns),
        "sightings": [Sighting(by=sighting.by, at=moment(sighting.at_ns)) for sighting in row.sightings],
    }
