"""Reading violations and incidents, and what people say about them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy import case, func, select, update

from canary.probe.identity import Identity
from storage.store.models import IncidentRow, ViolationRow, ViolationTotalRow
from storage.store.pages import Page, read_page
from storage.store.records import runs_of
from storage.store.values import (
    Incident,
    IncidentFilter,
    Sighting,
    StoredViolation,
    ViolationCount,
    ViolationFilter,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sqlalchemy import ColumnElement, Connection

_LISTED = [column for column in ViolationRow.__table__.c if column.name not in {"evidence", "records"}]


def list_violations(
    connection: Connection, wanted: ViolationFilter, cursor: str | None, limit: int
) -> Page[StoredViolation]:
    """Return a page of violations without their evidence and records, newest first."""
    query = select(*_LISTED)
    for name in ("kind", "severity", "cluster", "topic", "partition", "state", "incident_id"):
        value = getattr(wanted, name)
        if value is not None:
            query = query.where(getattr(ViolationRow, name) == value)
    if wanted.offset is not None:
        last = func.coalesce(ViolationRow.last_offset, ViolationRow.offset)
        query = query.where(ViolationRow.offset <= wanted.offset, last >= wanted.offset)
    if wanted.since_ns is not None:
        query = query.where(ViolationRow.last_seen_ns >= wanted.since_ns)
    if wanted.until_ns is not None:
        query = query.where(ViolationRow.first_seen_ns <= wanted.until_ns)
    return read_page(
        connection, query, (ViolationRow.first_seen_ns, ViolationRow.id), cursor=cursor, limit=limit, make=_violation
    )


def get_violation(connection: Connection, violation_id: str) -> StoredViolation | None:
    """Return one violation with its evidence, or None."""
    row = connection.execute(select(ViolationRow.__table__).where(ViolationRow.id == violation_id)).one_or_none()
    if row is None:
        return None
    records = () if row.records is None else tuple(runs_of(row._asdict()))
    return replace(_violation(row), evidence=row.evidence or {}, records=records)


def acknowledge_violation(connection: Connection, violation_id: str, note: str | None) -> StoredViolation | None:
    """Turn an open violation acknowledged (a resolved one stays resolved); keep the note. None: there is none."""
    _acknowledge(connection, ViolationRow.id == violation_id, note)
    return get_violation(connection, violation_id)


def _acknowledge(connection: Connection, where: ColumnElement[bool], note: str | None) -> None:
    connection.execute(update(ViolationRow).where(where).values(note=note))
    connection.execute(update(ViolationRow).where(where, ViolationRow.state == "open").values(state="acknowledged"))


def end_violations(connection: Connection, ids: Sequence[str], at_ns: int) -> int:
    """Resolve conditions that hold no more (reason "ended"); return how many were not resolved before.

    What a person said of one stands; that data was lost in it, also when it held another time since.
    """
    ended = 0
    reason = case((ViolationRow.reason == "lost", "lost"), else_="ended")
    still_open = select(ViolationRow.incident_id).where(ViolationRow.state != "resolved")
    for begin in range(0, len(ids), 500):
        these = ViolationRow.id.in_(ids[begin : begin + 500])
        connection.execute(update(ViolationRow).where(these, ViolationRow.ended_ns.is_(None)).values(ended_ns=at_ns))
        ended += connection.execute(
            update(ViolationRow)
            .where(these, ViolationRow.state != "resolved")
            .values(state="resolved", reason=reason, closed_ns=at_ns)
        ).rowcount
        connection.execute(
            update(IncidentRow)
            .where(
                IncidentRow.state != "resolved",
                IncidentRow.id.in_(select(ViolationRow.incident_id).where(these)),
                IncidentRow.id.not_in(still_open),
            )
            .values(state="resolved", reason="ended")
        )
    return ended


def count_violations(connection: Connection) -> list[ViolationCount]:
    """Return how many records of every (cluster, kind, severity) were ever found, and are in open violations."""
    opened = {
        (cluster, kind, severity): int(number)
        for cluster, kind, severity, number in connection.execute(
            select(ViolationRow.cluster, ViolationRow.kind, ViolationRow.severity, func.sum(ViolationRow.record_count))
            .where(ViolationRow.state == "open")
            .group_by(ViolationRow.cluster, ViolationRow.kind, ViolationRow.severity)
        )
    }
    totals = {
        (row.cluster, row.kind, row.severity): row.total
        for row in connection.execute(select(ViolationTotalRow.__table__))
    }  # a condition that is milder the next time it holds is not found a second time
    return [ViolationCount(*key, totals.get(key, 0), opened.get(key, 0)) for key in sorted(totals | opened)]


def list_incidents(connection: Connection, wanted: IncidentFilter, cursor: str | None, limit: int) -> Page[Incident]:
    """Return a page of incidents, newest first."""
    query = select(IncidentRow.__table__)
    for name in ("cluster", "topic", "partition", "severity", "state"):
        value = getattr(wanted, name)
        if value is not None:
            query = query.where(getattr(IncidentRow, name) == value)
    if wanted.kind is not None:
        held = ViolationRow.incident_id == IncidentRow.id, ViolationRow.kind == wanted.kind
        query = query.where(select(ViolationRow.id).where(*held).exists())
    if wanted.since_ns is not None:
        query = query.where(IncidentRow.last_ns >= wanted.since_ns)
    if wanted.until_ns is not None:
        query = query.where(IncidentRow.first_ns <= wanted.until_ns)
    return read_page(
        connection, query, (IncidentRow.first_ns, IncidentRow.id), cursor=cursor, limit=limit, make=_incident
    )


def get_incident(connection: Connection, incident_id: str) -> Incident | None:
    """Return one incident, or None."""
    row = connection.execute(select(IncidentRow.__table__).where(IncidentRow.id == incident_id)).one_or_none()
    return None if row is None else _incident(row)


def acknowledge_incident(connection: Connection, incident_id: str, note: str | None) -> Incident | None:
    """Turn an open incident and its open violations acknowledged. None: there is none."""
    connection.execute(update(IncidentRow).where(IncidentRow.id == incident_id).values(note=note))
    connection.execute(
        update(IncidentRow)
        .where(IncidentRow.id == incident_id, IncidentRow.state == "open")
        .values(state="acknowledged")
    )
    _acknowledge(connection, ViolationRow.incident_id == incident_id, note)
    return get_incident(connection, incident_id)


def resolve_incident(
    connection: Connection, incident_id: str, reason: Literal["lost", "planned", "false"], note: str | None, at_ns: int
) -> Incident | None:
    """Resolve an incident and all of its violations at once. None: there is none.

    A condition that holds stays resolved for as long as it goes on; when it holds another time it is open again.
    """
    connection.execute(
        update(IncidentRow).where(IncidentRow.id == incident_id).values(state="resolved", reason=reason, note=note)
    )
    connection.execute(
        update(ViolationRow)
        .where(ViolationRow.incident_id == incident_id)
        .values(state="resolved", reason=reason, closed_ns=at_ns)
    )
    return get_incident(connection, incident_id)


def _violation(row: Any) -> StoredViolation:
    identity = None
    if row.producer_id is not None:
        identity = Identity(row.producer_id, row.generation, row.identity_partition, row.sequence)
    return StoredViolation(
        id=row.id,
        kind=row.kind,
        severity=row.severity,
        cluster=row.cluster,
        topic=row.topic,
        topic_id=row.topic_id,
        partition=row.partition,
        offset=row.offset,
        identity=identity,
        mode=row.mode,
        state=row.state,
        reason=row.reason,
        note=row.note,
        first_seen_ns=row.first_seen_ns,
        last_seen_ns=row.last_seen_ns,
        closed_ns=row.closed_ns,
        sightings=tuple(Sighting(**sighting) for sighting in row.sightings),
        incident_id=row.incident_id,
        summary=row.summary,
        last_offset=row.offset if row.last_offset is None else row.last_offset,
        count=row.record_count,
        last_identity=identity if row.last_identity is None else Identity(*row.last_identity),
    )


def _incident(row: Any) -> Incident:
    return Incident(
        id=row.id,
        cluster=row.cluster,
        topic=row.topic,
        topic_id=row.topic_id,
        partition=row.partition,
        lead_id=row.lead_id,
        kind=row.kind,
        severity=row.severity,
        summary=row.summary,
        state=row.state,
        reason=row.reason,
        note=row.note,
        first_ns=row.first_ns,
        last_ns=row.last_ns,
    )
