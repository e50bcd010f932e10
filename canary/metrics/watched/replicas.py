"""What a runner publishes of the replicas that it compares: how far it is, what it found, and what it cannot know."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from canary.anomalies.age import not_looked_at
from canary.metrics.metric import Measurement


@dataclass(frozen=True, slots=True)
class TopicCompared:
    """How far the comparison of one topic is.

    Attributes:
        bytes: read so far by this process, from all replicas together.
        since_ns: when this process began to compare it.
        whole_ns: when the last pass over all of its partitions ended; 0: none has.
        compared_to: partitions, and of each the first offset that its last pass did not compare.
        divergent: ranges of offsets in which replicas differed when they were compared last.
        unknown: by reason, the partitions of which something could not be compared in their last pass.
        words: of each reason, an example in words.
    """

    topic: str
    bytes: int = 0
    since_ns: int = 0
    whole_ns: int = 0
    compared_to: tuple[tuple[int, int], ...] = ()
    divergent: int = 0
    unknown: Mapping[str, int] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReplicasSeen:
    """The topics whose replicas are compared, as of ``at_ns``; ``unknown``: why none can be now, None: they can."""

    at_ns: int = 0
    topics: tuple[TopicCompared, ...] = ()
    unknown: str | None = None

    def aged(self, now_ns: int, most_s: float) -> Self:
        """Return the same, as not known if it is older than ``most_s``: nobody compares any more."""
        reason = not_looked_at(self.at_ns, now_ns, most_s, "nothing was compared")
        return self if reason is None else replace(self, unknown=reason)

    def measurements(self) -> Iterator[Measurement]:
        """Yield the series."""
        yield Measurement("canary_replicas_unknown", (), int(self.unknown is not None))
        for one in self.topics:
            name = (one.topic,)
            yield Measurement("canary_replicas_compared_bytes_total", name, one.bytes)
            age_ns = self.at_ns - (one.whole_ns or one.since_ns)
            yield Measurement("canary_replicas_compared_age_seconds", name, max(age_ns, 0) / 1e9)
            yield Measurement("canary_replicas_divergent_ranges", name, one.divergent)
            for reason, partitions in one.unknown.items():
                yield Measurement("canary_replicas_unknown_partitions", (*name, reason), partitions)
            for partition, offset in one.compared_to:
                yield Measurement("canary_replicas_compared_to_offset", (*name, str(partition)), offset)
