"""A process that is killed at each durable step of a scenario in turn: of its ledger, and of its store."""

from __future__ import annotations

import random
from typing import Literal

import pytest

from simulation.life.life import Life
from simulation.search.shrinking import told
from simulation.world.outcome import Outcome
from simulation.world.plan import Plan, Strike
from tests.support.seeds import cases

PLANS = {
    "nothing happens": (),
    "an ISR of one loses power": (Strike(150.0, "isr-of-one-then-power", 60.0, 4),),
    "all brokers lose power": (Strike(150.0, "power-all", 20.0, 5),),
    "a leader is killed": (Strike(150.0, "kill", 20.0, 6),),
    "a topic is made anew": (Strike(150.0, "recreate-topic", 1.0, 7),),
    "a topic grows": (Strike(150.0, "grow-topic", 1.0, 8),),
    "the store is away": (Strike(140.0, "store-away", 60.0, 9), Strike(150.0, "power-all", 20.0, 10)),
    "the disk is full": (Strike(150.0, "disk-full", 60.0, 11),),
    "the canary is killed": (Strike(150.0, "kill-canary", 1.0, 12),),
    "the canary is stopped": (Strike(150.0, "stop-canary", 1.0, 13),),
}
"""Ten scenarios, by name."""
WINDOW = (140.0, 200.0)
"""From when to when steps are counted, in s: about the harm."""
SAMPLE = 2
"""So many steps of each scenario are tried in each run; all of them with --long."""


def plan_of(name: str) -> Plan:
    """Return a scenario of five minutes."""
    return Plan(seed=17, hours=300 / 3600, grain=5.0, partitions=1, retention_s=2000.0, strikes=PLANS[name])


def lived(name: str, at: int | None = None, *, power: bool = False) -> tuple[Outcome, int]:
    """Live a scenario, killed at its ``at``-th durable step (None: not); return its outcome and how many there were."""
    world = Life(plan_of(name))
    world.settle_beats = 80
    count = 0

    def step(operation: str, when: Literal["before", "after"]) -> None:
        nonlocal count
        if not WINDOW[0] <= world.schedule.now < WINDOW[1]:
            return
        count += 1
        if count == at:
            world.note(f"killed {when} {operation}")
            world.kill_canary(after=2.0, power=random.Random(count) if power else None)

    world.disk.on_step = step
    world.store.on_step = step
    return world.live(), count


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", PLANS)
def test_killed_at_each_durable_step_nothing_is_forgotten(name: str, *, long: bool) -> None:
    whole, steps = lived(name)
    assert whole.wrong == [], told(whole)
    assert steps > 50
    every = range(1, steps + 1)
    for at in every if long else (1 + seed % steps for seed in cases(f"steps of {name}", SAMPLE)):
        outcome, _ = lived(name, at, power=at % 2 == 0)
        assert outcome.wrong == [], told(outcome)
