"""The fold itself: facts in, state forward, violations and questions out. No I/O, no clock, no thread."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Self, TypeVar

from canary import facts as f
from canary.anomalies.online import codec, incarnations
from canary.anomalies.online.losses import log_end, random_reads, requests, rereads, scrub
from canary.anomalies.online.rules import (
    cluster,
    memory,
    phantoms,
    positions,
    reads,
    relays,
    retention,
    sends,
    transactions,
    wrong_cluster,
)
from canary.anomalies.online.scope import Findings, Scope
from canary.anomalies.online.state import State
from canary.anomalies.online.topology import (
    clock,
    conditions,
    elections,
    lineages,
    liveness,
    quorum,
    regressions,
    timeline,
    watched_incarnations,
)
from canary.anomalies.topology_change import TopologyChange
from canary.anomalies.violation import Violation, violation_of
from canary.facts.batch import runs

_Dated = TypeVar("_Dated", Violation, TopologyChange)


def _topology_seen(scope: Scope, fact: f.TopologySeen) -> None:
    timeline.topology_seen(scope, fact)
    watched_incarnations.judge(scope)


def _reported(scope: Scope, fact: f.Reported) -> None:
    """A part that judges by itself has found a violation, or one of its conditions has ended, in the known cluster."""
    if wrong_cluster.is_elsewhere(scope, fact.cluster_id, fact.part):
        return
    if fact.over:
        scope.found.ended.append(violation_of(fact))
    else:
        scope.emit(violation_of(fact))


_HANDLERS: dict[type[f.Fact], Callable[[Scope, Any], None]] = {
    f.RunnerStarted: cluster.runner_started,
    f.MemoryLost: memory.memory_lost,
    f.GenerationBegan: cluster.generation_began,
    f.ProducerLooked: phantoms.producer_looked,
    f.ProducerEpochBumped: cluster.producer_epoch_bumped,
    f.Failed: sends.failed,
    f.Skipped: sends.skipped,
    f.Indeterminate: sends.indeterminate,
    f.Positioned: positions.positioned,
    f.Refused: positions.refused,
    f.EndOfPartition: positions.end_of_partition,
    f.OutOfRange: positions.out_of_range,
    f.RereadEnded: rereads.ended,
    f.WatchAsked: incarnations.watch_asked,
    f.WatchFailed: incarnations.watch_failed,
    f.ClusterMet: wrong_cluster.met,
    f.ClusterSeen: cluster.cluster_seen,
    f.TopicSeen: incarnations.topic_seen,
    f.TopicGone: incarnations.topic_gone,
    f.TopicConfigured: incarnations.topic_configured,
    f.PartitionSeen: cluster.partition_seen,
    f.Listed: log_end.listed,
    f.LogSized: retention.log_sized,
    f.TransactionBegan: transactions.began,
    f.CommitAsked: transactions.commit_asked,
    f.Committed: transactions.committed,
    f.Aborted: transactions.aborted,
    f.TransactionIndeterminate: transactions.indeterminate,
    f.ScrubAsked: scrub.asked,
    f.RandomReadAsked: random_reads.asked,
    f.Relayed: relays.relayed,
    f.GroupOffset: relays.group_offset,
    f.ClientError: cluster.client_error,
    f.CoordinatorsSeen: cluster.coordinators_seen,
    f.Tick: lambda _scope, _fact: None,  # the fold has taken its time
    f.BrokerSeen: timeline.broker_seen,
    f.WatchedPartition: lambda scope, fact: timeline.partition_seen(scope, fact, ours=False),
    f.WatchedGone: timeline.watched_gone,
    f.WatchedConfigured: timeline.configured,
    f.WatchedListed: regressions.listed,
    f.TopologySeen: _topology_seen,
    f.EpochSeen: lineages.seen,
    f.QuorumSeen: quorum.seen,
    f.ClockSeen: clock.seen,
    f.Reported: _reported,
}
_RUNS: dict[type[f.Fact], Callable[[Scope, Any], None]] = {
    f.Polled: reads.polled,
    f.Acked: sends.acked,
    f.Sent: sends.sent,
}
"""The handlers of facts that come in runs."""
_ALWAYS = (f.RunnerStarted, f.Reported)
"""What is folded also while another cluster answers: the parts of the known one say then that their conditions end."""


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
    def load(cls, data: bytes) -> Self:
        """Return the tracker whose :meth:`dump` was ``data``.

        Raises:
            ValueError: it was not.
        """
        return cls(codec.loads(State, data))

    def dump(self) -> bytes:
        """Return all that the tracker knows: loaded again, it judges what follows as this one would."""
        return codec.dumps(self.state)

    def fold(self, facts: f.Facts) -> None:
        """Take in ``facts``, in the ledger's order.

        Consecutive probes are taken as runs: the same kind, stream and reader, with sequence and offset rising by one,
        are one step, whatever their number.
        """
        state, scope = self.state, self._scope
        for run in runs(facts):
            fact: Any = run[0]
            state.now_ns = max(state.now_ns, fact.at_ns)
            state.ordinal += len(run)
            kind = type(fact)
            if state.stopped is not None and kind not in _ALWAYS:
                continue
            if kind in _RUNS:
                _RUNS[kind](scope, run)
            else:
                _HANDLERS[kind](scope, fact)
            if scope.judged != len(scope.found.violations):
                elections.conclude(scope)
        if state.stopped is None:
            requests.ask(scope)
            phantoms.ask(scope)
            scope.found.urgent |= requests.urgent(state)

    def conditions(self) -> list[Violation]:
        """Return the conditions that hold and were reported, by the keys that they were reported under."""
        stalls = [stall.said for stall in self.state.stalls.values() if stall.said is not None]
        return [*stalls, *conditions.reported(self._scope)]

    def adopt(self, left: Iterable[Violation]) -> None:
        """Take conditions that a store has open and this memory does not know, at the start: it ends them, too.

        Of a place of which it knows the condition under another name, that of another incarnation, this one is over.
        """
        for one in left:
            for room in (conditions, liveness):
                if one.kind in room.ADOPTED and not room.adopt(self.state, one):
                    self._scope.found.ended.append(one)

    def topology(self) -> list[TopologyChange]:
        """Return the present topology as changes, each since when it holds: what a store should know of it."""
        return self._by_machine(list(timeline.everything(self.state.topology)))

    def drain(self) -> Findings:
        """Return what was found since the last call, with the times by the machine's clock: so it is filed."""
        findings = self._scope.found
        findings.violations = self._by_machine(self._scope.reported())
        findings.ended, findings.changes = self._by_machine(findings.ended), self._by_machine(findings.changes)
        findings.unknown_producers = sorted(set(findings.unknown_producers))
        self._scope = Scope(self.state)
        return findings

    def _by_machine(self, found: list[_Dated]) -> list[_Dated]:
        """Return what was found with its times by the machine's clock."""
        if not self.state.clock_steps:
            return found
        return [one.retimed(partial(clock.machines_ns, self.state)) for one in found]
