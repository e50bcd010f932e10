"""A healthy life of many partitions, and what its tracker holds: ``python -m tests.benchmarks.many_lives PARTITIONS``.

Prints one line of JSON with the resident memory (MiB) of a process that holds the tracker, publishes and snapshots.
"""

from __future__ import annotations

import itertools
import json
import sys
from typing import TYPE_CHECKING

import psutil

from canary import facts as f
from canary.anomalies.online import Tracker
from canary.anomalies.online.state import Probed
from canary.metrics import measured
from canary.metrics.published import dumps
from canary.runner.publishing import snapshot

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

RC, RU = "read_committed", "read_uncommitted"
TOPIC, TOPIC_ID = "durability-canary", "q7Vb1nVZQbeh5w0m4hV6xA"
PRODUCER, GENERATIONS, SECOND = 2**62 + 77, 4, 10**9
BEGIN_NS = 1_790_000_000 * SECOND
REPLICAS = ("1,2,3", "2,3,1", "3,1,2")


class Life:
    """A healthy life of one idempotent writer, two readers and a sampler, of so many partitions."""

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions
        self.now_ns = BEGIN_NS
        self.sample = 0
        self.generation = 0
        self.sequence = 0
        self.end = 0

    def tick(self) -> int:
        self.now_ns += 1_000
        return self.now_ns

    def start(self) -> Iterator[f.Fact]:
        """Yield what a start of the runner tells: every start has a generation of its own."""
        self.generation, self.sequence = self.generation + 1, 0
        yield f.RunnerStarted(self.tick(), "canary-0", "bench", "home", None)
        yield from self.round()
        yield f.TopicConfigured(self.tick(), TOPIC, 7 * 86_400_000, -1, "delete", 2)
        yield f.GenerationBegan(self.tick(), TOPIC, "idempotent", PRODUCER, self.generation, TOPIC_ID)
        for consumer in (RC, RU):
            for p in range(self.partitions):
                yield f.Positioned(self.tick(), consumer, consumer, TOPIC, p, self.end, "start", TOPIC_ID)

    def round(self) -> Iterator[f.Fact]:
        """Yield a round of the sampler."""
        self.sample += 1
        yield f.WatchAsked(self.tick(), self.sample)
        yield f.ClusterSeen(self.tick(), self.sample, "MkU3OEVBNTcwNTJENDM2Qk", "1,2,3", 1)
        yield f.TopicSeen(self.tick(), self.sample, TOPIC, TOPIC_ID, self.partitions)
        for p in range(self.partitions):
            replicas = REPLICAS[p % 3]
            yield f.PartitionSeen(self.tick(), self.sample, TOPIC, p, int(replicas[0]), replicas, replicas)
        yield f.TopologySeen(self.tick(), self.sample, "probe")
        for p in range(self.partitions):
            yield f.Listed(self.tick(), self.sample, TOPIC, p, 0, self.end, self.end, 4)

    def beat(self) -> Iterator[f.Fact]:
        """Yield a probe to every partition, its acknowledgement, and its two deliveries."""
        sequence, offset = self.sequence, self.end
        self.sequence, self.end = sequence + 1, offset + 1
        places = [(TOPIC, p, PRODUCER, self.generation, sequence) for p in range(self.partitions)]
        for who in places:
            yield f.Sent(self.tick(), *who, "idempotent")
        for who in places:
            yield f.Acked(self.tick(), *who, offset, 2_000_000)
        for consumer in (RC, RU):
            for p in range(self.partitions):
                at_ns = self.tick()
                record = (TOPIC, p, offset, PRODUCER, self.generation, sequence)
                yield f.Polled(at_ns, consumer, consumer, *record, timestamp_ms=at_ns // 1_000_000)

    def second(self, beats: int = 1) -> Iterator[f.Fact]:
        """Yield a second."""
        yield from self.round()
        for _ in range(beats):
            yield from self.beat()
        self.now_ns += SECOND // 4


def lived(partitions: int, *, seconds: int = 3) -> tuple[Tracker, Life]:
    """Return the tracker of a runner that was started GENERATIONS times, and lived so many seconds each time."""
    life, tracker = Life(partitions), Tracker()
    tracker.state.probed = {TOPIC: Probed(["idempotent"], list(range(partitions)))}
    for _ in range(GENERATIONS):
        for facts in (life.start(), *(life.second() for _ in range(seconds))):
            fold(tracker, facts)
    return tracker, life


def fold(tracker: Tracker, facts: Iterable[f.Fact]) -> None:
    """Fold facts as a judge does, in frames, and make sure that nothing is found."""
    waiting = iter(facts)
    while frame := list(itertools.islice(waiting, 1_000)):
        tracker.fold(frame)
        assert not tracker.drain().violations


def main(partitions: int) -> None:
    """Hold, publish and snapshot; print what is resident."""
    before = psutil.Process().memory_info().rss
    tracker, _ = lived(partitions)
    for _ in range(3):
        dumps(measured(tracker.state))
        snapshot.seal(tracker, ())
    rss = psutil.Process().memory_info().rss
    sys.stdout.write(json.dumps({"rss_mib": round(rss / 2**20, 1), "of_imports_mib": round(before / 2**20, 1)}) + "\n")


if __name__ == "__main__":
    main(int(sys.argv[1]))
