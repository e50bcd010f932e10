"""The fold itself: facts in, state forward, violations and questions out. No I/O, no clock, no thread."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from canary import facts as f
from canary.anomalies.online import (
    cluster,
    codec,
    deliveries,
    elections,
    incarnations,
    losses,
    memory,
    regressions,
    relays,
    scrubbing,
    topology,
    transactions,
)
from canary.anomalies.online.scope import Scope
from canary.anomalies.online.state import State

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from canary.anomalies.topology_change import TopologyChange
    from canary.anomalies.violation import RereadRequest, Violation


@dataclass(slots=True)
class Findings:
    """What a stretch of facts led to. Everything in it may come again after a replay: receivers are idempotent."""

    violations: list[Violation] = field(default_factory=list)
    rereads: list[RereadRequest] = field(default_factory=list)
    renewed: list[str] = field(default_factory=list)
    """Topics whose clients must be renewed: another incarnation, or more partitions."""
    unknown_producers: list[int] = field(default_factory=list)
    """Producer ids to look up in the store; the answer is a ProducerLooked fact."""
    stopped: str | None = None
    """Why nothing is judged from now on, until a RunnerStarted: every client must be closed, and the cluster asked."""
    ended: list[Violation] = field(default_factory=list)
    """Conditions that hold no more; one that is in ``violations`` too was said before it ended."""
    changes: list[TopologyChange] = field(default_factory=list)
    """What changed in the topology of the cluster."""


_HANDLERS: dict[type[f.Fact], Callable[[Scope, Any], None]] = {
    f.RunnerStarted: cluster.runner_started,
    f.MemoryLost: memory.memory_lost,
    f.GenerationBegan: cluster.generation_began,
    f.ProducerLooked: cluster.producer_looked,
    f.ProducerEpochBumped: cluster.producer_epoch_bumped,
    f.Failed: deliveries.failed,
    f.Indeterminate: deliveries.indeterminate,
    f.Positioned: deliveries.positioned,
    f.Refused: deliveries.refused,
    f.EndOfPartition: deliveries.end_of_partition,
    f.OutOfRange: deliveries.out_of_range,
    f.RereadEnded: losses.reread_ended,
    f.WatchAsked: incarnations.watch_asked,
    f.WatchFailed: incarnations.watch_failed,
    f.ClusterSeen: cluster.cluster_seen,
    f.TopicSeen: incarnations.topic_seen,
    f.TopicGone: incarnations.topic_gone,
    f.TopicConfigured: incarnations.topic_configured,
    f.PartitionSeen: cluster.partition_seen,
    f.Listed: losses.listed,
    f.TransactionBegan: transactions.began,
    f.CommitAsked: transactions.commit_asked,
    f.Committed: transactions.committed,
    f.Aborted: transactions.aborted,
    f.TransactionIndeterminate: transactions.indeterminate,
    f.ScrubAsked: scrubbing.asked,
    f.Relayed: relays.relayed,
    f.GroupOffset: relays.group_offset,
    f.ClientError: cluster.client_error,
    f.CoordinatorsSeen: cluster.coordinators_seen,
    f.Tick: cluster.tick,
    f.BrokerSeen: topology.broker_seen,
    f.WatchedPartition: lambda scope, fact: topology.partition_seen(scope, fact, ours=False),
    f.WatchedGone: lambda scope, fact: topology.topic_gone(scope, fact.topic),
    f.WatchedConfigured: topology.configured,
    f.WatchedListed: regressions.listed,
    f.TopologySeen: topology.topology_seen,
}


class Tracker:
    """The online engine of one cluster.

    >>> tracker = Tracker()
    >>> tracker.fold([])
    >>> tracker.drain().violations
    []
    """

    def __init__(self, state: State | None = None) -> None:
        """Begin with ``state`` (an empty one by default)."""
        self.state = state or State()
        self._scope = Scope(self.state)

    @classmethod
    def load(cls, data: bytes) -> Tracker:
        """Return the tracker whose :meth:`dump` was ``data``.

        Raises:
            ValueError: it was not.
        """
        return cls(codec.loads(State, data))

    def dump(self) -> bytes:
        """Return all that the tracker knows: loaded again, it judges what follows as this one would."""
        return codec.dumps(self.state)

    def fold(self, facts: Sequence[f.Fact]) -> None:
        """Take in ``facts``, in the ledger's order.

        Consecutive probes are taken as runs: the same kind, stream and reader, with sequence and offset rising by one,
        are one step, whatever their number.
        """
        state, scope = self.state, self._scope
        i, n = 0, len(facts)
        while i < n:
            fact = facts[i]
            state.now_ns = max(state.now_ns, fact.at_ns)
            kind = type(fact)
            if state.stopped is not None and kind is not f.RunnerStarted:
                state.ordinal += 1
                i += 1
                continue
            if kind is f.Polled:
                j = _polled_run(facts, i, n)
                state.ordinal += j - i
                deliveries.polled(scope, facts[i:j])  # type: ignore[arg-type]  # a run is of one kind
            elif kind is f.Acked:
                j = _acked_run(facts, i, n)
                state.ordinal += j - i
                deliveries.acked(scope, facts[i:j])  # type: ignore[arg-type]
            elif kind is f.Sent:
                j = _sent_run(facts, i, n)
                state.ordinal += j - i
                deliveries.sent(scope, facts[i:j])  # type: ignore[arg-type]
            else:
                j = i + 1
                state.ordinal += 1
                _HANDLERS[kind](scope, fact)
            i = j
            if scope.judged != len(scope.violations):
                elections.conclude(scope)
        if state.stopped is None:
            losses.ask(scope)

    def drain(self) -> Findings:
        """Return what was found since the last call."""
        scope = self._scope
        findings = Findings(
            scope.told(),
            scope.rereads,
            scope.renewed,
            sorted(scope.unknown_producers),
            scope.stopped,
            scope.ended,
            scope.changes,
        )
        self._scope = Scope(self.state)
        return findings

    def positions(self, topic: str, consumer: str) -> dict[int, int]:
        """Return partition to the offset from which ``consumer`` should go on in the present incarnation."""
        known = self.state.topics.get(topic)
        if known is None:
            return {}
        return {p: log.readers[consumer].position for p, log in known.logs.items() if consumer in log.readers}


def _polled_run(facts: Sequence[f.Fact], i: int, n: int) -> int:
    first = facts[i]
    assert isinstance(first, f.Polled)  # noqa: S101  # for the type checker
    j = i + 1
    if j == n or type(after := facts[j]) is not f.Polled or after.offset != first.offset + 1:
        return j  # the usual case where probes are mixed
    offset, sequence = first.offset, first.sequence
    partition, consumer, topic = first.partition, first.consumer, first.topic
    producer_id, generation, transaction_id = first.producer_id, first.generation, first.transaction_id
    epoch = first.leader_epoch
    while j < n:
        fact = facts[j]
        offset += 1
        sequence += 1
        if (
            type(fact) is not f.Polled
            or fact.offset != offset
            or fact.sequence != sequence
            or fact.partition != partition
            or fact.consumer != consumer
            or fact.producer_id != producer_id
            or fact.generation != generation
            or fact.transaction_id != transaction_id
            or fact.topic != topic
            or fact.leader_epoch != epoch
        ):
            break
        j += 1
    return j


def _acked_run(facts: Sequence[f.Fact], i: int, n: int) -> int:
    first = facts[i]
    assert isinstance(first, f.Acked)  # noqa: S101  # for the type checker
    j = i + 1
    if first.offset is None or j == n or type(after := facts[j]) is not f.Acked or after.offset != first.offset + 1:
        return j
    offset, sequence = first.offset, first.sequence
    partition, producer_id, generation, topic = first.partition, first.producer_id, first.generation, first.topic
    while j < n:
        fact = facts[j]
        offset += 1
        sequence += 1
        if (
            type(fact) is not f.Acked
            or fact.offset != offset
            or fact.sequence != sequence
            or fact.partition != partition
            or fact.producer_id != producer_id
            or fact.generation != generation
            or fact.topic != topic
        ):
            break
        j += 1
    return j


def _sent_run(facts: Sequence[f.Fact], i: int, n: int) -> int:
    first = facts[i]
    assert isinstance(first, f.Sent)  # noqa: S101  # for the type checker
    j = i + 1
    if j == n or type(after := facts[j]) is not f.Sent or after.sequence != first.sequence + 1:
        return j
    sequence = first.sequence
    partition, producer_id, generation, topic = first.partition, first.producer_id, first.generation, first.topic
    transaction_id = first.transaction_id
    while j < n:
        fact = facts[j]
        sequence += 1
        if (
            type(fact) is not f.Sent
            or fact.sequence != sequence
            or fact.partition != partition
            or fact.producer_id != producer_id
            or fact.generation != generation
            or fact.topic != topic
            or fact.transaction_id != transaction_id
        ):
            break
        j += 1
    return j
