"""Many lives, from seeds, in as many processes as there are processors."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import count
from typing import Unpack

from canary.workloads.catalogue import WORKLOADS
from simulation.harms.catalogue import WEIGHTS
from simulation.life.life import live
from simulation.world.outcome import Outcome
from simulation.world.plan import Given, plan_of


@dataclass(slots=True)
class Found:
    """What came of many lives."""

    lives: int = 0
    hours: float = 0.0
    partition_hours: float = 0.0
    promises: int = 0
    broken: int = 0
    cpu_s: float = 0.0
    wrong: list[Outcome] = field(default_factory=list)
    pairs: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, outcome: Outcome, cpu_s: float) -> None:
        """Count one life."""
        self.lives += 1
        self.hours += outcome.seconds / 3600
        writers = sum(WORKLOADS[mode].topic != "none" for mode in outcome.plan.modes)
        self.partition_hours += outcome.seconds / 3600 * outcome.plan.partitions * writers
        self.promises += outcome.promises
        self.broken += outcome.broken
        self.cpu_s += cpu_s
        self.pairs.update(outcome.pairs)
        if outcome.wrong:
            self.wrong.append(outcome)

    def __str__(self) -> str:
        """Return the numbers in one line."""
        return (
            f"{self.lives} lives, {self.partition_hours:,.0f} partition-hours, {self.promises:,} promises, "
            f"{self.broken:,} of them broken, {len(self.wrong)} lives went wrong; {self.cpu_s:,.0f} CPU-s"
        )


def lived(seed: int, **given: Unpack[Given]) -> tuple[Outcome, float]:
    """Live one seed; return its outcome and the CPU seconds that it took."""
    began = time.process_time()
    outcome = live(plan_of(seed, WEIGHTS, **given))
    return outcome, time.process_time() - began


def searched(
    first: int,
    lives: int | None = None,
    *,
    cpu_seconds: float | None = None,
    jobs: int | None = None,
    **given: Unpack[Given],
) -> Iterator[tuple[Outcome, Found]]:
    """Yield each life as it ends, and what came of all so far; until so many, or so many CPU seconds, are over."""
    found = Found()
    seeds = count(first) if lives is None else iter(range(first, first + lives))
    with ProcessPoolExecutor(jobs or os.cpu_count(), max_tasks_per_child=100) as pool:
        running: set[Future[tuple[Outcome, float]]] = set()
        try:
            while True:
                while len(running) < 2 * (jobs or os.cpu_count() or 1):
                    seed = next(seeds, None)
                    if seed is None or (cpu_seconds is not None and found.cpu_s >= cpu_seconds):
                        break
                    running.add(pool.submit(lived, seed, **given))
                if not running:
                    return
                done, running = wait(running, return_when=FIRST_COMPLETED)
                for one in done:
                    outcome, cpu_s = one.result()
                    found.add(outcome, cpu_s)
                    yield outcome, found
                if cpu_seconds is not None and found.cpu_s >= cpu_seconds:
                    return
        finally:
            for one in running:
                one.cancel()
