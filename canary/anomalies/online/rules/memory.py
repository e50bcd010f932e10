"""What the canary itself has forgotten: reported once for each start, because no violation of that time proves nothing.

The runner notices a ledger that was damaged, wiped or restored, and a store that was restored (fact MemoryLost). Both,
restored together, agree with each other; then the log shows it: it holds probes, from before this process started, of a
producer that neither of them knows.
"""

from datetime import UTC, datetime

from canary import facts as f
from canary.anomalies.online.log import Log
from canary.anomalies.online.rules import relays
from canary.anomalies.online.scope import Scope
from canary.anomalies.policy import FORGOTTEN, severity
from canary.anomalies.violation import Violation

_PRODUCERS_KEPT = 1000


def memory_lost(scope: Scope, fact: f.MemoryLost) -> None:
    """The runner found that ledger or store does not hold all that it once held; the store may lack open conditions."""
    _report(scope, fact.from_ns, fact.at_ns, fact.reason)
    relays.forgotten(scope)
    for stall in scope.state.stalls.values():
        if stall.said is not None:
            scope.emit(stall.said)
    for condition in scope.state.topology.conditions.values():
        if condition.said_ns is not None:
            condition.said_ns = 0  # long ago: it is reported again in the next round in which it holds


def forgotten_producer(scope: Scope, producer_id: int) -> None:
    """The log holds, from before this start, probes of a producer that ledger and store do not know."""
    remembered_ns, started_ns = scope.state.started
    why = f"the log holds probes of producer {producer_id}, which neither the ledger nor the store remembers"
    _report(scope, remembered_ns or None, started_ns, why)


def has_acked(scope: Scope, log: Log) -> bool:
    """Whether a probe was acknowledged in it since the start."""
    return log.acked_ns >= scope.state.started[1]


def answered(scope: Scope, log: Log, end: int) -> None:
    """A partition answers; at its first answer since the start, note what may come from a forgotten time."""
    if log.listed_ordinal == 0:
        log.before = max(end, log.before) if has_acked(scope, log) else end
        if end > log.known_end and log.relay_taken >= 0:
            log.relay_doubt = max(log.relay_doubt, end)  # the relay may have taken what lies between


def _report(scope: Scope, from_ns: int | None, to_ns: int, reason: str) -> None:
    from_ns = None if from_ns is not None and from_ns > to_ns else from_ns  # by a clock that was ahead
    when = f"until {_time(to_ns)}" if from_ns is None else f"from {_time(from_ns)} to {_time(to_ns)}"
    scope.emit(
        Violation(
            kind=FORGOTTEN,
            severity=severity(FORGOTTEN),
            topic_id=str(to_ns),  # one violation for each start, however it is noticed
            at_ns=scope.state.now_ns,
            by="online",
            summary=f"it is not known whether what was acknowledged {when} was kept: {reason}",
            evidence={"from_ns": from_ns, "to_ns": to_ns, "reason": reason},
        ).since(from_ns)
    )


def _time(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def forget_producers(scope: Scope) -> None:
    """Keep producers of former starts that wrote something, the first of each topic and mode, and the latest."""
    producers = scope.state.producers
    excess = len(producers) - _PRODUCERS_KEPT
    if excess <= 0:
        return
    topics = scope.state.topics.values()
    needed = {stream.producer_id for topic in topics for stream in topic.streams}
    needed.update(producer_id for topic in topics for producer_id, _ in topic.expired)
    needed.update({(p.topic, p.mode): key for key, p in reversed(producers.items())}.values())
    for producer_id in [key for key in producers if key not in needed][:excess]:
        del producers[producer_id]
