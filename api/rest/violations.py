"""GET violations, violations/{id}; POST violations/{id}/acknowledge, violations/{id}/reopen."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Query, Request
from pydantic import ConfigDict, Field
from starlette.responses import Response

from api.access.record import note
from api.judgement.known_places import find, must_exist
from api.judgement.timeline import topology_around
from api.problems import ProblemError, documented
from api.shapes import (
    ClusterName,
    Cursor,
    Limit,
    Listing,
    Moment,
    Partition,
    ProbeIdentity,
    Shape,
    TopicName,
    ViolationState,
    nanoseconds,
    rfc3339,
)
from api.state import Shared, State
from canary.anomalies.anomaly import Severity
from canary.anomalies.catalogue import CATALOGUE
from canary.anomalies.policy import REHEARSALS
from storage.store.values import StoredViolation, ViolationFilter

router = APIRouter(prefix="/violations", tags=["violations"], responses=documented(422, 503, 404))


class Sighting(Shape):
    """A part of the canary saw the violation."""

    by: str
    at: Moment = Field(validation_alias="at_ns")


class ViolationOut(Shape):
    """A broken promise."""

    id: str
    kind: str
    severity: Severity
    cluster: str
    topic: str
    partition: int | None
    offset: int | None = Field(description="The first record's; of a range that was found together, see last_offset.")
    last_offset: int | None
    count: int = Field(description="How many records it is about; metrics count records.")
    identity: ProbeIdentity | None = Field(description="The first record's.")
    leader_epoch: int | None = Field(
        None, description="In which it happened, of what has no identity: a later event at the same offset has another."
    )
    last_identity: ProbeIdentity | None
    mode: str | None
    state: ViolationState
    happened_after: Moment | None = Field(
        None,
        validation_alias="happened_after_ns",
        description="When its place was last known to be whole; null: that is not known.",
    )
    happened_before: Moment | None = Field(
        None, validation_alias="happened_before_ns", description="It had happened by then; null: as first_seen_at."
    )
    first_seen_at: Moment = Field(validation_alias="first_seen_ns")
    last_seen_at: Moment = Field(validation_alias="last_seen_ns")
    sightings: list[Sighting]
    incident_id: str | None
    summary: str
    note: str | None = None
    planned: bool = Field(False, description="It happened in a planned window: recorded, without an alert.")


class ViolationDetail(ViolationOut):
    """A broken promise with its evidence."""

    evidence: dict[str, Any]
    meaning: str
    implies: str
    do_first: str
    runbook: str = Field(description="The page that says what to do, as a path of this API.")


class Acknowledge(Shape):
    """A note with an acknowledgement."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"note": "Ann looks at broker 2."}]})

    note: str = Field("", max_length=10_000, description="Who works on it, and how.")


class Reopen(Shape):
    """A note with why it is open again."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"note": "The records are gone from the replica, too."}]})

    note: str = Field("", max_length=10_000, description="Why it is not over.")


NOT_REOPENED = (
    "Nothing of it was resolved by a person, or its condition has ended since: that is open again when it holds again."
)

_MADE = {"identity", "last_identity", "sightings"}
_PLAIN = [name for name in ViolationOut.model_fields if name not in _MADE and hasattr(StoredViolation, name)]
"""The fields that a body takes from the stored violation as they are."""


@router.get("", summary="Broken promises, newest first", response_model=Listing[ViolationOut])
async def violations(
    shared: Shared,
    *,
    kind: Annotated[str | None, Query(max_length=64, description="A name of the anomaly catalogue.")] = None,
    severity: Severity | None = None,
    cluster: ClusterName = None,
    topic: TopicName = None,
    partition: Partition = None,
    offset: Annotated[int | None, Query(ge=0, lt=2**63, description="Of this offset, or of a range with it.")] = None,
    since: Annotated[datetime | None, Query(description="Seen at this time or later (RFC 3339).")] = None,
    until: Annotated[datetime | None, Query(description="Seen at this time or before (RFC 3339).")] = None,
    state: ViolationState | None = None,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Response:
    """List violations that fit every filter given; without filters, those of every state."""
    if kind is not None and kind not in CATALOGUE and kind not in REHEARSALS:
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
    page = await shared.calls(shared.store.violations.page, filters, cursor, limit)
    if not page.items:
        await must_exist(shared, cluster, topic, partition)
    return listed(page.items, page.next_cursor)


def listed(rows: Sequence[StoredViolation], next_cursor: str | None) -> Response:
    """Return the body of Listing[ViolationOut] without making models, which takes six times as long."""
    items = [
        {name: getattr(row, name) for name in _PLAIN}
        | {
            "identity": row.identity and row.identity._asdict(),
            "last_identity": row.last_identity and row.last_identity._asdict(),
            "happened_after": row.happened_after_ns and rfc3339(row.happened_after_ns),
            "happened_before": row.happened_before_ns and rfc3339(row.happened_before_ns),
            "first_seen_at": rfc3339(row.first_seen_ns),
            "last_seen_at": rfc3339(row.last_seen_ns),
            "sightings": [{"by": sighting.by, "at": rfc3339(sighting.at_ns)} for sighting in row.sightings],
        }
        for row in rows
    ]
    return Response(orjson.dumps({"items": items, "next_cursor": next_cursor}), media_type="application/json")


@router.get("/{violation_id}", summary="One broken promise with its evidence")
async def violation(state: Shared, violation_id: str) -> ViolationDetail:
    """Return a violation with the evidence and what to do first."""
    row = await find_violation(state, violation_id)
    detail = violation_detail(row)
    detail.evidence |= await topology_around(state, row)
    return detail


@router.post("/{violation_id}/acknowledge", summary="Acknowledge it")
async def acknowledge(request: Request, shared: Shared, violation_id: str, body: Acknowledge) -> ViolationDetail:
    """Mark a violation as acknowledged; a resolved one stays resolved."""
    await find_violation(shared, violation_id)
    await note(request, "acknowledge", f"violation {violation_id}", note=body.note)
    await shared.calls(shared.store.violations.acknowledge, violation_id, body.note)
    return violation_detail(await find_violation(shared, violation_id))


@router.post("/{violation_id}/reopen", summary="Open it again", responses=documented(409))
async def reopen(request: Request, shared: Shared, violation_id: str, body: Reopen) -> ViolationDetail:
    """Open a violation that a person resolved, and its incident, again: it alerts as if it had just been found."""
    await find_violation(shared, violation_id)
    await note(request, "reopen", f"violation {violation_id}", note=body.note)
    if not await shared.calls(shared.store.violations.reopen, violation_id, body.note):
        raise ProblemError(409, NOT_REOPENED)
    return violation_detail(await find_violation(shared, violation_id))


async def find_violation(state: State, violation_id: str) -> StoredViolation:
    """Return a violation, or raise the ProblemError 404."""
    return await find(state, state.store.violations, "violation", violation_id)


def violation_detail(row: StoredViolation) -> ViolationDetail:
    """Return the body of a single violation."""
    entry = CATALOGUE.get(row.kind)
    return ViolationDetail(
        **ViolationOut.model_validate(row).model_dump(),
        evidence=evidence_of(row),
        meaning=entry.meaning if entry else "",
        implies=entry.implies if entry else "",
        do_first=entry.do_first if entry else "",
        runbook=f"/runbooks/{row.kind}",
    )


def evidence_of(row: StoredViolation) -> dict[str, Any]:
    """Return the evidence; of a range with its records, in runs of offset, size and first identity."""
    runs = [[run.offset, run.size, run.identity and list(run.identity)] for run in row.records]
    return dict(row.evidence) | ({"records": runs} if runs else {})
