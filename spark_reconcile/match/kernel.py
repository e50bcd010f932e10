"""One range of offsets of one partition: probe log and dump laid side by side (ARCHITECTURE decision 12).

Nearly every probe is settled where it was acknowledged: the record at its offset is it. `settle` counts those, judges
by `judging.judge` what can be judged from that place alone, and hands out the *residue*: rows and polls that no probe
of this place explains, probes without an offset, identities that the log has twice, and every probe here that shares
an identity with one of these. Only the residue is looked at globally (residue.py).

What is said of a place is final whatever the cut into ranges: offsets with two identities (rule 14) and damaged ones
(rule 8) are counted here. Pure: arrays in, arrays out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from spark_reconcile.columns import (
    Columns,
    Damaged,
    Found,
    Identities,
    Probes,
    by_producer,
    lookup,
    numbered,
)
from spark_reconcile.judging import Judgement, Sightings, judge, promised
from spark_reconcile.laying import Layout, lay_out
from spark_reconcile.ordering import Writes, writes
from spark_reconcile.tally import Tally

if TYPE_CHECKING:
    from spark_reconcile.columns import I64, Bool, Bounds
    from spark_reconcile.extents import Extents

GAP: Final = 4096
"""Sequences further apart than this are told as two runs, so that a stray one does not stretch its range."""


@dataclass(frozen=True, slots=True)
class Slice:
    """What is true of the whole partition: its bounds (None: not dumped) and which identities the log holds."""

    bounds: Bounds | None
    extents: Extents


@dataclass(frozen=True, slots=True)
class Piece:
    """All rows of one partition with an offset in some range, in any order; and probes without an offset."""

    probes: Probes
    records: Found
    damaged: Damaged
    polls: Found


@dataclass(frozen=True, slots=True)
class Evidence(Columns):
    """Bools beside rows of Probes: what stands at the acked offset, and what was polled there (see Sightings).

    ``present``: a valid row within bounds, of either level, with this identity.
    """

    committed: Bool
    held: Bool
    present: Bool
    damaged: Bool
    taken: Bool
    polled: Bool
    polled_within: Bool
    shown: Bool

    def sightings(self) -> Sightings:
        """Return these as sightings, as if nothing stood elsewhere."""
        no = np.zeros(len(self.committed), dtype=np.bool_)
        return Sightings(
            committed=self.committed,
            committed_here=self.committed,
            held=self.held,
            held_here=self.held,
            copies=no,
            damaged_here=self.damaged,
            taken_here=self.taken,
            polled=self.polled,
            polled_within=self.polled_within,
            shown=self.shown,
            bracketed=no,
        )

    @classmethod
    def none(cls, rows: int = 0) -> Evidence:
        """Return evidence of nothing."""
        return cls(*([np.zeros(rows, dtype=np.bool_)] * 8))


@dataclass(frozen=True, slots=True)
class Runs(Identities):
    """Which sequences of placed probes a range holds: from ``sequence`` to ``last``, both of them held."""

    last: I64

    @classmethod
    def none(cls) -> Runs:
        """Return no runs."""
        return cls(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0, np.int64))


@dataclass(frozen=True, slots=True)
class Residue:
    """What one place could not settle: rows and polls without a probe there, and probes with what is known of each."""

    probes: Probes
    evidence: Evidence
    records: Found
    polls: Found

    def identities(self) -> Identities:
        """Return every identity in here, once."""
        return numbered(Identities.concat([self.probes.who(), self.records.who(), self.polls.who()]))[1]

    @classmethod
    def concat(cls, parts: list[Residue]) -> Residue:
        """Return all of ``parts``."""
        return cls(
            Probes.concat([part.probes for part in parts]),
            Evidence.concat([part.evidence for part in parts]),
            Found.concat([part.records for part in parts]),
            Found.concat([part.polls for part in parts]),
        )


@dataclass(frozen=True, slots=True)
class Conflicts(Identities):
    """Offsets with two identities, once each, with one of these: the one acked there if there is such."""

    offset: I64


@dataclass(frozen=True, slots=True)
class Settled:
    """What one range says: counts, the judgements of what did not plainly survive, and the residue.

    ``probes`` and ``judgement`` belong together, row by row; neither the tally nor they hold what is in the residue.
    ``damaged``: offsets with an invalid row. ``runs``: of all placed probes, the residue's too. ``writes``: of
    transactions, in their order.
    """

    tally: Tally
    probes: Probes
    judgement: Judgement
    conflicts: Conflicts
    damaged: I64
    residue: Residue
    runs: Runs
    writes: Writes


def settle(piece: Piece, partition: Slice) -> Settled:
    """Settle all of a range that its own offsets settle, and return the rest as residue."""
    layout = lay_out(piece.probes, piece.records, piece.damaged, piece.polls, partition.bounds)
    placed, loose = layout.placed, layout.loose
    evidence = _evidence(layout, partition.bounds)
    records = partition.extents.in_scope(layout.strays)
    polls = partition.extents.in_scope(layout.gone, above=partition.bounds.start if partition.bounds else 0)
    twice, runs = _runs(placed)
    strange = numbered(Identities.concat([placed.who().take(twice), records.who(), polls.who(), loose.who()]))[1]
    watched = lookup(placed, strange) >= 0
    tally = Tally()
    plainly = _plainly(placed, evidence, partition.bounds) & ~watched
    tally.survived(placed, plainly)
    doubtful = ~plainly & ~watched
    probes = placed.take(doubtful)
    judgement = judge(probes, evidence.take(doubtful).sightings(), partition.bounds)
    tally.add(probes, judgement)
    return Settled(
        tally=tally,
        probes=probes,
        judgement=judgement,
        conflicts=_conflicts(layout),
        damaged=layout.damaged,
        residue=Residue(
            Probes.concat([loose, placed.take(watched)]),
            Evidence.concat([Evidence.none(len(loose)), evidence.take(watched)]),
            records,
            polls,
        ),
        runs=runs,
        writes=writes(placed, evidence.committed),
    )


def look_again(piece: Piece, partition: Slice, wanted: Identities) -> Residue:
    """Return the placed probes of ``wanted`` in this range with what is known of each; no rows, no polls."""
    layout = lay_out(piece.probes, piece.records, piece.damaged, piece.polls, partition.bounds)
    mine = lookup(layout.placed, wanted) >= 0
    evidence = _evidence(layout, partition.bounds)
    return Residue(layout.placed.take(mine), evidence.take(mine), Found.none(), Found.none())


def recount(residue: Residue, bounds: Bounds | None) -> tuple[Tally, Judgement]:
    """Return what `settle` counted for these probes while it knew no more than their own place."""
    tally = Tally()
    judgement = judge(residue.probes, residue.evidence.sightings(), bounds)
    tally.add(residue.probes, judgement)
    return tally, judgement


def _plainly(probes: Probes, evidence: Evidence, bounds: Bounds | None) -> Bool:
    """Return which probes are so plainly survivors that no rule needs to be asked: by far the most."""
    if bounds is None:
        return np.zeros(len(probes), dtype=np.bool_)
    return promised(probes) & evidence.committed & ~probes.other


def _evidence(layout: Layout, bounds: Bounds | None) -> Evidence:
    placed = layout.placed
    inside = placed.offset >= (bounds.start if bounds is not None else 0)
    end = bounds.end if bounds is not None else 0
    here = layout.here & inside
    return Evidence(
        committed=here,
        held=layout.here_held & (placed.offset >= end),
        present=here | layout.here_held,
        damaged=np.isin(placed.offset, layout.damaged)
        if len(layout.damaged)
        else np.zeros(len(placed), dtype=np.bool_),
        taken=layout.taken,
        polled=layout.polled,
        polled_within=layout.polled & inside & (placed.offset < end),
        shown=layout.here | layout.polled,
    )


def _runs(placed: Probes) -> tuple[I64, Runs]:
    """Return which rows have an identity that stands at two offsets here, and the runs of sequences."""
    twice: list[I64] = []
    runs: list[Runs] = []
    for producer, generation, rows in by_producer(placed):
        sequence = placed.sequence[rows]
        step = np.diff(sequence)
        if len(step) and step.min() <= 0:
            order = np.argsort(sequence, kind="stable")
            sequence = sequence[order]
            step = np.diff(sequence)
            again = np.flatnonzero(step == 0)
            if len(again):
                twice.append(np.arange(len(placed))[rows][order[again]])
        cut = np.flatnonzero(step > GAP)
        first = sequence[np.concatenate([[0], cut + 1])]
        last = sequence[np.concatenate([cut, [len(sequence) - 1]])]
        runs.append(
            Runs(np.full(len(first), producer), np.full(len(first), generation, dtype=np.int32), first, last),
        )
    rows_twice = np.concatenate(twice) if twice else np.empty(0, dtype=np.int64)
    return rows_twice, Runs.concat(runs) if runs else Runs.none()


def _conflicts(layout: Layout) -> Conflicts:
    """Return the offsets that two identities claim, among promised acks, polls and valid rows (rule 14)."""
    disputed = layout.disputed
    if not len(disputed):
        return Conflicts(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int64), disputed)
    where = np.concatenate([offsets for _, offsets in layout.claims])
    claimed = np.flatnonzero(np.isin(where, disputed))
    _, first = np.unique(where[claimed], return_index=True)
    who = Identities.concat([rows.who() for rows, _ in layout.claims]).take(claimed[first])
    return Conflicts(who.producer, who.generation, who.sequence, disputed)
