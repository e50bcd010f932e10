"""Verdicts on losses: missed ones, false ones, late ones, and those that are said twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from canary.anomalies.policy import WRITES_LOST
from simulation.world.outcome import Wrong

if TYPE_CHECKING:
    from simulation.world.truth import Fate
    from simulation.world.world import World

HARMED_BEATS = 10
"""A harm counts as so many intervals longer than it lasts, where it is asked for how long all was well."""


def missed(world: World) -> Iterator[Wrong]:
    """Yield each broken promise of which the canary says nothing, though it could know of it."""
    truth = world.truth
    for name, fate in truth.broken().items():
        if not truth.is_said(name, "lost-write") and not excused(world, name, fate):
            when, why = fate.gone or (fate.at, "its transaction is not committed any more")
            yield Wrong("MISSED", f"offset {fate.offset}: {why} at {when:.1f} s")


def unsaid(world: World) -> Iterator[Wrong]:
    """Yield each probed topic that was deleted while it held promises, though nothing critical says so."""
    truth, patience = world.truth, world.look_beats * world.plan.beat
    said = {
        one.evidence.get("former_topic_id", one.topic_id)
        for _, one in truth.violations
        if one.kind in {"promises-void", "topic-recreated"} and one.severity == "critical"
    }
    held: dict[str, list[float]] = defaultdict(list)
    probed = world.topics_of(world.modes_on())
    for name, at in truth.promised.items():
        fate = truth.fates.get(name)
        if fate is not None and fate.copies <= 0 and fate.gone is not None and fate.gone[1] == "topic deleted":
            gone_at = fate.gone[0]
            known = fate.topic in probed and fate.topic_id in truth.topic_ids
            if known and at < gone_at < truth.now() - patience and not truth.memory_lost:
                held[fate.topic_id].append(gone_at)
    for topic_id in held.keys() - said:
        number, first = len(held[topic_id]), min(held[topic_id])
        yield Wrong("MISSED", f"the topic {topic_id} was deleted at {first:.1f} s with {number} promises")


def unwatched(world: World) -> Iterator[Wrong]:
    """Yield what the settings name under watch and is gone, or made again, though nothing critical names it."""
    for subject, gone_at in world.watched_gone.items():
        said = any(
            one.kind in {"watched-topic-gone", "topic-recreated"} and one.topic == subject and told >= gone_at
            for told, one in world.truth.violations
            if one.severity == "critical"
        )
        if not said and not world.truth.memory_lost and not world.truth.unkept_at:
            yield Wrong("MISSED", f"{subject}, which is watched, was gone or made again at {gone_at:.1f} s")


def made_up(world: World) -> Iterator[Wrong]:
    """Yield each probe that is said to be lost and is there, or expired."""
    for name, violation in world.truth.false_losses:
        place = f"{violation.kind} {violation.topic}[{violation.partition}] {violation.offset}"
        yield Wrong("FALSE", f"{place}: {violation.summary} ({world.truth.fates.get(name)})")


def repeated(world: World) -> Iterator[Wrong]:
    """Yield a loss that several violations name, unless the canary forgot that it had said it."""
    for name, said in world.truth.said.items():
        told = {one.key("c"): one for one in said if one.kind == WRITES_LOST}
        if len(told) > 1 and not world.truth.memory_lost:
            first, *_, last = told.values()
            about = f"offset {world.truth.fates[name].offset} of {first.topic}[{first.partition}]"
            yield Wrong("AGAIN", f"{about} is said to be lost twice: {first.sentence}; {last.sentence}")
            return


def late(world: World) -> Iterator[Wrong]:
    """Yield a loss that was said only after all had been well for long enough to find it."""
    first, patience = world.truth.first_told(), world.look_beats * world.plan.beat
    for name, fate in world.truth.broken().items():
        if name not in first or excused(world, name, fate):
            continue
        when, how = fate.gone or (fate.at, "")
        gone_at = max(when, world.truth.promised[name])
        if how == "commit undone":  # see `_excused`
            gone_at = max(gone_at, world.hung_at.get((fate.topic, fate.partition), 0.0))
        quiet = world.chronicle.longest_quiet(gone_at, first[name])
        if quiet > patience:
            about = f"offset {fate.offset} of {fate.topic}[{fate.partition}] was gone at {gone_at:.1f} s"
            yield Wrong("LATE", f"{about}, and said at {first[name]:.1f} s: all was well for {quiet:.0f} s between")
            return


def excused(world: World, name: bytes, fate: Fate) -> bool:
    """Whether the canary cannot know of a broken promise: it may have expired, or what was known of it is gone."""
    if fate.topic not in world.topics_of(world.modes_on()):
        return True  # nobody asks for that topic
    gone_at, how = fate.gone or (fate.at, "")
    if how == "commit undone" and (fate.topic, fate.partition) in world.cluster.hung(0.0):
        return True  # only read_committed lacks it, and that is given nothing above a transaction that hangs
    expired_at = world.truth.expired_at(fate)
    if expired_at is not None and _quiet(world, gone_at, expired_at) < world.look_beats * world.plan.beat:
        return True  # nothing is looked for below the log's start
    if world.truth.may_have_expired(name, fate, gone_at, world.plan.retention_s):
        return True
    if any(at >= min(gone_at, world.truth.promised[name]) for at in world.truth.memory_lost):
        return True
    is_present = fate.topic_id in world.chronicle.ids[fate.topic][-1:]  # what is written there after that is known
    return any(
        not is_present or at >= fate.at
        for at, one in world.truth.violations
        if one.kind == "topic-recreated" or (one.kind == "promises-void" and one.topic_id == fate.topic_id)
    )


def _quiet(world: World, began: float, end: float) -> float:
    """Return how many seconds lie between, without those in which a harm was at work, or had just been."""
    after = HARMED_BEATS * world.plan.beat
    harmed = sum(max(min(end, one.at + one.lasts + after) - max(began, one.at), 0.0) for one in world.plan.strikes)
    return end - began - harmed
