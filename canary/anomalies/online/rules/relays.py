"""Consumed offsets: exactly once from one topic to another, and committed offsets that must not go back.

Each transaction of a relay names the input offsets [start, end) that it takes. Committed ones must take each offset
exactly once: an offset taken twice is a duplicate in the output, one that was passed over is missing there. An
indeterminate transaction counts once a read proves it; until then it excuses a jump over its offsets.
"""

from canary import facts as f
from canary.anomalies.online.scope import Found, Scope, Where, always
from canary.anomalies.online.state import Transaction
from canary.anomalies.violation import Records
from canary.workloads.group import WORKLOAD as GROUP
from canary.workloads.relay import WORKLOAD as RELAY

_OFFSETS_KEPT_NS = 24 * 3600 * 10**9
"""A group that had no member for so long may be forgotten: ``offsets.retention.minutes`` is a week since Kafka 2.0, and
was a day before."""


def relayed(scope: Scope, fact: f.Relayed) -> None:
    """A transaction is about to take input offsets."""
    topic = scope.topic(fact.topic)
    if topic.is_former(fact.topic_id):
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
        RELAY.name,
        always(passed.format("a committed probe"), evidence),
        passed.format("committed probes"),
        "critical",
    )
    for a, b in log.promised.within(max(taken, log.start), fact.start):
        for run in log.claims.within(a, b):
            stream = topic.streams[run.tag]
            # held until it is known that they have not expired: retention is no jump
            records = Records(run.key, run.length, stream.identity(run.value))
            scope.hold_run(topic, log, records, stream.tag, found, check="retained")
    log.relay_doubt = max(log.relay_doubt, fact.start)


def doubtful(scope: Scope, transaction: Transaction) -> None:
    """The transaction may have taken its inputs, so going on behind them is no jump."""
    for name, topic_id, partition, _, end in transaction.relayed:
        topic = scope.topic(name)
        if (topic.topic_id or "") == topic_id:
            log = scope.log(topic, partition)
            log.relay_doubt = max(log.relay_doubt, end)


def inputs_taken(scope: Scope, transaction: Transaction) -> None:
    """The transaction committed: each of its inputs is taken, and must not be taken again."""
    for name, topic_id, partition, start, end in transaction.relayed:
        topic = scope.topic(name)
        if (topic.topic_id or "") != topic_id:
            continue
        log = scope.log(topic, partition)
        for a, b in log.relayed.within(start, end):
            scope.report(
                "duplicate",
                Where(topic, partition, a),
                f"input offsets {a} to {b - 1} were taken by two committed transactions of the relay",
                mode=RELAY.name,
                evidence={"offsets": [a, b - 1]},
            )
        log.relayed.add(start, end)


def group_offset(scope: Scope, fact: f.GroupOffset) -> None:
    """A group's offset, fetched, must not be below the last one that it committed (a commit itself may go back)."""
    topic, log = scope.place(fact.topic, fact.partition)
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
    violation = scope.violation(
        "committed-offset-regression",
        Where(topic, fact.partition, fact.offset),
        f"the group {fact.consumer} had committed {known}, and now stands at {fact.offset}",
        mode=GROUP.name,
        evidence={"committed": known, "fetched": fact.offset, "consumer": fact.consumer},
    )
    scope.hold(log, violation)
    if fact.offset is None:
        del log.groups[fact.consumer]
    else:
        log.groups[fact.consumer] = fact.offset
