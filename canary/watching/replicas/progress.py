"""How far a scrub of replicas is: kept in memory, of one entry for each partition, and lost with the process."""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from canary.metrics.watched.replicas import TopicCompared
from canary.watching.replicas.outcomes import Outcome, Reason

Place = tuple[str, int]
_PASSES: Final[frozenset[Reason]] = frozenset({"no-leader", "not-in-sync", "unanswered", "moved"})
"""What may be over at the end of a pass."""


@dataclass(slots=True)
class _Partition:
    compared_to: int | None = None
    divergent: int = 0
    unknown: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Topic:
    since_ns: int
    bytes: int = 0
    whole_ns: int = 0
    left: set[int] = field(default_factory=set)
    partitions: dict[int, _Partition] = field(default_factory=dict)


class Progress:
    """What is known of each partition, and which are still to be compared in this pass."""

    def __init__(self) -> None:
        self._topics: dict[str, _Topic] = {}
        self._queue: deque[Place] = deque()
        self._tried: set[Place] = set()
        """Partitions that are compared once more in this pass."""
        self._at: tuple[Outcome, int] | None = None
        """What a pass over a partition has found, and the offset at which it goes on if it is interrupted."""

    def begin(self, places: Iterable[Place], now_ns: int) -> None:
        """Take which partitions there are; begin a pass, unless one goes on."""
        there = list(places)
        partitions: dict[str, set[int]] = {}
        for topic, partition in there:
            partitions.setdefault(topic, set()).add(partition)
        for gone in self._topics.keys() - partitions.keys():
            del self._topics[gone]
        for topic, numbers in partitions.items():
            known = self._topics.setdefault(topic, _Topic(now_ns))
            known.partitions = {number: known.partitions.get(number, _Partition()) for number in sorted(numbers)}
            known.left &= numbers
        self._queue = deque(place for place in self._queue if place[1] in partitions.get(place[0], ()))
        if not self._queue:
            self._queue.extend(there)
            self._tried.clear()
            for topic, numbers in partitions.items():
                self._topics[topic].left = set(numbers)

    def next(self) -> Place | None:
        """Return the partition that is next; None: the pass is over."""
        return self._queue[0] if self._queue else None

    def interrupted_at(self, topic: str, partition: int) -> tuple[int, Outcome | None]:
        """Return the offset at which a pass that was interrupted goes on, with what it had found; 0: none was."""
        if self._at is None or (self._at[0].topic, self._at[0].partition) != (topic, partition):
            return 0, None
        return self._at[1], self._at[0]

    def read(self, outcome: Outcome, at: int, size: int) -> None:
        """Take a step of so many bytes; ``at`` is where the pass goes on if it is interrupted."""
        self._topics[outcome.topic].bytes += size
        self._at = (outcome, at)

    def interrupted(self, topic: str, partition: int) -> None:
        """Put a partition behind the others: the cluster did not answer while it was compared."""
        if self._queue and self._queue[0] == (topic, partition):
            self._queue.rotate(-1)

    def done(self, outcome: Outcome, now_ns: int) -> None:
        """Take the outcome of a partition's pass."""
        place = (outcome.topic, outcome.partition)
        if self._queue and self._queue[0] == place:
            self._queue.popleft()
        self._at = None
        topic = self._topics[outcome.topic]
        reasons: dict[str, str] = {}
        for (reason, _), words in outcome.unknown.items():
            reasons.setdefault(reason, words)
        divergent = len(outcome.divergences) + outcome.left_out
        topic.partitions[outcome.partition] = _Partition(outcome.compared_to, divergent, reasons)
        if place not in self._tried and any(reason in _PASSES for reason, _ in outcome.unknown):
            self._tried.add(place)
            self._queue.append(place)
            return
        topic.left.discard(outcome.partition)
        if not topic.left:
            topic.whole_ns = now_ns

    @property
    def refused(self) -> str | None:
        """What the cluster refuses, in words; None: nothing."""
        for topic in self._topics.values():
            for one in topic.partitions.values():
                if "refused" in one.unknown:
                    return f"watch.replicas: {one.unknown['refused']} (docs/acl.md)"
        return None

    def topics(self) -> tuple[TopicCompared, ...]:
        """Return what is known of each topic."""
        return tuple(_shown(name, one) for name, one in sorted(self._topics.items()))


def _shown(name: str, topic: _Topic) -> TopicCompared:
    words: dict[str, str] = {}
    for one in topic.partitions.values():
        words = one.unknown | words
    return TopicCompared(
        topic=name,
        bytes=topic.bytes,
        since_ns=topic.since_ns,
        whole_ns=topic.whole_ns,
        compared_to=tuple(
            (number, one.compared_to) for number, one in topic.partitions.items() if one.compared_to is not None
        ),
        divergent=sum(one.divergent for one in topic.partitions.values()),
        unknown=Counter(reason for one in topic.partitions.values() for reason in one.unknown),
        words=words,
    )
