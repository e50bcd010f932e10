"""What justifies violations about records: copies that stood, that went, that came twice.

Each check returns why a violation is false, "" where the world has what it says.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from canary.anomalies.online.log import READ_COMMITTED
from canary.anomalies.online.scope import is_reread
from canary.facts import EndOfPartition, OutOfRange, Polled, Positioned
from canary.probe.identity import Identity
from canary.probe.record import key
from simulation.verdicts.findings import Check, Finding, times_of, unordered
from simulation.world.chronicle import NEVER_WRITTEN, Copy
from simulation.world.truth import EXPIRED

if TYPE_CHECKING:
    from simulation.world.world import World


def lost(world: World, said: Finding) -> str:
    """Check that the probe stood at that place, and was not gone when it is said to have been there still."""
    if said.violation.severity == "critical" and unordered(world, said.violation.topic):
        return "critical, though the leader alone acknowledged it"
    for offset, who in said.names():
        places = {copy.offset for copy in said.copies(world, who)}
        if offset is not None and offset not in places:
            return f"sequence {who.sequence} never stood at offset {offset}, but at {sorted(places)}"
        if (gone := _gone_before(world, said, offset, who)) is not None:
            return f"sequence {who.sequence} was gone at {gone} s already"
    return ""


def _gone_before(world: World, said: Finding, offset: int | None, who: Identity) -> float | None:
    """Return when a probe was gone from its offset, if that was before the violation says that it happened."""
    ends = [copy.until for copy in said.copies(world, who) if offset in {None, copy.offset}]
    after_ns, gone = said.violation.happened_after_ns, [end for end in ends if end is not None]
    if after_ns is None or not gone or len(gone) < len(ends):
        return None
    return max(gone) if max(gone) < times_of(world, after_ns)[0] else None


def fractured(world: World, said: Finding) -> str:
    """Check that the log lost it, or that it is gone."""
    for _, who in said.names():
        fate = world.truth.fates.get(key(who))
        if fate is None or not (fate.was_lost or fate.gone):
            return f"sequence {who.sequence} is there: {fate}"
    return lost(world, said)


def duplicated(world: World, said: Finding) -> str:
    """Check that two of its copies stood in one log at one time."""
    for offset, who in said.names():
        copies = said.copies(world, who)
        here = [one for one in copies if one.offset == offset]
        pairs = [(a, b) for a in here for b in copies if a.offset != b.offset and a.beside(b)]
        if not pairs:
            return f"sequence {who.sequence} stood only at {sorted({one.offset for one in copies})}"
        if said.violation.severity == "critical" and not any(_same_batch(a, b) for a, b in pairs):
            return f"critical, though the client sent sequence {who.sequence} again under another epoch"
    return ""


def _same_batch(a: Copy, b: Copy) -> bool:
    one, other = a.record, b.record
    return (one.producer_id, one.producer_epoch, one.sequence) == (
        other.producer_id,
        other.producer_epoch,
        other.sequence,
    )


def inconsistent(world: World, said: Finding) -> str:
    """Check that two probes had that offset."""
    for offset in said.offsets():
        copies = said.there(world, offset)
        if len({one.record.key for one in copies}) < 2:
            return f"one probe alone was ever at offset {offset}"
        committed = {one.record.key for one in copies if one.committed}
        if said.violation.severity == "critical" and len(committed) < 2:
            return f"critical, though one probe alone was committed at offset {offset}"
    return ""


def disordered(world: World, said: Finding) -> str:
    """Check that the two probes stood together in that order."""
    who, evidence = said.violation.identity, said.violation.evidence
    if who is None:
        return "it names no probe"
    low, high = (
        [copy for copy in said.copies(world, who._replace(sequence=sequence)) if copy.offset == offset]
        for sequence, offset in zip(evidence["sequences"], evidence["offsets"], strict=True)
    )
    if any(a.beside(b) and a.offset > b.offset for a in low for b in high):
        return ""
    return "the two were never there together in that order"


def truncated(world: World, said: Finding) -> str:
    """A commit is undone where its marker was cut off: the records below that are aborted later."""
    violation = said.violation
    there = said.there(world, violation.offset)
    cut = [one for one in there if one.until is not None and one.how not in EXPIRED | {"hollow"}]
    if not cut:
        return f"what was at offset {violation.offset} was not cut off"
    if violation.severity == "critical" and (
        unordered(world, violation.topic) or not any(one.committed or one.how == NEVER_WRITTEN for one in cut)
    ):
        return f"critical, though what was at offset {violation.offset} was not committed"
    return ""


def written_by_zombie(world: World, said: Finding) -> str:
    """Check that an older generation wrote above a later one."""
    violation, evidence = said.violation, said.violation.evidence
    if "its_offset" not in evidence:  # all of the older one had expired
        return bug_struck("zombie-let-in")(world, said)
    stream = key(Identity(evidence["later_producer"], evidence["later_generation"], violation.partition or 0, 0))[:16]
    later = said.there(world, evidence["its_offset"])
    begun = [one for one in later if (one.record.key or b"").startswith(stream)]
    for offset, who in said.names():
        mine = [one for one in said.copies(world, who) if one.offset == offset]
        if not any(a.offset > b.offset and a.since >= b.since and a.beside(b) for a in mine for b in begun):
            return f"sequence {who.sequence} was not written after a later generation"
    return ""


def read_aborted(world: World, said: Finding) -> str:
    """Check that a reader was given the record of an aborted transaction."""
    shown = {id(record) for _, _, record in world.cluster.shown}
    undone = {id(record) for *_, record in world.cluster.aborts_undone}
    mistaken = {epoch for _, bug, _, _, epoch in world.cluster.struck if bug == "retried-commit-is-abort"}
    for offset, who in said.names():
        records = [one.record for one in said.copies(world, who) if one.offset == offset]
        if not any(id(one) in shown | undone or one.producer_epoch in mistaken for one in records):
            return f"no reader was given sequence {who.sequence} after its transaction was aborted"
    return ""


def skipped(world: World, said: Finding) -> str:
    """Whether the probe stands where a consumer had read on before the log was cut, and that was told of no cut.

    Nobody tells it where leader epochs are used again, or where its position lies in the log again before it fetches.
    """
    log = (said.violation.topic, said.violation.partition, READ_COMMITTED)
    tail = [
        (one, times_of(world, one.at_ns))
        for one in world.facts
        if isinstance(one, Polled | EndOfPartition | Positioned | OutOfRange)
        and (one.topic, one.partition, one.isolation) == log
        and is_reread(one.consumer) is None
    ]
    told = [times for one, times in tail if isinstance(one, OutOfRange)]
    for offset, who in said.names():
        mine = [copy for copy in said.copies(world, who) if copy.offset == offset]
        cut = [
            (a.until, b.since)
            for a in said.there(world, offset)
            for b in mine
            if a.until is not None and a.since <= b.since and not a.beside(b)
        ]
        if not cut:
            return f"nothing was cut off at offset {offset} before sequence {who.sequence} was written there"
        passed = [times[0] for one, times in tail if one.offset + isinstance(one, Polled) > (offset or 0)]
        for at, since in cut:
            if any(one <= since for one in passed) and not any(at <= one[0] <= one[-1] <= said.told for one in told):
                break
        else:
            return f"no consumer that was not told stood above offset {offset} when it was given again"
    return ""


def bug_struck(*names: str) -> Check:
    """Return a check that one of these bugs of the cluster has struck before."""

    def check(world: World, said: Finding) -> str:
        struck = {bug for at, bug, *_ in world.cluster.struck if said.at and at <= max(said.at)}
        return "" if struck & set(names) else f"none of {', '.join(names)} has struck"

    return check


def removed_early(world: World, said: Finding) -> str:
    """Check that something had gone from the log but by retention."""
    place = said.violation.topic, -1 if said.violation.partition is None else said.violation.partition
    return (
        ""
        if world.truth.removed.get(place, math.inf) <= max(said.at, default=said.told)
        else "nothing had gone but by retention"
    )
