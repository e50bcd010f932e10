"""GET incidents, incidents/{id}, incidents/{id}/notifications.

POST incidents/{id}/acknowledge, incidents/{id}/resolve, incidents/{id}/reopen, incidents/resolve.
"""

from datetime import datetime
from typing import Annotated, Any, Literal, Self

from fastapi import APIRouter, Query, Request
from pydantic import ConfigDict, Field, model_validator

from api.access.record import note
from api.judgement.briefing import Briefing, briefing, found_in
from api.judgement.known_places import find, must_exist
from api.problems import ProblemError, documented
from api.rest.violations import NOT_REOPENED, Acknowledge, Reopen, ViolationOut
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
from canary.anomalies.anomaly import Class, Severity
from storage.store.cursors import Excerpt
from storage.store.receivers import Change
from storage.store.values import Incident, IncidentFilter, ViolationFilter

router = APIRouter(prefix="/incidents", tags=["incidents"], responses=documented(422, 503, 404))

MOST_RESOLVED = 500
"""At most so many incidents are resolved at once."""
SHOWN = 1000
"""At most so many violations are in the answer; GET violations lists all."""


class IncidentOut(Shape):
    """Violations that belong together, headed by the worst that is open, or acknowledged where none is."""

    model_config = ConfigDict(serialize_by_alias=True)

    id: str
    cluster: str
    topic: str
    partition: int | None
    kind: str = Field(description="The head's, as severity, summary and head_seen_at are.")
    severity: Severity
    class_: Class = Field(alias="class", description="What it is about, the worst first.")
    state: ViolationState
    summary: str
    head_id: str = Field(description="The violation that heads it: of the worst that are not resolved the first one.")
    head_seen_at: Moment = Field(validation_alias="head_ns")
    lead_id: str = Field(description="The first violation, for cause and exposure.")
    first_seen_at: Moment = Field(validation_alias="first_ns")
    last_seen_at: Moment = Field(validation_alias="last_ns")
    reason: str | None
    note: str | None


class IncidentDetail(IncidentOut):
    """An incident with its violations (the newest 1,000 of them), and what to know and to do first."""

    briefing: Briefing
    violations: list[ViolationOut]
    violations_total: int = Field(description="How many it has in all.")
    violations_truncated: bool = Field(description="Whether it has more than are listed.")


class Resolve(Shape):
    """The reason why an incident is over."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "planned", "note": "upgrade to 4.1"}]})

    reason: Literal["lost", "planned", "false"] = Field(description="Data was lost, it was planned, or a false alarm.")
    note: str = Field("", max_length=10_000)


class WhichIncidents(Shape):
    """Incidents that are not resolved and fit every filter given; there is at least one."""

    cluster: str | None = Field(None, max_length=249)
    kind: str | None = Field(None, max_length=64, description="They contain a violation of this kind.")
    topic: str | None = Field(None, max_length=249)
    partition: int | None = Field(None, ge=0, lt=2**31)
    severity: Severity | None = None
    since: datetime | None = Field(None, description="Lasted until this time or later (RFC 3339).")
    until: datetime | None = Field(None, description="Begun at this time or before (RFC 3339).")


class ResolveMany(Resolve):
    """The incidents that are over, by their ids or by filters, and the reason."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"filter": {"cluster": "prod-eu", "kind": "stalled"}, "reason": "planned", "note": "upgrade to 4.1"}
            ]
        }
    )

    ids: list[Annotated[str, Field(max_length=32)]] | None = Field(None, min_length=1, max_length=MOST_RESOLVED)
    filter: WhichIncidents | None = None

    @model_validator(mode="after")
    def _either(self) -> Self:
        if (self.ids is None) == (self.filter is None):
            raise ValueError("give ids or a filter, one of the two")
        if self.filter is not None and not self.filter.model_dump(exclude_none=True):
            raise ValueError("a filter without any condition would resolve everything")
        return self


class ResolvedMany(Shape):
    """The incidents that are resolved now."""

    ids: list[str]


class NotificationOut(Shape):
    """What a receiver of the settings (notify) was told of an incident, or is to be told."""

    id: str = Field(description="The same however often it is sent.")
    receiver: str
    change: Change
    severity: Severity
    state: Literal["waiting", "delivered", "dropped"]
    made_at: Moment = Field(validation_alias="at_ns")
    attempts: int
    next_attempt_at: Moment | None = Field(validation_alias="next_ns", description="null: it is over.")
    ended_at: Moment | None = Field(validation_alias="ended_ns", description="When it was delivered, or given up.")
    error: str | None = Field(description="Why it could not be sent last.")


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
    """List incidents: violations of one place and time, under the worst of them."""
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
    found = await found_in(state, row)
    known = await briefing(state, row, found)
    own = IncidentOut.model_validate(row).model_dump()
    listed = Excerpt(page.items, found.violations)
    more = {"briefing": known, "violations": listed.items}
    more |= {"violations_total": listed.total, "violations_truncated": listed.truncated}
    return IncidentDetail.model_validate(own | more)


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


@router.post("/resolve", summary="Resolve many at once")
async def resolve_many(request: Request, shared: Shared, body: ResolveMany) -> ResolvedMany:
    """Resolve incidents with all their violations, at most 500, with one reason: all of them or, on any error, none."""
    ids = list(dict.fromkeys(body.ids or ()))
    if body.filter is not None:
        ids = await _unresolved(shared, body.filter)
    for missing in await shared.calls(shared.store.incidents.missing, ids):
        await find_incident(shared, missing)
    if not ids:
        return ResolvedMany(ids=[])
    await note(request, "resolve", f"{len(ids)} incidents", reason=body.reason, note=body.note, incidents=ids)
    resolve_all = shared.store.incidents.resolve_all
    for missing in await shared.calls(resolve_all, ids, body.reason, shared.now_ns(), body.note):
        await find_incident(shared, missing)
    return ResolvedMany(ids=ids)


async def _unresolved(shared: State, wanted: WhichIncidents) -> list[str]:
    """Return the ids of the incidents that are not resolved and fit the filters.

    Raises:
        ProblemError: 422, there are too many; 404, the place does not exist.
    """
    given: dict[str, Any] = wanted.model_dump(exclude={"since", "until"})
    given |= {"since_ns": nanoseconds(wanted.since), "until_ns": nanoseconds(wanted.until)}
    found: list[str] = []
    for state in ("open", "acknowledged"):
        filters = IncidentFilter(state=state, **given)
        page = await shared.calls(shared.store.incidents.page, filters, None, MOST_RESOLVED + 1)
        found += [one.id for one in page.items]
    if len(found) > MOST_RESOLVED:
        raise ProblemError(422, f"body.filter: more than {MOST_RESOLVED} incidents fit; nothing was resolved.")
    if not found:
        await must_exist(shared, wanted.cluster, wanted.topic, wanted.partition)
    return found


@router.post("/{incident_id}/reopen", summary="Open it again", responses=documented(409))
async def reopen(request: Request, shared: Shared, incident_id: str, body: Reopen) -> IncidentDetail:
    """Open an incident again, with those of its violations that a person resolved: they alert as if just found."""
    await find_incident(shared, incident_id)
    await note(request, "reopen", f"incident {incident_id}", note=body.note)
    if not await shared.calls(shared.store.incidents.reopen, incident_id, body.note):
        raise ProblemError(409, NOT_REOPENED)
    return await incident(shared, incident_id)


@router.get("/{incident_id}/notifications", summary="Who was told of it, and when")
async def notifications(state: Shared, incident_id: str) -> Listing[NotificationOut]:
    """List what each receiver of the settings (notify) was told of an incident, or is to be told, in order."""
    await find_incident(state, incident_id)
    rows = await state.calls(state.store.notifications.of_incident, incident_id)
    return Listing[NotificationOut](items=[NotificationOut.model_validate(row) for row in rows], next_cursor=None)


async def find_incident(state: State, incident_id: str) -> Incident:
    """Return an incident, or raise the ProblemError 404."""
    return await find(state, state.store.incidents, "incident", incident_id)
