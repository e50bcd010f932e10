"""Harms of topics: elections, deletion, growth, records that go, transactions that hang."""

from __future__ import annotations

import random

from canary.facts import WatchedListed, WatchedPartition
from simulation.harms.harm import Harms, any_place
from simulation.world.plan import SHOPS, WATCHED, WATCHED_PATTERN
from simulation.world.world import World

TOPICS = Harms()

RESTORED_BEATS = (20, 60)
"""So many intervals after a topic was made again its former metadata are put back."""


@TOPICS.harm(2)
def elect(world: World, dice: random.Random) -> None:
    """Another leader is elected."""
    topic, partition = any_place(world, dice)
    world.cluster.elect(topic, partition, dice.choice(world.cluster.brokers()))


@TOPICS.harm(0.5)
def delete_topic(world: World, dice: random.Random) -> None:
    """A probe topic is deleted."""
    topic = dice.choice(world.topics())
    if world.knows_ids():
        world.cluster.delete_topic(world.any_broker(), topic)


@TOPICS.harm(0.5)
def recreate_topic(world: World, dice: random.Random) -> None:
    """A probe topic is deleted and made again."""
    topic = dice.choice(world.topics())
    if world.knows_ids():
        world.cluster.recreate_topic(topic)


@TOPICS.harm()
def restore_id(world: World, dice: random.Random) -> None:
    """A probe topic is made again; later the metadata are put back from before, so that it has its first id for good.

    Once in a life: what the logs of an id held, and when, is known of one return only.
    """
    topic = dice.choice(world.topics())
    former = world.chronicle.ids[topic]
    if not world.knows_ids() or len(former) != 1 or world.cluster.recreate_topic(topic):
        return

    def back() -> None:
        if world.knows_ids() and len(former) == 2 and not world.settling:  # it and its successor
            world.cluster.recreate_topic(topic, former[0])

    world.later(world.plan.beat * dice.uniform(*RESTORED_BEATS), back)


@TOPICS.harm()
def lose_watched(world: World, dice: random.Random) -> None:
    """A topic of others that the settings name under watch is deleted or made again, or all of a pattern are deleted.

    Each once in a life, and only after the canary has seen them.
    """
    named, again = dice.random() < 0.7, dice.random() < 0.5
    topics, subject = ((WATCHED,), WATCHED) if named else (SHOPS, WATCHED_PATTERN)
    listed = {one.topic for one in world.facts if isinstance(one, WatchedListed) and one.end > one.start}
    seen = {one.topic for one in world.facts if isinstance(one, WatchedPartition)}
    if subject in world.watched_gone or not set(topics) <= (listed if named else seen):
        return
    for topic in topics:
        if named and again:
            error = world.cluster.recreate_topic(topic)
        else:
            error = world.cluster.delete_topic(world.any_broker(), topic)
        if not error:
            world.watched_gone[subject] = world.schedule.now


@TOPICS.harm(0.5)
def grow_topic(world: World, dice: random.Random) -> None:
    """A probe topic gets another partition."""
    world.grow(dice.choice(world.topics()))


@TOPICS.harm(0.7)
def delete_records(world: World, dice: random.Random) -> None:
    """Records are deleted below a place."""
    topic, partition = any_place(world, dice)
    log = world.cluster.log(topic, partition)
    if log:
        world.cluster.delete_records(topic, partition, dice.choice(log).offset)


@TOPICS.harm(0.7, breaks=True)
def hollow_records(world: World, dice: random.Random) -> None:
    """Records in the middle of logs are not shown any more, to nobody: a broken index, a tier that lost an object."""
    for topic in world.topics():
        for partition in range(world.plan.partitions):
            at, length = dice.random(), 1 + dice.randrange(20)
            if dice.random() < 0.5:
                world.cluster.hollow(topic, partition, at, length)


@TOPICS.harm()
def hang_transaction(world: World, dice: random.Random) -> None:
    """A coordinator's state is lost when a transaction is to be ended: nobody will ever end it."""
    world.cluster.transactions.forgets = True
