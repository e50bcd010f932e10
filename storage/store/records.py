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
_Range = tuple[int, int, bool]
"""First and last offset, and whether single records in between are asked for, too (else only ranges)."""


class Known:
    """What the store knows of a batch's records: ``rows`` by id, and the ids of what retention deleted."""

    def __init__(self, connection: Connection, cluster: str, batch: Sequence[Violation]) -> None:
        self.rows: dict[str, Row] = {}
        self.forgotten: set[str] = set()
        self._lines: dict[tuple[object, ...], list[tuple[int, int, str]]] = {}
        ids = dict.fromkeys(violation.key(cluster) for violation in batch)
        for chunk in chunks(ids):
            self._load(connection, lambda table, chunk=chunk: table.id.in_(chunk))
        for place, ranges in _by_place(batch).items():
            for chunk in chunks(ranges, _RANGES):
                self._load(
                    connection,
                    lambda table, place=place, chunk=chunk: and_(
                        table.cluster == cluster, *_at(table, place), or_(*(_overlaps(table, one) for one in chunk))
                    ),
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


def _by_place(batch: Sequence[Violation]) -> dict[_Place, list[_Range]]:
    """Return what is asked for at each place: the batch's ranges, and one that spans its single records."""
    asked: dict[_Place, list[_Range]] = {}
    spans: dict[_Place, _Range] = {}
    for violation in batch:
        first, last, place = violation.offset, violation.last_offset, _place(violation)
        if first is None or last is None:
            continue
        if violation.records:
            asked.setdefault(place, []).append((first, last, True))
        else:
            low, high, _ = spans.get(place, (first, first, False))
            spans[place] = min(low, first), max(high, first), False
    for place, span in spans.items():
        asked.setdefault(place, []).append(span)
    return asked


def _at(table: Any, place: _Place) -> list[Any]:
    names = ("kind", "topic", "topic_id", "partition")
    return [getattr(table, name) == value for name, value in zip(names, place, strict=True)]


def _overlaps(table: Any, wanted: _Range) -> Any:
    first, last, singles = wanted
    ranges = and_(table.last_offset >= first, table.offset <= last)
    if not singles:
        return ranges
    return or_(ranges, and_(table.last_offset.is_(None), table.offset >= first, table.offset <= last))
