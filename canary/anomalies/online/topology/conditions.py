"""Conditions: violations that hold for a while, each reported after its set time and ended when it is over.

One is over when the partition was seen since the start without it, or is gone. A place that no answer has named since
the start (UNKNOWN_LEADER) keeps its conditions, and they are not reported again meanwhile.
"""

import dataclasses
from collections.abc import Callable, Container, Iterator
from typing import Any

from canary.anomalies.online.scope import Scope, Where
from canary.anomalies.online.state import State
from canary.anomalies.online.topology import elections
from canary.anomalies.online.topology.state import UNKNOWN_LEADER, Condition, Known, Place, Topology
from canary.anomalies.policy import BY_BROKERS, is_due
from canary.anomalies.violation import Violation

Key = tuple[str, str, int]
"""(kind, topic, partition)."""
MOST_EACH = 100
"""So many partitions of topics not probed have a violation each (of one kind); the rest share one with their number."""
OTHERS = -1
_OUTAGE = "offline-partition"
ADOPTED = BY_BROKERS
"""The kinds of conditions of this room that a start adopts."""
_MILDER = frozenset({"isr-of-one", "under-min-isr", "isr-below-half"})
"""What an outage makes worse."""
_NAMED = 100


def judge(scope: Scope, extent: str) -> None:
    """Report what has held for its set time, end what no longer holds."""
    top = scope.state.topology
    now = top.watched_ns.get(extent, 0)
    holding: set[Key] = set()
    for name, partition in list(top.degraded):
        known = top.topics.get(name)
        place = known.partitions.get(partition) if known is not None else None
        if known is None or place is None or place.leader == UNKNOWN_LEADER or (extent == "probe") != known.ours:
            continue
        for kind in _kinds(top, (name, partition), known, place):
            key = (kind, name, partition)
            holding.add(key)
            top.conditions.setdefault(key, Condition("", extent, now, place.at_ns)).over_watched_ns = None

    def over(key: Key) -> bool:
        return key not in holding and key[2] != OTHERS and _is_seen(top, key) and _may_end(scope, key, now)

    end_all(scope, over, extent)
    _report_due(scope, extent, now, holding)


def _is_seen(top: Topology, key: Key) -> bool:
    known = top.topics.get(key[1])
    place = known.partitions.get(key[2]) if known is not None else None
    return place is None or place.leader != UNKNOWN_LEADER


def _may_end(scope: Scope, key: Key, now: int) -> bool:
    """Say whether what holds no more may end.

    What was reported and is milder than an outage ends in one only when that is reported, too. An outage of a probed
    log ends only when the log is known to be whole.
    """
    conditions, log = scope.state.topology.conditions, scope.state.log(key[1], key[2])
    condition = conditions[key]
    if condition.said_ns is None:
        return True
    if key[0] in _MILDER:
        own = conditions.get((_OUTAGE, *key[1:]))
        counted = (_OUTAGE, "", OTHERS) in conditions
        ripe = own is not None and now - own.watched_ns >= _limit_ns(scope.state.topology, (_OUTAGE, *key[1:]))
        return own is None or own.said_ns is not None or (counted and ripe)
    if key[0] != _OUTAGE or log is None or condition.extent != "probe":
        return True
    if condition.over_watched_ns is None:
        condition.over_watched_ns = now
    return log.is_settled(condition.at_ns, now - condition.over_watched_ns)


def _kinds(top: Topology, at: tuple[str, int], known: Known, place: Place) -> Iterator[str]:
    have, want = len(place.isr), len(place.replicas)
    if place.leader < 0 or not have:
        yield _OUTAGE
    elif have < want:
        if have == 1 and known.min_isr is not None and known.min_isr <= 1:
            yield "isr-of-one"
        if known.min_isr is not None and have < known.min_isr:
            yield "under-min-isr"
        if 2 * have < want:
            yield "isr-below-half"
    if have < want:
        yield "under-replicated"
    suspect = top.suspects.get(at)
    if suspect is not None and suspect.disjoint and not suspect.concluded and place.leader >= 0:
        yield "unclean-election"


def _limit_ns(top: Topology, key: Key) -> int:
    limits = top.limits
    kind, name, partition = key
    known = top.topics[name]
    seconds = limits.under_s
    if kind == "unclean-election":
        seconds = limits.unclean_s
    elif kind == "isr-of-one" and known.ours:
        seconds = limits.isr_of_one_s
    elif kind == _OUTAGE and len(known.partitions[partition].replicas) > 1:
        seconds = limits.offline_s
    return int(seconds * 1e9)


def _report_due(scope: Scope, extent: str, now: int, holding: Container[Key]) -> None:
    top = scope.state.topology
    due: dict[str, list[Key]] = {}
    said: dict[str, int] = {}
    unseen: set[str] = set()
    for key, condition in top.conditions.items():
        if condition.extent != extent or key[2] == OTHERS:
            continue
        if not _is_seen(top, key):
            unseen.add(key[0])
            said[key[0]] = said.get(key[0], 0) + (condition.said_ns is not None)
            continue
        if condition.said_ns is None:
            ripe = now - condition.watched_ns >= _limit_ns(top, key)
        else:
            said[key[0]] = said.get(key[0], 0) + 1
            ripe = key in holding and is_due(condition.said_ns, scope.state.now_ns)
        if ripe:
            due.setdefault(key[0], []).append(key)
    for kind in dict.fromkeys([*due, *(key[0] for key in top.conditions if key[2] == OTHERS)]):
        room = MOST_EACH - said.get(kind, 0)
        over: list[Key] = []
        for key in due.get(kind, []):
            fresh = top.conditions[key].said_ns is None
            if fresh and extent == "all" and room <= 0:
                over.append(key)
                continue
            room -= fresh
            _report(scope, key)
        if extent == "all" and (over or kind not in unseen):
            _report_others(scope, kind, over)


def _report(scope: Scope, key: Key) -> None:
    top = scope.state.topology
    kind, name, partition = key
    condition, place = top.conditions[key], top.topics[name].partitions[partition]
    again, condition.said_ns = condition.said_ns is not None, scope.state.now_ns
    evidence: dict[str, Any] = {"since_ns": condition.at_ns}
    if kind == "unclean-election":
        evidence["election"] = elections.as_json(top.suspects[name, partition])
    evidence |= _only_there(scope, name, partition, place)
    severity = "info" if kind == "unclean-election" else None
    summary = _summary(kind, top.topics[name], place)
    found = scope.violation(kind, Where(name, partition), summary, severity=severity, evidence=evidence, by="watch")
    if not again:
        condition.topic_id = found.topic_id
    scope.emit(dataclasses.replace(found, topic_id=condition.topic_id))  # which may have become known since


def _only_there(scope: Scope, name: str, partition: int, place: Place) -> dict[str, Any]:
    """Return the promised offsets that only the last in-sync replicas are known to have."""
    log = scope.state.log(name, partition)
    if log is None or not log.known_end or len(place.isr) >= len(place.replicas):
        return {}
    first = max(log.full_isr_end, log.start)
    brokers = list(place.last_isr)
    return {"only_on": {"brokers": brokers, "from_offset": first, "to_offset": max(log.known_end, first)}}


def _summary(kind: str, known: Known, place: Place) -> str:
    isr = ",".join(map(str, place.isr)) or "nobody"
    of = f"{len(place.isr)} of {len(place.replicas)} replicas in sync (brokers {isr})"
    if kind == _OUTAGE:
        last = ",".join(map(str, place.last_isr)) or "nobody known"
        return (
            f"the partition has no leader; last in sync: brokers {last}. Bring one of them back; do not elect uncleanly"
        )
    if kind == "isr-of-one":
        return f"broker {isr} alone holds what is acknowledged now (min.insync.replicas={known.min_isr})"
    if kind == "under-min-isr":
        return f"{of}, min.insync.replicas={known.min_isr}: writes with acks=all are refused"
    if kind == "unclean-election":
        return f"broker {place.leader} leads and was not in the last known ISR: suspected to be an unclean election"
    return of


def _report_others(scope: Scope, kind: str, over: list[Key]) -> None:
    """Report the partitions beyond MOST_EACH as one violation."""
    top = scope.state.topology
    key = (kind, "", OTHERS)
    known = top.conditions.get(key)
    if not over:
        if known is not None and top.watched_ns.get("all", 0) >= known.holds_until_ns:
            end_all(scope, lambda other: other == key)
        return
    if known is None:
        known = top.conditions[key] = Condition("", "all", top.watched_ns.get("all", 0), scope.state.now_ns)
    if known.said_ns is not None and not is_due(known.said_ns, scope.state.now_ns):
        return
    known.said_ns = scope.state.now_ns
    named = [f"{name}-{partition}" for _, name, partition in over[:_NAMED]]
    evidence = {"since_ns": known.at_ns, "partitions": named, "count": len(over)}
    summary = f"{len(over)} partitions more than the {MOST_EACH} that are named each"
    severity = "info" if kind == "unclean-election" else None
    scope.report(kind, Where(""), summary, severity=severity, evidence=evidence, by="watch")


def end_all(scope: Scope, over: Callable[[Key], bool], extent: str | None = None) -> None:
    """End the conditions (of an extent) for which ``over``; one that was never reported is only forgotten."""
    conditions = scope.state.topology.conditions
    for key in [key for key, one in conditions.items() if extent in (None, one.extent) and over(key)]:
        condition = conditions.pop(key)
        if condition.said_ns is not None:
            scope.found.ended.append(_as_reported(scope, key, condition))


def adopt(state: State, left: Violation) -> bool:
    """Take a condition that the store has open, and nothing here remembers; return whether it was not known.

    Its place is one that no answer has named since the start: it ends as any other when it is seen, or gone. What has
    no place (OTHERS) does not end before those that it stood for can be reported anew.
    """
    top = state.topology
    known = top.topics.get(left.topic)
    ours = left.topic in state.probed if known is None else known.ours
    extent, since_ns = "probe" if ours else "all", left.evidence["since_ns"]
    watched_ns = top.watched_ns.get(extent, 0)
    if left.partition is not None:
        known = top.topics.setdefault(left.topic, Known(ours=ours))
        known.partitions.setdefault(left.partition, Place(UNKNOWN_LEADER, [], [], since_ns))
    key = left.kind, left.topic, OTHERS if left.partition is None else left.partition
    condition = top.conditions.setdefault(key, Condition(left.topic_id, extent, watched_ns, since_ns))
    if condition.said_ns is not None:
        return False
    condition.topic_id, condition.said_ns = left.topic_id, left.at_ns
    if left.partition is None:
        condition.holds_until_ns = watched_ns + int(top.limits.under_s * 1e9)
    return True


def reported(scope: Scope) -> list[Violation]:
    """Return the conditions that hold and were reported; their summaries are not those of then."""
    conditions = scope.state.topology.conditions
    return [_as_reported(scope, key, one) for key, one in conditions.items() if one.said_ns is not None]


def _as_reported(scope: Scope, key: Key, condition: Condition) -> Violation:
    kind, name, partition = key
    place = None if partition == OTHERS else partition
    ended = scope.violation(kind, Where(name, place), "ended", by="watch")
    return dataclasses.replace(ended, topic_id=condition.topic_id)
