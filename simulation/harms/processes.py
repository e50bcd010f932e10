"""Harms of the canary's process."""

from __future__ import annotations

import random

from simulation.harms.harm import End, Harms
from simulation.world.world import World

PROCESSES = Harms()


@PROCESSES.harm(3)
def kill_canary(world: World, dice: random.Random) -> None:
    """The canary is killed, and started again later."""
    world.kill_canary(after=dice.choice((1.0, 10.0, 120.0)) * dice.random())


@PROCESSES.harm()
def stop_canary(world: World, dice: random.Random) -> None:
    """The canary is stopped in order, and started again later."""
    world.stop_canary(after=dice.choice((1.0, 10.0, 120.0)) * dice.random())


@PROCESSES.harm()
def freeze_canary(world: World, dice: random.Random) -> End:
    """The canary stops, and goes on later with what it believed."""
    process = world.process
    world.freeze(process)
    return lambda: world.resume(process)


@PROCESSES.harm(2)
def power_cut_canary(world: World, dice: random.Random) -> None:
    """The canary's machine loses power."""
    world.kill_canary(after=30 * dice.random(), power=dice)
