"""Probes, records and polls of one range laid over one another, offset by offset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from spark_reconcile import places
from spark_reconcile.columns import COMMITTED_LEVEL, UNCOMMITTED_LEVEL, Found, Identities, Probes

if TYPE_CHECKING:
    from spark_reconcile.columns import I32, I64, Bool, Bounds, Damaged


@dataclass(frozen=True, slots=True)
class Layer:
    """Rows that bear an identity. One row *stands* for its offset; others there agree with it or dispute it.

    ``place``: of each row in the index. ``standing``: the row at each place, -1 = none. ``alone``: no row is beside
    another, which is what a sorted dump looks like.
    """

    rows: Identities
    place: I64
    standing: I32
    alone: bool

    @classmethod
    def of(cls, rows: Identities, offsets: I64, index: places.Index) -> Self:
        """Lay rows out."""
        place = index.of(offsets)
        standing = np.full(index.size, -1, dtype=np.int32)
        standing[place] = np.arange(len(rows), dtype=np.int32)
        return cls(rows, place, standing, int(np.count_nonzero(standing >= 0)) == len(rows))

    def compare(self, other: Identities, place: I64) -> tuple[I32, Bool]:
        """Return for each of ``other`` the row that stands at its place, -1 = none, and whether it is the same."""
        row = self.standing[place]
        if not len(self.rows):
            return row, np.zeros(len(row), dtype=np.bool_)
        same = (
            (self.rows.sequence[row] == other.sequence)
            & (self.rows.producer[row] == other.producer)
            & (self.rows.generation[row] == other.generation)
            & (row >= 0)
        )
        return row, same

    def denied(self, other: Layer) -> Bool:
        """Return which rows of ``other`` meet another identity here."""
        row, same = self.compare(other.rows, other.place)
        result: Bool = (row >= 0) & ~same
        return result

    def disputed(self) -> Bool:
        """Return which rows are not the one standing at their place, and differ from it."""
        return np.zeros(len(self.rows), dtype=np.bool_) if self.alone else self.denied(self)

    def shared(self, other: Layer) -> Bool:
        """Return which rows of ``other`` lie at a place where two identities stand: whoever it is meets another."""
        crowded = self.place[self.disputed()]
        if not len(crowded):
            return np.zeros(len(other.rows), dtype=np.bool_)
        return np.isin(other.place, crowded)

    def echoes(self) -> Bool:
        """Return which rows only repeat the one standing at their place."""
        if self.alone:
            return np.zeros(len(self.rows), dtype=np.bool_)
        row, same = self.compare(self.rows, self.place)
        result: Bool = same & (row != np.arange(len(row), dtype=np.int32))
        return result


@dataclass(frozen=True, slots=True)
class Layout:
    """A range laid out. ``placed``: probes with an offset, ascending, an identity once at each; ``loose``: without.

    ``committed`` has the valid rows of the read_committed dump below its end (those below its start too: they show
    what has expired), ``held`` those of read_uncommitted within its bounds. Bools beside ``placed``: ``here`` and
    ``here_held`` (the row at its offset is it), ``taken`` (a row within bounds there is another), ``polled`` (a
    read_committed poll found it there). ``strays``: rows, and ``gone``: read_committed polls, that neither a probe nor
    a read_committed row at their offset explains. ``damaged``: offsets within bounds with an invalid row.
    """

    placed: Probes
    loose: Probes
    here: Bool
    here_held: Bool
    taken: Bool
    polled: Bool
    strays: Found
    gone: Found
    damaged: I64
    disputed: I64
    claims: tuple[tuple[Identities, I64], ...]


def lay_out(probes: Probes, records: Found, damaged: Damaged, polls: Found, bounds: Bounds | None) -> Layout:
    """Lay a range out; ``bounds`` None: the partition was not dumped, and rows of records count for nothing."""
    unplaced = probes.offset < 0
    loose = probes.take(unplaced)
    placed = in_order(probes.take(~unplaced) if len(loose) else probes)
    committed_rows, held_rows = _within(records, bounds)
    index = places.Index.over([placed.offset, committed_rows.offset, held_rows.offset, polls.offset])
    start = bounds.start if bounds is not None else 0
    known = Layer.of(placed, placed.offset, index)
    committed = Layer.of(committed_rows, committed_rows.offset, index)
    held = Layer.of(held_rows, held_rows.offset, index)
    polled = Layer.of(polls, polls.offset, index)
    row, here = committed.compare(placed, known.place)
    row_held, here_held = held.compare(placed, known.place)
    inside = placed.offset >= start
    other = (((row >= 0) & ~here) | committed.shared(known)) & inside
    other_held = ((row_held >= 0) & ~here_held) | held.shared(known)
    shown, gone = _polls(polls, polled.place, known, committed, start)
    acks = promises(placed)
    denied = (other | other_held | polled.denied(known)) & acks
    disputed = [placed.offset[denied], _twice_acked(placed, acks)]
    disputed += [
        offsets[mask & (offsets >= start)]
        for offsets, mask in (
            (committed_rows.offset, committed.disputed()),
            (held_rows.offset, committed.denied(held)),
            (polls.offset, committed.denied(polled)),
        )
    ]
    disputed += [
        held_rows.offset[held.disputed()],
        polls.offset[polled.disputed()],
        polls.offset[held.denied(polled)],
    ]
    strays = _strays(
        (committed_rows, committed, row[here]),
        (held_rows, held, row_held[here_held]),
        start,
    )
    return Layout(
        placed=placed,
        loose=loose,
        here=here,
        here_held=here_held,
        taken=other | other_held,
        polled=shown,
        strays=strays,
        gone=gone,
        damaged=_damaged(damaged, bounds),
        disputed=np.unique(np.concatenate(disputed)),
        claims=(
            (placed.who().take(acks), placed.offset[acks]),
            (committed_rows, committed_rows.offset),
            (held_rows, held_rows.offset),
            (polls, polls.offset),
        ),
    )


def in_order(probes: Probes) -> Probes:
    """Return placed probes by offset; of equal identities at one offset only the one that counts (rule 15)."""
    step = np.diff(probes.offset)
    if not len(step) or step.min() > 0:
        return probes
    order = np.lexsort(
        (
            *(probes.other, probes.acked_at, probes.outcome),
            *(probes.sequence, probes.generation, probes.producer, probes.offset),
        )
    )
    ranked = probes.take(order)
    fresh = np.ones(len(ranked), dtype=np.bool_)
    fresh[1:] = (ranked.offset[1:] != ranked.offset[:-1]) | differs(ranked)
    return ranked if fresh.all() else ranked.take(fresh)


def differs(rows: Identities) -> Bool:
    """Return for each row but the first whether its identity is another than the one before."""
    result: Bool = (
        (rows.sequence[1:] != rows.sequence[:-1])
        | (rows.generation[1:] != rows.generation[:-1])
        | (rows.producer[1:] != rows.producer[:-1])
    )
    return result


def _within(records: Found, bounds: Bounds | None) -> tuple[Found, Found]:
    """Return the rows of use by level (CONTRACTS: end exclusive; RECONCILIATION rule 4)."""
    if bounds is None:
        nothing = records.take(slice(0, 0))
        return nothing, nothing
    first = (records.level == COMMITTED_LEVEL) & (records.offset < bounds.end)
    if bounds.uncommitted_start is None or bounds.uncommitted_end is None:
        return records.take(first), records.take(slice(0, 0))
    second = (
        (records.level == UNCOMMITTED_LEVEL)
        & (records.offset >= bounds.uncommitted_start)
        & (records.offset < bounds.uncommitted_end)
    )
    return (records if first.all() else records.take(first)), records.take(second)


def _damaged(damaged: Damaged, bounds: Bounds | None) -> I64:
    """Return the offsets within bounds that hold an invalid row, once for both levels (rule 8)."""
    if bounds is None:
        return np.empty(0, np.int64)
    offset = damaged.offset
    use = (damaged.level == COMMITTED_LEVEL) & (offset >= bounds.start) & (offset < bounds.end)
    if bounds.uncommitted_start is not None and bounds.uncommitted_end is not None:
        use |= (
            (damaged.level == UNCOMMITTED_LEVEL)
            & (offset >= bounds.uncommitted_start)
            & (offset < bounds.uncommitted_end)
        )
    return np.unique(offset[use])


def _polls(polls: Found, place: I64, known: Layer, committed: Layer, start: int) -> tuple[Bool, Found]:
    """Return which placed probes a read_committed poll found at their offset, and the polls that nothing explains."""
    shown = np.zeros(len(known.rows), dtype=np.bool_)
    of_use = polls.level == COMMITTED_LEVEL
    mine, place = polls.take(of_use), place[of_use]
    row, same = known.compare(mine, place)
    shown[row[same]] = True
    _, there = committed.compare(mine, place)
    return shown, mine.take(~same & ~(there & (mine.offset >= start)))


def _strays(
    committed: tuple[Found, Layer, I32],
    held: tuple[Found, Layer, I32],
    start: int,
) -> Found:
    """Return the rows that no probe at their offset explains, each offset and identity once."""
    rows, layer, explained = committed
    keep = ~layer.echoes()
    keep[explained] = False
    rows_held, layer_held, explained_held = held
    _, same = layer.compare(rows_held, layer_held.place)
    keep_held = ~layer_held.echoes() & ~(same & (rows_held.offset >= start))
    keep_held[explained_held] = False
    return Found.concat([rows.take(keep), rows_held.take(keep_held)])


def promises(probes: Probes) -> Bool:
    """Return which probes of this incarnation were promised (rule 2: acked, and no transaction or a committed one)."""
    result: Bool = (probes.outcome == 0) & (probes.transaction_state <= 1) & ~probes.other
    return result


def _twice_acked(placed: Probes, acks: Bool) -> I64:
    """Return the offsets at which two identities were promised."""
    if not (np.diff(placed.offset) == 0).any():
        return np.empty(0, np.int64)
    kept = placed.take(acks)
    again: Bool = (kept.offset[1:] == kept.offset[:-1]) & differs(kept)
    result: I64 = kept.offset[1:][again]
    return result
