"""What justifies each kind of violation: the fact of the world without which the canary must not say it.

Each check returns why a violation is false, "" where the world has what it says. A kind without an entry must not be
said in the world at all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from canary.anomalies.online.topology.watched_incarnations import SETTLED_NS
from canary.anomalies.violation import Violation
from canary.facts import TopologySeen
from simulation.cluster.groups import OFFSETS_TOPIC
from simulation.harms.catalogue import HARMS
from simulation.machine.system import EPOCH_NS
from simulation.verdicts.findings import Check, Finding, finding_of
from simulation.verdicts.records import (
    bug_struck,
    disordered,
    duplicated,
    fractured,
    inconsistent,
    lost,
    read_aborted,
    removed_early,
    skipped,
    truncated,
    written_by_zombie,
)
from simulation.world.chronicle import Decision
from simulation.world.plan import ORDERS, SHOPS, WATCHED, WATCHED_PATTERN

if TYPE_CHECKING:
    from simulation.world.world import World

LATE_BEATS, LATE_S = 20, 60.0
"""The canary may judge what it saw up to so many intervals, and so many seconds, before."""
STALLED_BEATS, STALLED_S = 20, 120.0
"""A standstill may be said so long after its cause is over; only so much of each interval counts as watched."""


@dataclass(frozen=True, slots=True)
class Justified:
    """``by`` says what the world must have; ``doubt`` why that is not exact, "" where it is."""

    by: str
    check: Check
    doubt: str = ""


def false(world: World, violation: Violation, told: float) -> str:
    """Return why a violation is false, "" if the world has what it says."""
    if _of_relay(world, violation):
        return OF_RELAY.check(world, finding_of(world, violation, told))
    justified = JUSTIFIED.get(violation.kind)
    if justified is None:
        return NEVER.get(violation.kind, "no life has anything of that kind")
    return justified.check(world, finding_of(world, violation, told))


def _of_relay(world: World, violation: Violation) -> bool:
    """Whether it is about what the relay took from the main topic: the same input twice, or not at all."""
    main = world.settings.clusters[0].topic.name
    return violation.mode == "relay" and violation.topic == main and violation.kind in {"duplicate", "poll-skip"}


# the cluster


def _held(world: World, said: Finding, holds: Callable[[Decision], bool]) -> bool:
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
    def check(world: World, said: Finding) -> str:
        return "" if _held(world, said, holds) else "no broker told such a state of the partition"

    return check


def _unclean(world: World, said: Finding) -> str:
    violation = said.violation
    if violation.severity == "info":
        return "" if _held(world, said, lambda one: one.epoch > 0) else "nobody else was elected"
    decided = world.chronicle.decisions[violation.topic, violation.partition or 0]
    if any(one.unclean and one.topic_id == violation.topic_id and one.at <= max(said.at) for one in decided):
        return ""
    if _joined_unseen(world, said) and not truncated(world, said):
        return ""
    return "no election was unclean"


def _joined_unseen(world: World, said: Finding) -> bool:
    """Whether the leader joined the ISR after the canary's last round before it saw it lead."""
    violation, seen = said.violation, said.violation.evidence.get("election")
    if seen is None:
        return False
    rounds = [one.at_ns for one in world.facts if isinstance(one, TopologySeen) and one.at_ns < seen["at_ns"]]
    back = (seen["at_ns"] - max(rounds, default=EPOCH_NS)) / 1e9
    for at in finding_of(world, replace(violation, at_ns=seen["at_ns"]), max(said.at)).at:
        told = list(world.chronicle.told(violation.topic, violation.partition or 0, at - back, at))
        isrs = [one.isr for one in told if one.topic_id == violation.topic_id]
        if isrs and seen["leader"] not in isrs[0] and any(seen["leader"] in isr for isr in isrs):
            return True
    return False


def _epoch_back(world: World, said: Finding) -> str:
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


def _recreated(world: World, said: Finding) -> str:
    ids, evidence = world.chronicle.ids[said.violation.topic], said.violation.evidence
    former, now = evidence["former_topic_id"], evidence["topic_id"]
    if any(one == now and (former is None or former in ids[:at]) for at, one in enumerate(ids)):
        return ""
    if said.violation.topic == WATCHED and _lied(world, said, "other-ids", for_s=SETTLED_NS / 1e9):
        return ""  # it is not read, so that nothing contradicts them
    return f"its ids were {ids}"


def _watched_gone(world: World, said: Finding) -> str:
    topic = said.violation.topic
    gone_at = world.watched_gone.get(WATCHED_PATTERN if topic in {*SHOPS, "*"} else topic, math.inf)
    left = [one for one in (ORDERS, WATCHED) if topic == "*" and one in world.cluster.topics.by_name]
    return f"{left} are there" if left else "" if gone_at <= max(said.at, default=said.told) else "it was not deleted"


def _end_fell(world: World, said: Finding) -> str:
    return "" if _lied(world, said, "low-ends") else removed_early(world, said)


def _lied(world: World, said: Finding, harm: str, for_s: float = 0.0) -> bool:
    """Whether brokers told that lie before, for so long at least."""
    at = max(said.at, default=said.told)
    return any(min(until, at) - began >= for_s for began, until in world.lies.get(harm, ()))


def _ended(world: World, said: Finding) -> str:
    topic_id = said.violation.evidence["topic_id"]
    ended = [
        copy.until
        for (log, _), probes in world.chronicle.copies.items()
        for copies in (probes.values() if log == topic_id else ())
        for copy in copies
        if copy.until is not None and copy.how == "topic deleted"
    ]
    return "" if ended and min(ended) <= max(said.at) else "the topic was not deleted"


def _another(world: World, said: Finding) -> str:
    known, found = said.violation.evidence["known"], said.violation.evidence["found"]
    if known == world.cluster.cluster_id and found in world.cluster.answered_as - {known}:
        return ""
    return f"it answered as {sorted(world.cluster.answered_as)}"


def _offsets_lost(world: World, said: Finding) -> str:
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


def _ill(world: World, said: Finding) -> str:
    """Whether something was wrong with brokers, network, disk or clients in the time before it was said."""
    back = STALLED_BEATS * world.plan.beat + STALLED_S
    since_ns = said.violation.evidence.get("since_ns", said.violation.at_ns)
    stood = (said.violation.at_ns - since_ns) / 1e9
    if any(world.chronicle.ill(at - stood - back, at) for at in said.at):
        return ""
    return "all was well"


def _suspected(world: World, said: Finding) -> str:
    """Whether its id came back a moment ago: all brokers have to give it for a minute before that is believed."""
    *former, topic_id = world.chronicle.ids[said.violation.topic]
    since, most = world.chronicle.made_at(said.violation.topic), LATE_BEATS * world.plan.beat + 2 * LATE_S
    if topic_id in former and any(0 <= at - since <= most for at in said.at):
        return ""
    return _ill(world, said)


def _stalled(world: World, said: Finding) -> str:
    where = (said.violation.topic, -1 if said.violation.partition is None else said.violation.partition)
    hung = where in world.cluster.hung(0.0) or any(world.hung_at.get(where, 0.0) >= at for at in said.at)
    return "" if hung else _ill(world, said)


def _forgotten(world: World, said: Finding) -> str:
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
    "lost-write": Justified("the probe stood at that place, and the log lost it", lost),
    "fractured-transaction": Justified("a write of a committed transaction is gone from that place", fractured),
    "duplicate": Justified("two records of the probe stood in one log at one time", duplicated),
    "inconsistent-offsets": Justified("two probes had that offset of that log, one after the other", inconsistent),
    "reorder": Justified("the two probes stood in the log together in that order", disordered),
    "nonmonotonic-send": Justified("the two probes stood in the log together in that order", disordered),
    "truncation": Justified("what was at that offset went by another way than retention", truncated),
    "zombie-write": Justified("an older generation wrote above a later one", written_by_zombie),
    "G1a": Justified("a reader was given a record of an aborted transaction", read_aborted),
    "precommitted-read": Justified(
        "a bug let a fenced client end a transaction, or showed what is aborted",
        bug_struck("zombie-let-in", "aborted-read"),
        "by the bug alone: a sound cluster shows nothing before it has the marker, which follows the question",
    ),
    "corrupt": Justified("a bug changed a byte of a record", bug_struck("corrupt"), "which record is not compared"),
    "early-expiry": Justified(
        "something went from this log but by retention",
        removed_early,
        "by the log: which records are too young is a matter of the canary's clock, which harms set",
    ),
    "poll-skip": Justified(
        "the log was cut below a consumer that was not told, and the probe written there",
        skipped,
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
    "promises-void": Justified("the topic was deleted, and held probes", _ended),
    "topic-recreated": Justified("the topic had the one id after the other", _recreated),
    "watched-topic-gone": Justified("it was deleted, or all topics of the pattern", _watched_gone),
    "topic-deleted": Justified("all topics of the pattern were deleted", _watched_gone),
    "offset-regression": Justified(
        "something went from this log but by retention, or brokers listed its end too low",
        _end_fell,
        "by the log, as for early-expiry; a lie about ends shows nothing else in a log that is not read",
    ),
    "another-cluster": Justified("brokers told that id", _another),
    "blind": Justified("something was ill", _ill, ONLY_ILL),
    "unwritable": Justified("something was ill", _ill, ONLY_ILL),
    "stalled": Justified("something was ill, or a transaction hangs", _stalled, ONLY_ILL),
    "suspected-loss": Justified("something was ill, or the topic's id is a former one again", _suspected, ONLY_ILL),
    "committed-offset-regression": OF_RELAY,
    "memory-lost": Justified("ledger or store was damaged, wiped or put back before", _forgotten),
}
"""By kind."""
NEVER: dict[str, str] = {
    "nonmonotonic-poll": "the world's clients give out each record once",
    "phantom": "whatever is in a log of the world was sent by a canary",
    "clock-skew": "the topics of the world have CreateTime",
    "unexplained-expiry": "no topic of the world has a retention.bytes",
    "metadata-went-back": "the world's quorum is not asked",
    "replica-divergence": "no replicas are compared",
    **dict.fromkeys(
        ("group-stuck", "group-reset", "group-offsets-expired", "hanging-transaction"), "no application is watched"
    ),
    **dict.fromkeys(("mirror-gap", "mirror-offset-skips", "mirror-copies"), "nothing is mirrored"),
}
"""Kinds that must not be said at all, and why. All others are a gauge (`unseen`) or of other engines."""
