"""A correct Kafka with a busy life, seen through two lenses at once: a history and the canary's facts.

Producers interleave, transactions commit, abort and end in doubt, clients retry, outcomes arrive late or never,
leaders change, the runner restarts, consumers are rebalanced, retention removes, the topic is deleted and made again.
``simulate`` lives such a life from a seed; ``simulation.histories.injections`` break it in one way or several, and note
the truth.

One event follows the other on a heap; everything random comes from the seed, so the same seed is the same life.
Whoever listens (the online tracker in a test) is given the facts of each event and may ask for re-reads, which are
answered from the log as it is some time later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simulation.histories.clockwork import Injected, World
from simulation.histories.cluster import Simulator
from simulation.histories.injections import INJECTIONS

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Injected", "Simulator", "World", "simulate"]

RECREATED = 0.25
"""Share of lives in which the topic is deleted and made again."""


def simulate(
    seed: int,
    *,
    duration_s: float = 3.0,
    partitions: int = 2,
    faults: bool = True,
    inject: Sequence[str] = (),
    listener: Any = None,
) -> World:
    """Live a life and return it.

    Args:
        seed: The same seed and arguments, the same life.
        duration_s: Seconds of simulated time during which producers work.
        partitions: How many the topic has.
        faults: Restarts, leader changes, retention, rebalances, the topic deleted and made again.
        inject: Names of simulation.histories.injections.INJECTIONS to break it with.
        listener: Called with the facts of each event; returns the re-reads it wants.
    """
    life = Simulator(seed, duration_s, partitions, listener)
    life.begin()
    if faults:
        if life.random.random() < 0.4:
            life.with_group()
        happenings = [life.change_leader, life.restart, life.expire]
        for _ in range(life.random.randint(0, 5)):
            life.at(life.random.randrange(life.duration), life.random.choice(happenings))
        if life.random.random() < RECREATED:  # what is to be broken is broken afterwards
            life.at(int(life.duration * (0.02 if inject else life.random.uniform(0.02, 0.6))), life.delete)
    for name in inject:
        life.at(life.duration // 4 + life.random.randrange(life.duration // 2), lambda n=name: INJECTIONS[n](life))  # type: ignore[misc]
    life.at(life.duration, life.end)
    life.run()
    return life.world()
