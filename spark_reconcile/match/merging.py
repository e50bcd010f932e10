"""One partition from its ranges: where to look a second time, and what it all adds up to.

An identity may have left traces in several ranges (a copy appended much later, an ack told twice, a record that moved).
Each range says which identities its own offsets do not settle, and in outline which it holds (Runs). From these the
driver knows the few places that must be looked at again, without a join over everything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from spark_reconcile.columns import (
    NEVER,
    NO_OFFSET,
    PLAIN,
    Found,
    Identities,
    Probes,
    by_producer,
    lookup,
    numbered,
    union,
)
from spark_reconcile.kernel import Evidence, Piece, Residue, Runs, Settled, Slice, look_again, recount, settle
from spark_reconcile.residue import Concluded, assemble, conclude
from spark_reconcile.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from spark_reconcile.columns import I64, Bool, Bounds


@dataclass(frozen=True, slots=True)
class Bracket:
    """For each of n identities the nearest placed probes below and above in sequence; NO_OFFSET where there is none."""

    below: I64
    below_offset: I64
    above: I64
    above_offset: I64

    @classmethod
    def unknown(cls, rows: int) -> Bracket:
        """Return brackets that are open on both sides."""
        return cls(*(np.full(rows, value, dtype=np.int64) for value in (NO_OFFSET, NO_OFFSET, NEVER, NO_OFFSET)))

    def narrowed(self, other: Bracket) -> Bracket:
        """Return the narrower of two brackets on each side."""
        lower, upper = other.below > self.below, other.above < self.above
        return Bracket(
            np.where(lower, other.below, self.below),
            np.where(lower, other.below_offset, self.below_offset),
            np.where(upper, other.above, self.above),
            np.where(upper, other.above_offset, self.above_offset),
        )


@dataclass(frozen=True, slots=True)
class Whole:
    """What a partition's ranges add up to; ``retracted`` has for each range the identities that its rows must not tell.

    ``concluded`` is the judgement of everything retracted and of all residue.
    """

    tally: Tally
    concluded: Concluded
    retracted: list[Identities]


def wanted(ranges: Sequence[tuple[Identities, Runs]]) -> list[Runs]:
    """Return for each range which of its placed probes must be told, though it thought them settled.

    Args:
        ranges: each one's residue's identities, and its runs.
    """
    watch: dict[tuple[int, int], list[tuple[I64, I64]]] = {}
    for identities, _ in ranges:
        for producer, generation, rows in by_producer(identities):
            points = identities.sequence[rows]
            watch.setdefault((producer, generation), []).append((points, points))
    owned: dict[tuple[int, int], list[tuple[int, I64, I64]]] = {}
    for number, (_, runs) in enumerate(ranges):
        for producer, generation, rows in by_producer(runs):
            owned.setdefault((producer, generation), []).append((number, runs.sequence[rows], runs.last[rows]))
    result: list[list[Runs]] = [[] for _ in ranges]
    for (producer, generation), parts in owned.items():
        spans = [*watch.get((producer, generation), []), _overlaps(parts)]
        first, last = union(np.concatenate([span[0] for span in spans]), np.concatenate([span[1] for span in spans]))
        if not len(first):
            continue
        for number, lows, highs in parts:
            cut = _intersection((first, last), (lows, highs))
            if len(cut[0]):
                result[number].append(
                    Runs(np.full(len(cut[0]), producer), np.full(len(cut[0]), generation, np.int32), cut[0], cut[1])
                )
    return [
        _without(Runs.concat(parts), ranges[number][0]) if parts else Runs.none() for number, parts in enumerate(result)
    ]


def second_look(piece: Piece, partition: Slice, runs: Runs, told: Identities) -> Residue:
    """Return the evidence of placed probes within ``runs`` that were not ``told`` at the first look."""
    probes = piece.probes.take(piece.probes.offset >= 0)
    near = probes.who().take(within(probes, runs))
    fresh = numbered(near.take(lookup(near, told) < 0))[1]
    return look_again(piece, partition, fresh)


def within(rows: Identities, runs: Runs) -> Bool:
    """Return which rows have an identity that lies in one of ``runs``, which do not overlap."""
    result = np.zeros(len(rows), dtype=np.bool_)
    if not len(rows):
        return result
    for producer, generation, mine in by_producer(runs):
        order = np.argsort(runs.sequence[mine])
        first, last = runs.sequence[mine][order], runs.last[mine][order]
        near = np.flatnonzero((rows.sequence >= first[0]) & (rows.sequence <= last.max()))
        near = near[(rows.producer[near] == producer) & (rows.generation[near] == generation)]
        at = np.searchsorted(first, rows.sequence[near], side="right") - 1
        result[near[rows.sequence[near] <= last[at]]] = True
    return result


def neighbours(probes: Probes, wanted_ones: Identities) -> Bracket:
    """Return the brackets that these rows (a range's, or all) give."""
    bracket = Bracket.unknown(len(wanted_ones))
    placed = probes.take((probes.offset >= 0) & ~probes.other)
    groups = {(producer, generation): rows for producer, generation, rows in by_producer(placed)}
    for producer, generation, rows in by_producer(wanted_ones):
        mine = groups.get((producer, generation))
        if mine is None:
            continue
        order = np.lexsort((placed.offset[mine], placed.sequence[mine]))
        sequence, offset = placed.sequence[mine][order], placed.offset[mine][order]
        target = wanted_ones.sequence[rows]
        at = np.searchsorted(sequence, target, side="left") - 1
        has = at >= 0
        at = np.searchsorted(sequence, sequence[np.maximum(at, 0)], side="left")
        bracket.below[rows] = np.where(has, sequence[at], NO_OFFSET)
        bracket.below_offset[rows] = np.where(has, offset[at], NO_OFFSET)
        at = np.searchsorted(sequence, target, side="right")
        has = at < len(sequence)
        at = np.minimum(at, len(sequence) - 1)
        bracket.above[rows] = np.where(has, sequence[at], NEVER)
        bracket.above_offset[rows] = np.where(has, offset[at], NO_OFFSET)
    return bracket


def whole(
    tallies: Iterable[Tally],
    residues: Sequence[Residue],
    again: Sequence[Residue],
    partition: Slice,
    bracket: Callable[[Identities], Bracket],
) -> Whole:
    """Add up a partition.

    Args:
        tallies: one of each range's first look.
        residues: the first looks' residue, one a range.
        again: the second looks', one a range, empty ones too.
        partition: what is true of the partition.
        bracket: looks up the neighbours of identities; called only if there is such a case.
    """
    tally = Tally()
    for counted in tallies:
        tally += counted
    for part in again:
        tally -= recount(part, partition.bounds)[0]
    nothing = Residue(Probes.none(), Evidence.none(), Found.none(), Found.none())
    assembled = assemble(Residue.concat([nothing, *residues, *again]), partition.bounds)
    alone = assembled.unplaced()
    bracketed = np.zeros(len(alone), dtype=np.bool_)
    if alone.any() and partition.bounds is not None:
        lonely = assembled.probes.take(alone)
        bracketed[alone] = _enclosed(lonely, bracket(lonely.who()), partition.bounds)
    concluded = conclude(assembled, partition, bracketed)
    tally += concluded.tally
    return Whole(tally, concluded, [part.probes.who() for part in again])


def reconcile(pieces: Sequence[Piece], partition: Slice) -> tuple[Whole, list[Settled]]:
    """Reconcile a partition that is in memory, cut into ranges in any way: the whole of it in one process."""
    first = [settle(piece, partition) for piece in pieces]
    told = [part.residue.identities() for part in first]
    runs = wanted([(identities, part.runs) for identities, part in zip(told, first, strict=True)])
    again = [second_look(*look) for look in zip(pieces, [partition] * len(pieces), runs, told, strict=True)]

    def bracket(identities: Identities) -> Bracket:
        result = Bracket.unknown(len(identities))
        for piece in pieces:
            result = result.narrowed(neighbours(piece.probes, identities))
        return result

    result = whole([part.tally for part in first], [part.residue for part in first], again, partition, bracket)
    return result, first


def _enclosed(probes: Probes, bracket: Bracket, bounds: Bounds) -> Bool:
    """Return which brackets lie within bounds: where the probe would have to be, the dump could see it."""
    end = np.where(probes.transaction_state == PLAIN, bounds.high, bounds.end)
    low = np.minimum(bracket.below_offset, bracket.above_offset)
    high = np.maximum(bracket.below_offset, bracket.above_offset)
    result: Bool = (bracket.below_offset >= 0) & (bracket.above_offset >= 0) & (low >= bounds.start) & (high < end)
    return result


def _overlaps(parts: Sequence[tuple[int, I64, I64]]) -> tuple[I64, I64]:
    """Return what more than one range's runs cover."""
    first = np.concatenate([part[1] for part in parts])
    last = np.concatenate([part[2] for part in parts])
    order = np.argsort(first, kind="stable")
    first, last = first[order], last[order]
    reach = np.maximum.accumulate(last)[:-1]
    again = first[1:] <= reach
    return first[1:][again], np.minimum(last[1:], reach)[again]


def _intersection(one: tuple[I64, I64], other: tuple[I64, I64]) -> tuple[I64, I64]:
    """Return what two lists of spans share; the spans of each do not overlap."""
    order = np.argsort(other[0], kind="stable")
    lows, highs = other[0][order], other[1][order]
    begin = np.searchsorted(one[1], lows, side="left")
    stop = np.searchsorted(one[0], highs, side="right")
    counts = np.maximum(stop - begin, 0)
    which = np.repeat(np.arange(len(lows)), counts)
    if not len(which):
        return one[0][:0], one[1][:0]
    step = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
    at = np.repeat(begin, counts) + step
    return np.maximum(one[0][at], lows[which]), np.minimum(one[1][at], highs[which])


def _without(runs: Runs, told: Identities) -> Runs:
    """Return ``runs`` without those that hold nothing but one identity which was told already."""
    single = runs.sequence == runs.last
    known = lookup(runs.take(single), told) >= 0
    keep = np.ones(len(runs), dtype=np.bool_)
    keep[np.flatnonzero(single)[known]] = False
    return runs.take(keep)
