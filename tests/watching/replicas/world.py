"""A cluster of one partition whose replicas are lists of batches, and what happens to it between two readings."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from canary.watching.replicas.comparing import Comparison
from canary.watching.replicas.source import Read
from canary.wire.errors import WireError
from canary.wire.replicas import PartitionReplicas

if TYPE_CHECKING:
    from collections.abc import Callable

    from canary.anomalies.replicas.divergence import Divergence
    from canary.watching.replicas.outcomes import Step
    from tests.anomalies.replicas.model import FakeBatch

MANY = 10**6
STATE = PartitionReplicas(
    topic="orders",
    partition=0,
    topic_id="id",
    leader=1,
    leader_epoch=5,
    replicas=(1, 2, 3),
    isr=frozenset({1, 2, 3}),
    elr=None,
    last_known_elr=None,
    offline=frozenset(),
)


@dataclass
class World:
    """What Source answers; ``before_read`` is called with (broker, offset) before each answer to a Fetch.

    ``tier``: what any broker answers for what is not on its own disk; None: there is no tier. Nothing in it is what a
    broker answers that has waited for the tier long enough.
    """

    logs: dict[int, list[FakeBatch]]
    state: PartitionReplicas = STATE
    policy: bool | None = False
    retention_ms: int | None = None
    tier: list[FakeBatch] | None = None
    high_watermarks: dict[int, int] = field(default_factory=dict)
    log_starts: dict[int, tuple[int, int]] = field(default_factory=dict)
    batches_at_once: int = 100
    before_read: Callable[[int, int], None] = lambda *_: None
    reads: int = 0
    clusters: dict[int, str] = field(default_factory=dict)
    """By broker, the id that it tells where that is not "here"."""

    def cluster_at(self, broker: int) -> str | None:
        return self.clusters.get(broker, "here")

    def names(self) -> list[str]:
        return [self.state.topic]

    def partitions(self, *topics: str) -> list[PartitionReplicas]:
        return [self.state] if self.state.topic in topics else []

    def compacted(self, topic: str) -> bool | None:
        assert topic == self.state.topic
        return self.policy

    def tiered(self, topic: str) -> bool | None:
        assert topic == self.state.topic
        return self.tier is not None

    def kept_ms(self, topic: str) -> int | None:
        assert topic == self.state.topic
        return self.retention_ms

    def starts(self, place: PartitionReplicas, broker: int) -> tuple[int, int]:
        assert place.topic == self.state.topic
        return self.log_starts.get(broker, (0, 0))

    def read(self, state: PartitionReplicas, broker: int, offset: int, max_bytes: int) -> Read:
        assert max_bytes > 0
        self.reads += 1
        self.before_read(broker, offset)
        if state.leader_epoch != self.state.leader_epoch:
            raise WireError("stale", code="FENCED_LEADER_EPOCH")
        from_the_tier = offset < self.log_starts.get(broker, (0, 0))[1]
        if from_the_tier and self.tier is None:
            raise WireError("gone", code="OFFSET_OUT_OF_RANGE")
        end = self.high_watermarks.get(broker, self.end)
        log = self.tier if from_the_tier and self.tier is not None else self.logs[broker]
        found = [one for one in log if one.last_offset >= offset and one.last_offset < end]
        found = found[: self.batches_at_once]
        held: tuple[Any, ...] = tuple(found)
        return Read(held, end, sum(one.size for one in found))

    @property
    def end(self) -> int:
        """The end of the longest log."""
        return max(one[-1].last_offset + 1 for one in self.logs.values() if one)

    def change(self, **more: Any) -> None:
        """Change the state."""
        self.state = replace(self.state, **more)


def compared(world: World, **bounds: Any) -> tuple[Comparison, list[Divergence], list[Step]]:
    """The comparison, what it said on its way, and its steps."""
    source: Any = world
    comparison = Comparison(source, "orders", 0, **bounds)
    steps = []
    for step in comparison.run():
        steps.append(step)
        assert len(steps) < MANY
    return comparison, [one for step in steps for one in step.found], steps
