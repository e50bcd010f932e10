"""What a round of watching a large cluster costs: ``python -m tests.benchmarks.watching [partitions]``.

Prints one line of JSON and fails when a target is missed: a quiet round of 10,000 partitions below 1 CPU second and at
most 10 times what it takes in the same run to look at each partition once, ten times the partitions at most 15 times
the cost, and no row in the store without a change. The client's own work on the answer is not in it (0.04 CPU seconds,
measured against real brokers).
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from typing import Any

from storage.store import Store
from tests.support.metadata import Rounds, metadata

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


def main(partitions: int) -> int:
    """Measure, print and judge; return the exit status."""
    first, cpu, rows = quiet_rounds(partitions)
    _, tenth, _ = quiet_rounds(partitions // 10)
    result = {
        "partitions": partitions,
        "first_round_cpu_s": round(first, 3),
        "quiet_round_cpu_s": round(cpu, 4),
        "ratio_to_a_bare_look": round(cpu / bare(partitions), 1),
        "ratio_to_a_tenth": round(cpu / tenth, 1),
        "rows_without_change": rows,
    }
    print(json.dumps(result))  # noqa: T201  # the command's output
    met = cpu < CPU_S and result["ratio_to_a_bare_look"] <= RATIO and result["ratio_to_a_tenth"] <= LINEAR and not rows
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
