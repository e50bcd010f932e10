"""What the canary itself has forgotten: said once for each start, because its silence about that time proves nothing.

A ledger that is damaged, wiped or put back tells of it as a fact (MemoryLost). A ledger and a store that were put back
together agree with each other; there the log tells it: it holds probes of ours, from before the present process began,
of a producer that neither of the two knows.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from canary.anomalies.catalogue import CATALOGUE
from canary.anomalies.violation import Violation

if TYPE_CHECKING:
    from canary import facts as f
    from canary.anomalies.online.scope import Scope
    from canary.anomalies.online.state import Log

KIND = "memory-lost"
_PRODUCERS_KEPT = 1000


def memory_lost(scope: Scope, fact: f.MemoryLost) -> None:
    """The runner found that the ledger does not hold all that it once held."""
    _say(scope, fact.from_ns, fact.at_ns, fact.reason)


def forgotten_producer(scope: Scope, producer_id: int) -> None:
    """The log holds, from before our start, probes of ours of a producer that ledger and store do not know."""
    remembered_ns, started_ns = scope.state.started
    why = f"the log holds probes of producer {producer_id}, which neither the ledger nor the store remembers"
    _say(scope, remembered_ns or None, started_ns, why)


def answered(log: Log, end: int) -> None:
    """A partition answers; the first time since the start, what it holds may be of a start that is forgotten."""
    if log.listed_ordinal == 0:
        log.before = end
        if end > log.known_end:  # the relay may have gone on from what it was given, too
            log.relay_doubt = max(log.relay_doubt, end)


def _say(scope: Scope, from_ns: int | None, to_ns: int, reason: str) -> None:
    when = f"until {_time(to_ns)}" if from_ns is None else f"from {_time(from_ns)} to {_time(to_ns)}"
    scope.emit(
        Violation(
            kind=KIND,
            severity=CATALOGUE[KIND].severity,
            topic="",
            topic_id=str(to_ns),  # when we began: one violation for each start, whoever tells
            partition=None,
            offset=None,
            identity=None,
            mode=None,
            at_ns=scope.state.now_ns,
            by="online",
            summary=f"it is not known whether what was acknowledged {when} was kept: {reason}",
            evidence={"from_ns": from_ns, "to_ns": to_ns, "reason": reason},
        )
    )


def _time(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def forget_producers(scope: Scope) -> None:
    """Keep producers of former starts that wrote something, the first of each topic and mode, and the latest."""
    producers = scope.state.producers
    excess = len(producers) - _PRODUCERS_KEPT
    if excess <= 0:
        return
    needed = {stream.producer_id for topic in scope.state.topics.values() for stream in topic.streams}
    needed.update({(p.topic, p.mode): key for key, p in reversed(producers.items())}.values())
    for producer_id in [key for key in producers if key not in needed][:excess]:
        del producers[producer_id]
