"""What no sound cluster does: the bugs that `simulation.cluster` has by switch."""

from __future__ import annotations

import random

from simulation.harms.harm import End, Harms
from simulation.world.world import World

BUGS = Harms()

BUG_BEATS = 40
"""A bug stays for up to so many intervals more: it meets one write in a hundred, or in ten."""


def _bug_harm(name: str) -> None:
    def begin(world: World, dice: random.Random) -> End:
        world.cluster.bugs.add(name)
        world.cluster.chance[name] = dice.choice((0.01, 0.1))
        stays = BUG_BEATS * world.plan.beat * dice.random()
        return lambda: world.later(stays, lambda: world.cluster.bugs.discard(name))

    BUGS.enter(f"bug-{name}", begin, 0.5, breaks=True)


for _name in (
    "retried-commit-is-abort",
    "aborted-read",
    "offsets-reused",
    "zombie-let-in",
    "ack-before-write",
    "mistaken-duplicate",
    "duplicated",
    "swapped",
):
    _bug_harm(_name)


def _listing_harm(name: str, field: str) -> None:
    """Brokers list an end of logs that is a few offsets off, and serve what stands there all the same."""

    def begin(world: World, dice: random.Random) -> End:
        setattr(world.cluster, field, dice.randint(1, 5))
        stays = BUG_BEATS * world.plan.beat * dice.random()
        return lambda: world.later(stays, lambda: setattr(world.cluster, field, 0))

    BUGS.enter(name, begin, 0.5)


_listing_harm("low-ends", "ends_too_low")
_listing_harm("high-starts", "starts_too_high")
