"""Harms of brokers, and of the network between sites."""

from __future__ import annotations

import random

from simulation.harms.harm import End, Harms, any_broker, any_leader, any_place, parted, start_all
from simulation.world.world import World

BROKERS = Harms()


@BROKERS.harm(3)
def kill(world: World, dice: random.Random) -> End:
    """A broker is killed."""
    broker = any_broker(world, dice)
    world.cluster.kill(broker)
    return lambda: world.cluster.start(broker)


@BROKERS.harm(3)
def power_off(world: World, dice: random.Random) -> End:
    """A broker's machine loses power."""
    broker = any_broker(world, dice)
    world.cluster.power_off(broker)
    return lambda: world.cluster.start(broker)


@BROKERS.harm()
def power_all(world: World, dice: random.Random) -> End:
    """Every broker's machine loses power at once."""
    brokers = list(world.cluster.brokers())
    dice.shuffle(brokers)
    world.cluster.power_off(*brokers)
    return lambda: start_all(world, brokers)


@BROKERS.harm(2)
def isr_of_one_then_power(world: World, dice: random.Random) -> End | None:
    """The followers are away long enough to leave the ISR, and then the last one in it loses power."""
    topic, partition = any_place(world, dice)
    leader = world.cluster.leader(topic, partition)
    if leader < 1:
        return None
    heal = parted(world, *((one, leader) for one in world.cluster.brokers() if one != leader))

    def then() -> None:
        world.cluster.power_off(leader)
        heal()

    world.later(15 + 60 * dice.random(), then)
    return lambda: world.later(120, lambda: world.cluster.start(leader))


@BROKERS.harm(2)
def freeze(world: World, dice: random.Random) -> End:
    """A broker stops, and goes on later with what it believed."""
    broker = any_broker(world, dice)
    world.cluster.freeze(broker)
    return lambda: world.cluster.resume(broker)


@BROKERS.harm()
def wipe(world: World, dice: random.Random) -> End:
    """A broker comes back with an empty disk."""
    broker = any_broker(world, dice)
    world.cluster.kill(broker)
    world.cluster.wipe(broker)
    return lambda: world.cluster.start(broker)


@BROKERS.harm(0.6)
def wipe_all_brokers(world: World, dice: random.Random) -> End:  # a harm's shape
    """Every broker comes back with an empty disk."""
    for broker in world.cluster.brokers():
        world.cluster.kill(broker)
        world.cluster.wipe(broker)
    return lambda: start_all(world, world.cluster.brokers())


@BROKERS.harm()
def rolling_restart(world: World, dice: random.Random) -> End:
    """The brokers are killed and started one after the other."""
    pause = 5 + 25 * dice.random()
    for turn, broker in enumerate(world.cluster.brokers()):
        world.later(2 * turn * pause, lambda one=broker: world.cluster.kill(one))  # type: ignore[misc]
        world.later((2 * turn + 1) * pause, lambda one=broker: world.cluster.start(one))  # type: ignore[misc]
    return lambda: None


@BROKERS.harm()
def lag(world: World, dice: random.Random) -> End:
    """The followers of a broker fetch late."""
    broker = any_broker(world, dice)
    world.cluster.lag(broker, 30 * dice.random())
    return lambda: world.cluster.lag(broker, 0.0)


@BROKERS.harm()
def slow(world: World, dice: random.Random) -> End:
    """The answers of a broker come late."""
    broker = any_broker(world, dice)
    world.cluster.slow(broker, 8 * dice.random())
    return lambda: world.cluster.slow(broker, 0.0)


@BROKERS.harm(2)
def cut_brokers(world: World, dice: random.Random) -> End:
    """Two brokers do not reach each other."""
    a, b = dice.sample(list(world.cluster.brokers()), 2)
    return parted(world, (a, b))


@BROKERS.harm(2)
def cut_controller(world: World, dice: random.Random) -> End:
    """A broker does not reach the controller."""
    return parted(world, (any_broker(world, dice), "controller"))


@BROKERS.harm(2)
def isolate_leader(world: World, dice: random.Random) -> End:
    """A leader sees nobody but its clients: it goes on believing that it leads."""
    broker = any_leader(world, dice)
    others: list[int | str] = [one for one in world.cluster.brokers() if one != broker] + ["controller"]
    return parted(world, *((broker, one) for one in others))


@BROKERS.harm(2)
def cut_canary(world: World, dice: random.Random) -> End:
    """The canary does not reach a broker."""
    return parted(world, ("canary", any_broker(world, dice)))


@BROKERS.harm()
def cut_canary_off(world: World, dice: random.Random) -> End:
    """The canary reaches no broker."""
    return parted(world, *(("canary", broker) for broker in world.cluster.brokers()))
