"""Unclean elections: who leads was not in sync, so what only the former in-sync replicas had is gone.

A leader outside the last known ISR is suspect. Nothing is proven by that: a replica may have rejoined between two
samples. It is *critical* when the log was cut there (truncation, offset-regression, lost writes), and *suspected*
(info, a condition) only where nobody of the former ISR is in the new one, seen in two sights close to each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from canary.anomalies.online.topology_found import violation
from canary.anomalies.online.topology_state import Suspect
from canary.anomalies.policy import UNORDERED

if TYPE_CHECKING:
    from canary import facts as f
    from canary.anomalies.online.scope import Scope
    from canary.anomalies.online.state import Log
    from canary.anomalies.online.topology_state import Place
    from canary.anomalies.violation import Violation

_CLOSE_NS = 10 * 10**9
"""Rounds further apart than this cannot tell who was in sync just before the election."""
_EVIDENCE = frozenset({"truncation", "offset-regression", "lost-write"})
_GATHER_NS = 10 * 10**9
"""So long after the last lost write an election is said without waiting for a truncation."""
_DOUBT_NS = 120 * 10**9
"""And so long where something of the partition is still in doubt: the first that is lost may be among that."""
_HEALED_NS = 120 * 10**9
_SURE_NS = 2 * 10**9
"""Who leads for so long was elected: a broker that has not heard of the last changes yet tells of former ones."""
_SUSPECTS_KEPT = 10_000
_OLD_NS = 15 * 60 * 10**9


def changed(scope: Scope, fact: f.PartitionSeen | f.WatchedPartition, place: Place, isr: list[int]) -> None:
    """A partition is led by another broker: was that one in sync, as far as known?"""
    former = place.eligible(scope.state.topology.topics[fact.topic].min_isr)
    if fact.leader == place.leader or not former or len(place.replicas) < 2:
        return
    if fact.leader in former or fact.leader not in place.replicas:
        return  # in sync; or nobody; or a new replica (a reassignment), which it can have become only in sync
    top = scope.state.topology
    extent = "probe" if top.topics[fact.topic].ours else "all"
    key = (fact.topic, fact.partition)
    close = fact.at_ns - top.rounds.get(extent, 0) <= _CLOSE_NS
    before = top.suspects.get(key)
    if before is not None and not before.concluded and before.leader == fact.leader:
        return
    log = _log(scope, *key)
    top.suspects[key] = Suspect(
        at_ns=fact.at_ns,
        watched_ns=top.watched_ns.get(extent, 0),
        former_leader=place.leader,
        former_isr=list(former),
        leader=fact.leader,
        isr=isr,
        disjoint=close and not set(isr) & set(former),
        end=log.known_end if log is not None else None,
        doubtful=True,
        counted=False,
    )
    while len(top.suspects) > _SUSPECTS_KEPT:
        del top.suspects[next(iter(top.suspects))]


def conclude(scope: Scope) -> None:
    """Take what was just found as evidence: where a suspect leader was elected and the log was cut, it was unclean."""
    suspects = scope.state.topology.suspects
    if suspects:
        for found in scope.violations[scope.judged :]:
            if found.mode in UNORDERED:
                continue  # acks=1 loses with any change of leader
            if found.kind in _EVIDENCE and found.partition is not None and found.offset is not None:
                _consider(scope, found)
    scope.judged = len(scope.violations)


def _consider(scope: Scope, found: Violation) -> None:
    top = scope.state.topology
    suspect = top.suspects.get((found.topic, found.partition or 0))
    if suspect is None or suspect.concluded or found.offset is None:
        return
    if suspect.end is not None and found.offset >= suspect.end:
        return  # written since: nothing of it was there to be cut off by that election
    if found.kind == "lost-write":
        suspect.lost += found.count if suspect.end is None else found.below(suspect.end)
        suspect.lost_first = found.offset if suspect.lost_first is None else min(suspect.lost_first, found.offset)
        suspect.lost_watched_ns = top.watched_ns.get(_extent(scope, found.topic), 0)
    else:
        _say(scope, (found.topic, found.partition or 0), suspect, found.offset, found.kind)


def _say(scope: Scope, key: tuple[str, int], suspect: Suspect, offset: int, proof: str) -> None:
    suspect.concluded = True
    _count(scope, key, suspect)
    former = ",".join(map(str, suspect.former_isr))
    summary = (
        f"broker {suspect.leader} became leader outside the last known ISR ({former}), and the log ended at {offset}: "
        "what only the former ISR had is gone"
    )
    evidence = {"election": as_json(suspect), "proof": proof, "lost_writes": suspect.lost}
    scope.emit(violation(scope, "unclean-election", *key, offset, summary, severity="critical", evidence=evidence))


def _count(scope: Scope, key: tuple[str, int], suspect: Suspect) -> None:
    unclean = scope.state.topology.unclean
    if not suspect.counted:
        unclean[key] = unclean.get(key, 0) + 1
    suspect.counted, suspect.doubtful = True, False


def _look_again(scope: Scope, key: tuple[str, int], suspect: Suspect, leader: int) -> None:
    """Was it elected, or did a broker speak that has not heard yet? Of that the next ones know nothing."""
    if leader == suspect.leader:
        if scope.state.topology.watched_ns.get(_extent(scope, key[0]), 0) - suspect.watched_ns >= _SURE_NS:
            _count(scope, key, suspect)
    elif leader >= 0:
        suspect.doubtful = False


def settle(scope: Scope, extent: str) -> None:
    """Say what is proven by lost writes alone; let go of what is long healed."""
    top = scope.state.topology
    now = top.watched_ns.get(extent, 0)
    for key, suspect in list(top.suspects.items()):
        known = top.topics.get(key[0])
        if _extent(scope, key[0]) != extent:
            continue
        if not suspect.concluded and suspect.lost_first is not None:
            log = _log(scope, *key)
            patience = _DOUBT_NS if log is not None and log.busy else _GATHER_NS
            if now - suspect.lost_watched_ns >= patience:
                _say(scope, key, suspect, suspect.lost_first, "lost-write")
        place = known.partitions.get(key[1]) if known is not None else None
        if place is None:
            del top.suspects[key]
            continue
        if suspect.doubtful:
            _look_again(scope, key, suspect, place.leader)
        whole = place.leader >= 0 and len(place.isr) == len(place.replicas)
        if not whole:
            suspect.healed_watched_ns = None
        elif suspect.healed_watched_ns is None:
            suspect.healed_watched_ns = now
        elif now - suspect.healed_watched_ns >= (_HEALED_NS if not suspect.lost else _OLD_NS):
            del top.suspects[key]
            top.degraded.pop(key, None)


def _log(scope: Scope, topic: str, partition: int) -> Log | None:
    """Return the log of a partition that is probed, None of any other."""
    known = scope.state.topics.get(topic)
    return known.logs.get(partition) if known is not None else None


def as_json(suspect: Suspect) -> dict[str, object]:
    """Return an election as evidence."""
    return {
        "at_ns": suspect.at_ns,
        "former_leader": suspect.former_leader,
        "former_isr": list(suspect.former_isr),
        "leader": suspect.leader,
        "isr": list(suspect.isr),
    }


def _extent(scope: Scope, topic: str) -> str:
    known = scope.state.topology.topics.get(topic)
    return "probe" if known is not None and known.ours else "all"
