"""Liveness: is a reader caught up, or unable to make progress? Can the canary see the cluster at all?

A consumer that polls nothing while its log grows, a last stable offset that does not move, probes without an
acknowledgement: none of these is a loss, and all of them look like health (jepsen-redpanda, "a jar of applesauce").
Each is a condition ``stalled``: reported after LIMIT_NS with its age and what it waits for, ended when it is over.
So are ``blind`` (the cluster refuses the canary, or has answered no question for SILENT_NS) and ``clock-skew``.
"""

import re
from collections.abc import Iterator

from canary import facts as f
from canary.anomalies.online.log import Log
from canary.anomalies.online.scope import Scope, Where
from canary.anomalies.online.state import Stall, Topic
from canary.anomalies.online.stream import sent_time
from canary.anomalies.topology_change import TopologyChange

LIMIT_NS = 60 * 10**9
"""Without progress for so long a reader, or a producer, is stalled."""
_ROUND_NS = 3 * 10**9
"""Time between two rounds counts at most so long as watched (a suspended machine, say)."""
SKEW_NS = 10 * 10**9
"""Clocks that are further apart than that disagree."""
_KEPT_NS = 90 * 10**9
"""Not reported again for so long, a condition is over: clients report a refusal, or a wrong clock, at least each half
minute, and probed partitions are looked at each second."""
_BLIND = "blind"
_CLOCK = "clock/"
SILENT_NS = 45 * 10**9
"""Without any answer for so long the cluster is silent: longer than a change of controller takes."""
_QUESTION_NS = 10 * 10**9
"""Time between two questions counts at most so long as watched."""
SILENCES = frozenset({"_TIMED_OUT", "_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "REQUEST_TIMED_OUT"})
"""The errors of a question without an answer."""
REFUSALS = (
    "AUTHENTICATION",
    "AUTHORIZATION",
    "_SSL",
    "SASL",
    "DELEGATION_TOKEN_EXPIRED",
    "THROTTLING_QUOTA_EXCEEDED",
    "SECURITY_DISABLED",
)
"""Parts of the names of errors with which the cluster refuses: credentials, rights, certificate, quota."""

_CODE = re.compile(r"(?:KafkaError\{code=)?([A-Z_]+)")
"""The name of an error at the beginning of its text."""

Standstill = tuple[str, int | None, int, str]
"""What makes no progress: its key, since when (None: first look), its offset or -1, what it waits for."""


def judge(scope: Scope) -> None:
    """Look at everything that should move; called once a round of watching."""
    state = scope.state
    standing: set[str] = set()
    for topic in state.topics.values():
        if topic.gone_since_ns is None:
            found = [(log, stands) for log in topic.logs.values() for stands in _reading(topic, log)]
            for log, (key, since_ns, offset, why) in [*found, *_writing(topic)]:
                standing.add(key)
                _count_stall(scope, key, topic, log, since_ns, offset, why)
    for key, stall in list(state.stalls.items()):
        kept = key == _BLIND or key.startswith(_CLOCK) or (key not in standing and _unanswered(scope, stall))
        over = state.now_ns - stall.last_ns > _KEPT_NS if kept else key not in standing
        if key == _BLIND and state.silent_ns >= SILENT_NS:
            continue
        if over:
            del state.stalls[key]
            if stall.said is not None:
                scope.found.ended.append(stall.said)


def _reading(topic: Topic, log: Log) -> Iterator[Standstill]:
    """Yield the last stable offset that does not move, and consumers that do not."""
    stable, end = log.stable, log.end
    if log.listed_ordinal and stable is not None and end is not None and stable < end:
        why = f"the last stable offset stands at {stable} and the log ends at {end}: a transaction was never ended"
        yield _standing_at(topic, log, stable), None, stable, why
    for name, reader in log.readers.items():
        at, goal = reader.position, log.goal(reader)
        if goal is not None and at < goal:
            why = f"{name} stands at {at} and may read up to {goal}: its leader ({log.leader}) gives it nothing"
            yield _standing_at(topic, log, at), reader.moved_at_ns, at, why


def hidden_from(scope: Scope, topic: Topic, log: Log) -> int | None:
    """Return the last stable offset if it has been reported to stand, or has gone below the log's start.

    No read_committed reader is given what lies above it, maybe for ever: only read_uncommitted shows what is there.
    """
    stable = _open_at(log)
    if stable is None:
        return None
    stall = scope.state.stalls.get(_standing_at(topic, log, stable))
    stands = stable <= log.start or (stall is not None and stall.said is not None)
    return stable if stands else None


def hiding(scope: Scope, topic: Topic, log: Log) -> int | None:
    """Return the last stable offset while an open transaction hides what lies above it from every fresh consumer.

    None where nothing is open, or it has been for so long that read_uncommitted is asked instead.
    """
    return _open_at(log) if hidden_from(scope, topic, log) is None else None


def _open_at(log: Log) -> int | None:
    """Return the last stable offset where a transaction is open above it."""
    is_open = log.stable is not None and log.end is not None and log.stable < log.end
    return log.stable if is_open else None


def _standing_at(topic: Topic, log: Log, offset: int) -> str:
    return f"at/{topic.name}/{log.partition}/{offset}"


def _writing(topic: Topic) -> Iterator[tuple[Log, Standstill]]:
    """Yield producers whose oldest probe has no acknowledgement."""
    partitions: set[int] = set()
    for stream in topic.streams:
        first = stream.open.first() if stream.live and stream.open else None
        sent_ns = sent_time(stream, first) if first is not None else None
        log = topic.logs.get(stream.partition)
        if sent_ns is not None and first is not None and log is not None and stream.partition not in partitions:
            partitions.add(stream.partition)
            why = (
                f"{stream.open.total} probes of the mode {stream.mode} wait for an acknowledgement, from "
                f"sequence {first} on: leader {log.leader}, in sync {log.isr}"
            )
            yield log, (f"producer/{topic.name}/{stream.partition}/{stream.tag}/{first}", sent_ns, -1, why)


def _unanswered(scope: Scope, stall: Stall) -> bool:
    """Say whether its partition has not answered since the runner's start: too early, or no longer probed."""
    log = scope.state.log(stall.said.topic, stall.said.partition or 0) if stall.said is not None else None
    return log is not None and not log.listed_ordinal


def _count_stall(scope: Scope, key: str, topic: Topic, log: Log, since_ns: int | None, offset: int, why: str) -> None:
    """Count how long there is no progress; one place is one violation, with the first reason found."""
    state = scope.state
    stall = state.stalls.setdefault(key, Stall(state.now_ns if since_ns is None else since_ns, state.now_ns))
    stall.watched_ns += min(state.now_ns - stall.last_ns, _ROUND_NS)
    stall.last_ns = state.now_ns
    if stall.said is None and stall.watched_ns >= LIMIT_NS:
        stall.said = scope.report(
            "stalled",
            Where(topic, log.partition, offset if offset >= 0 else None),
            f"for {(state.now_ns - stall.since_ns) / 1e9:.0f} s: {why}",
            severity="warning",
            evidence={"since_ns": stall.since_ns, "waits_for": why},
        )


def runner_started(scope: Scope) -> None:
    """The cluster was not watched for a while: unreported stalls begin anew; the cluster's silence goes on.

    The clock of the process before may have been ahead: nothing happened later than now.
    """
    scope.state.looked_ns = 0
    stalls, now = scope.state.stalls, scope.state.now_ns
    for key, stall in list(stalls.items()):
        stall.last_ns = min(stall.last_ns, now)
        if stall.said is None:
            del stalls[key]
    for topic in scope.state.topics.values():
        for log in topic.logs.values():
            for reader in log.readers.values():
                reader.moved_at_ns = min(reader.moved_at_ns, now)


def refused(scope: Scope, code: str, error: str, who: str) -> None:
    """A client reports an error; a refusal makes the canary blind."""
    if not any(word in code for word in REFUSALS):
        return
    why = f"the cluster refuses the canary ({code}: {error}): nothing is known until that is mended"
    _blind(scope, why, {"client": who, "code": code, "error": error})
    scope.state.stalls[_BLIND].last_ns = scope.state.now_ns


def write_failed(scope: Scope, error: str | None, who: str) -> None:
    """A write or a transaction failed, "CODE: text" or as the client raised it; a refusal makes the canary blind."""
    if error is not None and (found := _CODE.match(error)) is not None:
        refused(scope, found[1], error, who)


def _blind(scope: Scope, why: str, evidence: dict[str, str]) -> None:
    """Report that nothing can be seen, unless it is reported already."""
    state = scope.state
    if _BLIND not in state.stalls:
        said = scope.report(_BLIND, Where(""), why, evidence=evidence, by="watch")
        state.stalls[_BLIND] = Stall(state.now_ns, 0, said)


def unanswered(scope: Scope, error: str) -> None:
    """A question was refused or had no answer: "what: CODE: text"."""
    parts = error.split(": ", 2)
    if len(parts) < 3:
        return
    _, code, text = parts
    refused(scope, code, text, "watcher")
    if code not in SILENCES:
        return
    state = scope.state
    state.silent_ns += min(state.now_ns - (state.looked_ns or state.now_ns), _QUESTION_NS)
    state.looked_ns = state.now_ns
    if state.silent_ns >= SILENT_NS:
        why = f"the cluster has answered no question for {SILENT_NS // 10**9} s ({error}): nothing is known meanwhile"
        _blind(scope, why, {"error": error})


def answered(scope: Scope) -> None:
    """The cluster has answered a question; until now no broker can be said to have been there, if all were silent.

    For example, all brokers are killed. The first one that is back names the others as gone, and itself was never seen
    to be.
    """
    state = scope.state
    if state.silent_ns >= _ROUND_NS:
        began_ns = state.looked_ns - state.silent_ns
        scope.found.changes.append(TopologyChange(began_ns, "cluster", "", 0, detail="silent"))
        scope.found.changes.append(TopologyChange(state.now_ns, "cluster", "", 0))
    scope.state.silent_ns, scope.state.looked_ns = 0, scope.state.now_ns


def clocks(scope: Scope, topic: Topic, log: Log, first: f.Polled) -> None:
    """Compare a broker's clock with the canary's: did it append a record before it was sent, or after it was read?

    Only a topic with message.timestamp.type=LogAppendTime has the broker's time. A record that was read long after it
    was sent proves nothing: the clocks may have been corrected since.
    """
    if first.timestamp_ms is None or first.sent_at_ns is None or first.at_ns - first.sent_at_ns > LIMIT_NS:
        return
    stamp_ns = first.timestamp_ms * 1_000_000
    early, late = first.sent_at_ns - stamp_ns, stamp_ns - first.at_ns
    if max(early, late) <= SKEW_NS:
        return
    state, key = scope.state, f"{_CLOCK}{topic.name}/{log.partition}"
    stall = state.stalls.get(key)
    if stall is None:
        how = f"{early / 1e9:.0f} s before it was sent" if early > late else f"{late / 1e9:.0f} s after it was read"
        said = scope.report(
            "clock-skew",
            Where(topic, log.partition),
            f"the leader appended the record at offset {first.offset} {how}, by our clock",
            evidence={"offset": first.offset, "timestamp_ms": first.timestamp_ms, "sent_at_ns": first.sent_at_ns},
        )
        stall = state.stalls[key] = Stall(state.now_ns, state.now_ns, said)
    stall.last_ns = state.now_ns
