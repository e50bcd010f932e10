"""Starts, generations, and what the cluster says about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from canary.anomalies.online import generations, liveness, memory, relays, retention, topology, wrong_cluster
from canary.anomalies.online.claims import gone_past, make_certain
from canary.anomalies.online.deliveries import forget_sent_times, say_phantom
from canary.anomalies.online.questions import PASSED, note_change, want_tail
from canary.anomalies.online.state import Log, Producer
from canary.anomalies.violation import Records
from canary.probe.identity import Identity

if TYPE_CHECKING:
    from canary import facts as f
    from canary.anomalies.online.scope import Scope
    from canary.anomalies.online.state import Stream, Topic

ISOLATIONS = frozenset({"read_committed", "read_uncommitted"})
"""The readers that every topic has are called after them."""
_ERRORS_KEPT = 10
_INDETERMINATE_TRANSACTIONS_KEPT = 10_000
_RESENT_KEPT = 1000
_EVERY_GENERATION = 1 << 62


def runner_started(scope: Scope, fact: f.RunnerStarted) -> None:
    """A process begins where another ended: what was open has no outcome, what was asked must be asked again."""
    state = scope.state
    state.now_ns = fact.at_ns  # the clock of a process before may have been ahead
    state.since_ns = state.since_ns or fact.at_ns
    state.stopped = state.sure = None
    state.installation = fact.installation or state.installation
    state.started = [fact.remembered_ns or 0, fact.at_ns]
    state.asks.clear()
    state.unprobed.clear()
    liveness.runner_started(scope)
    topology.runner_started(scope)
    for producer in state.producers.values():
        producer.live = False
    memory.forget_producers(scope)
    for topic in state.topics.values():
        topic.fresh = False
        for log in topic.logs.values():
            passed = [(*one, gone_past(topic, log, one[1])) for one in log.held.items() if one[1].check in PASSED]
            _forget_readers(log.readers)
            for key, held, before in passed:  # of some only one that is forgotten can tell, and it goes on elsewhere
                after = gone_past(topic, log, held)
                make_certain(log, key, held, [part for a, b in before for part in after.without(a, b)])
            _ask_again(scope, log)
            log.tried_ns = 0
            retention.clock_seen(log, fact.at_ns)
        for stream in topic.streams:
            _bury(scope, topic, stream)
            _forget_readers(stream.unseen)
            _forget_readers(stream.early)
    for transaction in state.transactions.values():
        if transaction.outcome == "open":
            transaction.outcome = "indeterminate"
            relays.doubtful(scope, transaction)


def _forget_readers(by_name: dict[str, Any]) -> None:
    """Readers that settings added may be gone; those that are there say where they begin."""
    for name in [name for name in by_name if name not in ISOLATIONS]:
        del by_name[name]


def _bury(scope: Scope, topic: Topic, stream: Stream) -> None:
    """The stream's process is dead: its open probes are indeterminate."""
    stream.live = False
    if stream.open:
        meters = scope.meters(topic.name, stream.partition)
        meters.indeterminate[stream.mode] = meters.indeterminate.get(stream.mode, 0) + stream.open.total
        for a, b in list(stream.open):
            stream.indeterminate.add(a, b)
        stream.open.remove(0, stream.next_sequence)
    forget_sent_times(stream)


def _ask_again(scope: Scope, log: Log) -> None:
    log.rereads.clear()
    log.regression = None
    for m in log.missing:
        if m.state == "asked":
            m.state, m.request_id = "ask", None
    for u in log.unplaced:
        if u.state == "asked":
            u.state, u.request_id = "ask", None
    log.listed_ordinal = 0
    if log.known_end:
        want_tail(scope, log, "start")  # it may have been cut while nobody looked
        if log.wanted is not None:
            log.wanted.not_before_ordinal = scope.state.ordinal


def generation_began(scope: Scope, fact: f.GenerationBegan) -> None:
    """A new generation is the only writer from here on; what the one before it had open still gets its outcomes."""
    state = scope.state
    state.producers[fact.producer_id] = Producer(fact.topic, fact.mode, fact.generation)
    topic = scope.topic(fact.topic)
    generations.retire(scope, topic, fact.mode)
    if fact.topic_id in topic.dead_ids:  # nobody knows its records for ours in the incarnation of now
        topic.first_generations[fact.producer_id] = fact.generation + 1
    while len(state.transactions) > _INDETERMINATE_TRANSACTIONS_KEPT:
        del state.transactions[next(iter(state.transactions))]


def producer_looked(scope: Scope, fact: f.ProducerLooked) -> None:
    """The store was asked for a producer that nobody here knows.

    What it does not know either is a phantom, unless it stood in the log before the present process began: then store
    and ledger may have been put back to a time before it was written.
    """
    state = scope.state
    known = state.siblings.get(fact.producer_id)
    highest = max(-1 if fact.generation is None else fact.generation, -1 if known is None else known)
    beyond = [doubt for doubt in state.doubts.pop(fact.producer_id, []) if doubt[3] > highest]
    if known != -1 and any(offset < scope.log(scope.topic(name), p).before for name, p, offset, *_ in beyond):
        highest, beyond = _EVERY_GENERATION, []
        memory.forgotten_producer(scope, fact.producer_id)
    if beyond or highest >= 0:
        state.siblings[fact.producer_id] = highest
    for name, partition, offset, generation, sequence, consumer in beyond:
        topic = scope.topic(name)
        identity = Identity(fact.producer_id, generation, partition, sequence)
        say_phantom(scope, topic, scope.log(topic, partition), Records(offset, 1, identity), consumer)


def producer_epoch_bumped(scope: Scope, fact: f.ProducerEpochBumped) -> None:
    """The client may send again all that has no outcome yet, and no broker can know that for a copy."""
    topic = scope.topic(fact.topic)
    for stream in topic.streams:
        if (stream.producer_id, stream.generation) == (fact.producer_id, fact.generation):
            for a, b in stream.open:
                stream.resent.add(a, b)
            while len(stream.resent.starts) > _RESENT_KEPT:
                stream.resent.remove(stream.resent.starts[0], stream.resent.ends[0])


def cluster_seen(scope: Scope, fact: f.ClusterSeen) -> None:
    """The cluster's own id: while another one answers behind the same address nothing is judged."""
    state = scope.state
    state.brokers = [int(b) for b in fact.brokers.split(",") if b]
    if state.cluster_id is None:
        state.cluster_id = fact.cluster_id
    elif fact.cluster_id != state.cluster_id:
        wrong_cluster.stop(scope, fact.cluster_id)
        return
    wrong_cluster.known_one_answered(scope, fact.sample)
    liveness.answered(scope)
    topology.cluster_seen(scope, fact)


def coordinators_seen(scope: Scope, fact: f.CoordinatorsSeen) -> None:
    """What no transactional id meets, nobody would see break."""
    scope.state.unprobed[fact.mode] = [int(b) for b in fact.brokers.split(",") if b]


def partition_seen(scope: Scope, fact: f.PartitionSeen) -> None:
    """Leader and in-sync replicas."""
    topology.partition_seen(scope, fact, ours=True)
    log = scope.log(scope.topic(fact.topic), fact.partition)
    replicas = [int(b) for b in fact.replicas.split(",") if b]
    isr = [int(b) for b in fact.isr.split(",") if b]
    if log.leader is not None and (log.leader != fact.leader or log.isr != isr):
        note_change(scope, log, {"leader": [log.leader, fact.leader], "isr": [log.isr, isr]})
    log.leader, log.replicas, log.isr = fact.leader, replicas, isr
    asked = scope.state.asks.get(fact.sample)
    if asked is not None and len(isr) == len(replicas):
        known = asked.ends.get(fact.topic, {}).get(fact.partition)
        if known is not None:
            log.full_isr_end = max(log.full_isr_end, known[0] or 0)


def client_error(scope: Scope, fact: f.ClientError) -> None:
    """Evidence for what is found around it."""
    scope.state.errors.append(
        {"at_ns": fact.at_ns, "client": fact.client, "code": fact.code, "error": fact.error, "fatal": fact.fatal}
    )
    del scope.state.errors[:-_ERRORS_KEPT]
    liveness.refused(scope, fact.code, fact.error, fact.client)


def tick(scope: Scope, fact: f.Tick) -> None:
    """Time passed; whoever looks at the state sees ages by it."""
    scope.state.now_ns = max(scope.state.now_ns, fact.at_ns)
