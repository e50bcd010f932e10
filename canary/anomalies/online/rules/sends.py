"""What producers do: sends, and the three outcomes that a send may have (decision 3).

Consecutive probes of one stream come as a run (sequence and offset rise together), and each rule takes a run at once.
"""

from collections.abc import Sequence

from canary import facts as f
from canary.anomalies.online.log import Log
from canary.anomalies.online.meters import Histogram, count, observe
from canary.anomalies.online.rules import memory, retention, transactions, wrong_cluster
from canary.anomalies.online.rules.claims import claim, place, promise, promise_unplaced
from canary.anomalies.online.scope import TRANSACTIONAL, Probes, Scope
from canary.anomalies.online.state import Topic
from canary.anomalies.online.stream import SENT_KEPT, Stream, forget_sent_times, sent_time
from canary.anomalies.online.topology import liveness
from canary.anomalies.policy import FENCED, UNORDERED
from canary.facts.batch import column


def sent(scope: Scope, run: Sequence[f.Sent]) -> None:
    """Probes are about to be handed to the client."""
    first, n = run[0], len(run)
    topic = scope.topic(first.topic)
    count(scope.meters(first.topic, first.partition).sent, first.mode, n)
    if first.generation < topic.first_generations.get(first.producer_id, 0):
        return
    key = (first.producer_id, first.generation, first.partition)
    stream = topic.stream(*key) or topic.begin(*key, first.mode)
    log = scope.log(topic, first.partition)
    if not log.tried_ns and first.mode not in FENCED:  # a zombie's probes are never acknowledged
        log.tried_ns = first.at_ns
    log.given_up_ns = 0
    if not (stream.open or stream.unplaced or stream.transactions):
        stream.floor = log.start
    stream.open.add(first.sequence, first.sequence + n)
    stream.next_sequence = max(stream.next_sequence, first.sequence + n)
    stream.sent_keys.extend(range(first.sequence, first.sequence + n))
    stream.sent_times.extend(column(run, "at_ns"))
    if len(stream.sent_keys) > SENT_KEPT:
        forget_sent_times(stream)
    if first.transaction_id is not None:
        stream.transactions.set(first.sequence, n, first.sequence, first.transaction_id)
        transaction = scope.transaction(first.producer_id, first.generation, first.transaction_id)
        if transaction is None and transactions.fenced(scope, first.producer_id, first.generation):
            stream.zombies.add(first.sequence, first.sequence + n)
            stream.failed.add(first.sequence, first.sequence + n)
        if transaction is not None:
            transaction.writes.extend([topic.name, stream.tag, first.sequence + i] for i in range(n))


def skipped(scope: Scope, fact: f.Skipped) -> None:
    """Probes were due and not sent; to a partition that this process does not know yet none could be."""
    meters = scope.meters(fact.topic, fact.partition)
    count(meters.skipped, fact.mode, fact.count)
    count(meters.late, fact.mode, fact.late)
    _, log = scope.place(fact.topic, fact.partition)
    if not log.listed_ordinal and fact.mode not in FENCED:
        log.tried_ns, log.given_up_ns = log.tried_ns or fact.at_ns, 0


def acked(scope: Scope, run: Sequence[f.Acked]) -> None:
    """The cluster acknowledged probes: outside a transaction, a promise."""
    first, n = run[0], len(run)
    mode = scope.mode(first.producer_id)
    meters = scope.meters(first.topic, first.partition)
    count(meters.acked, mode, n)
    topic = scope.topic(first.topic)
    _time_taken(scope, topic.logs.get(first.partition), meters.produce_latency.setdefault(mode, Histogram()), run)
    stream = scope.stream(topic, first.producer_id, first.generation, first.partition)
    if stream is None:
        return  # of a former incarnation of the topic: counted, never judged
    a, b = first.sequence, first.sequence + n
    wrong_cluster.acknowledged(scope.state, stream, a, b)
    stream.open.remove(a, b)
    stream.acked.add(a, b)
    in_transaction = stream.mode in TRANSACTIONAL
    log = scope.log(topic, first.partition)
    if first.offset is not None and not memory.has_acked(scope, log):
        log.before = max(first.offset, log.before if log.listed_ordinal else 0)
    log.acked_ns = run[-1].at_ns
    waits = stream.open and stream.mode not in FENCED  # of what is fenced the writer may send no more
    log.tried_ns = log.acked_ns if waits else 0
    if first.offset is None:
        if not in_transaction:
            promise_unplaced(scope, topic, log, stream, a, b)
        return
    probes = Probes(topic, log, stream, a, n, first.offset)
    place(scope, probes, read=False)
    claim(scope, probes, promise=not in_transaction)
    if stream.mode in UNORDERED:
        if first.offset < log.acked_end:  # given again, by a leader that is not listed yet
            log.next_from = first.offset if log.next_from is None else min(log.next_from, first.offset)
            log.newest_from = first.offset
        elif first.offset > log.acked_end:  # maybe by the former one again
            log.newest_from = None
        listed = 0 if log.next_from is not None else log.end or 0  # the end may be the former leader's
        log.acked_end = first.offset + n
        log.alone.add(max(first.offset, listed), log.acked_end)
    else:
        log.alone.remove(0, first.offset + n)
    retention.remember_sent(topic, log, first.offset, n, lambda i: sent_time(stream, a + i))
    if not in_transaction:
        promise(scope, probes)


def _time_taken(scope: Scope, log: Log | None, latency: Histogram, run: Sequence[f.Acked]) -> None:
    leader = scope.led_by(log)
    for at_ns, took_ns in zip(column(run, "at_ns"), column(run, "latency_ns"), strict=True):
        if took_ns is not None:
            observe(latency, took_ns / 1e9)
            if leader is not None and log is not None and at_ns - took_ns >= log.led_ns:
                observe(leader.produce_latency, took_ns / 1e9)


def _not_taken(scope: Scope, topic: Topic, partition: int) -> None:
    leader = scope.led_by(topic.logs.get(partition))
    if leader is not None:
        leader.failures += 1


def _given_up(topic: Topic, stream: Stream, fact: f.Failed | f.Indeterminate) -> None:
    stream.open.remove(fact.sequence, fact.sequence + 1)
    if not stream.open and fact.partition in topic.logs:
        topic.logs[fact.partition].given_up_ns = fact.at_ns


def failed(scope: Scope, fact: f.Failed) -> None:
    """The probe is definitely not written: a read_committed consumer must never be given it."""
    mode = scope.mode(fact.producer_id)
    count(scope.meters(fact.topic, fact.partition).failed, mode, 1)
    liveness.write_failed(scope, fact.error, f"producer-{mode}")
    topic = scope.topic(fact.topic)
    _not_taken(scope, topic, fact.partition)
    stream = scope.stream(topic, fact.producer_id, fact.generation, fact.partition)
    if stream is None:
        return
    _given_up(topic, stream, fact)
    transactions.never_written(scope, topic, stream, fact.sequence, f"its send failed: {fact.error}")


def indeterminate(scope: Scope, fact: f.Indeterminate) -> None:
    """The probe may be in the log or not; neither is a violation."""
    mode = scope.mode(fact.producer_id)
    count(scope.meters(fact.topic, fact.partition).indeterminate, mode, 1)
    liveness.write_failed(scope, fact.error, f"producer-{mode}")
    topic = scope.topic(fact.topic)
    _not_taken(scope, topic, fact.partition)
    stream = scope.stream(topic, fact.producer_id, fact.generation, fact.partition)
    if stream is not None:
        _given_up(topic, stream, fact)
        stream.indeterminate.add(fact.sequence, fact.sequence + 1)
