"""Harms of topics: elections, deletion, growth, records that go, transactions that hang."""

from __future__ import annotations

import random

from simulation.harms.harm import Harms, any_place
from simulation.world.world import World

TOPICS = Harms()


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
