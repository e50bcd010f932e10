"""Which records of a batch are stored already, so that no record is in two violations of one kind.

A record is known by kind, incarnation, partition, offset, identity and leader epoch, in whatever range it was found. A
single record is looked up by its violation's id; a range is compared with the stored ranges that it overlaps and with
the single records within it. Records that retention deleted stay known.

Of what has no identity the leader epoch tells a second event at a place from the first one. A finding that does not
know the epoch (a night's, or of a version that knew none) is one of the latest event there; and what was recorded
without an epoch, and is not resolved, is found again with one. Example: a truncation at 100 is open since before an
upgrade; found again with epoch 5 it is a sighting. Once it is resolved, one at 100 in epoch 9 is another truncation.
"""

from bisect import bisect_right, insort
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, and_, or_, select

from canary.anomalies.violation import Records, Violation
from canary.probe.identity import Identity
from storage.store.models import FORGOTTEN, VIOLATIONS
from storage.store.rows import chunks

IDENTITY = ("producer_id", "generation", "identity_partition", "sequence")
"""The columns of an identity, in its order."""
_RANGES = 100
"""Ranges looked up in one statement."""

Row = dict[str, Any]
_Place = tuple[str, str, str, int | None]
_Line = tuple[object, ...]


class Known:
    """The stored rows that have records of a batch, by id, and the ids of violations that retention deleted."""

    def __init__(self, connection: Connection, cluster: str, batch: Sequence[Violation]) -> None:
        self.rows: dict[str, Row] = {}
        self.forgotten: set[str] = set()
        self._lines: dict[_Line, dict[int | None, list[tuple[int, int, str]]]] = {}
        """By line, and by leader epoch: the runs [first, end) of rows, ascending."""
        ids = dict.fromkeys(violation.key(cluster) for violation in batch)
        for chunk in chunks(ids):
            self._load(connection, lambda columns, chunk=chunk: columns.id.in_(chunk))
        for spans in chunks(_lookups(batch), _RANGES):
            self._load(
                connection,
                lambda columns, spans=spans: and_(
                    columns.cluster == cluster, or_(*(_near(columns, *one) for one in spans))
                ),
            )

    def met(self, violation: Violation) -> Violation:
        """Return ``violation`` with the leader epoch of the stored event that it is one of, if there is such a one."""
        epochs: dict[int | None, str] = {}
        for run in violation.runs if violation.identity is None and violation.offset is not None else ():
            for epoch, line in self._lines.get(_line(_place(violation), run), {}).items():
                first = run.offset or 0
                there = line[max(bisect_right(line, (first, first + run.size, "")) - 1, 0) :]
                if at := next((row_id for a, b, row_id in there if a < first + run.size and first < b), None):
                    epochs[epoch] = at
        mine = violation.leader_epoch
        if mine in epochs or not epochs:
            return violation
        if mine is None:
            return replace(violation, leader_epoch=max(epoch for epoch in epochs if epoch is not None))
        row = self.rows.get(epochs.get(None, ""))
        return violation if row is None or row["state"] == "resolved" else replace(violation, leader_epoch=None)

    def add(self, row: Row) -> None:
        """Add a new row."""
        self.rows[row["id"]] = row
        self._index(row)

    def parts(self, violation: Violation) -> Iterator[tuple[str | None, Records]]:
        """Yield the records of ``violation`` in runs, ascending, each with the id of the row that has them, or None."""
        for run in violation.runs:
            if run.offset is None:
                yield None, run
                continue
            begin = at = run.offset
            end = begin + run.size
            line = self._lines.get(_line(_place(violation), run), {}).get(violation.leader_epoch, [])
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
        for row in connection.execute(select(VIOLATIONS).where(where(VIOLATIONS.c))).mappings():
            if row["id"] not in self.rows:
                self.add(dict(row))
        for row in connection.execute(select(FORGOTTEN).where(where(FORGOTTEN.c))).mappings():
            if row["id"] not in self.forgotten:
                self.forgotten.add(row["id"])
                self._index(row)

    def _index(self, row: Any) -> None:
        if row["offset"] is None:
            return
        place = row["kind"], row["topic"], row["topic_id"], row["partition"]
        for run in runs_of(row):
            line = self._lines.setdefault(_line(place, run), {}).setdefault(row["leader_epoch"], [])
            insort(line, (run.offset or 0, (run.offset or 0) + run.size, row["id"]))


def runs_of(row: Any) -> list[Records]:
    """Return the records of a row, in runs; a row about one record has one run of one."""
    if row["records"] is not None:
        return [Records(offset, size, who and Identity(*who)) for offset, size, who in row["records"]]
    return [Records(row["offset"], 1, identity_of(row))]


def identity_of(row: Any) -> Identity | None:
    """Return the identity of a row's first record, or None."""
    if row["producer_id"] is None:
        return None
    return Identity(*(row[name] for name in IDENTITY))


def _place(violation: Violation) -> _Place:
    return violation.kind, violation.topic, violation.topic_id, violation.partition


def _line(place: _Place, run: Records) -> _Line:
    """Return a key that two runs share exactly if equal offsets in them mean the same record: place and producer."""
    who = run.identity
    return (*place, None if who is None else (*who[:3], who.sequence - (run.offset or 0)))


def _lookups(batch: Sequence[Violation]) -> Iterator[tuple[_Place, int, int, bool]]:
    """Yield what to look up: place, first and last offset, and whether stored single records count, too.

    They count for a range, and for what no identity tells apart. The batch's other single records are looked up
    together, place by place, and only in ranges.
    """
    spans: dict[_Place, tuple[int, int]] = {}
    for violation in batch:
        first, last, place = violation.offset, violation.last_offset, _place(violation)
        if first is None or last is None:
            continue
        if violation.records or violation.identity is None:
            yield place, first, last, True
        else:
            low, high = spans.get(place, (first, first))
            spans[place] = min(low, first), max(high, first)
    for place, (low, high) in spans.items():
        yield place, low, high, False


def _near(columns: Any, place: _Place, first: int, last: int, singles: bool) -> Any:  # noqa: FBT001  # from a tuple
    overlapping = and_(columns.last_offset >= first, columns.offset <= last)
    if singles:
        within = and_(columns.last_offset.is_(None), columns.offset >= first, columns.offset <= last)
        overlapping = or_(overlapping, within)
    kind, topic, topic_id, partition = place
    where = columns.kind == kind, columns.topic == topic, columns.topic_id == topic_id, columns.partition == partition
    return and_(*where, overlapping)
