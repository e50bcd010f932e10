"""The scrubber: it re-reads each log chunk by chunk, from start to end, again and again (decision 6)."""

from canary import facts as f
from canary.anomalies.online.log import Log
from canary.anomalies.online.losses.requests import request
from canary.anomalies.online.scope import Scope
from canary.anomalies.online.topology import liveness
from canary.anomalies.online.wanted import SCRUB


def asked(scope: Scope, fact: f.ScrubAsked) -> None:
    """The scrubber may read so many records more."""
    topic = scope.state.topics.get(fact.topic)
    log = topic.logs.get(fact.partition) if topic is not None else None
    if topic is None or log is None or topic.gone_since_ns is not None or not log.listed_ordinal:
        return
    if fact.start is not None:
        log.scrub_at, log.scrub_goal = fact.start, 0
    elif any(reread.reason == SCRUB for reread in log.rereads.values()):
        return
    log.scrub_began_ns = log.scrub_began_ns or scope.state.now_ns
    if log.scrub_goal <= log.scrub_at or log.scrub_goal > log.known_end:  # a new pass; or the log was cut
        log.scrub_goal = log.known_end
        log.scrub_at = log.scrub_from = log.start if fact.start is None else fact.start
        log.scrub_pass_ns = scope.state.now_ns
    start = max(log.scrub_at, log.start)
    end = start + fact.records
    if end >= log.scrub_goal:  # the last chunk: what was appended during the pass need not wait for the next one
        log.scrub_goal = end = min(end, log.known_end)
    if fact.start is None and log.stable is not None and log.stable < (log.end or 0):
        stands = liveness.hidden_from(scope, topic, log) is not None
        if start < log.stable or not stands:
            end = min(end, log.stable)  # an open transaction hides the rest, perhaps for ever
    if start < end:
        request(scope, topic, log, start, end, SCRUB)
    else:
        finished(scope, log)


def ended(scope: Scope, log: Log, reached: int) -> None:
    """A chunk was read as far as ``reached``."""
    log.scrub_at = max(log.scrub_at, reached)
    if log.scrub_at >= log.scrub_goal:
        finished(scope, log)


def finished(scope: Scope, log: Log) -> None:
    """A pass is complete; the next one begins at the log's start."""
    if log.scrub_from <= log.start:
        log.verified_ns, log.scrubbed_end = log.scrub_pass_ns, log.scrub_at
    log.scrubbed_ns, log.scrub_at, log.scrub_goal = scope.state.now_ns, log.start, 0


def ratio(log: Log) -> float:
    """Return how far the pass is: 0 at its start, 1 at its end."""
    length = log.scrub_goal - log.start
    return min(max((log.scrub_at - log.start) / length, 0.0), 1.0) if length > 0 else 0.0
