"""What justifies each kind of violation: the fact of the world without which the canary must not say it.

Each check returns why a violation is false, "" where the world has what it says. A kind without an entry must not be
said in the world at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

from canary.anomalies.online.log import READ_COMMITTED
from canary.anomalies.online.scope import is_reread
from canary.anomalies.policy import UNORDERED
from canary.anomalies.violation import Records, Violation
from canary.facts import EndOfPartition, OutOfRange, Polled, Positioned, TopologySeen
from canary.probe.identity import Identity
from canary.probe.record import key
from simulation.cluster.groups import OFFSETS_TOPIC
from simulation.harms.catalogue import HARMS
from simulation.machine.system import EPOCH_NS
from simulation.world.chronicle import NEVER_WRITTEN, Copy, Decision
from simulation.world.truth import EXPIRED

if TYPE_CHECKING:
    from simulation.world.world import World

LATE_BEATS, LATE_S = 20, 60.0
"""The canary may judge what it saw up to so many intervals, and so many seconds, before."""
STALLED_BEATS, STALLED_S = 20, 120.0
"""A standstill may be said so long after its cause is over; only so much of each interval counts as watched."""

Check = Callable[["World", "Said"], str]


@dataclass(frozen=True, slots=True)
class Said:
    """A violation, and the virtual seconds at which it may have been found: the canary's clock may have been wrong."""

    violation: Violation
    at: tuple[float, ...]
    told: float
    """When the store was given it."""

    def names(self) -> Iterator[tuple[int | None, Identity]]:
        """Yield (offset, identity) of each of its probes."""
        for run in self.violation.runs:
            if run.identity is not None:
                for step in range(run.size):
                    one: Records = run.part(step, 1)
                    assert one.identity is not None
                    yield one.offset, one.identity

    def offsets(self) -> Iterator[int]:
        """Yield the offset of each of its records."""
        for run in self.violation.runs:
            yield from range(run.offset or 0, (run.offset or 0) + run.size)

    def copies(self, world: World, who: Identity) -> list[Copy]:
        """Return the copies of a probe in the log that it is about."""
        return self._served(world, partial(world.chronicle.of, key=key(who)))

    def there(self, world: World, offset: int | None) -> list[Copy]:
        """Return everything that was ever at an offset of the log that it is about."""
        return self._served(world, partial(world.chronicle.there, offset=offset))

    def _served(self, world: World, of: Callable[[str, int | None], list[Copy]]) -> list[Copy]:
        """Return the copies that ``of`` has in the log, and those that came into a deleted topic's since it was made.

        A leader that was cut off serves that one under the same name, and may acknowledge what only it has. Where
        brokers told no topic id, the log is that of every topic of the name.
        """
        topic, topic_id, partition = self.violation.topic, self.violation.topic_id, self.violation.partition
        decided = world.chronicle.decisions[topic, -1 if partition is None else partition]
        ids = world.chronicle.ids[topic]
        made = min((one.at for one in decided if one.topic_id == topic_id), default=0.0)
        others = ids[: ids.index(topic_id)] if topic_id in ids else [] if topic_id else ids
        return of(topic_id, partition) + [one for x in others for one in of(x, partition) if one.since >= made]


@dataclass(frozen=True, slots=True)
class Justified:
    """``by`` says what the world must have; ``doubt`` why that is not exact, "" where it is."""

    by: str
    check: Check
    doubt: str = ""


def said_of(world: World, violation: Violation, told: float) -> Said:
    """Return a violation with the times at which it may have been found."""
    return Said(violation, tuple(at for at in _times(world, violation.at_ns) if -1 <= at <= told + 1), told)


def _times(world: World, at_ns: int) -> list[float]:
    """Return the virtual seconds that a time by the canary's clock may be."""
    by_clock = (at_ns - EPOCH_NS) / 1e9
    return sorted({by_clock - offset / 1e9 for offset in world.clocks})


def false(world: World, violation: Violation, told: float) -> str:
    """Return why a violation is false, "" if the world has what it says."""
    if _of_relay(world, violation):
        return OF_RELAY.check(world, said_of(world, violation, told))
    justified = JUSTIFIED.get(violation.kind)
    if justified is None:
        return NEVER.get(violation.kind, "no life has anything of that kind")
    return justified.check(world, said_of(world, violation, told))


def _of_relay(world: World, violation: Violation) -> bool:
    """Whether it is about what the relay took from the main topic: the same input twice, or not at all."""
    main = world.settings.clusters[0].topic.name
    return violation.mode == "relay" and violation.topic == main and violation.kind in {"duplicate", "poll-skip"}


def unordered(world: World, topic: str) -> bool:
    """Whether leaders alone acknowledge what is written to a topic."""
    return topic in {world.settings.clusters[0].topic_of(mode) for mode in world.plan.modes if mode in UNORDERED}


# records


def _lost(world: World, said: Said) -> str:
    if said.violation.severity == "critical" and unordered(world, said.violation.topic):
        return "critical, though the leader alone acknowledged it"
    for offset, who in said.names():
        places = {copy.offset for copy in said.copies(world, who)}
        if offset is not None and offset not in places:
            return f"sequence {who.sequence} never stood at offset {offset}, but at {sorted(places)}"
    return ""


def _fractured(world: World, said: Said) -> str:
    for _, who in said.names():
        fate = world.truth.fates.get(key(who))
        if fate is None or not (fate.was_lost or fate.gone):
            return f"sequence {who.sequence} is there: {fate}"
    return _lost(world, said)


def _duplicate(world: World, said: Said) -> str:
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


def _inconsistent(world: World, said: Said) -> str:
    for offset in said.offsets():
        copies = said.there(world, offset)
        if len({one.record.key for one in copies}) < 2:
            return f"one probe alone was ever at offset {offset}"
        committed = {one.record.key for one in copies if one.committed}
        if said.violation.severity == "critical" and len(committed) < 2:
            return f"critical, though one probe alone was committed at offset {offset}"
    return ""


def _order(world: World, said: Said) -> str:
    who, evidence = said.violation.identity, said.violation.evidence
    assert who is not None
    low, high = (
        [copy for copy in said.copies(world, who._replace(sequence=sequence)) if copy.offset == offset]
        for sequence, offset in zip(evidence["sequences"], evidence["offsets"], strict=True)
    )
    if any(a.beside(b) and a.offset > b.offset for a in low for b in high):
        return ""
    return "the two were never there together in that order"


def _truncation(world: World, said: Said) -> str:
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


def _zombie(world: World, said: Said) -> str:
    violation, evidence = said.violation, said.violation.evidence
    if "its_offset" not in evidence:  # all of the older one had expired
        return _bug("zombie-let-in")(world, said)
    stream = key(Identity(evidence["later_producer"], evidence["later_generation"], violation.partition or 0, 0))[:16]
    later = said.there(world, evidence["its_offset"])
    begun = [one for one in later if (one.record.key or b"").startswith(stream)]
    for offset, who in said.names():
        mine = [one for one in said.copies(world, who) if one.offset == offset]
        if not any(a.offset > b.offset and a.since >= b.since and a.beside(b) for a in mine for b in begun):
            return f"sequence {who.sequence} was not written after a later generation"
    return ""


def _aborted_read(world: World, said: Said) -> str:
    shown = {id(record) for _, _, record in world.cluster.shown}
    undone = {id(record) for *_, record in world.cluster.aborts_undone}
    mistaken = {epoch for _, bug, _, _, epoch in world.cluster.struck if bug == "retried-commit-is-abort"}
    for offset, who in said.names():
        records = [one.record for one in said.copies(world, who) if one.offset == offset]
        if not any(id(one) in shown | undone or one.producer_epoch in mistaken for one in records):
            return f"no reader was given sequence {who.sequence} after its transaction was aborted"
    return ""


def _skipped(world: World, said: Said) -> str:
    """Whether the probe stands where a consumer had read on before the log was cut, and that was told of no cut.

    Nobody tells it where leader epochs are used again, or where its position lies in the log again before it fetches.
    """
    log = (said.violation.topic, said.violation.partition, READ_COMMITTED)
    tail = [
        (one, _times(world, one.at_ns))
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


def _bug(*names: str) -> Check:
    """Return a check that one of these bugs of the cluster has struck before."""

    def check(world: World, said: Said) -> str:
        struck = {bug for at, bug, *_ in world.cluster.struck if said.at and at <= max(said.at)}
        return "" if struck & set(names) else f"none of {', '.join(names)} has struck"

    return check


def _expired(world: World, said: Said) -> str:
    violation = said.violation
    return "" if (violation.topic, violation.partition) in world.truth.removed else "nothing went but by retention"


# the cluster


def _held(world: World, said: Said, holds: Callable[[Decision], bool]) -> bool:
    """Whether brokers told a state of the partition in the time before the canary said so."""
    violation, back = said.violation, LATE_BEATS * world.plan.beat + LATE_S
    if violation.partition is None:
        return True  # more partitions than are named: no life has so many
    return any(
        holds(one)
        for at in said.at
        for one in world.chronicle.told(violation.topic, violation.partition, at - back, at)
    )


def _state(holds: Callable[[Decision], bool]) -> Check:
    def check(world: World, said: Said) -> str:
        return "" if _held(world, said, holds) else "no broker told such a state of the partition"

    return check


def _unclean(world: World, said: Said) -> str:
    violation = said.violation
    if violation.severity == "info":
        return "" if _held(world, said, lambda one: one.epoch > 0) else "nobody else was elected"
    decided = world.chronicle.decisions[violation.topic, violation.partition or 0]
    if any(one.unclean and one.topic_id == violation.topic_id and one.at <= max(said.at) for one in decided):
        return ""
    if _joined_unseen(world, said) and not _truncation(world, said):
        return ""
    return "no election was unclean"


def _joined_unseen(world: World, said: Said) -> bool:
    """Whether the leader joined the ISR after the canary's last round before it saw it lead."""
    violation, seen = said.violation, said.violation.evidence.get("election")
    if seen is None:
        return False
    rounds = [one.at_ns for one in world.facts if isinstance(one, TopologySeen) and one.at_ns < seen["at_ns"]]
    back = (seen["at_ns"] - max(rounds, default=EPOCH_NS)) / 1e9
    for at in said_of(world, replace(violation, at_ns=seen["at_ns"]), max(said.at)).at:
        told = list(world.chronicle.told(violation.topic, violation.partition or 0, at - back, at))
        isrs = [one.isr for one in told if one.topic_id == violation.topic_id]
        if isrs and seen["leader"] not in isrs[0] and any(seen["leader"] in isr for isr in isrs):
            return True
    return False


def _epoch_back(world: World, said: Said) -> str:
    evidence = said.violation.evidence
    decided = world.chronicle.decisions[said.violation.topic, said.violation.partition or 0]
    back = [
        after.epoch
        for before, after in pairwise(decided)
        if before.topic_id == after.topic_id and before.epoch > after.epoch and after.at <= max(said.at)
    ]
    if any(epoch <= evidence["leader_epoch"] for epoch in back):
        return ""
    if _held(world, said, lambda one: one.epoch == evidence["leader_epoch"]):
        return ""
    return "it never went back, and no broker told an old one"


def _recreated(world: World, said: Said) -> str:
    ids, evidence = world.chronicle.ids[said.violation.topic], said.violation.evidence
    former, now = evidence["former_topic_id"], evidence["topic_id"]
    if now in ids and (former is None or former in ids[: ids.index(now)]):
        return ""
    return f"its ids were {ids}"


def _another(world: World, said: Said) -> str:
    known, found = said.violation.evidence["known"], said.violation.evidence["found"]
    if known == world.cluster.cluster_id and found in world.cluster.answered_as - {known}:
        return ""
    return f"it answered as {sorted(world.cluster.answered_as)}"


def _offsets_lost(world: World, said: Said) -> str:
    """Whether a coordinator lost an offset, or could not tell it.

    A new one tells what is below its high watermark (KIP-848), which it cannot raise with too few in-sync replicas
    (KIP-966).
    """
    unsound = any(HARMS[one.harm].breaks for one in world.plan.strikes)
    if unsound or world.truth.forgot(OFFSETS_TOPIC):
        return ""
    back = LATE_BEATS * world.plan.beat + LATE_S
    places = [number for topic, number in list(world.chronicle.decisions) if topic == OFFSETS_TOPIC]
    told = (
        one for at in said.at for number in places for one in world.chronicle.told(OFFSETS_TOPIC, number, at - back, at)
    )
    return "" if any(len(one.isr) < one.min_isr for one in told) else "no coordinator lost an offset"


# the canary


def _ill(world: World, said: Said) -> str:
    """Whether something was wrong with brokers, network, disk or clients in the time before it was said."""
    back = STALLED_BEATS * world.plan.beat + STALLED_S
    since_ns = said.violation.evidence.get("since_ns", said.violation.at_ns)
    stood = (said.violation.at_ns - since_ns) / 1e9
    if any(world.chronicle.ill(at - stood - back, at) for at in said.at):
        return ""
    return "all was well"


def _stalled(world: World, said: Said) -> str:
    where = (said.violation.topic, -1 if said.violation.partition is None else said.violation.partition)
    hung = where in world.cluster.hung(0.0) or any(world.hung_at.get(where, 0.0) >= at for at in said.at)
    return "" if hung else _ill(world, said)


def _forgotten(world: World, said: Said) -> str:
    damaged = [*world.disk.damaged, *world.store.damaged]
    return "" if damaged and said.at and min(damaged) <= max(said.at) else "neither ledger nor store was damaged"


SAMPLED = "the canary looks once in an interval, and a broker that is cut off tells an old state for as long"
ONLY_ILL = "which harm keeps a client from going on is not followed; but where nothing is ill, nothing stands still"


def _in_sync(by: str, holds: Callable[[Decision], bool]) -> Justified:
    return Justified(by, _state(holds), SAMPLED)


OF_RELAY = Justified(
    "a coordinator lost committed offsets",
    _offsets_lost,
    "by the offsets topic: whose offset it was is not followed, and any bug of the cluster explains it",
)
JUSTIFIED: dict[str, Justified] = {
    "lost-write": Justified("the probe stood at that place, and the log lost it", _lost),
    "fractured-transaction": Justified("a write of a committed transaction is gone from that place", _fractured),
    "duplicate": Justified("two records of the probe stood in one log at one time", _duplicate),
    "inconsistent-offsets": Justified("two probes had that offset of that log, one after the other", _inconsistent),
    "reorder": Justified("the two probes stood in the log together in that order", _order),
    "nonmonotonic-send": Justified("the two probes stood in the log together in that order", _order),
    "truncation": Justified("what was at that offset went by another way than retention", _truncation),
    "zombie-write": Justified("an older generation wrote above a later one", _zombie),
    "G1a": Justified("a reader was given a record of an aborted transaction", _aborted_read),
    "precommitted-read": Justified(
        "a bug let a fenced client end a transaction, or showed what is aborted",
        _bug("zombie-let-in", "aborted-read"),
        "by the bug alone: a sound cluster shows nothing before it has the marker, which follows the question",
    ),
    "corrupt": Justified("a bug changed a byte of a record", _bug("corrupt"), "which record is not compared"),
    "early-expiry": Justified(
        "something went from this log but by retention",
        _expired,
        "by the log: which records are too young is a matter of the canary's clock, which harms set",
    ),
    "poll-skip": Justified(
        "the log was cut below a consumer that was not told, and the probe written there",
        _skipped,
        "by the place: whether it had been put back for another reason meanwhile is not followed",
    ),
    "offline-partition": _in_sync("it had no leader", lambda one: one.leader < 0 or not one.isr),
    "isr-of-one": _in_sync("one replica was in sync", lambda one: len(one.isr) == 1 < len(one.replicas)),
    "under-min-isr": _in_sync("too few were in sync", lambda one: len(one.isr) < one.min_isr),
    "isr-below-half": _in_sync("less than half were in sync", lambda one: 2 * len(one.isr) < len(one.replicas)),
    "under-replicated": _in_sync("not all were in sync", lambda one: len(one.isr) < len(one.replicas)),
    "unclean-election": Justified(
        "the controller elected a broker outside the ISR",
        _unclean,
        "suspected ones (info) need only another leader: that is what a suspicion is; and where the log was cut, who "
        "looks once in an interval cannot tell a leader that rejoined just before its election from one that did not",
    ),
    "leader-epoch-regression": Justified(
        "the controller's epoch went back, or a broker that is cut off told an old one",
        _epoch_back,
        "two brokers that answer from different histories are what the kind means, too",
    ),
    "topic-recreated": Justified("the topic had the one id after the other", _recreated),
    "another-cluster": Justified("brokers told that id", _another),
    "blind": Justified("something was ill", _ill, ONLY_ILL),
    "stalled": Justified("something was ill, or a transaction hangs", _stalled, ONLY_ILL),
    "committed-offset-regression": OF_RELAY,
    "memory-lost": Justified("ledger or store was damaged, wiped or put back before", _forgotten),
}
"""By kind."""
NEVER: dict[str, str] = {
    "nonmonotonic-poll": "the world's clients give out each record once",
    "phantom": "whatever is in a log of the world was sent by a canary",
    "clock-skew": "the topics of the world have CreateTime",
    "offset-regression": "no other topic's offsets are watched",
    "replica-divergence": "no replicas are compared",
    **dict.fromkeys(
        ("group-stuck", "group-reset", "group-offsets-expired", "hanging-transaction"), "no application is watched"
    ),
    **dict.fromkeys(("mirror-gap", "mirror-offset-skips", "mirror-copies"), "nothing is mirrored"),
}
"""Kinds that must not be said at all, and why. All others are a gauge (`unseen`) or of other engines."""
