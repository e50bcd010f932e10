"""What no single range could settle, joined by identity over the whole partition: few rows, every rule.

`assemble` brings everything known of an identity together, `conclude` judges it. Between the two the caller may look
up the neighbours of probes that were acknowledged without an offset (rule 4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from spark_reconcile.columns import (
    COMMITTED_LEVEL,
    NEVER,
    NO_OFFSET,
    UNCOMMITTED_LEVEL,
    Identities,
    numbered,
)
from spark_reconcile.extents import BEYOND_NEWEST, BEYOND_OLDER, OUT_OF_SCOPE
from spark_reconcile.judging import (
    LOST,
    PENDING,
    UNACKED_FOUND,
    UNEXPECTED,
    Judgement,
    Sightings,
    judge,
    promised,
)
from spark_reconcile.tally import Tally

if TYPE_CHECKING:
    from spark_reconcile.columns import I64, U8, Bool, Bounds, Probes
    from spark_reconcile.kernel import Residue, Slice


@dataclass(frozen=True, slots=True)
class Placed(Identities):
    """Identities, each with an offset (NO_OFFSET: none)."""

    offset: I64


@dataclass(frozen=True, slots=True)
class Assembled:
    """Everything known of each identity of a residue.

    ``probes``, ``seen`` and ``found`` (lowest offset at which it was found, or NO_OFFSET) belong together, row by row.
    ``strangers``: identities that the log does not hold, with the lowest offset they were found at; ``vanished``: the
    same with the lowest offset a read_committed poll showed them within bounds, found nowhere. ``copies``: second and
    further offsets of an identity.
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
            promised(self.probes)
            & ~self.probes.other
            & (self.probes.offset < 0)
            & ~seen.committed
            & ~(seen.held & (self.probes.transaction_state == 0))
            & ~seen.polled_within
        )
        return result


@dataclass(frozen=True, slots=True)
class Concluded:
    """The judgement of a residue: of the log's identities (``found`` beside them), and of those only the dump has."""

    tally: Tally
    probes: Probes
    judgement: Judgement
    found: I64
    others: Placed
    other_verdicts: U8
    copies: Placed


def assemble(residue: Residue, bounds: Bounds | None) -> Assembled:
    """Bring together what is known of each identity; nothing is judged here."""
    start = bounds.start if bounds is not None else 0
    end = bounds.end if bounds is not None else 0
    probes, evidence, records, polls = residue.probes, residue.evidence, residue.records, residue.polls
    number, who = numbered(Identities.concat([probes.who(), records.who(), polls.who()]))
    size = len(who)
    of_probe, of_row, of_poll = np.split(number, [len(probes), len(probes) + len(records)])
    winner = _winners(probes, of_probe, size)
    known = winner >= 0
    acked_at_offset = np.full(size, NO_OFFSET, dtype=np.int64)
    acked_at_offset[known] = probes.offset[winner[known]]

    first_level = records.level == COMMITTED_LEVEL
    within = first_level & (records.offset >= start)
    open_end = (records.level == UNCOMMITTED_LEVEL) & (records.offset >= end)
    rows = np.concatenate([of_probe, of_row])
    offsets = np.concatenate([probes.offset, records.offset])
    committed = np.concatenate([evidence.committed, within])
    held = np.concatenate([evidence.held, open_end])
    present = np.concatenate([evidence.present, within | ~first_level])
    here = offsets == acked_at_offset[rows]

    poll_within = (polls.offset >= start) & (polls.offset < end)
    any_of = _Any(size)
    shown = (
        any_of(of_probe, evidence.shown)
        | any_of(of_row, first_level)
        | any_of(of_poll, np.ones(len(polls), dtype=np.bool_))
    )
    copies = _copies(rows[present], offsets[present])
    is_committed, is_held = any_of(rows, committed), any_of(rows, held)
    polled_within = any_of(of_probe, evidence.polled_within) | any_of(of_poll, poll_within)
    found = _lowest(size, rows[committed], offsets[committed])
    found = np.where(found < 0, _lowest(size, rows[held], offsets[held]), found)
    twice = np.zeros(size, dtype=np.bool_)
    twice[copies[0]] = True
    found = np.where((found < 0) & twice, _lowest(size, rows[present], offsets[present]), found)
    seen = Sightings(
        committed=is_committed,
        committed_here=any_of(rows, committed & here),
        held=is_held,
        held_here=any_of(rows, held & here),
        copies=twice,
        damaged_here=_of_winner(evidence.damaged, winner),
        taken_here=_of_winner(evidence.taken, winner),
        polled=any_of(of_probe, evidence.polled) | any_of(of_poll, np.ones(len(polls), dtype=np.bool_)),
        polled_within=polled_within,
        shown=shown,
        bracketed=np.zeros(size, dtype=np.bool_),
    )
    first_poll = _lowest(size, of_poll[poll_within], polls.offset[poll_within])
    strange = ~known & is_committed
    gone = ~known & ~is_committed & polled_within
    others = _of_winner(probes.other, winner)  # rule 1: they do not meet what the dump holds
    found = np.where(others, NO_OFFSET, found)
    return Assembled(
        probes=probes.take(winner[known]),
        seen=seen.take(known),
        found=found[known],
        strangers=_placed(who.take(strange), found[strange]),
        vanished=_placed(who.take(gone), first_poll[gone]),
        copies=_placed(who.take(copies[0]), copies[1]),
    )


def conclude(assembled: Assembled, partition: Slice, bracketed: Bool | None = None) -> Concluded:
    """Judge everything assembled; ``bracketed``: of its probes, those whose neighbours' offsets lie within bounds."""
    seen = assembled.seen
    if bracketed is not None:
        seen = Sightings(
            **{name: getattr(seen, name) for name in Sightings.__slots__ if name != "bracketed"},
            bracketed=bracketed,
        )
    probes = assembled.probes
    judgement = judge(probes, seen, partition.bounds)
    tally = Tally()
    tally.add(probes, judgement)
    if partition.bounds is None:
        nobody = assembled.strangers.take(slice(0, 0))
        return Concluded(tally, probes, judgement, assembled.found, nobody, np.empty(0, np.uint8), nobody)
    stands = partition.extents.place(assembled.strangers.who())
    scope = stands != OUT_OF_SCOPE
    verdicts = np.select(
        [stands == BEYOND_NEWEST, stands == BEYOND_OLDER],
        [PENDING, UNACKED_FOUND],
        UNEXPECTED,
    ).astype(np.uint8)[scope]
    strangers = assembled.strangers.take(scope)
    others = Placed.concat([strangers, assembled.vanished])
    other_verdicts = np.concatenate([verdicts, np.full(len(assembled.vanished), LOST, dtype=np.uint8)])
    for verdict in np.unique(other_verdicts):
        tally.count(int(verdict), int((other_verdicts == verdict).sum()))
    tally.anomaly("lost-write", len(assembled.vanished))
    doubled = numbered(assembled.copies.who())[1]
    tally.anomaly("duplicate", int(_member(doubled, strangers).sum()))
    counted = Identities.concat([probes.who().take(judgement.duplicated), strangers.who()])
    copies = assembled.copies.take(_member(assembled.copies, counted))
    return Concluded(tally, probes, judgement, assembled.found, others, other_verdicts, copies)


class _Any:
    """For each of so many identities: does any of its rows have the property?"""

    def __init__(self, size: int) -> None:
        self._size = size

    def __call__(self, rows: I64, mask: Bool) -> Bool:
        result = np.zeros(self._size, dtype=np.bool_)
        result[rows[mask]] = True
        return result


def _winners(probes: Probes, number: I64, size: int) -> I64:
    """Return for each identity the row of its probe that counts, -1 if there is none (rule 15).

    An acked row before a failed one before an indeterminate one; of acked ones the earlier, and one with an offset.
    """
    offset = np.where(probes.offset < 0, NEVER, probes.offset)
    order = np.lexsort((probes.other, offset, probes.acked_at, probes.outcome, number))
    ranked = number[order]
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = ranked[1:] != ranked[:-1]
    winner = np.full(size, -1, dtype=np.int64)
    winner[ranked[first]] = order[first]
    return winner


def _of_winner(flags: Bool, winner: I64) -> Bool:
    if not len(flags):
        return np.zeros(len(winner), dtype=np.bool_)
    return flags[winner] & (winner >= 0)


def _copies(number: I64, offsets: I64) -> tuple[I64, I64]:
    """Return (number, offset) of each offset but the lowest at which an identity stands."""
    order = np.lexsort((offsets, number))
    number, offsets = number[order], offsets[order]
    same = number[1:] == number[:-1]
    again = np.flatnonzero(same & (offsets[1:] != offsets[:-1])) + 1
    return number[again], offsets[again]


def _lowest(size: int, number: I64, offsets: I64) -> I64:
    lowest = np.full(size, NEVER, dtype=np.int64)
    np.minimum.at(lowest, number, offsets)
    return np.where(lowest == NEVER, NO_OFFSET, lowest)


def _placed(who: Identities, offset: I64) -> Placed:
    return Placed(who.producer, who.generation, who.sequence, offset)


def _member(rows: Identities, of: Identities) -> Bool:
    """Return which rows have an identity that is in ``of``."""
    number, _ = numbered(Identities.concat([of.who(), rows.who()]))
    known = np.zeros(int(number.max()) + 1 if len(number) else 0, dtype=np.bool_)
    known[number[: len(of)]] = True
    result: Bool = known[number[len(of) :]]
    return result
