"""The rules 2 to 9 and 13 of RECONCILIATION.md, over columns: facts about identities in, one verdict each out.

Pure, and the only place where a verdict is chosen: the kernel asks it about the many that are settled at their own
offset, the residue about the few that are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from canary.anomalies.expiry import least_age_ms
from spark_reconcile.columns import ABORTED, ACKED, COMMITTED, FAILED, NEVER, OPEN, PLAIN, Columns

if TYPE_CHECKING:
    from spark_reconcile.columns import U8, Bool, Bounds, Index, Probes

VERDICTS: Final = (
    "other-incarnation",
    "aborted-read",
    "duplicate",
    "early-expiry",
    "expired",
    "pending",
    "survived",
    "corrupt",
    "moved",
    "lost",
    "unacked-found",
    "unacked-absent",
    "unexpected",
    "unjudged",
)
"""In the order of rule 6: the first that fits. The last is no verdict: the partition has no bounds."""
OTHER, ABORTED_READ, DUPLICATE, EARLY, EXPIRED, PENDING, SURVIVED, CORRUPT, MOVED, LOST = range(10)
UNACKED_FOUND, UNACKED_ABSENT, UNEXPECTED, UNJUDGED = range(10, 14)

TAIL_US: Final = 5 * 60 * 1_000_000
"""Acked longer ago than this and beyond the end: a destroyed tail (rule 4)."""


@dataclass(frozen=True, slots=True)
class Sightings(Columns):
    """What dump and polls say about each of n identities, n bools each.

    Of valid rows within bounds: ``committed`` in the read_committed dump, ``held`` in the read_uncommitted dump at or
    above the LSO; ``..._here`` the same at the acked offset; ``copies`` at two offsets or more, whatever the level.
    Of the acked offset: ``damaged_here`` an invalid row, ``taken_here`` a valid row with another identity.
    Of read_committed polls: ``polled`` anywhere, ``polled_within`` the bounds. ``shown``: read_committed ever showed
    it, also below the bounds. ``bracketed``: acked without an offset, and its neighbours' offsets lie within bounds.
    """

    committed: Bool
    committed_here: Bool
    held: Bool
    held_here: Bool
    copies: Bool
    damaged_here: Bool
    taken_here: Bool
    polled: Bool
    polled_within: Bool
    shown: Bool
    bracketed: Bool


@dataclass(frozen=True, slots=True)
class Judgement(Columns):
    """For each of n identities its ``verdict`` (number of VERDICTS), what the table counts, and what is anomalous.

    ``attempted``, ``acked``, ``survivor``, ``acked_lost``, ``unacked_found``: rule 5. ``lost_write``, ``duplicated``:
    anomalies that the verdict alone does not tell. ``torn``: a write of a committed or open transaction that should be
    there and is not; ``proves``: a found write of an open one (rule 12). ``voided``, ``unverified``: rules 1 and 4.
    ``stray``: found elsewhere than acked (rule 7, for a note when nothing stands in its place). ``blind``: pending
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
    stray: Bool
    blind: Bool
    promised: Bool


def promised(probes: Probes) -> Bool:
    """Return which rows the cluster promised to keep (rule 2)."""
    result: Bool = (probes.outcome == ACKED) & (probes.transaction_state <= COMMITTED)
    return result


def judge(probes: Probes, seen: Sightings, bounds: Bounds | None) -> Judgement:
    """Return the judgement of each identity; ``probes`` has one row each (rule 15 is the caller's)."""
    if bounds is None:
        return _unjudged(probes, seen)
    own = ~probes.other
    kept = promised(probes)
    refused = (probes.outcome == FAILED) | (probes.transaction_state == ABORTED)
    plain = probes.transaction_state == PLAIN
    found = seen.committed | (kept & plain & seen.held)
    found_here = seen.committed_here | (kept & plain & seen.held_here)
    placed = probes.offset >= 0
    between = placed & (probes.offset >= bounds.end) & (probes.offset < bounds.high)
    below = placed & (probes.offset < bounds.start)
    if bounds.uncommitted_start is not None:
        below |= between & (probes.offset < bounds.uncommitted_start)
    explained = _explained(probes, bounds)
    expired = below & explained
    early = below & ~explained & kept
    pending, blind = _pending(probes, seen, bounds, (kept, refused, plain, found, placed, between))
    pending &= ~below
    proven = seen.polled_within & ~found & ~refused
    verdict = np.select(
        [
            probes.other,
            refused & (seen.committed | seen.polled),
            seen.copies,
            early,
            expired,
            pending,
            kept & (found_here | (found & ~placed)),
            kept & seen.damaged_here,
            kept & (seen.taken_here | found),
            kept | proven,
            found,
        ],
        [OTHER, ABORTED_READ, DUPLICATE, EARLY, EXPIRED, PENDING, SURVIVED, CORRUPT, MOVED, LOST, UNACKED_FOUND],
        UNACKED_ABSENT,
    ).astype(np.uint8)
    table = own & ~expired & ~pending
    gone = (verdict == EARLY) | (verdict == CORRUPT)
    within = placed & (probes.offset >= bounds.start) & (probes.offset < bounds.end)
    return Judgement(
        verdict=verdict,
        attempted=table,
        acked=table & kept,
        survivor=table & found & ~gone,
        acked_lost=table & kept & (~found | gone),
        unacked_found=table & ~kept & found,
        lost_write=table & ((kept & ~found & ~gone) | (verdict == LOST)),
        duplicated=own & seen.copies,
        torn=own & within & ~found & ((probes.transaction_state == COMMITTED) | (probes.transaction_state == OPEN)),
        proves=own & found & (probes.transaction_state == OPEN),
        voided=probes.other & kept,
        unverified=own & kept & expired & ~seen.shown,
        stray=table & kept & placed & found & ~found_here & ~seen.taken_here,
        blind=own & blind & (verdict == PENDING),
        promised=own & kept,
    )


def _explained(probes: Probes, bounds: Bounds) -> Bool:
    """Return which records the retention in force may have removed by the time of the dump (rule 4)."""
    if bounds.retention_ms is None or (bounds.retention_bytes is not None and bounds.retention_bytes >= 0):
        return np.ones(len(probes), dtype=np.bool_)
    if bounds.retention_ms < 0:
        return np.zeros(len(probes), dtype=np.bool_)
    result: Bool = bounds.dumped_at - probes.sent_at >= least_age_ms(bounds.retention_ms) * 1000
    return result


def _pending(
    probes: Probes, seen: Sightings, bounds: Bounds, known: tuple[Bool, Bool, Bool, Bool, Bool, Bool]
) -> tuple[Bool, Bool]:
    """Return which identities nobody can judge yet (rules 3 and 4), and which of them only for want of a level."""
    kept, refused, plain, found, placed, between = known
    unplaced = kept & ~placed & ~found & ~seen.bracketed & ~seen.polled_within
    if not bounds.both:
        above = placed & (probes.offset >= bounds.end)
        return above | unplaced, above & kept
    above = placed & (probes.offset >= bounds.high)
    destroyed = kept & (probes.acked_at != NEVER) & (probes.acked_at < bounds.earlier - TAIL_US)
    open_end = ~kept & ~refused & plain & ~seen.committed & seen.held
    return (above & ~destroyed) | (between & ~plain) | open_end | unplaced, np.zeros(len(probes), dtype=np.bool_)


def _unjudged(probes: Probes, seen: Sightings) -> Judgement:
    """Judge what needs no dump: another incarnation's, and what a read_committed poll showed though it was refused."""
    refused = (probes.outcome == FAILED) | (probes.transaction_state == ABORTED)
    verdict = np.select([probes.other, refused & seen.polled], [OTHER, ABORTED_READ], UNJUDGED).astype(np.uint8)
    no = np.zeros(len(probes), dtype=np.bool_)
    kept = promised(probes)
    return Judgement(
        verdict=verdict,
        attempted=no,
        acked=no,
        survivor=no,
        acked_lost=no,
        unacked_found=no,
        lost_write=no,
        duplicated=no,
        torn=no,
        proves=no,
        voided=probes.other & kept,
        unverified=no,
        stray=no,
        blind=no,
        promised=kept & ~probes.other,
    )


def nothing_seen(rows: int) -> Sightings:
    """Return the sightings of identities that nobody saw anywhere."""
    no = np.zeros(rows, dtype=np.bool_)
    return Sightings(*([no] * 11))


def chosen(mask: Bool) -> Index:
    """Return the places where ``mask`` holds."""
    return np.flatnonzero(mask)
