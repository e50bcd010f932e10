"""Which records are in a violation already, so that none is in two of one kind.

A record is known by kind, incarnation, partition, offset and identity, whatever range it was found in. Single ones are
looked up by id; a range is compared with every range that it overlaps and every single record within it. What
retention deleted is known here for ever.
"""

from __future__ import annotations

import itertools
from bisect import bisect_right, insort
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, or_, select

from canary.anomalies.violation import Records
from canary.probe.identity import Identity
from storage.store.models import ForgottenRow, ViolationRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sqlalchemy import Connection

    from canary.anomalies.violation import Violation

CHUNK = 500
_RANGES = 100
"""Ranges looked up in one statement."""

Row = dict[str, Any]
_Place = tuple[str, str, str, int | None]


class Known:
    """What the store knows of a batch's records: ``rows`` by id, and the ids of what retention deleted."""

    def __init__(self, connection: Connection, cluster: str, batch: Sequence[Violation]) -> None:
        self.rows: dict[str, Row] = {}
        self.forgotten: set[str] = set()
        self._lines: dict[tuple[object, ...], list[tuple[int, int, str]]] = {}
        ids = dict.fromkeys(violation.key(cluster) for violation in batch)
        for chunk in chunks(ids):
            self._load(connection, lambda table, chunk=chunk: table.id.in_(chunk))
        for chunk in chunks(_asked(batch), _RANGES):
            self._load(
                connection,
                lambda table, chunk=chunk: and_(table.cluster == cluster, or_(*(_near(table, *one) for one in chunk))),
            )

    def add(self, row: Row) -> None:
        """Take in a row that is new."""
        self.rows[row["id"]] = row
        self._index(row)

    def parts(self, violation: Violation) -> Iterator[tuple[str | None, Records]]:
        """Yield the records of ``violation`` in runs: the id of the violation that has them, or None; ascending."""
        for run in violation.runs:
            if run.offset is None:
                yield None, run
                continue
            begin = at = run.offset
            end = begin + run.size
            line = self._lines.get(_line(_place(violation), run), [])
            for a, b, row_id in line[max(bisect_right(line, (at, end, "")) - 1, 0) :]:
                if a >= end:
                    break
                if b <= at:
                    continue
                if at < a:
                    yield None, run.part(at - begin, a - at)
                    at = a
                stop = min(b, end)
                yield row_id, run.part(at - begin, stop - at)
                at = stop
            if at < end:
                yield None, run.part(at - begin, end - at)

    def _load(self, connection: Connection, where: Any) -> None:
        for row in connection.execute(select(ViolationRow.__table__).where(where(ViolationRow))).mappings():
            if row["id"] not in self.rows:
                self.add(dict(row))
        for row in connection.execute(select(ForgottenRow.__table__).where(where(ForgottenRow))).mappings():
            if row["id"] not in self.forgotten:
                self.forgotten.add(row["id"])
                self._index(row)

    def _index(self, row: Any) -> None:
        if row["offset"] is None:
            return
        place = row["kind"], row["topic"], row["topic_id"], row["partition"]
        for run in runs_of(row):
            line = self._lines.setdefault(_line(place, run), [])
            insort(line, (run.offset or 0, (run.offset or 0) + run.size, row["id"]))


def runs_of(row: Any) -> list[Records]:
    """Return the records of a row: of a range as they were written, else the one of its place."""
    if row["records"] is not None:
        return [Records(offset, size, who and Identity(*who)) for offset, size, who in row["records"]]
    identity = None
    if row["producer_id"] is not None:
        identity = Identity(row["producer_id"], row["generation"], row["identity_partition"], row["sequence"])
    return [Records(row["offset"], 1, identity)]


def chunks(items: Iterable[Any], size: int = CHUNK) -> Iterator[list[Any]]:
    """Yield ``items`` in lists of at most ``size``."""
    iterator = iter(items)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk


def _place(violation: Violation) -> _Place:
    return violation.kind, violation.topic, violation.topic_id, violation.partition


def _line(place: _Place, run: Records) -> tuple[object, ...]:
    """Return what two runs have in common whose records are the same wherever their offsets are."""
    who = run.identity
    return (*place, None if who is None else (*who[:3], who.sequence - (run.offset or 0)))


def _asked(batch: Sequence[Violation]) -> Iterator[tuple[_Place, int, int, bool]]:
    """Yield what to look for: place, first and last offset, and whether single records in between matter, too.

    They do for a range; the single records of a place are looked for at once, and only among ranges.
    """
    spans: dict[_Place, tuple[int, int]] = {}
    for violation in batch:
        first, last, place = violation.offset, violation.last_offset, _place(violation)
        if first is None or last is None:
            continue
        if violation.records:
            yield place, first, last, True
        else:
            low, high = spans.get(place, (first, first))
            spans[place] = min(low, first), max(high, first)
    for place, (low, high) in spans.items():
        yield place, low, high, False


def _near(table: Any, place: _Place, first: int, last: int, singles: bool) -> Any:  # noqa: FBT001  # from a tuple
    overlapping = and_(table.last_offset >= first, table.offset <= last)
    if singles:
        within = and_(table.last_offset.is_(None), table.offset >= first, table.offset <= last)
        overlapping = or_(overlapping, within)
    kind, topic, topic_id, partition = place
    where = table.kind == kind, table.topic == topic, table.topic_id == topic_id, table.partition == partition
    return and_(*where, overlapping)
