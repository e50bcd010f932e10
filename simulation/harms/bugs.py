"""What no sound cluster does: the bugs that `simulation.cluster` has by switch."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable

from simulation.harms.harm import End, Harms
from simulation.world.world import World

BUGS = Harms()

BUG_BEATS = 40
"""A bug stays for up to so many intervals more: it meets one write in a hundred, or in ten."""


CHANCES = (0.01, 0.1)


def _bug_harm(
    name: str, chances: tuple[float, ...] = CHANCES, before: Callable[[World], object] = lambda _: None
) -> None:
    def begin(world: World, dice: random.Random) -> End:
        before(world)
        world.cluster.bugs.add(name)
        world.cluster.chance[name] = dice.choice(chances)
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


def _delete_all(world: World) -> None:
    """All records are deleted: of what former processes wrote nothing is left then."""
    for topic in world.topics():
        for partition in range(world.plan.partitions):
            world.cluster.delete_records(topic, partition, -1)


_bug_harm("copied-late", (0.1, 0.3), _delete_all)


def _lie(
    name: str, field: str, told: Callable[[random.Random], int | str], may: Callable[[World], bool] = lambda _: True
) -> None:
    """Brokers tell something that is not so, and serve all logs as they should."""

    def begin(world: World, dice: random.Random) -> End | None:
        if not may(world):
            return None
        setattr(world.cluster, field, told(dice))
        began, stays = world.schedule.now, BUG_BEATS * world.plan.beat * dice.random()

        def truth() -> None:
            setattr(world.cluster, field, None)
            world.lies.setdefault(name, []).append((began, world.schedule.now))

        return lambda: world.later(stays, truth)

    BUGS.enter(name, begin, 0.5)


_lie("low-ends", "ends_too_low", lambda dice: dice.randint(1, 5))
_lie("high-starts", "starts_too_high", lambda dice: dice.randint(1, 5))
_lie("other-ids", "other_id", lambda dice: base64.b64encode(dice.randbytes(16)).decode().rstrip("="), World.has_topics)
