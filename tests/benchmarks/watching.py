"""What a quiet round of watching a large cluster costs, against looking at each partition once.

The client's own work on the answer is not in it (0.04 CPU seconds, measured against real brokers).
"""

from __future__ import annotations

import statistics
import tempfile
import time
from typing import TYPE_CHECKING, Any

from storage.store import Store
from tests.benchmarks.measuring import Figure, command
from tests.support.metadata import Rounds, metadata

if TYPE_CHECKING:
    from collections.abc import Iterator

CPU_S, RATIO, LINEAR = 1.0, 10.0, 15.0
ROUNDS, EACH = 11, 100


def quiet_rounds(partitions: int) -> tuple[float, float, int]:
    """Return CPU seconds of the first round, the median of those after it, and the rows that those made."""
    topics = {f"topic-{number}": EACH for number in range(partitions // EACH)}
    with tempfile.TemporaryDirectory() as directory, Store.connect(f"sqlite:///{directory}/s.db", timeout=5) as store:
        store.upgrade()
        a_round = Rounds(store, "topic-0")
        first = a_round(metadata(topics))
        quiet = metadata(topics)
        rounds = [a_round(quiet) for _ in range(ROUNDS)]
    cpu = statistics.median(one.judged + one.stored for one in rounds)
    return first.judged + first.stored, cpu, sum(one.rows for one in rounds)


def bare(partitions: int) -> float:
    """Return the median CPU seconds of looking at the leader and the ISR of every partition once."""
    answer: Any = metadata({f"topic-{number}": EACH for number in range(partitions // EACH)})
    costs = []
    for _ in range(ROUNDS):
        began = time.process_time()
        led = sum(
            part.leader >= 0 and len(part.isrs) == len(part.replicas)
            for topic in answer.topics.values()
            for part in topic.partitions.values()
        )
        costs.append(time.process_time() - began)
        assert led == partitions
    return statistics.median(costs)


def measure(partitions: int = 10_000) -> Iterator[Figure]:
    """Measure rounds of so many partitions, and of a tenth of them."""
    first, cpu, rows = quiet_rounds(partitions)
    _, tenth, _ = quiet_rounds(partitions // 10)
    subject = f"{partitions:,} partitions"
    yield Figure(subject, "first round", first, "CPU-s")
    yield Figure(subject, "quiet round", cpu, "CPU-s", most=CPU_S)
    yield Figure(subject, "quiet round over a bare look", cpu / bare(partitions), most=RATIO)
    yield Figure(subject, "quiet round over that of a tenth", cpu / tenth, most=LINEAR)
    yield Figure(subject, "quiet rounds", rows, "rows in the store", most=0)


if __name__ == "__main__":
    command(measure)
