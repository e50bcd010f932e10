"""Probes that no known stream has sent: phantoms, another runner's, or a forgotten generation's."""

from canary import facts as f
from canary.anomalies.online.log import READ_COMMITTED, Log
from canary.anomalies.online.rules import memory, transactions
from canary.anomalies.online.scope import Found, Scope, always
from canary.anomalies.online.state import Lookup, Topic
from canary.anomalies.online.stream import Stream
from canary.anomalies.policy import FENCED
from canary.anomalies.violation import Records
from canary.probe.identity import Identity

_DOUBTS_KEPT = 1000
_EVERY_GENERATION = 1 << 62
_REGISTERED_NS = 60 * 10**9
"""Every live runner has registered its generations again within so long, if the store forgot them."""
_ASK_AGAIN_NS = 5 * 10**9


def sender(scope: Scope, topic: Topic, log: Log, stream: Stream | None, first: f.Polled, n: int) -> Stream | None:
    """Return the stream of the identities, or None: unknown ones are looked up, impossible ones are phantoms."""
    if stream is None:
        return _unknown(scope, topic, log, first, n)
    end = first.sequence + n
    if end > stream.next_sequence:
        if stream.live:
            _phantom(scope, topic, log, stream, first, n)
            return None
        if log.phantoms.aligned(first.offset, first.offset + n, first.sequence - first.offset, stream.tag):
            return None  # reported as phantoms while the generation was live
        # a dead generation's tail: sent, and not recorded before the process died
        stream.next_sequence = end
    return stream


def _unknown(scope: Scope, topic: Topic, log: Log, first: f.Polled, n: int) -> Stream | None:
    state = scope.state
    producer = state.producers.get(first.producer_id)
    if producer is None or (producer.live and first.generation > producer.generation):
        known = state.siblings.get(first.producer_id)
        if known is None or first.generation > known:  # the store knows whose it is
            doubts = state.doubts.setdefault(first.producer_id, [])
            doubts.extend(
                [topic.name, log.partition, first.offset + i, first.generation, first.sequence + i, first.consumer]
                for i in range(min(n, _DOUBTS_KEPT - len(doubts)))
            )
        return None
    if first.generation < topic.first_generations.get(first.producer_id, 0):
        return None
    key = (first.producer_id, first.generation, first.partition)
    if first.generation == producer.generation and producer.live:
        _phantom(scope, topic, log, topic.begin(*key, producer.mode), first, n)
        return None
    forgotten = topic.forgotten_in.get((first.producer_id, log.partition), 0)
    if producer.mode not in FENCED or first.generation > forgotten:
        # taken to have written nothing, and here it is after all; or its process died before it had recorded it
        stream = topic.begin(*key, producer.mode)
        stream.next_sequence, stream.live = first.sequence + n, False
        return stream
    if first.isolation == READ_COMMITTED:
        transactions.zombie_after_expiry(scope, topic, log, first, n)
    return None


def _phantom(scope: Scope, topic: Topic, log: Log, stream: Stream, first: f.Polled, n: int) -> None:
    """Report phantoms and remember them: read again in a later generation, they are no unrecorded tail."""
    run = Records(first.offset, n, stream.identity(first.sequence))
    report_phantom(scope, topic, log, run, first.consumer)
    log.phantoms.set(first.offset, n, first.sequence, stream.tag)


def report_phantom(scope: Scope, topic: Topic, log: Log, run: Records, consumer: str) -> None:
    """Report intact probes that were never sent."""
    found = Found(
        "phantom",
        scope.mode(run.identity.producer_id) if run.identity is not None else None,
        always(f"{consumer} was given an intact probe that was never sent", {"consumer": consumer}),
        f"{consumer} was given intact probes that were never sent",
    )
    scope.emit_run(topic, log, run, found)


def ask(scope: Scope) -> None:
    """Ask the store about producers in doubt, now and then; called after each stretch of facts."""
    now_ns = scope.state.now_ns
    for producer_id in scope.state.doubts:
        lookup = scope.state.lookups.get(producer_id, Lookup())
        if now_ns >= lookup.again_ns:
            scope.state.lookups[producer_id] = lookup._replace(again_ns=now_ns + _ASK_AGAIN_NS)
            scope.found.unknown_producers.append(producer_id)


def producer_looked(scope: Scope, fact: f.ProducerLooked) -> None:
    """The store answers about a producer that this process does not know.

    Probes of a producer that the store does not know either are phantoms, unless they were in the log before this
    process started: then store and ledger may both have been restored from a time before they were written. If only
    the store was, a sibling runner goes on to write under a generation that is forgotten there, and registers it again
    with its next view. So what is in doubt for less than that is asked about again.
    """
    state, producer_id = scope.state, fact.producer_id
    known = state.siblings.get(producer_id)
    highest = max(-1 if fact.generation is None else fact.generation, -1 if known is None else known)
    beyond = [doubt for doubt in state.doubts.pop(producer_id, []) if doubt[3] > highest]
    lookup = state.lookups.pop(producer_id, Lookup())
    unsettled = known != -1  # else the store was asked for long enough
    of_this_start = not 0 < lookup.unknown_ns <= state.started[1]  # else they were appended while a former process ran
    if unsettled and of_this_start and any(offset < scope.place(name, p)[1].before for name, p, offset, *_ in beyond):
        highest, beyond = _EVERY_GENERATION, []
        memory.forgotten_producer(scope, producer_id)
    if beyond and unsettled:
        lookup = lookup._replace(unknown_ns=lookup.unknown_ns or state.now_ns)
        if state.now_ns - lookup.unknown_ns < _REGISTERED_NS:
            state.doubts[producer_id], state.lookups[producer_id] = beyond, lookup
            beyond = []
    if beyond or highest >= 0:
        state.siblings[producer_id] = highest
    for name, partition, offset, generation, sequence, consumer in beyond:
        identity = Identity(producer_id, generation, partition, sequence)
        report_phantom(scope, *scope.place(name, partition), Records(offset, 1, identity), consumer)
