"""Exactly once from one topic to another, and groups that must not forget: the rules about consumed offsets.

A relay's transactions say which input offsets they take. Those that committed must take each exactly once: what two of
them took stands twice in the output, what was passed over is not there at all. An indeterminate one counts as soon as a
read proves it; until then it excuses a jump over what it took.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from canary.anomalies.online.scope import Found, always
from canary.anomalies.violation import Records

if TYPE_CHECKING:
    from canary import facts as f
    from canary.anomalies.online.scope import Scope
    from canary.anomalies.online.state import Transaction

_OFFSETS_KEPT_NS = 24 * 3600 * 10**9
"""A group that had no member for so long may be forgotten: ``offsets.retention.minutes`` is a week since Kafka 2.0, and
was a day before."""


def relayed(scope: Scope, fact: f.Relayed) -> None:
    """A transaction is about to take input offsets."""
    topic = scope.topic(fact.topic)
    if fact.topic_id in topic.dead_ids:
        return
    log = scope.log(topic, fact.partition)
    transaction = scope.transaction(fact.producer_id, fact.generation, fact.transaction_id)
    if transaction is not None:
        transaction.relayed.append([fact.topic, topic.topic_id or "", fact.partition, fact.start, fact.end])
    taken = max(log.relayed.end() or -1, log.relay_doubt)
    if taken < 0 or fact.start <= taken:
        return
    evidence = {"taken_up_to": taken, "goes_on_at": fact.start}
    passed = "the relay's group passed {} that no committed transaction of it took"
    found = Found(
        "poll-skip",
        "relay",
        always(passed.format("a committed probe"), evidence),
        passed.format("committed probes"),
        "critical",
    )
    for a, b in log.promised.within(max(taken, log.start), fact.start):
        for run in log.claims.within(a, b):
            stream = topic.streams[run.tag]
            # held until it is known that the log had not begun to end there: retention is no jump
            records = Records(run.key, run.length, stream.identity(run.value))
            scope.hold_run(topic, log, records, stream.tag, found, check="retained")
    log.relay_doubt = max(log.relay_doubt, fact.start)


def doubtful(scope: Scope, transaction: Transaction) -> None:
    """Nobody knows whether the transaction took its inputs: going on behind them is no jump."""
    for name, topic_id, partition, _, end in transaction.relayed:
        topic = scope.topic(name)
        if (topic.topic_id or "") == topic_id:
            log = scope.log(topic, partition)
            log.relay_doubt = max(log.relay_doubt, end)


def took(scope: Scope, transaction: Transaction) -> None:
    """The transaction committed: its inputs are taken, once."""
    for name, topic_id, partition, start, end in transaction.relayed:
        topic = scope.topic(name)
        if (topic.topic_id or "") != topic_id:
            continue
        log = scope.log(topic, partition)
        for a, b in log.relayed.within(start, end):
            scope.emit(
                scope.violation(
                    "duplicate",
                    topic,
                    partition,
                    a,
                    None,
                    f"input offsets {a} to {b - 1} were taken by two committed transactions of the relay",
                    mode="relay",
                    evidence={"offsets": [a, b - 1]},
                )
            )
        log.relayed.add(start, end)


def group_offset(scope: Scope, fact: f.GroupOffset) -> None:
    """Where a group stands: never below its last commit, which may itself go back, unless the topic is another one."""
    topic = scope.topic(fact.topic)
    log = scope.log(topic, fact.partition)
    known, heard_ns = log.groups.get(fact.consumer), log.groups_heard_ns.get(fact.consumer, 0)
    log.groups_heard_ns[fact.consumer] = fact.at_ns
    if fact.reason == "committed":
        if fact.offset is not None:
            log.groups[fact.consumer] = fact.offset
        return
    if known is None or (fact.offset is not None and fact.offset >= known):
        return
    if fact.offset is None and fact.at_ns - heard_ns >= _OFFSETS_KEPT_NS:
        del log.groups[fact.consumer]  # expired
        return
    scope.hold(
        log,
        scope.violation(
            "committed-offset-regression",
            topic,
            fact.partition,
            fact.offset,
            None,
            f"the group {fact.consumer} had committed {known}, and now stands at {fact.offset}",
            mode="group",
            evidence={"committed": known, "fetched": fact.offset, "consumer": fact.consumer},
        ),
    )
    if fact.offset is None:
        del log.groups[fact.consumer]
    else:
        log.groups[fact.consumer] = fact.offset
