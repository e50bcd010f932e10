"""Violations: recorded, read, acknowledged, ended and counted."""

import heapq
from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, Connection, and_, case, cast, func, or_, select, update

from canary.anomalies.policy import LOSSES, rank
from canary.anomalies.violation import Violation
from canary.probe.identity import Identity
from storage.store.cursors import Excerpt, Page
from storage.store.database import Repository, one_of
from storage.store.models import INCIDENTS, VIOLATION_TOTALS, VIOLATIONS
from storage.store.repositories.findings import heads, recording
from storage.store.repositories.findings.known_records import identity_of, runs_of
from storage.store.repositories.findings.ranges import COLUMNS, LOG, joined, last
from storage.store.rows import chunks, matching, value_of
from storage.store.values import (
    Findings,
    OpenViolations,
    Sighting,
    StoredViolation,
    ViolationCount,
    ViolationFilter,
    ViolationGroup,
    ViolationRange,
)

_LISTED = [column for column in VIOLATIONS.c if column.name not in {"evidence", "records"}]
_GROUP = ("cluster", "kind", "severity", "mode", "state", "reason")
MOST_JOINED: Final = 100_000
"""Joining so many violations takes about a second."""
_NO_FALSE_ALARM = func.coalesce(VIOLATIONS.c.reason, "") != "false"


class Violations(Repository):
    """The violations."""

    def record(self, cluster: str, found: Sequence[Violation]) -> int:
        """Store violations of ``cluster``; return how many of their records are new.

        Storing the same again only adds sightings (`repositories.findings.recording`).
        """
        if not found:
            return 0
        with self._database.writing(serial=heads.serial_of(cluster)) as connection:
            return recording.record(connection, cluster, found)

    def end(self, ids: Sequence[str], at_ns: int) -> int:
        """Resolve conditions (by Violation.key) that hold no more, reason "ended"; return how many were unresolved.

        A reason that a person gave stays; the reason "lost" also stays if the condition held another time since.
        """
        ended = 0
        reason = case((VIOLATIONS.c.reason == "lost", "lost"), else_="ended")
        with heads.changing(self._database, VIOLATIONS, ids) as connection:
            for chunk in chunks(ids):
                these = VIOLATIONS.c.id.in_(chunk)
                connection.execute(
                    update(VIOLATIONS).where(these, VIOLATIONS.c.ended_ns.is_(None)).values(ended_ns=at_ns)
                )
                ended += connection.execute(
                    update(VIOLATIONS)
                    .where(these, VIOLATIONS.c.state != "resolved")
                    .values(state="resolved", reason=reason, closed_ns=at_ns)
                ).rowcount
        return ended

    def page(
        self, wanted: ViolationFilter | None = None, cursor: str | None = None, limit: int = 100
    ) -> Page[StoredViolation]:
        """Return a page of violations without their evidence and records, newest first.

        Raises:
            BadCursorError: ``cursor`` is not from this list.
        """
        query = select(*_LISTED).where(*_where(wanted or ViolationFilter()))
        return self._page(query, VIOLATIONS.c.first_seen_ns, _listed, cursor, limit)

    def unended(self, cluster: str, kinds: Collection[str]) -> list[StoredViolation]:
        """Return all violations of some kinds that are not resolved."""
        where = (
            VIOLATIONS.c.cluster == cluster,
            VIOLATIONS.c.kind.in_(sorted(kinds)),
            VIOLATIONS.c.state != "resolved",
        )
        return self._all(select(VIOLATIONS).where(*where).order_by(VIOLATIONS.c.id), _whole)

    def get(self, violation_id: str) -> StoredViolation | None:
        """Return one violation with its evidence and records, or None."""
        return self._one(select(VIOLATIONS).where(VIOLATIONS.c.id == violation_id), _whole)

    def acknowledge(self, violation_id: str, note: str | None = None) -> StoredViolation | None:
        """Acknowledge an open violation (a resolved one stays as it is), with a note. None if there is none."""
        this = VIOLATIONS.c.id == violation_id
        with heads.changing(self._database, VIOLATIONS, [violation_id]) as connection:
            acknowledge_where(connection, this, note)
            return one_of(connection, select(VIOLATIONS).where(this), _whole)

    def reopen(self, violation_id: str, note: str | None = None) -> int:
        """Open a violation and its incident again; 0: there is none that a person resolved, or its condition ended."""
        this = VIOLATIONS.c.id == violation_id
        with heads.changing(self._database, VIOLATIONS, [violation_id]) as connection:
            incident_id = connection.scalars(select(VIOLATIONS.c.incident_id).where(this)).one_or_none()
            return 0 if incident_id is None else reopen_where(connection, incident_id, this, note)

    def of_incident(self, incident_id: str) -> list[Findings]:
        """Return all violations of an incident by kind and severity, the worst first."""
        columns = VIOLATIONS.c.kind, VIOLATIONS.c.severity
        this = VIOLATIONS.c.incident_id == incident_id
        records = func.sum(case((_NO_FALSE_ALARM, VIOLATIONS.c.record_count), else_=0))
        groups = select(*columns, func.count(), cast(records, BigInteger)).where(this).group_by(*columns)
        first = select(*_LISTED).where(this).order_by(VIOLATIONS.c.first_seen_ns, VIOLATIONS.c.id).limit(1)
        with self._database.reading() as connection:
            found = [
                Findings(
                    _listed(connection.execute(first.where(columns[0] == kind, columns[1] == severity)).one()), *of
                )
                for kind, severity, *of in connection.execute(groups).all()
            ]
        return sorted(found, key=lambda one: -rank(one.first.kind, one.first.severity))

    def ranges(self, wanted: ViolationFilter, kinds: Collection[str], limit: int) -> Excerpt[ViolationRange]:
        """Return the ranges of violations of some kinds, without false alarms, those of the most records first.

        Of more than MOST_JOINED violations the largest ones are joined, and how many ranges there are is not counted.
        """
        where = *_where(wanted), VIOLATIONS.c.kind.in_(sorted(kinds)), VIOLATIONS.c.partition.is_not(None)
        query = select(*COLUMNS).where(*where, _NO_FALSE_ALARM).order_by(VIOLATIONS.c.record_count.desc())
        with self._database.reading() as connection:
            rows = connection.execute(query.limit(MOST_JOINED + 1)).all()
            every = joined(rows)
            found = heapq.nlargest(limit, every, key=attrgetter("records"))
            ids = {one for each in found for one in (each.first_id, each.last_id)}
            ends = connection.execute(select(VIOLATIONS).where(VIOLATIONS.c.id.in_(ids)))
            whole = {row.id: _whole(row) for row in ends}
        items = [
            ViolationRange(whole[one.first_id], whole[one.last_id], one.violations, one.records, one.first_seen_ns)
            for one in found
        ]
        return Excerpt(items, len(every) if len(rows) <= MOST_JOINED else None)

    def about(self, one: StoredViolation, spans: Sequence[tuple[int, int]]) -> list[StoredViolation]:
        """Return the violations of the incident, kind and log of ``one`` that are about offsets in [begin, end)."""
        same = [VIOLATIONS.c[name] == getattr(one, name) for name in (*LOG, "incident_id")]
        near = or_(*(and_(VIOLATIONS.c.offset < end, last >= begin) for begin, end in spans))
        return self._all(
            select(VIOLATIONS).where(*same, near, _NO_FALSE_ALARM).order_by(VIOLATIONS.c.offset, VIOLATIONS.c.id),
            _whole,
        )

    def counts(self) -> list[ViolationCount]:
        """Return how many records of every (cluster, kind, severity) were ever found, and are in open violations."""
        by = VIOLATIONS.c.cluster, VIOLATIONS.c.kind, VIOLATIONS.c.severity
        records = func.sum(VIOLATIONS.c.record_count)
        query = select(*by, records).where(VIOLATIONS.c.state == "open").group_by(*by)
        with self._database.reading() as connection:
            opened = {(row[0], row[1], row[2]): int(row[3]) for row in connection.execute(query)}
            rows = connection.execute(select(VIOLATION_TOTALS))
            totals = {(row.cluster, row.kind, row.severity): row.total for row in rows}
        # A condition that is milder the next time it holds is open with a severity that no total has.
        keys: list[tuple[str, str, str]] = sorted(totals | opened)
        return [ViolationCount(*key, totals.get(key, 0), opened.get(key, 0)) for key in keys]

    def open(self) -> list[OpenViolations]:
        """Return the open violations by cluster, kind and severity."""
        by = VIOLATIONS.c.cluster, VIOLATIONS.c.kind, VIOLATIONS.c.severity
        records = cast(func.sum(VIOLATIONS.c.record_count), BigInteger)
        query = select(*by, func.count(), records, func.max(VIOLATIONS.c.first_seen_ns))
        query = query.where(VIOLATIONS.c.state == "open").group_by(*by).order_by(*by)
        return self._all(query, lambda row: OpenViolations(*row))

    def groups(self) -> list[ViolationGroup]:
        """Return how many records count, in groups; those of false alarms and of ended conditions do not count."""
        by = [VIOLATIONS.c[name] for name in _GROUP]
        unsettled = or_(VIOLATIONS.c.reason.is_(None), VIOLATIONS.c.reason.not_in(("false", "ended")))
        records = cast(func.sum(VIOLATIONS.c.record_count), BigInteger)
        seen = func.min(VIOLATIONS.c.first_seen_ns), func.max(VIOLATIONS.c.first_seen_ns)
        by_window = VIOLATIONS.c.state == "acknowledged", VIOLATIONS.c.reason == "planned"
        query = (
            select(*by, records, *seen, func.max(case((and_(*by_window), VIOLATIONS.c.note))))
            .where(or_(unsettled, loss()))
            .group_by(*by)
            .order_by(*by)
        )
        return self._all(query, lambda row: ViolationGroup(*row))


def _where(wanted: ViolationFilter) -> list[ColumnElement[bool]]:
    where = matching(VIOLATIONS, wanted, "kind", "severity", "cluster", "topic", "partition", "state", "incident_id")
    if wanted.offset is not None:
        where += [VIOLATIONS.c.offset <= wanted.offset, last >= wanted.offset]
    if wanted.since_ns is not None:
        where.append(VIOLATIONS.c.last_seen_ns >= wanted.since_ns)
    if wanted.until_ns is not None:
        where.append(VIOLATIONS.c.first_seen_ns <= wanted.until_ns)
    return where


def loss() -> ColumnElement[bool]:
    """Return the condition "a confirmed loss", whatever became of it since: retention keeps those."""
    lost = or_(VIOLATIONS.c.kind.in_(sorted(LOSSES)), VIOLATIONS.c.reason == "lost")
    return and_(lost, _NO_FALSE_ALARM)


def acknowledge_where(connection: Connection, where: ColumnElement[bool], note: str | None) -> None:
    """Acknowledge violations that are not resolved, with a note."""
    acknowledged = {"state": "acknowledged", "note": note}
    connection.execute(update(VIOLATIONS).where(where, VIOLATIONS.c.state != "resolved").values(acknowledged))


def reopen_where(connection: Connection, incident_id: str, where: ColumnElement[bool], note: str | None) -> int:
    """Open violations of an incident again that a person resolved and that have not ended, with a note; count."""
    by_a_person = VIOLATIONS.c.state == "resolved", VIOLATIONS.c.reason != "ended", VIOLATIONS.c.ended_ns.is_(None)
    opened = {"state": "open", "reason": None, "note": note, "closed_ns": None}
    count = connection.execute(update(VIOLATIONS).where(where, *by_a_person).values(opened)).rowcount
    if count:
        connection.execute(update(INCIDENTS).where(INCIDENTS.c.id == incident_id).values(note=note))
    return count


def _whole(row: Any) -> StoredViolation:
    records = () if row.records is None else tuple(runs_of(row._mapping))  # noqa: SLF001  # SQLAlchemy's public name
    return _violation(row, evidence=row.evidence or {}, records=records)


def _listed(row: Any) -> StoredViolation:
    return _violation(row, evidence={}, records=())


def _violation(row: Any, **more: Any) -> StoredViolation:
    identity = identity_of(row._mapping)  # noqa: SLF001  # SQLAlchemy's public name
    return value_of(
        StoredViolation,
        row,
        identity=identity,
        sightings=tuple(Sighting(**sighting) for sighting in row.sightings),
        last_offset=row.offset if row.last_offset is None else row.last_offset,
        count=row.record_count,
        last_identity=identity if row.last_identity is None else Identity(*row.last_identity),
        **more,
    )
