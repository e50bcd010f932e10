"""Harms of the clock of the canary's machine."""

from __future__ import annotations

import random

from simulation.harms.harm import End, Harms
from simulation.world.world import World

CLOCK = Harms()


@CLOCK.harm(0.5)
def step_clock(world: World, dice: random.Random) -> None:
    """The clock of the canary's machine is set forward or back."""
    by_s = dice.choice((-3600, -60, -1, 1, 60, 3600)) * dice.random()
    world.process.clock_ns += int(by_s * 1e9)
    world.clock_ns = world.process.clock_ns
    if dice.random() < 0.5:
        world.kill_canary(after=1.0)


@CLOCK.harm(0.5)
def clock_ahead(world: World, dice: random.Random) -> End:
    """The canary's machine is started with a clock that is ahead; later it is set right, and started again."""
    by_ns = int(dice.choice((1, 2, 4)) * world.plan.retention_s * 1e9)
    world.kill_canary(after=1 + 5 * dice.random())
    world.clock_ns += by_ns

    def back() -> None:
        world.kill_canary(after=1 + 5 * dice.random())
        world.clock_ns -= by_ns

    return back


@CLOCK.harm()
def machine_sleeps(world: World, dice: random.Random) -> None:
    """The canary's machine is suspended: its monotonic clock stands, its wall clock is ahead of that when it wakes."""
    process = world.process
    world.freeze(process, asleep=True)
    left_s = world.plan.hours * 3600 - world.schedule.now
    world.later(min(dice.choice((0.2, 1.0, 2.0)) * world.plan.retention_s, left_s), lambda: world.resume(process))
