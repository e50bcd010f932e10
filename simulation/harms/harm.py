"""What a harm is, and how harms are entered in a table.

A harm gets the world and dice of its own, so that leaving out another harm changes nothing of it. What it does after it
has struck goes through ``World.later``, so that it is noted whether all is well then.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from simulation.world.world import World

End = Callable[[], object]
Begin = Callable[[World, random.Random], End | None]
"""Begins a harm and returns what ends it (None: it has no end)."""


@dataclass(frozen=True, slots=True)
class Harm:
    """``weight``: how often it is struck, beside others. ``breaks``: the cluster then does what no sound one does."""

    name: str
    begin: Begin
    weight: float = 1.0
    breaks: bool = False


class Harms(dict[str, Harm]):
    """Harms by name, in the order in which they were entered: a plan is drawn in it."""

    def harm(self, weight: float = 1.0, *, breaks: bool = False) -> Callable[[Begin], Begin]:
        """Return a decorator that enters a function under its own name."""

        def enter(begin: Begin) -> Begin:
            self.enter(begin.__name__.replace("_", "-"), begin, weight, breaks=breaks)
            return begin

        return enter

    def enter(self, name: str, begin: Begin, weight: float = 1.0, *, breaks: bool = False) -> None:
        """Enter a harm."""
        self[name] = Harm(name, begin, weight, breaks)


def any_place(world: World, dice: random.Random) -> tuple[str, int]:
    """Return a probe topic and one of its partitions."""
    return dice.choice(world.topics()), dice.randrange(world.plan.partitions)


def any_leader(world: World, dice: random.Random) -> int:
    """Return the leader of some partition, or any broker where that has none."""
    topic, partition = any_place(world, dice)
    leader = world.cluster.leader(topic, partition)
    return leader if leader > 0 else dice.choice(world.cluster.brokers())


def any_broker(world: World, dice: random.Random) -> int:
    """Return a broker, a leader in half of the cases."""
    return any_leader(world, dice) if dice.random() < 0.5 else dice.choice(world.cluster.brokers())


def start_all(world: World, brokers: Sequence[int]) -> None:
    """Start brokers."""
    for broker in brokers:
        world.cluster.start(broker)


def parted(world: World, *pairs: tuple[int | str, int | str]) -> End:
    """Cut connections, each between two sites, and return what heals them."""
    for a, b in pairs:
        world.cluster.cut(a, b)

    def back() -> None:
        for a, b in pairs:
            world.cluster.heal(a, b)

    return back
