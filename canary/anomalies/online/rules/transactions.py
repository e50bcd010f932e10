"""Transactions: what commits promise, what aborts forbid, and reads that come before either.

An outcome may arrive before or after the reads of its writes. Readers gather what they are given before they tell it,
so what was read before a commit was asked for is known by the time at which it was taken, on the process's one clock.
A transaction without a known outcome, or of a dead generation, is indeterminate until a read_committed consumer is
given one of its writes: that proves it committed.
"""

from bisect import bisect_left
from collections.abc import Sequence

from canary import facts as f
from canary.anomalies.online import generations
from canary.anomalies.online.log import Log
from canary.anomalies.online.meters import Histogram, observe
from canary.anomalies.online.missing import miss
from canary.anomalies.online.rules import relays
from canary.anomalies.online.rules.claims import count_promises, first_write, promise, promise_unplaced
from canary.anomalies.online.scope import Found, Probes, Scope, Where, always, is_reread
from canary.anomalies.online.state import Topic, Transaction
from canary.anomalies.online.stream import Stream
from canary.anomalies.online.topology import liveness
from canary.anomalies.policy import FENCED
from canary.anomalies.violation import Records
from canary.facts.batch import column
from canary.probe.identity import Identity
from canary.workloads.relay import WORKLOAD as RELAY

TOLD_NS = 10 * 10**9
"""Readers have told by then what they were given: they gather for half a second at most, and may wait for the disk."""


def began(scope: Scope, fact: f.TransactionBegan) -> None:
    """begin_transaction() is about to be called."""
    scope.state.transactions[fact.producer_id, fact.generation, fact.transaction_id] = Transaction(fact.mode)


def commit_asked(scope: Scope, fact: f.CommitAsked) -> None:
    """commit_transaction() is about to be called: from here on its writes may be read."""
    asked, unsettled = scope.state.asked, scope.state.transactions
    key = (fact.producer_id, fact.generation, fact.transaction_id)
    if key not in unsettled or key in asked:
        return
    for old in [k for k, at_ns in asked.items() if at_ns < fact.at_ns - TOLD_NS and k not in unsettled]:
        del asked[old]
    asked[key] = fact.at_ns


def fenced(scope: Scope, producer_id: int, generation: int) -> bool:
    """Return whether a later generation fences this one on purpose: what it begins to do from now on is a zombie's.

    A transaction that is still open is none of a zombie's: it is settled when the later one has taken over. Until then
    its writes and its commit are on their way, and may be accepted.
    """
    producer = scope.state.producers.get(producer_id)
    return producer is not None and producer.mode in FENCED and generation < producer.generation


def committed(scope: Scope, fact: f.Committed) -> None:
    """The transaction committed: its acknowledged writes become promises."""
    state = scope.state
    key = (fact.producer_id, fact.generation, fact.transaction_id)
    transaction = state.transactions.pop(key, None)
    if transaction is None and fenced(scope, fact.producer_id, fact.generation):
        # it was settled when the other client had fenced this one, and yet the coordinator accepted its commit
        producer = state.producers[fact.producer_id]
        who = Identity(fact.producer_id, fact.generation, -1, fact.transaction_id)
        scope.report(
            "zombie-write",
            Where(scope.topic(producer.topic), identity=who),
            f"transaction {fact.transaction_id} of a fenced producer was accepted for commit",
            mode=producer.mode,
            evidence={"transaction_id": fact.transaction_id, "accepted": "commit"},
        )
    if transaction is None:
        return
    if key in state.asked:
        histogram = state.commit_latency.setdefault(transaction.mode, Histogram())
        observe(histogram, max(fact.at_ns - state.asked[key], 0) / 1e9)
    _promise_all(scope, transaction)


def _promise_all(scope: Scope, transaction: Transaction) -> None:
    relays.inputs_taken(scope, transaction)
    for name, tag, sequence in transaction.writes:
        topic = scope.state.topics[name]
        stream = topic.streams[tag]
        if sequence not in stream.acked or sequence in stream.lost:
            continue
        log, place = topic.logs[stream.partition], stream.places.get(sequence)
        if place is None:
            promise_unplaced(scope, topic, log, stream, sequence, sequence + 1)
        elif log.claims.get(place[0]) == (sequence, tag):
            promise(scope, Probes(topic, log, stream, sequence, 1, place[0]))
        else:  # another probe claimed the offset before the commit
            count_promises(scope, topic, stream, 1)
            stream.promised.add(sequence, sequence + 1)
            miss(scope, Probes(topic, log, stream, sequence, 1, place[0]), "displaced")


def aborted(scope: Scope, fact: f.Aborted) -> None:
    """The transaction aborted: a read of its writes, earlier or later, is an aborted read."""
    liveness.write_failed(scope, fact.error, f"producer-{scope.mode(fact.producer_id)}")
    transaction = scope.state.transactions.pop((fact.producer_id, fact.generation, fact.transaction_id), None)
    if transaction is None:
        return
    why = f"its transaction {fact.transaction_id} aborted"
    for name, tag, sequence in transaction.writes:
        topic = scope.state.topics[name]
        never_written(scope, topic, topic.streams[tag], sequence, why)
    for name, tag, sequence, offset, consumer in transaction.reads:
        topic = scope.state.topics[name]
        stream = topic.streams[tag]
        probes = Probes(topic, topic.logs[stream.partition], stream, sequence, 1, offset)
        aborted_read(scope, probes, consumer, late=True)


def never_written(scope: Scope, topic: Topic, stream: Stream, sequence: int, why: str) -> None:
    """The probe is definitely not written; if a read_committed consumer was given it, that was an aborted read."""
    stream.failed.add(sequence, sequence + 1)
    place = stream.places.get(sequence)
    log = topic.logs.get(stream.partition)
    if log is None or place is None or sequence not in stream.seen:
        return
    if stream.transactions.get(sequence) is None and place[0] in log.promised:
        probes = Probes(topic, log, stream, sequence, 1, place[0])
        aborted_read(scope, probes, "an earlier read", late=True, why=why)


def aborted_read(scope: Scope, probes: Probes, consumer: str, *, late: bool = False, why: str | None = None) -> None:
    """A read_committed consumer was given a write that is not committed: it promises nothing to other consumers.

    The probes are of one transaction or of none.
    """
    topic, log, stream, sequence, n, offset = probes
    end = probes.end
    log.promised.remove(offset, offset + n)
    transaction = stream.transactions.get(sequence)
    if why is None:
        why = f"its transaction {transaction[1]} aborted" if transaction else "its send failed"
    evidence = {
        "consumer": consumer,
        "transaction_id": transaction[1] if transaction else None,
        "read_before_the_outcome_was_known": late,
    }
    zombies = [(x, y, "zombie-write") for x, y in stream.zombies.within(sequence, end)]
    others = [(x, y, "G1a") for x, y in stream.zombies.without(sequence, end)]
    for x, y, kind in sorted([*zombies, *others]):
        because = why if kind == "G1a" else "its producer was fenced before it was sent"
        found = Found(
            kind,
            stream.mode,
            always(f"{consumer} was given a write that is definitely not committed: {because}", evidence),
            f"{consumer} was given writes that are definitely not committed: {because}",
        )
        scope.emit_run(topic, log, probes.part(x, y).records, found)


def indeterminate(scope: Scope, fact: f.TransactionIndeterminate) -> None:
    """The outcome is unknown; an earlier read of one of its writes proves the commit."""
    liveness.write_failed(scope, fact.error, f"producer-{scope.mode(fact.producer_id)}")
    outcome_unknown(scope, (fact.producer_id, fact.generation, fact.transaction_id))


def outcome_unknown(scope: Scope, key: tuple[int, int, int]) -> None:
    """Nobody will learn the outcome, unless a read_committed consumer was given, or is given, one of its writes."""
    transaction = scope.state.transactions.get(key)
    if transaction is None:
        return
    transaction.outcome = "indeterminate"
    relays.doubtful(scope, transaction)
    if transaction.reads:
        del scope.state.transactions[key]
        _promise_all(scope, transaction)


def zombie(scope: Scope, probes: Probes, consumer: str) -> None:
    """A read_committed consumer is given an old generation's writes at offsets above a later generation's first write.

    The later generation had fenced the older one (init_transactions) before it wrote, so these writes are a zombie's.
    They are held: if the topic was made again or emptied, the consumer still gives out what it fetched before that.
    """
    topic, log, stream, _, _, offset = probes
    for producer_id, generation in generations.later(scope.state, stream):
        tag = topic.index.get((producer_id, generation, stream.partition))  # of one that has expired nothing stands
        fenced_at = None if tag is None else first_write(log, topic.streams[tag])
        if fenced_at is None:
            continue
        if fenced_at < offset:
            summary = f"generation {stream.generation} was fenced, and wrote after generation {generation} had written"
            evidence = {"consumer": consumer, "later_producer": producer_id}
            evidence |= {"later_generation": generation, "its_offset": fenced_at}
            found = Found("zombie-write", stream.mode, always(summary, evidence), summary)
            scope.hold_run(topic, log, probes.records, stream.tag, found, check="stands")
        return


def zombie_after_expiry(scope: Scope, topic: Topic, log: Log, first: f.Polled, n: int) -> None:
    """A read_committed consumer is given writes of a generation whose every record had expired: a zombie's.

    Records below the expired start are none: a consumer may have fetched them before the start moved.
    """
    skip = max(log.expired - first.offset, 0)
    if skip < n:
        summary = f"generation {first.generation} was fenced, and wrote after all of it had expired"
        mode, evidence = scope.mode(first.producer_id), {"consumer": first.consumer}
        who = Identity(first.producer_id, first.generation, first.partition, first.sequence + skip)
        found = Found("zombie-write", mode, always(summary, evidence), summary)
        scope.emit_run(topic, log, Records(first.offset + skip, n - skip, who), found)


def read(scope: Scope, probes: Probes, run: Sequence[f.Polled], transaction_id: int) -> None:
    """A read_committed consumer was given writes of a transaction: ``run`` is how it told that."""
    topic, _, stream, sequence, n, offset = probes
    consumer = run[0].consumer
    key = (stream.producer_id, stream.generation, transaction_id)
    transaction = scope.state.transactions.get(key)
    is_recorded = stream.live or (transaction is not None and transaction.relayed) or stream.transactions.get(sequence)
    if stream.mode == RELAY.name and not is_recorded and is_reread(consumer) is None:
        relays.unrecorded(scope)
    if stream.live:
        _before_commit(scope, probes, run, key)
    if transaction is None:
        return  # settled before
    if transaction.outcome == "indeterminate":
        del scope.state.transactions[key]
        _promise_all(scope, transaction)
        return
    transaction.reads.extend([topic.name, stream.tag, sequence + i, offset + i, consumer] for i in range(n))


def _before_commit(scope: Scope, probes: Probes, run: Sequence[f.Polled], key: tuple[int, int, int]) -> None:
    """Tell of those that were taken before the transaction, of a producer of this process, was asked to commit."""
    topic, log, stream, sequence, n, _ = probes
    state = scope.state
    if key in state.asked or key not in state.transactions:
        n = bisect_left(column(run, "at_ns"), state.asked.get(key, 0))
    if n == 0:
        return
    consumer = run[0].consumer
    evidence = {"consumer": consumer, "transaction_id": key[2]}
    before = "of a transaction before its commit was asked for"
    found = Found(
        "precommitted-read",
        stream.mode,
        always(f"{consumer} was given a write {before}", evidence),
        f"{consumer} was given writes {before}",
    )
    scope.emit_run(topic, log, probes.part(sequence, sequence + n).records, found)
