"""Transactions: what commits promise, what aborts forbid, and reads that come before either.

Outcomes may arrive after the read of what they are about, in either order; a transaction of a dead generation, or one
whose outcome nobody knows, is indeterminate until one of its writes is read committed: that proves it whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from canary.anomalies.online import generations, relays
from canary.anomalies.online.questions import miss
from canary.anomalies.online.scope import Found, always, observe
from canary.anomalies.online.state import Histogram, Transaction
from canary.anomalies.violation import Records
from canary.probe.identity import Identity

if TYPE_CHECKING:
    from canary import facts as f
    from canary.anomalies.online.scope import Scope
    from canary.anomalies.online.state import Log, Stream, Topic


def began(scope: Scope, fact: f.TransactionBegan) -> None:
    """begin_transaction() is about to be called."""
    scope.state.transactions[fact.producer_id, fact.generation, fact.transaction_id] = Transaction(fact.mode)


def wrote(scope: Scope, topic: Topic, stream: Stream, first: f.Sent, n: int) -> None:
    """Probes are sent within a transaction."""
    assert first.transaction_id is not None  # noqa: S101  # the caller looked
    transaction = scope.transaction(first.producer_id, first.generation, first.transaction_id)
    if transaction is not None:
        transaction.writes.extend([topic.name, stream.tag, first.sequence + i] for i in range(n))


def commit_asked(scope: Scope, fact: f.CommitAsked) -> None:
    """commit_transaction() is about to be called: from here on its writes may be read."""
    transaction = scope.transaction(fact.producer_id, fact.generation, fact.transaction_id)
    if transaction is not None and transaction.asked_at_ns is None:
        transaction.asked_at_ns = fact.at_ns


def fenced(scope: Scope, producer_id: int, generation: int) -> bool:
    """Say whether a producer of the mode ``fencing`` has been succeeded: what it does from now on is a zombie's."""
    producer = scope.state.producers.get(producer_id)
    return producer is not None and producer.mode == "fencing" and generation < producer.generation


def _zombie_committed(scope: Scope, fact: f.Committed) -> None:
    """A commit was accepted from somebody who was fenced before he asked for it."""
    topic = scope.topic(scope.state.producers[fact.producer_id].topic)
    scope.emit(
        scope.violation(
            "zombie-write",
            topic,
            None,
            None,
            Identity(fact.producer_id, fact.generation, -1, fact.transaction_id),
            f"transaction {fact.transaction_id} of a fenced producer was accepted for commit",
            mode="fencing",
            evidence={"transaction_id": fact.transaction_id, "accepted": "commit"},
        )
    )


def committed(scope: Scope, fact: f.Committed) -> None:
    """All of its acknowledged writes are promises now."""
    state = scope.state
    if fenced(scope, fact.producer_id, fact.generation):
        _zombie_committed(scope, fact)
        return
    transaction = state.transactions.pop((fact.producer_id, fact.generation, fact.transaction_id), None)
    if transaction is None:
        return
    if transaction.asked_at_ns is not None:
        histogram = state.commit_latency.setdefault(transaction.mode, Histogram())
        observe(histogram, max(fact.at_ns - transaction.asked_at_ns, 0) / 1e9)
    _promise_all(scope, transaction)


def _promise_all(scope: Scope, transaction: Transaction) -> None:
    from canary.anomalies.online.deliveries import promise, promise_unplaced  # noqa: PLC0415  # each needs the other

    relays.took(scope, transaction)
    for name, tag, sequence in transaction.writes:
        topic = scope.state.topics[name]
        stream = topic.streams[tag]
        if sequence not in stream.acked or sequence in stream.lost:
            continue
        log, place = topic.logs[stream.partition], stream.places.get(sequence)
        if place is None:
            promise_unplaced(topic, log, stream, sequence, sequence + 1)
        elif log.claims.get(place[0]) == (sequence, tag):
            promise(scope, topic, log, stream, sequence, 1, place[0])
        else:  # somebody else has been said to stand there before this was a promise
            topic.promises += 1
            stream.promised.add(sequence, sequence + 1)
            miss(scope, log, stream, place[0], 1, sequence, "displaced")


def aborted(scope: Scope, fact: f.Aborted) -> None:
    """None of its writes may ever be read committed, nor have been."""
    transaction = scope.state.transactions.pop((fact.producer_id, fact.generation, fact.transaction_id), None)
    if transaction is None:
        return
    why = f"its transaction {fact.transaction_id} aborted"
    for name, tag, sequence in transaction.writes:
        topic = scope.state.topics[name]
        refuse(scope, topic, topic.streams[tag], sequence, why)
    for name, tag, sequence, offset, consumer in transaction.reads:
        topic = scope.state.topics[name]
        stream = topic.streams[tag]
        aborted_read(scope, topic, topic.logs[stream.partition], stream, sequence, offset, consumer, late=True)


def refuse(scope: Scope, topic: Topic, stream: Stream, sequence: int, why: str) -> None:
    """It was definitely not written: whoever has read it committed already has read an aborted write."""
    stream.failed.add(sequence, sequence + 1)
    place = stream.places.get(sequence)
    log = topic.logs.get(stream.partition)
    if log is None or place is None or sequence not in stream.seen:
        return
    if stream.transactions.get(sequence) is None and place[0] in log.promised:
        aborted_read(scope, topic, log, stream, sequence, place[0], "an earlier read", late=True, why=why)


def aborted_read(
    scope: Scope,
    topic: Topic,
    log: Log,
    stream: Stream,
    sequence: int,
    offset: int,
    consumer: str,
    *,
    n: int = 1,
    late: bool = False,
    why: str | None = None,
) -> None:
    """A read_committed consumer was given what was refused; that promises nothing, and others may not find it.

    They are ``n`` writes from ``sequence`` and ``offset`` on, of one transaction or of none.
    """
    log.promised.remove(offset, offset + n)
    transaction = stream.transactions.get(sequence)
    if why is None:
        why = f"its transaction {transaction[1]} aborted" if transaction else "its send failed"
    evidence = {
        "consumer": consumer,
        "transaction_id": transaction[1] if transaction else None,
        "read_before_the_outcome_was_known": late,
    }
    end = sequence + n
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
        scope.emit_run(topic, log, Records(offset + x - sequence, y - x, stream.identity(x)), found)


def indeterminate(scope: Scope, fact: f.TransactionIndeterminate) -> None:
    """Nobody knows; a read that came before is proof."""
    key = (fact.producer_id, fact.generation, fact.transaction_id)
    transaction = scope.state.transactions.get(key)
    if transaction is None:
        return
    transaction.outcome = "indeterminate"
    relays.doubtful(scope, transaction)
    if transaction.reads:
        del scope.state.transactions[key]
        _promise_all(scope, transaction)


def zombie(scope: Scope, topic: Topic, log: Log, stream: Stream, first: f.Polled, n: int) -> None:
    """A fenced generation's writes are read committed at offsets above what a later generation wrote here.

    The later one wrote after it had fenced the older (init_transactions), so the older appended after its fencing.
    """
    for producer_id, generation in generations.later(scope.state, stream):
        later = scope.stream(topic, producer_id, generation, stream.partition)
        if later is None or not later.places.keys:
            continue
        fenced_at = later.places.values[0]
        skip = max(fenced_at - first.offset, 0)
        if skip < n:
            summary = f"generation {stream.generation} was fenced, and wrote after generation {generation} had written"
            evidence = {"consumer": first.consumer, "later_producer": producer_id}
            evidence |= {"later_generation": generation, "its_offset": fenced_at}
            found = Found("zombie-write", stream.mode, always(summary, evidence), summary)
            run = Records(first.offset + skip, n - skip, stream.identity(first.sequence + skip))
            scope.emit_run(topic, log, run, found)
        return


def from_the_grave(scope: Scope, topic: Topic, log: Log, first: f.Polled, n: int) -> None:
    """Writes of a generation that is forgotten, whose every record the log's start has passed, are read committed.

    What a consumer had fetched before the start moved lies below it, and is none.
    """
    skip = max(log.expired - first.offset, 0)
    if skip < n:
        summary = f"generation {first.generation} was fenced, and wrote after all of it had expired"
        mode, evidence = scope.mode(first.producer_id), {"consumer": first.consumer}
        who = Identity(first.producer_id, first.generation, first.partition, first.sequence + skip)
        found = Found("zombie-write", mode, always(summary, evidence), summary)
        scope.emit_run(topic, log, Records(first.offset + skip, n - skip, who), found)


def read(scope: Scope, topic: Topic, log: Log, stream: Stream, first: f.Polled, n: int) -> None:
    """A read_committed consumer was given writes of a transaction."""
    assert first.transaction_id is not None  # noqa: S101  # the caller looked
    key = (stream.producer_id, stream.generation, first.transaction_id)
    transaction = scope.state.transactions.get(key)
    if transaction is None:
        return  # settled before
    if transaction.outcome == "indeterminate":
        del scope.state.transactions[key]
        _promise_all(scope, transaction)
        return
    if transaction.asked_at_ns is None and stream.live:
        evidence = {"consumer": first.consumer, "transaction_id": first.transaction_id}
        before = "of a transaction before its commit was asked for"
        found = Found(
            "precommitted-read",
            stream.mode,
            always(f"{first.consumer} was given a write {before}", evidence),
            f"{first.consumer} was given writes {before}",
        )
        scope.emit_run(topic, log, Records(first.offset, n, stream.identity(first.sequence)), found)
    transaction.reads.extend(
        [topic.name, stream.tag, first.sequence + i, first.offset + i, first.consumer] for i in range(n)
    )
