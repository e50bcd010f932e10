"""What list_topics() returns of clusters of any size, and rounds of watching them, without a client."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from canary.anomalies.online import Tracker
from canary.facts import ClusterSeen, Fact, RunnerStarted, TopologySeen, WatchedListed
from canary.watching.other_topics import OtherTopics
from canary.watching.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Mapping

    from storage.store import Store


def metadata(topics: Mapping[str, int], changed: Mapping[tuple[str, int], tuple[int, list[int]]] | None = None) -> Any:
    """Every partition led by 1 with a full ISR, but those in ``changed``."""
    found = {}
    for name, count in topics.items():
        partitions = {}
        for number in range(count):
            leader, isr = (changed or {}).get((name, number), (1, [1, 2, 3]))
            partitions[number] = SimpleNamespace(leader=leader, replicas=[1, 2, 3], isrs=isr)
        found[name] = SimpleNamespace(error=None, partitions=partitions)
    return SimpleNamespace(topics=found)


class Cost(NamedTuple):
    """Of one round: CPU seconds of telling and judging it, of storing it, and rows that the store has more."""

    judged: float
    stored: float
    rows: int


class Rounds:
    """Rounds of watching all topics, with the offsets of one; each is judged and stored as the runner does."""

    def __init__(self, store: Store, named: str) -> None:
        self.others = OtherTopics(Selection(["*"], [named]))
        self.tracker = Tracker()
        self.tracker.fold([RunnerStarted(1, "canary-0", "test")])
        self._store = store
        self._named = named
        self._sample = 0

    def __call__(self, answer: Any) -> Cost:
        self._sample += 1
        n = self._sample
        at_ns = n * 10**9
        began = time.process_time()
        facts: list[Fact] = [ClusterSeen(at_ns, n, "cluster", "1,2,3", 1 + n % 3)]  # any broker, as KRaft tells
        facts += self.others.seen(answer, [], n, at_ns, time.thread_time())
        facts.append(TopologySeen(at_ns, n, "all"))
        facts += [
            WatchedListed(at_ns, n, self._named, "id", number, 0, n, n, 1)
            for number in self.others.partitions(self._named)
        ]
        self.tracker.fold(facts)
        judged = time.process_time()
        rows = self._store.topology.record("t", self.tracker.drain().changes)
        return Cost(judged - began, time.process_time() - judged, rows)
