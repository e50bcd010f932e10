"""Consumed offsets: exactly once from one topic to another, and committed offsets that must not go back.

Each transaction of a relay names the input offsets [start, end) that it takes. Committed ones must take each offset
exactly once: an offset taken twice is a duplicate in the output, one that was passed over is missing there. An
indeterminate transaction counts once a read proves it; until then it excuses a jump over its offsets.

A process that dies may have committed transactions of which nothing is in the ledger. Their outputs, read later, prove
that there were some, but not what they took: it may be all that the next process passes as it goes on, of what former
processes wrote. Such a jump is reported only once what the outputs held then has been read, and was recorded.
"""

from canary import facts as f
from canary.anomalies.online.log import READ_COMMITTED
from canary.anomalies.online.losses.questions import Held
from canary.anomalies.online.scope import Found, Scope, Where, always
from canary.anomalies.online.state import Transaction
from canary.anomalies.violation import Records
from canary.workloads.group import WORKLOAD as GROUP
from canary.workloads.relay import WORKLOAD as RELAY

_OFFSETS_KEPT_NS = 24 * 3600 * 10**9
"""A group that had no member for so long may be forgotten: ``offsets.retention.minutes`` is a week since Kafka 2.0, and
was a day before."""
_ANYWHERE = 1 << 62
"""Doubt that ends where the relay goes on next, wherever that is."""


def relayed(scope: Scope, fact: f.Relayed) -> None:
    """A transaction is about to take input offsets."""
    topic = scope.topic(fact.topic)
    if topic.is_former(fact.topic_id):
        return
    log = scope.log(topic, fact.partition)
    if log.relay_doubt == _ANYWHERE:
        log.relay_doubt = fact.start
    transaction = scope.transaction(fact.producer_id, fact.generation, fact.transaction_id)
    if transaction is not None:
        transaction.relayed.append([fact.topic, topic.topic_id or "", fact.partition, fact.start, fact.end])
    taken = log.relay_taken
    is_first, log.relay_goes_on = not log.relay_goes_on, True
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
    # held until it is known that they have not expired, and were not taken unrecorded: neither is a jump
    for a, b in log.promised.within(max(taken, log.start), fact.start):
        for run in log.claims.within(a, b):
            stream = topic.streams[run.tag]
            of_former = is_first and not stream.live
            if not (of_former and scope.state.relay_unrecorded):
                records = Records(run.key, run.length, stream.identity(run.value))
                check = "untaken" if of_former else "retained"
                scope.hold_run(topic, log, records, stream.tag, found, check=check)
    log.relay_doubt = max(log.relay_doubt, fact.start)


def forgotten(scope: Scope) -> None:
    """Memory is lost, and with it maybe after which producer the group was called: another one begins at the end."""
    for topic in scope.state.topics.values():
        for log in topic.logs.values():
            log.relay_doubt = _ANYWHERE


def doubtful(scope: Scope, transaction: Transaction) -> None:
    """The transaction may have taken its inputs, so going on behind them is no jump."""
    for name, topic_id, partition, _, end in transaction.relayed:
        topic = scope.topic(name)
        if (topic.topic_id or "") == topic_id:
            log = scope.log(topic, partition)
            log.relay_doubt = max(log.relay_doubt, end)


def unrecorded(scope: Scope) -> None:
    """An output was read whose sending is not recorded: what the relay passed at the start may have been taken then."""
    scope.state.relay_unrecorded = True
    for topic in scope.state.topics.values():
        for log in topic.logs.values():
            for key in [key for key, held in log.held.items() if held.check == "untaken"]:
                log.let_go(key)


def unread(scope: Scope, held: Held) -> bool:
    """Whether it was passed at a start, and outputs that were there then are unread: they may be of what took it."""
    if held.check != "untaken":
        return False
    outputs = {one.topic for one in scope.state.producers.values() if one.live and one.mode == RELAY.name}
    return any(
        reader.isolation == READ_COMMITTED and (not log.listed_ordinal or reader.position < log.before)
        for name in outputs
        for log in scope.topic(name).logs.values()
        for reader in log.readers.values()
    )


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
    meters, now_ns = scope.meters(fact.topic, fact.partition), scope.state.now_ns
    if fact.reason == "committed":
        if fact.offset is not None:
            log.groups[fact.consumer] = fact.offset
        meters.promised_ns[GROUP.name] = now_ns
        meters.unread_ns.setdefault(GROUP.name, now_ns)
        return
    if known is None or (fact.offset is not None and fact.offset >= known):
        meters.unread_ns.pop(GROUP.name, None)
        if known is not None:
            meters.given_ns[GROUP.name] = now_ns
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
    scope.hold(log, violation.since(heard_ns))
    if fact.offset is None:
        del log.groups[fact.consumer]
    else:
        log.groups[fact.consumer] = fact.offset
