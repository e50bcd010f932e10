"""One partition from its ranges: where to look a second time, and what it all adds up to.

An identity may have left traces in several ranges: a copy appended much later, an ack reported twice, a record that
moved. Each range reports which identities its own offsets do not settle, and in outline which it holds (Runs). From
these the driver knows the few ranges that must be looked at again, without a join over everything.

Example: range 3 returns a record of 7/1/5 that no probe explains. Range 0 holds the sequences 0 to 900 of 7/1, so range
0 is asked for 7/1/5 (`revisits`), takes back what it counted for it, and the two are judged together (`add_up`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from spark_reconcile.match.cross_range import Concluded, assemble, conclude
from spark_reconcile.match.kernel import Partition, RangeRows, Runs, Unsettled, look_again
from spark_reconcile.match.rules import judge
from spark_reconcile.match.verdict_counts import VerdictCounts
from spark_reconcile.tables.columns import (
    I64,
    NEVER,
    NO_OFFSET,
    PLAIN,
    Bool,
    Bounds,
    Identities,
    Probes,
    by_producer,
    lookup,
    numbered,
    union,
)


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
class PartitionResult:
    """What a partition's ranges add up to.

    ``retracted``: for each range the identities that the second look took back from its first. ``concluded``: the
    judgement of everything retracted and of everything unsettled.
    """

    verdict_counts: VerdictCounts
    concluded: Concluded
    retracted: list[Identities]


def revisits(ranges: Sequence[tuple[Identities, Runs]]) -> list[Runs]:
    """Return for each range (unsettled identities, runs) which placed probes it must return, though it settled them."""
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
        wanted = union(np.concatenate([span[0] for span in spans]), np.concatenate([span[1] for span in spans]))
        if not len(wanted[0]):
            continue
        for number, lows, highs in parts:
            result[number].append(Runs.of(producer, generation, *_intersection(wanted, (lows, highs))))
    return [_without(Runs.concat(parts), identities) for parts, (identities, _) in zip(result, ranges, strict=True)]


def second_look(rows: RangeRows, partition: Partition, runs: Runs, reported: Identities) -> Unsettled:
    """Return the evidence of placed probes within ``runs`` that the first look has not ``reported`` as unsettled."""
    probes = rows.probes.take(rows.probes.offset >= 0)
    near = probes.identities().take(within(probes, runs))
    fresh = numbered(near.take(lookup(near, reported) < 0))[1]
    return look_again(rows, partition, fresh)


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


def neighbours(probes: Probes, of: Identities) -> Bracket:
    """Return the brackets that these rows (a range's, or all) give."""
    bracket = Bracket.unknown(len(of))
    placed = probes.take((probes.offset >= 0) & ~probes.other)
    groups = {(producer, generation): rows for producer, generation, rows in by_producer(placed)}
    for producer, generation, rows in by_producer(of):
        mine = groups.get((producer, generation))
        if mine is None:
            continue
        order = np.lexsort((placed.offset[mine], placed.sequence[mine]))
        sequence, offset = placed.sequence[mine][order], placed.offset[mine][order]
        target = of.sequence[rows]
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


def add_up(
    counts: Iterable[VerdictCounts],
    unsettled: Sequence[Unsettled],
    again: Sequence[Unsettled],
    partition: Partition,
    bracket: Callable[[Identities], Bracket],
) -> PartitionResult:
    """Add up a partition from its ranges, each with one element of ``counts``, ``unsettled`` and ``again``.

    The first look of a range counted, and left ``unsettled``; its second look returned ``again``, empty ones too.
    ``bracket`` looks up the neighbours of identities; it is called only if there is such a case.
    """
    total = VerdictCounts()
    for counted in counts:
        total += counted
    for part in again:  # take back what `settle` counted, which judged them by their own offset alone
        counted = VerdictCounts()
        counted.add(part.probes, judge(part.probes, part.seen, partition.bounds))
        total -= counted
    assembled = assemble(Unsettled.concat([*unsettled, *again]), partition.bounds)
    unplaced = assembled.unplaced()
    bracketed = np.zeros(len(unplaced), dtype=np.bool_)
    if unplaced.any() and partition.bounds is not None:
        probes = assembled.probes.take(unplaced)
        bracketed[unplaced] = _enclosed(probes, bracket(probes.identities()), partition.bounds)
    concluded = conclude(assembled, partition, bracketed)
    total += concluded.verdict_counts
    return PartitionResult(total, concluded, [part.probes.identities() for part in again])


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
    step = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
    at = np.repeat(begin, counts) + step
    return np.maximum(one[0][at], lows[which]), np.minimum(one[1][at], highs[which])


def _without(runs: Runs, reported: Identities) -> Runs:
    """Return ``runs`` without those of a single identity that was reported already."""
    return runs.take((runs.sequence != runs.last) | (lookup(runs, reported) < 0))
