"""One range of offsets of one partition: probe log and dump side by side (ARCHITECTURE decision 12).

Nearly every probe is settled where it was acknowledged: the record at its offset is it. `settle` counts those, judges
by `rules.judge` what can be judged from that offset alone, and returns what stays *unsettled*: rows and polls that no
probe at their offset explains, probes without an offset, identities that the log has twice, and every probe here that
shares an identity with one of these. Only that is joined over the whole partition (cross_range).

Example: of a million probes of a range, three were lost and one was appended twice, in the next range. The range
settles all of them; the next range cannot settle the copy, and a second look then takes the probe back from here.

What is found at one offset is final however the partition is cut into ranges: offsets with two identities (rule 14)
and damaged ones (rule 8) are counted here. Pure: arrays in, arrays out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from spark_reconcile.match.alignment import Alignment, align
from spark_reconcile.match.extents import Extents
from spark_reconcile.match.ordering import Writes, writes
from spark_reconcile.match.rules import Judgement, Sightings, judge
from spark_reconcile.match.verdict_counts import VerdictCounts
from spark_reconcile.tables.columns import (
    I64,
    Bounds,
    Damaged,
    Found,
    Identities,
    Placed,
    Probes,
    by_producer,
    lookup,
    numbered,
)

GAP: Final = 4096
"""Sequences further apart than this are two runs, so that a stray one does not stretch its range."""


@dataclass(frozen=True, slots=True)
class Partition:
    """What is true of the whole partition: its bounds (None: not dumped) and which identities the log holds."""

    bounds: Bounds | None
    extents: Extents


@dataclass(frozen=True, slots=True)
class RangeRows:
    """All rows of one partition with an offset in some range, in any order; and probes without an offset."""

    probes: Probes
    records: Found
    damaged: Damaged
    polls: Found

    def at(self, offsets: I64) -> RangeRows:
        """Return the rows at some offsets."""
        return RangeRows(
            self.probes.take(np.isin(self.probes.offset, offsets)),
            self.records.take(np.isin(self.records.offset, offsets)),
            self.damaged.take(np.isin(self.damaged.offset, offsets)),
            self.polls.take(np.isin(self.polls.offset, offsets)),
        )

    def align(self, bounds: Bounds | None) -> Alignment:
        """Return the rows by offset."""
        return align(self.probes, self.records, self.damaged, self.polls, bounds)


@dataclass(frozen=True, slots=True)
class Runs(Identities):
    """Which sequences of placed probes a range holds: from ``sequence`` to ``last``, both of them held."""

    last: I64

    @classmethod
    def of(cls, producer: int, generation: int, first: I64, last: I64) -> Runs:
        """Return runs of one producer's generation."""
        return cls(np.full(len(first), producer), np.full(len(first), generation, dtype=np.int32), first, last)


@dataclass(frozen=True, slots=True)
class Unsettled:
    """What a range cannot settle alone: unexplained rows and polls, and probes with what is known of each."""

    probes: Probes
    seen: Sightings
    records: Found
    polls: Found

    def identities(self) -> Identities:
        """Return every identity in here, once."""
        return _distinct(self.probes, self.records, self.polls)

    @classmethod
    def concat(cls, parts: Sequence[Unsettled]) -> Unsettled:
        """Return all of ``parts``, empty for none."""
        return cls(
            Probes.concat([part.probes for part in parts]),
            Sightings.concat([part.seen for part in parts]),
            Found.concat([part.records for part in parts]),
            Found.concat([part.polls for part in parts]),
        )


@dataclass(frozen=True, slots=True)
class Settled:
    """What is known of one range: counts, the judgements of what did not plainly survive, and what is unsettled.

    ``probes`` and ``judgement`` belong together, row by row; neither they nor the counts include what is unsettled.
    ``conflicts``: offsets with two identities, each with one of these, the one acked there if there is one.
    ``damaged``: offsets with an invalid row. ``runs``: of all placed probes, unsettled ones too. ``writes``: of
    transactions, in their order.
    """

    verdict_counts: VerdictCounts
    probes: Probes
    judgement: Judgement
    conflicts: Placed
    damaged: I64
    unsettled: Unsettled
    runs: Runs
    writes: Writes


def settle(rows: RangeRows, partition: Partition) -> Settled:
    """Settle all of a range that its own offsets settle, and return the rest as unsettled."""
    bounds = partition.bounds
    aligned = rows.align(bounds)
    placed, unplaced = aligned.placed, aligned.unplaced
    seen = _sightings(aligned, bounds)
    records = partition.extents.in_scope(aligned.unexplained)
    polls = partition.extents.in_scope(aligned.gone, above=bounds.start if bounds else 0)
    twice, runs = _runs(placed)
    watched = lookup(placed, _distinct(placed.take(twice), records, polls, unplaced)) >= 0
    counts = VerdictCounts()
    plainly = placed.promised & seen.committed & ~watched  # by far the most; no rule decides otherwise
    counts.add_survivors(placed, plainly)
    doubtful = ~plainly & ~watched
    probes = placed.take(doubtful)
    judgement = judge(probes, seen.take(doubtful), bounds)
    counts.add(probes, judgement)
    return Settled(
        verdict_counts=counts,
        probes=probes,
        judgement=judgement,
        conflicts=_conflicts(aligned),
        damaged=aligned.damaged,
        unsettled=Unsettled(
            Probes.concat([unplaced, placed.take(watched)]),
            Sightings.concat([Sightings.zeros(len(unplaced)), seen.take(watched)]),
            records,
            polls,
        ),
        runs=runs,
        writes=writes(placed, seen.committed),
    )


def look_again(rows: RangeRows, partition: Partition, wanted: Identities) -> Unsettled:
    """Return the placed probes of ``wanted`` in this range with what is known of each; no rows, no polls."""
    offsets = rows.probes.offset[(lookup(rows.probes, wanted) >= 0) & (rows.probes.offset >= 0)]
    aligned = rows.at(offsets).align(partition.bounds)
    mine = lookup(aligned.placed, wanted) >= 0
    seen = _sightings(aligned, partition.bounds)
    return Unsettled(aligned.placed.take(mine), seen.take(mine), Found.zeros(), Found.zeros())


def _distinct(*rows: Identities) -> Identities:
    """Return every identity of these rows, once."""
    return numbered(Identities.concat([some.identities() for some in rows]))[1]


def _sightings(aligned: Alignment, bounds: Bounds | None) -> Sightings:
    """Return what is found at the acked offset of each placed probe, as if no identity were found elsewhere."""
    placed = aligned.placed
    inside = placed.offset >= (bounds.start if bounds is not None else 0)
    end = bounds.end if bounds is not None else 0
    here = aligned.here & inside
    held = aligned.here_held & (placed.offset >= end)
    no = np.zeros(len(placed), dtype=np.bool_)
    return Sightings(
        committed=here,
        committed_here=here,
        held=held,
        held_here=held,
        present=here | aligned.here_held,
        copies=no,
        damaged_here=np.isin(placed.offset, aligned.damaged) if len(aligned.damaged) else no,
        taken_here=aligned.taken,
        polled=aligned.polled,
        polled_within=aligned.polled & inside & (placed.offset < end),
        shown=aligned.here | aligned.polled,
        bracketed=no,
    )


def _runs(placed: Probes) -> tuple[I64, Runs]:
    """Return which rows have an identity that was acknowledged at two offsets here, and the runs of sequences."""
    twice: list[I64] = [np.empty(0, dtype=np.int64)]
    runs: list[Runs] = []
    for producer, generation, rows in by_producer(placed):
        sequence = placed.sequence[rows]
        step = np.diff(sequence)
        if len(step) and step.min() <= 0:
            order = np.argsort(sequence, kind="stable")
            sequence = sequence[order]
            step = np.diff(sequence)
            again = np.flatnonzero(step == 0)
            twice.append(np.arange(len(placed))[rows][order[again]])
        cut = np.flatnonzero(step > GAP)
        first = sequence[np.concatenate([[0], cut + 1])]
        last = sequence[np.concatenate([cut, [len(sequence) - 1]])]
        runs.append(Runs.of(producer, generation, first, last))
    return np.concatenate(twice), Runs.concat(runs)


def _conflicts(aligned: Alignment) -> Placed:
    """Return the offsets that two identities claim, among promised acks, polls and valid rows (rule 14)."""
    disputed = aligned.disputed
    if not len(disputed):
        return Placed.zeros()
    where = np.concatenate([rows.offset for rows in aligned.claims])
    claimed = np.flatnonzero(np.isin(where, disputed))
    _, first = np.unique(where[claimed], return_index=True)
    who = Identities.concat([rows.identities() for rows in aligned.claims]).take(claimed[first])
    return Placed(who.producer, who.generation, who.sequence, disputed)
