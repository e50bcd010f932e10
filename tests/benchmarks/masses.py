"""What very many losses at once cost the engine, against fewer of them."""

from __future__ import annotations

import time
import tracemalloc
from typing import TYPE_CHECKING

from tests.anomalies.online.test_tracker_masses import lose
from tests.benchmarks.measuring import MIB, Figure, command
from tests.support.massive import MANY, cut, knowing

if TYPE_CHECKING:
    from collections.abc import Iterator

FEW = 300


def measure(rounds: int = 5) -> Iterator[Figure]:
    """Lose probes that are told one by one; and at once what months have written."""
    few, many = (min(each(n) for _ in range(rounds)) for n in (FEW, 10 * FEW))
    yield Figure(f"{10 * FEW:,} lost, each told", "CPU over that of a tenth", many / few, most=20)
    costs = [[at_once(n) for _ in range(rounds)] for n in (1000, MANY)]
    (few, few_bytes), (many, many_bytes) = (map(min, zip(*one, strict=True)) for one in costs)
    subject = f"{MANY:,} lost at once"
    yield Figure(subject, "CPU", many, "CPU-s", most=2)
    yield Figure(subject, "memory added", many_bytes / MIB, "MiB", most=100)
    yield Figure(subject, "CPU over that of 1,000", many / few, most=3)
    yield Figure(subject, "memory over that of 1,000", many_bytes / few_bytes, most=1.5)


def each(n: int) -> float:
    """Return the CPU seconds of losing ``n`` probes with others in their places."""
    began = time.process_time()
    lose(n)
    return time.process_time() - began


def at_once(n: int) -> tuple[float, float]:
    """Return the CPU seconds and the bytes of losing everything that was known."""
    bench = knowing(n)
    tracemalloc.start()
    began = time.process_time()
    cut(bench)
    took = time.process_time() - began
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return took, peak


if __name__ == "__main__":
    command(measure)
