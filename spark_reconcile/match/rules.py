"""Rules 2 to 9 and 13 of RECONCILIATION.md, over columns: what is known of each identity in, one verdict each out.

Example: the probe log says that identity 7/1/5 was acknowledged at offset 12. The dump covers offsets 0 to 20, holds
7/1/5 at offset 15 and 7/2/0 at offset 12. The probe is *found*, but not where it was acknowledged, and its place is
taken: the verdict is MOVED, it counts as a survivor, and offset 12 is one case of inconsistent-offsets.

This is the only place where a verdict is chosen. It is sound for any part of the evidence that the caller has joined
by identity: `kernel` asks about the many probes that are settled at their own offset, `cross_range` about the others.
It cannot see what is not in the dump: beyond its bounds a probe is expired or pending, or it is unknown why it is gone;
never lost, except for a destroyed tail (rule 4).
"""

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

import numpy as np

from canary.anomalies.policy import explains_by_size, least_age_ms
from spark_reconcile.tables.columns import COMMITTED, NEVER, OPEN, U8, Bool, Bounds, Columns, Probes


class Verdict(IntEnum):
    """What became of an identity, in the order of rule 6: the first that fits."""

    OTHER_INCARNATION = 0
    ABORTED_READ = 1
    DUPLICATE = 2
    EARLY_EXPIRY = 3
    UNEXPLAINED_EXPIRY = 4
    EXPIRED = 5
    PENDING = 6
    SURVIVED = 7
    CORRUPT = 8
    MOVED = 9
    LOST = 10
    UNACKED_FOUND = 11
    UNACKED_ABSENT = 12
    UNEXPECTED = 13
    UNJUDGED = 14
    """No verdict: the partition has no bounds."""


VERDICTS: Final = tuple(verdict.name.lower().replace("_", "-") for verdict in Verdict)
"""Their names in verdicts/ and partitions/, by number."""

TAIL_US: Final = 5 * 60 * 1_000_000
"""A probe beyond the log's end that was acknowledged longer ago than this is lost: its tail was destroyed (rule 4)."""


@dataclass(frozen=True, slots=True)
class Sightings(Columns):
    """What dump and polls say about each of n identities, n bools each.

    Of valid rows within bounds: ``committed`` in the read_committed dump, ``held`` in the read_uncommitted dump at or
    above the LSO; ``..._here`` the same at the acked offset; ``present`` in either dump, ``copies`` at two offsets or
    more, whatever the level.
    Of the acked offset: ``damaged_here`` an invalid row, ``taken_here`` a valid row with another identity.
    Of read_committed polls: ``polled`` anywhere, ``polled_within`` the bounds. ``shown``: read_committed ever showed
    it, also below the bounds. ``bracketed``: acked without an offset, and its neighbours' offsets lie within bounds.
    """

    committed: Bool
    committed_here: Bool
    held: Bool
    held_here: Bool
    present: Bool
    copies: Bool
    damaged_here: Bool
    taken_here: Bool
    polled: Bool
    polled_within: Bool
    shown: Bool
    bracketed: Bool


@dataclass(frozen=True, slots=True)
class Judgement(Columns):
    """For each of n identities its ``verdict``, what the table counts, and what is anomalous.

    ``attempted``, ``acked``, ``survivor``, ``acked_lost``, ``unacked_found``: rule 5. ``lost_write``, ``duplicated``:
    anomalies that do not follow from the verdict. ``torn``: a write of a committed or open transaction that should be
    there and is not; ``proves``: a found write of an open one (rule 12). ``voided``, ``unverified``: rules 1 and 4.
    ``moved``: found elsewhere than acked while no other identity is there (rule 7, for a note). ``blind``: pending
    only for want of read_uncommitted bounds (rule 3). ``promised``: rule 2, of this incarnation.
    """

    verdict: U8
    attempted: Bool
    acked: Bool
    survivor: Bool
    acked_lost: Bool
    unacked_found: Bool
    lost_write: Bool
    duplicated: Bool
    torn: Bool
    proves: Bool
    voided: Bool
    unverified: Bool
    moved: Bool
    blind: Bool
    promised: Bool


def judge(probes: Probes, seen: Sightings, bounds: Bounds | None) -> Judgement:
    """Return the judgement of each identity; ``probes`` has one row each (rule 15 is the caller's)."""
    if bounds is None:
        return _unjudged(probes, seen)
    own, kept, refused, placed = ~probes.other, probes.acknowledged, probes.refused, probes.offset >= 0
    found = seen.committed | (kept & probes.plain & seen.held)
    found_here = seen.committed_here | (kept & probes.plain & seen.held_here)
    below, (explained, unknown) = _below(probes, bounds), _explained(probes, bounds)
    unexplained = below & unknown & kept
    expired = below & (explained | unknown)
    pending, blind = _pending(probes, seen, found, bounds)
    pending &= ~below
    first_that_fits = (
        (probes.other, Verdict.OTHER_INCARNATION),
        (refused & (seen.committed | seen.polled), Verdict.ABORTED_READ),
        (seen.copies, Verdict.DUPLICATE),
        (below & ~explained & ~unknown & kept, Verdict.EARLY_EXPIRY),
        (unexplained, Verdict.UNEXPLAINED_EXPIRY),
        (expired, Verdict.EXPIRED),
        (pending, Verdict.PENDING),
        (kept & (found_here | (found & ~placed)), Verdict.SURVIVED),
        (kept & seen.damaged_here, Verdict.CORRUPT),
        (kept & (seen.taken_here | found), Verdict.MOVED),
        (kept | (seen.polled_within & ~found & ~refused), Verdict.LOST),
        (found, Verdict.UNACKED_FOUND),
    )
    conditions, verdicts = zip(*first_that_fits, strict=True)
    verdict = np.select(conditions, verdicts, Verdict.UNACKED_ABSENT).astype(np.uint8)
    table = own & ~expired & ~pending
    gone = (verdict == Verdict.EARLY_EXPIRY) | (verdict == Verdict.CORRUPT)
    within = (probes.offset >= max(0, bounds.start)) & (probes.offset < bounds.end)
    is_open = probes.transaction_state == OPEN
    return Judgement(
        verdict=verdict,
        attempted=table,
        acked=table & kept,
        survivor=table & found & ~gone,
        acked_lost=table & kept & (~found | gone),
        unacked_found=table & ~kept & found,
        lost_write=table & ((kept & ~found & ~gone) | (verdict == Verdict.LOST)),
        duplicated=own & seen.copies,
        torn=own & within & ~found & ((probes.transaction_state == COMMITTED) | is_open),
        proves=own & found & is_open,
        voided=probes.other & kept,
        unverified=own & kept & expired & ~seen.shown,
        moved=table & kept & placed & found & ~found_here & ~seen.taken_here,
        blind=own & blind & (verdict == Verdict.PENDING),
        promised=own & kept,
    )


def _below(probes: Probes, bounds: Bounds) -> Bool:
    """Return which acked offsets lie below what was dumped of their level."""
    below = (probes.offset >= 0) & (probes.offset < bounds.start)
    if bounds.uncommitted_start is not None:
        below |= _between(probes, bounds) & (probes.offset < bounds.uncommitted_start)
    return below


def _between(probes: Probes, bounds: Bounds) -> Bool:
    """Return which acked offsets lie between the LSO and the read_uncommitted end."""
    result: Bool = (probes.offset >= max(0, bounds.end)) & (probes.offset < bounds.high)
    return result


def _explained(probes: Probes, bounds: Bounds) -> tuple[Bool, Bool]:
    """Return which records the retention in force may have removed by the dump, and of which that is unknown.

    Example: retention.bytes is 1 GB. Of a log of 600 MB it may have removed anything, of one of 100 kB nothing; of one
    whose size is not known, a record that is too young for retention.ms is gone for an unknown reason (rule 4).
    """
    kept_ms, kept_bytes, size = bounds.retention_ms, bounds.retention_bytes, bounds.size_bytes
    explained: Bool = np.zeros(len(probes), dtype=np.bool_)
    if kept_ms is not None and kept_ms >= 0:
        explained = bounds.dumped_at - probes.sent_at >= least_age_ms(kept_ms) * 1000
    limited = kept_bytes is not None and kept_bytes >= 0
    if kept_bytes is not None and limited and size is not None:
        explained = explained | explains_by_size(kept_bytes, size)
    unknown = kept_ms is None or kept_bytes is None or (limited and size is None)
    return explained, ~explained & unknown


def _pending(probes: Probes, seen: Sightings, found: Bool, bounds: Bounds) -> tuple[Bool, Bool]:
    """Return which identities cannot be judged yet (rules 3 and 4), and which only for want of a level."""
    kept = probes.acknowledged
    unplaced = kept & (probes.offset < 0) & ~found & ~seen.bracketed & ~seen.polled_within
    above = probes.offset >= max(0, bounds.high)
    if not bounds.both:
        return above | unplaced, above & kept
    destroyed = kept & (probes.acked_at != NEVER) & (probes.acked_at < bounds.earlier - TAIL_US)
    open_end = ~kept & ~probes.refused & probes.plain & ~seen.committed & seen.held
    pending = (above & ~destroyed) | (_between(probes, bounds) & ~probes.plain) | open_end | unplaced
    return pending, np.zeros(len(probes), dtype=np.bool_)


def _unjudged(probes: Probes, seen: Sightings) -> Judgement:
    """Judge what needs no dump: another incarnation's, and what a read_committed poll showed though it was refused."""
    verdict = np.select(
        [probes.other, probes.refused & seen.polled],
        [Verdict.OTHER_INCARNATION, Verdict.ABORTED_READ],
        Verdict.UNJUDGED,
    )
    return replace(
        Judgement.zeros(len(probes)),
        verdict=verdict.astype(np.uint8),
        voided=probes.other & probes.acknowledged,
        promised=probes.promised,
    )
