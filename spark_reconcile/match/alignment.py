"""Probes, records and polls of one range aligned by offset.

Example: the probe log has 7/1/5 acknowledged at offset 12, the read_committed dump has 7/1/5 at offset 12 and 7/1/6 at
offset 13, which no probe was acknowledged at. The first row *explains* itself (`Alignment.here`); the second is
*unexplained*: only the rest of the partition can tell whether 7/1/6 is a copy, moved, or was never sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from spark_reconcile.tables.columns import (
    COMMITTED_LEVEL,
    I32,
    I64,
    UNCOMMITTED_LEVEL,
    Bool,
    Bounds,
    Damaged,
    Found,
    Identities,
    Placed,
    Probes,
)


@dataclass(frozen=True, slots=True)
class Index:
    """Numbers offsets from 0 to ``size`` - 1: by distance from ``base``, or, where sparse, by rank in ``known``.

    So an offset leads to a place in an array in one step: Kafka's offsets are nearly dense.
    """

    base: int
    size: int
    known: I64 | None = None

    @classmethod
    def over(cls, columns: Sequence[I64]) -> Self:
        """Return an index of every offset that occurs in ``columns``."""
        filled = [column for column in columns if len(column)]
        if not filled:
            return cls(0, 0)
        low = min(int(column.min()) for column in filled)
        span = max(int(column.max()) for column in filled) - low + 1
        if span <= 8 * sum(map(len, filled)) + 4096:
            return cls(low, span)
        known = np.unique(np.concatenate(filled))
        return cls(low, len(known), known)

    def of(self, offsets: I64) -> I64:
        """Return the place of each offset, all of which the index was made over."""
        if self.known is None:
            return offsets - self.base
        return np.searchsorted(self.known, offsets).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Layer:
    """Rows with an identity by offset. One row *represents* its offset; others there repeat it or contradict it.

    ``place``: of each row in the index. ``representative``: the row at each place, -1 = none. ``alone``: no offset has
    two rows, which is what a sorted dump looks like.
    """

    rows: Identities
    place: I64
    representative: I32
    alone: bool

    @classmethod
    def of(cls, rows: Placed, index: Index) -> Self:
        """Return rows by the offsets of an index."""
        place = index.of(rows.offset)
        representative = np.full(index.size, -1, dtype=np.int32)
        representative[place] = np.arange(len(rows), dtype=np.int32)
        return cls(rows, place, representative, int(np.count_nonzero(representative >= 0)) == len(rows))

    def compare(self, other: Identities, place: I64) -> tuple[I32, Bool]:
        """Return for each of ``other`` the row that represents its place, -1 = none, and whether it is the same."""
        row = self.representative[place]
        if not len(self.rows):
            return row, np.zeros(len(row), dtype=np.bool_)
        same = (
            (self.rows.sequence[row] == other.sequence)
            & (self.rows.producer[row] == other.producer)
            & (self.rows.generation[row] == other.generation)
            & (row >= 0)
        )
        return row, same

    def contradicts(self, other: Layer) -> Bool:
        """Return which rows of ``other`` meet another identity here."""
        row, same = self.compare(other.rows, other.place)
        result: Bool = (row >= 0) & ~same
        return result

    def contradictory(self) -> Bool:
        """Return which rows differ from the one that represents their offset."""
        return np.zeros(len(self.rows), dtype=np.bool_) if self.alone else self.contradicts(self)

    def ambiguous(self, other: Layer) -> Bool:
        """Return which rows of ``other`` lie at an offset that two identities have here: any identity meets another."""
        crowded = self.place[self.contradictory()]
        if not len(crowded):
            return np.zeros(len(other.rows), dtype=np.bool_)
        return np.isin(other.place, crowded)

    def repeats(self) -> Bool:
        """Return which rows only repeat the one that represents their offset."""
        if self.alone:
            return np.zeros(len(self.rows), dtype=np.bool_)
        row, same = self.compare(self.rows, self.place)
        result: Bool = same & (row != np.arange(len(row), dtype=np.int32))
        return result


@dataclass(frozen=True, slots=True)
class Alignment:
    """A range by offset: ``placed`` probes with an offset, ascending, an identity once at each; ``unplaced`` without.

    Bools beside ``placed``: ``here`` and ``here_held`` (the row of each level at its offset is it; read_committed also
    below the dump's start, where a row shows what has expired), ``taken`` (a row within bounds there is another),
    ``polled`` (a read_committed poll found it there). ``unexplained``: rows, and ``gone``: read_committed polls, that
    neither a probe nor a read_committed row at their offset explains. ``damaged``: offsets within bounds with an
    invalid row. ``disputed``: offsets with two identities; ``claims``: what claims an offset.
    """

    placed: Probes
    unplaced: Probes
    here: Bool
    here_held: Bool
    taken: Bool
    polled: Bool
    unexplained: Found
    gone: Found
    damaged: I64
    disputed: I64
    claims: tuple[Placed, ...]


def align(probes: Probes, records: Found, damaged: Damaged, polls: Found, bounds: Bounds | None) -> Alignment:
    """Align a range; ``bounds`` None: the partition was not dumped, and rows of records count for nothing."""
    without_offset = probes.offset < 0
    unplaced = probes.take(without_offset)
    placed = in_order(probes.take(~without_offset) if len(unplaced) else probes)
    committed_rows, held_rows = _within(records, bounds)
    index = Index.over([placed.offset, committed_rows.offset, held_rows.offset, polls.offset])
    start = bounds.start if bounds is not None else 0
    known, committed, held, polled = (Layer.of(rows, index) for rows in (placed, committed_rows, held_rows, polls))
    row, here = committed.compare(placed, known.place)
    row_held, here_held = held.compare(placed, known.place)
    taken = (((row >= 0) & ~here) | committed.ambiguous(known)) & (placed.offset >= start)
    taken |= ((row_held >= 0) & ~here_held) | held.ambiguous(known)
    shown, gone = _polls(polls, polled.place, known, committed, start)
    acks = placed.promised
    promised = placed.take(acks)
    twice = (promised.offset[1:] == promised.offset[:-1]) & promised.changes()
    disputed = [placed.offset[(taken | polled.contradicts(known)) & acks], promised.offset[1:][twice]]
    disputed += [
        offsets[mask & (offsets >= start)]
        for offsets, mask in (
            (committed_rows.offset, committed.contradictory()),
            (held_rows.offset, committed.contradicts(held)),
            (polls.offset, committed.contradicts(polled)),
        )
    ]
    disputed += [
        held_rows.offset[held.contradictory()],
        polls.offset[polled.contradictory()],
        polls.offset[held.contradicts(polled)],
    ]
    return Alignment(
        placed=placed,
        unplaced=unplaced,
        here=here,
        here_held=here_held,
        taken=taken,
        polled=shown,
        unexplained=_unexplained((committed_rows, committed, row[here]), (held_rows, held, row_held[here_held]), start),
        gone=gone,
        damaged=_damaged(damaged, bounds),
        disputed=np.unique(np.concatenate(disputed)),
        claims=(promised, committed_rows, held_rows, polls),
    )


def in_order(probes: Probes) -> Probes:
    """Return placed probes by offset; of equal identities at one offset only the one that counts (rule 15)."""
    step = np.diff(probes.offset)
    if not len(step) or step.min() > 0:
        return probes
    order = np.argsort(probes.offset, kind="stable")
    same = np.diff(probes.offset[order]) == 0
    if not same.any():
        return probes.take(order)
    crowded = np.flatnonzero(np.concatenate([[False], same]) | np.concatenate([same, [False]]))
    rows = probes.take(order[crowded])
    keys = (rows.other, rows.acked_at, rows.outcome, rows.sequence, rows.generation, rows.producer, rows.offset)
    order[crowded] = order[crowded][np.lexsort(keys)]
    ranked = probes.take(order)
    return ranked.take(np.concatenate([[True], ~same | ranked.changes()]))


def _within(records: Found, bounds: Bounds | None) -> tuple[Found, Found]:
    """Return the rows that count, by level (CONTRACTS: end exclusive; RECONCILIATION rule 4)."""
    if bounds is None:
        return Found.zeros(), Found.zeros()
    committed = records.take((records.level == COMMITTED_LEVEL) & (records.offset < bounds.end))
    return committed, records.take(_uncommitted_within(records, bounds))


def _uncommitted_within(rows: Found | Damaged, bounds: Bounds) -> Bool:
    """Return which rows belong to the read_uncommitted dump and lie within its bounds."""
    if bounds.uncommitted_start is None or bounds.uncommitted_end is None:
        return np.zeros(len(rows), dtype=np.bool_)
    result: Bool = (
        (rows.level == UNCOMMITTED_LEVEL)
        & (rows.offset >= bounds.uncommitted_start)
        & (rows.offset < bounds.uncommitted_end)
    )
    return result


def _damaged(damaged: Damaged, bounds: Bounds | None) -> I64:
    """Return the offsets within bounds that hold an invalid row, once for both levels (rule 8)."""
    if bounds is None:
        return np.empty(0, np.int64)
    offset = damaged.offset
    committed = (damaged.level == COMMITTED_LEVEL) & (offset >= bounds.start) & (offset < bounds.end)
    return np.unique(offset[committed | _uncommitted_within(damaged, bounds)])


def _polls(polls: Found, place: I64, known: Layer, committed: Layer, start: int) -> tuple[Bool, Found]:
    """Return which placed probes a read_committed poll found at their offset, and the polls that nothing explains."""
    shown = np.zeros(len(known.rows), dtype=np.bool_)
    read_committed = polls.level == COMMITTED_LEVEL
    mine, place = polls.take(read_committed), place[read_committed]
    row, same = known.compare(mine, place)
    shown[row[same]] = True
    _, there = committed.compare(mine, place)
    return shown, mine.take(~same & ~(there & (mine.offset >= start)))


def _unexplained(committed: tuple[Found, Layer, I32], held: tuple[Found, Layer, I32], start: int) -> Found:
    """Return the rows that no probe at their offset explains, each offset and identity once."""
    rows, layer, explained = committed
    keep = ~layer.repeats()
    keep[explained] = False
    rows_held, layer_held, explained_held = held
    _, same = layer.compare(rows_held, layer_held.place)
    keep_held = ~layer_held.repeats() & ~(same & (rows_held.offset >= start))
    keep_held[explained_held] = False
    return Found.concat([rows.take(keep), rows_held.take(keep_held)])
