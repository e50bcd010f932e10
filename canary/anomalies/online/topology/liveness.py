"""Liveness: is a reader caught up, or unable to make progress? Can the canary see the cluster at all?

A consumer that polls nothing while its log grows, a last stable offset that does not move, probes without an
acknowledgement: none of these is a loss, and all of them look like health (jepsen-redpanda, "a jar of applesauce").
Each is a condition, ``unwritable`` for producers and ``stalled`` for consumers, reported after LIMIT_NS with its age
and what it waits for. So are ``blind`` (the cluster refuses the canary, or has answered no question for SILENT_NS) and
``clock-skew``.

A condition ends by a success at its place, or with its place (``_is_over``). That nothing waits is no success: probes
that were given up wait for nothing, and a client that asks nothing is refused nothing.
"""

import dataclasses
import re
from collections.abc import Iterator

from canary import facts as f
from canary.anomalies.online.log import Log
from canary.anomalies.online.scope import Scope, Where
from canary.anomalies.online.state import Stall, State, Topic
from canary.anomalies.online.topology import clock
from canary.anomalies.online.topology.standstills import (
    AT,
    PRODUCER,
    SUSPICION,
    Standstill,
    key_of,
    reading,
    standing,
    standing_at,
    suspicions,
)
from canary.anomalies.policy import SUSPECTED, is_due
from canary.anomalies.topology_change import TopologyChange
from canary.anomalies.violation import Violation

LIMIT_NS = 60 * 10**9
"""Without progress for so long a reader, or a producer, is stalled."""
_ROUND_NS = 15 * 10**9
"""A round takes no longer: 2 s while a broker answers nothing, and more on a machine that is busy. What is longer is no
time that was watched (a suspended machine, say), and counts as _GAP_NS."""
_GAP_NS = 3 * 10**9
_SILENCE_NS = 3 * 10**9
"""So long nobody answers before it is a silence of the cluster's timeline."""
SKEW_NS = 10 * 10**9
"""Clocks that are further apart than that disagree."""
_QUIET_NS = 90 * 10**9
"""A refusal is over no sooner than so long after the last one: what is refused is tried at least each half minute, and
until then other questions are answered."""
_BLIND = "blind"
_CLOCK = "clock"
"""The kind of place of clocks that disagree, as those of `standstills`."""
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

_SAID = {PRODUCER: "unwritable", SUSPICION: SUSPECTED}
"""The conditions that stand in a partition which is led, and in a cluster that answers."""
ADOPTED = frozenset({_BLIND, "unwritable", "stalled", "clock-skew", SUSPECTED})
"""The kinds of conditions of this room."""
_CODE = re.compile(r"(?:KafkaError\{code=)?([A-Z_]+)")
"""The name of an error at the beginning of its text."""


def judge(scope: Scope) -> None:
    """Look at everything that should move; called once a round of watching."""
    state = scope.state
    for key, stall in list(state.stalls.items()):
        if _is_over(state, key, stall):
            _end(scope, key)
    for topic, log in _probed(state):
        for one in (*standing(topic, log), *suspicions(topic, log)):
            _count_stall(scope, topic, log, one)
    for stall in state.stalls.values():
        _report_again(scope, stall)


def _report_again(scope: Scope, stall: Stall) -> None:
    """Report what stands still, if that is due."""
    now_ns = scope.state.now_ns
    if stall.said is not None and is_due(stall.again_ns or stall.said.at_ns, now_ns):
        stall.again_ns = now_ns
        scope.emit(dataclasses.replace(stall.said, at_ns=now_ns))


def _is_over(state: State, key: str, stall: Stall) -> bool:
    """Say whether a condition is over: by a success since it began, or because its place is not probed any more."""
    kind, *place = key.split("/")
    if kind == _BLIND:
        return _sees_again(state, stall.last_ns)
    topic, partition = state.topics.get(place[0]), int(place[1])
    log = topic.logs.get(partition) if topic is not None else None
    if topic is None or log is None:  # it has not been seen yet, or is not there
        count = topic.partitions if topic is not None and topic.known else 0
        return not state.probes(place[0], partition) or 0 < count <= partition
    if not _is_probed(state, topic, log):
        return True
    if stall.said is not None and stall.said.topic_id in topic.dead_ids:
        return True
    if kind == AT:
        awaited = set(stall.readers).intersection(state.probed[topic.name].readers) - log.readers.keys()
        here = log.listed_ordinal > 0 and not awaited and len(log.readers) > 1  # those of both isolation levels
        goes_on = here and all(one.key != key for one in reading(topic, log))
    elif kind == SUSPICION:
        return not log.missing and not log.unplaced
    else:
        goes_on = kind == PRODUCER and log.acked_ns > stall.since_ns  # a record with a right stamp ends _CLOCK
    stall.over_ns = 0 if not goes_on else stall.over_ns or state.now_ns
    return goes_on and (stall.said is None or log.is_settled(stall.said.at_ns, state.now_ns - stall.over_ns))


def _sees_again(state: State, refused_ns: int) -> bool:
    """Say whether, since it was refused, the cluster has answered, and has taken and given all that was tried."""
    if state.silent_ns >= SILENT_NS or state.answered_ns <= refused_ns or state.now_ns - refused_ns <= _QUIET_NS:
        return False
    since = (one.since_ns for topic, log in _probed(state) for one in standing(topic, log))
    return not any(since_ns is not None and since_ns <= refused_ns for since_ns in since)


def _end(scope: Scope, key: str) -> None:
    """End what stood; where something else stands in the partition for as long, the violation goes on for that."""
    stall, (kind, *place) = scope.state.stalls.pop(key), key.split("/")
    if stall.said is None:
        return
    others = _readers_in(scope.state, place[0], int(place[1])) if kind == AT else []
    heir = next((one for one in others if one.said is None and one.watched_ns >= LIMIT_NS), None)
    if heir is None:
        scope.found.ended.append(stall.said)
    else:
        heir.said = stall.said


def _readers_in(state: State, topic: str, partition: int) -> list[Stall]:
    """Return what is known to stand of consumers in a partition."""
    log = state.log(topic, partition)
    places = [] if log is None else [reader.position for reader in log.readers.values()]
    keys = dict.fromkeys(key_of(AT, topic, partition, at) for at in places)
    return [state.stalls[key] for key in keys if key in state.stalls]


def _is_probed(state: State, topic: Topic, log: Log) -> bool:
    """Say whether the settings want the partition probed, and its topic exists."""
    return topic.gone_since_ns is None and state.probes(topic.name, log.partition)


def _probed(state: State) -> Iterator[tuple[Topic, Log]]:
    for topic in state.topics.values():
        yield from ((topic, log) for log in topic.logs.values() if _is_probed(state, topic, log))


def hidden_from(scope: Scope, topic: Topic, log: Log) -> int | None:
    """Return the last stable offset if it has been reported to stand, or has gone below the log's start.

    No read_committed reader is given what lies above it, maybe for ever: only read_uncommitted shows what is there.
    """
    stable = _open_at(log)
    if stable is None:
        return None
    stall = scope.state.stalls.get(standing_at(topic, log, stable))
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


def _count_stall(scope: Scope, topic: Topic, log: Log, one: Standstill) -> None:
    """Count how long there is no progress; consumers of one partition are one violation, with the first reason found.

    While its producers stand, that its consumers do is no news. Neither is a standstill of producers where the
    partition has no leader, or nothing can be seen: that is reported by itself.
    """
    state = scope.state
    since_ns = state.now_ns if one.since_ns is None else one.since_ns
    if one.reader is not None and since_ns < state.started[1]:
        return  # this process has no such consumer yet
    stall = state.stalls.setdefault(one.key, Stall(since_ns, state.now_ns))
    if one.since_ns is None and log.listed_ns < stall.last_ns:
        return  # the last stable offset may have moved: the partition has not answered since
    passed_ns = state.now_ns - stall.last_ns
    stall.watched_ns += passed_ns if passed_ns <= _ROUND_NS else _GAP_NS
    stall.last_ns = state.now_ns
    if one.reader is not None and one.reader not in stall.readers:
        stall.readers.append(one.reader)
    tried_ns = (one.until_ns or state.now_ns) - since_ns
    long = stall.watched_ns >= LIMIT_NS and (one.since_ns is None or tried_ns >= LIMIT_NS)
    if stall.said is not None or not long:
        return
    place, kind = f"{topic.name}-{log.partition}, ", one.key.split("/")[0]
    if kind in _SAID:
        if _BLIND not in state.stalls and log.leader is not None and log.leader >= 0:
            _report(scope, stall, _SAID[kind], Where(topic, log.partition, one.offset), place, one.why())
        return
    others = [] if one.since_ns is None else _readers_in(state, topic.name, log.partition)
    producers = state.stalls.get(key_of(PRODUCER, topic.name, log.partition))
    if one.since_ns is not None and producers is not None:
        others.append(producers)
    if all(other.said is None for other in others):
        _report(scope, stall, "stalled", Where(topic, log.partition, one.offset), "", one.why())


def _report(scope: Scope, stall: Stall, kind: str, where: Where, words: str, why: str) -> None:
    summary = f"{words}for {(scope.state.now_ns - stall.since_ns) / 1e9:.0f} s: {why}"
    stall.said = scope.report(kind, where, summary, evidence={"since_ns": stall.since_ns, "waits_for": why})


def runner_started(scope: Scope) -> None:
    """The cluster was not watched for a while: unreported stalls begin anew; the cluster's silence goes on."""
    state, now = scope.state, scope.state.now_ns
    state.looked_ns = state.answered_ns = 0
    said, state.stalls = state.stalls, {}
    for key, stall in said.items():
        if key == _BLIND and stall.last_ns > 0:  # what was refused may not have been tried since
            stall.last_ns = now
        if stall.said is not None:
            kept = 3 if key.startswith(f"{PRODUCER}/") else None  # older states have a key for each probe
            state.stalls.setdefault("/".join(key.split("/")[:kept]), stall)


def adopt(state: State, left: Violation) -> bool:
    """Take what the store has open of a standstill, and nothing here remembers; return whether it was not known.

    It ends as any other.
    """
    key = {
        _BLIND: _BLIND,
        "unwritable": key_of(PRODUCER, left.topic, left.partition),
        "clock-skew": key_of(_CLOCK, left.topic, left.partition),
        "stalled": key_of(AT, left.topic, left.partition, left.offset),
        SUSPECTED: key_of(SUSPICION, left.topic, left.partition),
    }[left.kind]
    stall = state.stalls.setdefault(key, Stall(left.evidence["since_ns"], left.at_ns))
    if stall.said is not None:
        return False
    stall.said = left
    return True


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
    """Report that nothing can be seen; where it is reported already, again: without answers there may be no rounds."""
    state = scope.state
    if _BLIND in state.stalls:
        _report_again(scope, state.stalls[_BLIND])
    else:
        said = scope.report(_BLIND, Where(""), why, evidence={"since_ns": state.now_ns, **evidence}, by="watch")
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
    if state.silent_ns >= _SILENCE_NS:
        began_ns = state.looked_ns - state.silent_ns
        scope.found.changes.append(TopologyChange(began_ns, "cluster", "", 0, detail="silent"))
        scope.found.changes.append(TopologyChange(state.now_ns, "cluster", "", 0))
    state.silent_ns, state.looked_ns, state.answered_ns = 0, state.now_ns, state.now_ns


def clocks(scope: Scope, topic: Topic, log: Log, first: f.Polled) -> None:
    """Compare a broker's clock with the machine's: did it append a record before it was sent, or after it was read?

    Only a topic with message.timestamp.type=LogAppendTime has the broker's time. A record that was read long after it
    was sent, or before (by another process's clock), proves nothing: the clocks may have been corrected since.
    """
    if first.sent_at_ns is None or not 0 <= first.at_ns - first.sent_at_ns <= LIMIT_NS:
        return
    state, key = scope.state, key_of(_CLOCK, topic.name, log.partition)
    if first.timestamp_ms is None:  # the topic has the producers' time
        if key in state.stalls:
            _end(scope, key)
        return
    stamp_ns = first.timestamp_ms * 1_000_000
    ahead = clock.ahead(state, first.sent_at_ns)
    early, late = first.sent_at_ns + ahead.least - stamp_ns, stamp_ns - first.at_ns - ahead.most
    if max(early, late) <= SKEW_NS:
        if key in state.stalls and min(early, late) >= -SKEW_NS:  # of a record that was read late nothing is known
            _end(scope, key)
        return
    if key not in state.stalls:
        how = f"{early / 1e9:.0f} s before it was sent" if early > late else f"{late / 1e9:.0f} s after it was read"
        times = {"timestamp_ms": first.timestamp_ms, "sent_at_ns": first.sent_at_ns, "clock_ahead_s": ahead.most / 1e9}
        said = scope.report(
            "clock-skew",
            Where(topic, log.partition),
            f"the leader appended the record at offset {first.offset} {how}, by our clock",
            evidence={"since_ns": state.now_ns, "offset": first.offset, **times},
        )
        state.stalls[key] = Stall(state.now_ns, state.now_ns, said)
