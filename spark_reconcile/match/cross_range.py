"""What the ranges of a partition left unsettled, joined by identity: few rows, every rule.

`assemble` joins what is known of each identity, `conclude` judges it. Between the two the caller may look up the
neighbours of probes that were acknowledged without an offset (rule 4).

Example: one range holds probe 7/1/5, acknowledged at offset 12 and found there; another holds a record of 7/1/5 at
offset 90 that no probe explains. Joined, the identity has two offsets: a duplicate, whose copy is at 90.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from spark_reconcile.match.anomalies import DUPLICATE, LOST_WRITE, PHANTOM, NightlyAnomaly
from spark_reconcile.match.extents import BEYOND_NEWEST, BEYOND_OLDER, OUT_OF_SCOPE
from spark_reconcile.match.kernel import Partition, Unsettled
from spark_reconcile.match.rules import Judgement, Sightings, Verdict, judge
from spark_reconcile.match.verdict_counts import VerdictCounts
from spark_reconcile.tables.columns import (
    COMMITTED_LEVEL,
    I64,
    NEVER,
    NO_OFFSET,
    PLAIN,
    U8,
    UNCOMMITTED_LEVEL,
    Bool,
    Bounds,
    Identities,
    Placed,
    Probes,
    lookup,
    numbered,
)


@dataclass(frozen=True, slots=True)
class Assembled:
    """Everything known of each unsettled identity.

    ``probes``, ``seen`` and ``found`` (the lowest offset at which it was found, or NO_OFFSET) belong together, row by
    row. ``strangers``: identities that the log does not hold, with the lowest offset they were found at; ``vanished``:
    the same found nowhere, with the lowest offset within bounds where a read_committed poll saw them. ``copies``:
    second and further offsets of an identity.
    """

    probes: Probes
    seen: Sightings
    found: I64
    strangers: Placed
    vanished: Placed
    copies: Placed

    def unplaced(self) -> Bool:
        """Return which probes need their neighbours' offsets: promised without an offset and not to be found."""
        seen = self.seen
        result: Bool = (
            self.probes.promised
            & (self.probes.offset < 0)
            & ~seen.committed
            & ~(seen.held & (self.probes.transaction_state == PLAIN))
            & ~seen.polled_within
        )
        return result


@dataclass(frozen=True, slots=True)
class Concluded:
    """The judgement of what was assembled.

    ``probes``, ``judgement`` and ``found`` (where they were found) are of the log's identities, ``others`` and
    ``other_verdicts`` of those that the log does not hold; ``cases``: by anomaly those that are not rows of ``probes``.
    """

    verdict_counts: VerdictCounts
    probes: Probes
    judgement: Judgement
    found: I64
    others: Placed
    other_verdicts: U8
    cases: Mapping[NightlyAnomaly, Placed]


def assemble(unsettled: Unsettled, bounds: Bounds | None) -> Assembled:
    """Join what is known of each identity; nothing is judged here."""
    probes, at_ack, records, polls = unsettled.probes, unsettled.seen, unsettled.records, unsettled.polls
    number, who = numbered(Identities.concat([rows.identities() for rows in (probes, records, polls)]))
    size = len(who)
    of_probe, of_row, of_poll = np.split(number, [len(probes), len(probes) + len(records)])
    winner = _winners(probes, of_probe, size)
    known = winner >= 0
    first_level = records.level == COMMITTED_LEVEL
    within = first_level & (records.offset >= (bounds.start if bounds is not None else 0))
    open_end = (records.level == UNCOMMITTED_LEVEL) & (records.offset >= (bounds.end if bounds is not None else 0))
    rows = np.concatenate([of_probe, of_row])
    offsets = np.concatenate([probes.offset, records.offset])
    committed = np.concatenate([at_ack.committed, within])
    held = np.concatenate([at_ack.held, open_end])
    present = np.concatenate([at_ack.present, within | ~first_level])
    acked_at = np.full(size, NO_OFFSET, dtype=np.int64)
    acked_at[known] = probes.offset[winner[known]]
    here = offsets == acked_at[rows]
    poll_within = np.zeros(len(polls), dtype=np.bool_)
    if bounds is not None:
        poll_within = (polls.offset >= bounds.start) & (polls.offset < bounds.end)
    by_poll = _any(size, of_poll)
    copies = _copies(rows[present], offsets[present])
    twice = _any(size, copies[0])
    seen = Sightings(
        committed=_any(size, rows[committed]),
        committed_here=_any(size, rows[committed & here]),
        held=_any(size, rows[held]),
        held_here=_any(size, rows[held & here]),
        present=_any(size, rows[present]),
        copies=twice,
        damaged_here=_of_winner(at_ack.damaged_here, winner),
        taken_here=_of_winner(at_ack.taken_here, winner),
        polled=_any(size, of_probe[at_ack.polled]) | by_poll,
        polled_within=_any(size, of_probe[at_ack.polled_within]) | _any(size, of_poll[poll_within]),
        shown=_any(size, of_probe[at_ack.shown]) | _any(size, of_row[first_level]) | by_poll,
        bracketed=np.zeros(size, dtype=np.bool_),
    )
    found = _lowest(size, rows[committed], offsets[committed])
    found = np.where(found < 0, _lowest(size, rows[held], offsets[held]), found)
    found = np.where((found < 0) & twice, _lowest(size, rows[present], offsets[present]), found)
    found = np.where(_of_winner(probes.other, winner), NO_OFFSET, found)  # rule 1: the dump is of another incarnation
    first_poll = _lowest(size, of_poll[poll_within], polls.offset[poll_within])
    return Assembled(
        probes=probes.take(winner[known]),
        seen=seen.take(known),
        found=found[known],
        strangers=_placed(who, found).take(~known & seen.committed),
        vanished=_placed(who, first_poll).take(~known & ~seen.committed & seen.polled_within),
        copies=_placed(who.take(copies[0]), copies[1]),
    )


def conclude(assembled: Assembled, partition: Partition, bracketed: Bool) -> Concluded:
    """Judge everything assembled; ``bracketed``: of its probes, those whose neighbours' offsets lie within bounds."""
    probes = assembled.probes
    judgement = judge(probes, replace(assembled.seen, bracketed=bracketed), partition.bounds)
    counts = VerdictCounts()
    counts.add(probes, judgement)
    if partition.bounds is None:
        return Concluded(counts, probes, judgement, assembled.found, Placed.zeros(), np.empty(0, np.uint8), {})
    location = partition.extents.locate(assembled.strangers)
    in_scope = location != OUT_OF_SCOPE
    strangers = assembled.strangers.take(in_scope)
    verdicts = np.select(
        [location == BEYOND_NEWEST, location == BEYOND_OLDER],
        [Verdict.PENDING, Verdict.UNACKED_FOUND],
        Verdict.UNEXPECTED,
    )[in_scope]
    vanished = assembled.vanished
    other_verdicts = np.concatenate([verdicts, np.full(len(vanished), Verdict.LOST)]).astype(np.uint8)
    counts.verdicts += np.bincount(other_verdicts, minlength=len(Verdict))
    phantoms = strangers.take(verdicts == Verdict.UNEXPECTED)
    doubled = numbered(assembled.copies)[1]
    counts.add_cases(LOST_WRITE, len(vanished))
    counts.add_cases(PHANTOM, len(phantoms))
    counts.add_cases(DUPLICATE, int((lookup(doubled, strangers) >= 0).sum()))
    doubtful = Identities.concat([probes.identities().take(judgement.duplicated), strangers.identities()])
    copies = assembled.copies.take(lookup(assembled.copies, doubtful) >= 0)
    return Concluded(
        verdict_counts=counts,
        probes=probes,
        judgement=judgement,
        found=assembled.found,
        others=Placed.concat([strangers, vanished]),
        other_verdicts=other_verdicts,
        cases={LOST_WRITE: vanished, PHANTOM: phantoms, DUPLICATE: copies},
    )


def _any(size: int, numbers: I64) -> Bool:
    """Return which of ``size`` identities are among ``numbers``."""
    result = np.zeros(size, dtype=np.bool_)
    result[numbers] = True
    return result


def _winners(probes: Probes, number: I64, size: int) -> I64:
    """Return for each identity the row of its probe that counts, -1 if there is none (rule 15).

    An acked row before a failed one before an indeterminate one; of acked ones the earlier, and one with an offset.
    """
    offset = np.where(probes.offset < 0, NEVER, probes.offset)
    order = np.lexsort((probes.other, offset, probes.acked_at, probes.outcome, number))
    winner = np.full(size, -1, dtype=np.int64)
    present, first = np.unique(number[order], return_index=True)
    winner[present] = order[first]
    return winner


def _of_winner(flags: Bool, winner: I64) -> Bool:
    if not len(flags):
        return np.zeros(len(winner), dtype=np.bool_)
    return flags[winner] & (winner >= 0)


def _copies(number: I64, offsets: I64) -> tuple[I64, I64]:
    """Return (number, offset) of each offset but the lowest at which an identity is found."""
    order = np.lexsort((offsets, number))
    number, offsets = number[order], offsets[order]
    again = np.flatnonzero((number[1:] == number[:-1]) & (offsets[1:] != offsets[:-1])) + 1
    return number[again], offsets[again]


def _lowest(size: int, number: I64, offsets: I64) -> I64:
    lowest = np.full(size, NEVER, dtype=np.int64)
    np.minimum.at(lowest, number, offsets)
    return np.where(lowest == NEVER, NO_OFFSET, lowest)


def _placed(who: Identities, offset: I64) -> Placed:
    return Placed(who.producer, who.generation, who.sequence, offset)
