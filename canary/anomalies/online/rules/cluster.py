"""Starts, generations, and the cluster's own state: brokers, leaders, in-sync replicas."""

from dataclasses import asdict
from typing import Any

from canary import facts as f
from canary.anomalies.online import generations
from canary.anomalies.online.log import ISOLATIONS, Log
from canary.anomalies.online.meters import count
from canary.anomalies.online.missing import PASSED
from canary.anomalies.online.rules import memory, retention, transactions, wrong_cluster
from canary.anomalies.online.rules.held import make_certain, passed_over
from canary.anomalies.online.scope import Scope
from canary.anomalies.online.state import Producer, Topic
from canary.anomalies.online.stream import Stream, forget_sent_times
from canary.anomalies.online.topology import clock, liveness, timeline
from canary.anomalies.online.wanted import note_change, want_tail

_ERRORS_KEPT = 10
_INDETERMINATE_TRANSACTIONS_KEPT = 10_000
_RESENT_KEPT = 1000


def runner_started(scope: Scope, fact: f.RunnerStarted) -> None:
    """A new process begins: open sends get no outcome any more, and open questions are asked again."""
    state = scope.state
    clock.began(state, fact)
    state.since_ns = state.since_ns or fact.at_ns
    state.stopped = state.sure = None
    wrong_cluster.former_version(state)
    state.relay_unrecorded = False
    state.installation = fact.installation or state.installation
    state.started = [fact.remembered_ns or 0, fact.at_ns]
    state.asks.clear()
    state.lookups = {producer_id: lookup._replace(again_ns=0) for producer_id, lookup in state.lookups.items()}
    state.unprobed.clear()
    state.unanswered.clear()
    liveness.runner_started(scope)
    timeline.runner_started(scope)
    for producer in state.producers.values():
        producer.live = False
    memory.forget_producers(scope)
    for topic in state.topics.values():
        topic.fresh = False
        for log in topic.logs.values():
            passed = [(*one, passed_over(topic, log, one[1])) for one in log.held.items() if one[1].check in PASSED]
            _forget_readers(log.readers)
            for key, held, before in passed:  # if only a forgotten reader proves the skip, it is certain
                after = passed_over(topic, log, held)
                make_certain(log, key, held, [part for a, b in before for part in after.without(a, b)])
            _ask_again(scope, log)
            _wait_on(log, fact, probed=state.probes(topic.name, log.partition))
            retention.clock_seen(log, fact.at_ns)
        for stream in topic.streams:
            _end_stream(scope, topic, stream)
            _forget_readers(stream.unseen)
            _forget_readers(stream.early)
        _no_longer_configured(scope, topic)
    for which in [which for which, one in state.transactions.items() if one.outcome == "open"]:
        transactions.outcome_unknown(scope, which)
    for which in [which for which, one in state.transactions.items() if not one.writes and not one.relayed]:
        del state.transactions[which]  # whether it committed makes no promise, and excuses nothing


def _no_longer_configured(scope: Scope, topic: Topic) -> None:
    """Close partitions that are not probed any more; of modes that write elsewhere now, no generation follows."""
    retention.no_longer_probed(scope, topic)
    probed = scope.state.probed.get(topic.name)
    written = [] if probed is None else probed.modes
    for mode in {stream.mode for stream in topic.streams if stream.unplaced}.difference(written):
        generations.retire(scope, topic, mode)


def _forget_readers(by_name: dict[str, Any]) -> None:
    """Forget readers that settings added: they may be gone, and those that remain are positioned anew."""
    for name in [name for name in by_name if name not in ISOLATIONS]:
        del by_name[name]


def _end_stream(scope: Scope, topic: Topic, stream: Stream) -> None:
    """The stream's process has ended: its open probes are indeterminate."""
    stream.live = False
    if stream.open:
        count(scope.meters(topic.name, stream.partition).indeterminate, stream.mode, stream.open.total)
        for a, b in list(stream.open):
            stream.indeterminate.add(a, b)
        stream.open.remove(0, stream.next_sequence)
    forget_sent_times(stream)


def _wait_on(log: Log, fact: f.RunnerStarted, *, probed: bool) -> None:
    """What waited for an acknowledgement waits on, if it is probed, without the time in which no process ran."""
    if not probed or not log.tried_ns:
        log.tried_ns = log.given_up_ns = 0
        return
    stopped_ns = min(fact.remembered_ns or fact.at_ns, fact.at_ns)
    away_ns = fact.at_ns - stopped_ns
    log.tried_ns, log.given_up_ns = log.tried_ns + away_ns, (log.given_up_ns or stopped_ns) + away_ns


def _ask_again(scope: Scope, log: Log) -> None:
    log.rereads.clear()
    log.regression = None
    for m in log.missing:
        if m.state in {"asked", "absent"}:  # a former release called some absent without a fetch
            m.state, m.request_id, m.by_end, m.samples = "ask", None, False, 0
    for u in log.unplaced:
        if u.state == "asked":
            u.state, u.request_id = "ask", None
    log.listed_ordinal, log.relay_goes_on = 0, False
    if log.known_end:
        want_tail(scope, log, "start")  # it may have been cut meanwhile
        if log.wanted is not None:
            log.wanted.not_before_ordinal = scope.state.ordinal


def generation_began(scope: Scope, fact: f.GenerationBegan) -> None:
    """A new generation is the only writer from here on; open sends of earlier ones may still get outcomes."""
    state = scope.state
    state.producers[fact.producer_id] = Producer(fact.topic, fact.mode, fact.generation)
    topic = scope.topic(fact.topic)
    generations.retire(scope, topic, fact.mode)
    if topic.is_former(fact.topic_id):  # its records bear a former incarnation's tag
        topic.first_generations[fact.producer_id] = fact.generation + 1
    while len(state.transactions) > _INDETERMINATE_TRANSACTIONS_KEPT:
        del state.transactions[next(iter(state.transactions))]


def producer_epoch_bumped(scope: Scope, fact: f.ProducerEpochBumped) -> None:
    """The client may send again whatever has no outcome yet, and brokers cannot recognise those copies."""
    topic = scope.topic(fact.topic)
    for stream in topic.streams:
        if (stream.producer_id, stream.generation) == (fact.producer_id, fact.generation):
            for a, b in stream.open:
                stream.resent.add(a, b)
            for a, b in list(stream.resent)[:-_RESENT_KEPT]:
                stream.resent.remove(a, b)


def cluster_seen(scope: Scope, fact: f.ClusterSeen) -> None:
    """The cluster's id: while another cluster answers at the address, nothing is judged."""
    state = scope.state
    state.brokers = timeline.broker_ids(fact.brokers)
    state.cluster_id = state.cluster_id or fact.cluster_id
    if fact.cluster_id != state.cluster_id:
        wrong_cluster.stop(scope, fact.cluster_id)
        return
    wrong_cluster.known_one_answered(scope, fact.sample)
    liveness.answered(scope)
    timeline.cluster_seen(scope, fact)
    there = state.topology.members(fact.at_ns)
    state.leaders = {number: meters for number, meters in state.leaders.items() if number in there}


def coordinators_seen(scope: Scope, fact: f.CoordinatorsSeen) -> None:
    """Note the transaction coordinators without any of the canary's transactional ids: their failure goes unnoticed."""
    scope.state.unprobed[fact.mode] = timeline.broker_ids(fact.brokers)


def partition_seen(scope: Scope, fact: f.PartitionSeen) -> None:
    """Leader and in-sync replicas."""
    topic = scope.topic(fact.topic)
    if topic.is_in_question:
        return
    timeline.partition_seen(scope, fact, ours=True)
    log = scope.log(topic, fact.partition)
    replicas = timeline.broker_ids(fact.replicas)
    isr = timeline.broker_ids(fact.isr)
    if log.leader is not None and (log.leader != fact.leader or log.isr != isr):
        note_change(scope, log, {"leader": [log.leader, fact.leader], "isr": [log.isr, isr]})
    if log.leader != fact.leader:
        log.led_ns = fact.at_ns
    log.leader, log.replicas, log.isr = fact.leader, replicas, isr
    asked = scope.state.asks.get(fact.sample)
    if asked is not None and len(isr) == len(replicas):
        known = asked.ends.get(fact.topic, {}).get(fact.partition)
        if known is not None:
            log.full_isr_end = max(log.full_isr_end, known[0] or 0)


def client_error(scope: Scope, fact: f.ClientError) -> None:
    """Evidence for what is found around it."""
    scope.state.errors.append(asdict(fact))
    del scope.state.errors[:-_ERRORS_KEPT]
    liveness.refused(scope, fact.code, fact.error, fact.client)
