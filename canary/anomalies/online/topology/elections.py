"""Unclean elections: the leader was not in sync, so records that only the former in-sync replicas had are gone.

A leader outside the last known ISR is a suspect. That alone proves nothing: a replica may have rejoined between two
samples. The election is *critical* when the log was cut there (truncation, offset-regression, lost writes with a sign
of a cut), and *suspected* (info, a condition) only if no replica of the former ISR is in the new one, in two samples
close together.
"""

from dataclasses import asdict
from typing import Any

from canary import facts as f
from canary.anomalies.online.scope import Scope, Where
from canary.anomalies.online.topology.state import Place, Suspect
from canary.anomalies.policy import UNORDERED
from canary.anomalies.violation import Violation

_CLOSE_NS = 10 * 10**9
"""Rounds further apart do not show which replicas were in sync just before the election."""
_EVIDENCE = frozenset({"truncation", "offset-regression", "lost-write"})
_GATHER_NS = 10 * 10**9
"""So long after the last lost write an election is reported without waiting for a truncation."""
_DOUBT_NS = 120 * 10**9
"""And so long while a question about the partition is open: it may lower the first lost offset."""
_HEALED_NS = 120 * 10**9
_SURE_NS = 2 * 10**9
"""A leader for so long was elected; a shorter one may come from a broker with old metadata."""
_SUSPECTS_KEPT = 10_000
_OLD_NS = 15 * 60 * 10**9


def changed(scope: Scope, fact: f.PartitionSeen | f.WatchedPartition, place: Place, isr: list[int]) -> None:
    """Another broker leads a partition: note a suspect if it was not in sync as far as known."""
    former = place.eligible(scope.state.topology.topics[fact.topic].min_isr)
    if fact.leader == place.leader or not former or len(place.replicas) < 2:
        return
    if fact.leader in former or fact.leader not in place.replicas:
        return  # in sync; or no leader; or a new replica (a reassignment), which leads only once in sync
    top = scope.state.topology
    extent = "probe" if top.topics[fact.topic].ours else "all"
    key = (fact.topic, fact.partition)
    close = fact.at_ns - top.rounds.get(extent, 0) <= _CLOSE_NS
    before = top.suspects.get(key)
    if before is not None and not before.concluded and before.leader == fact.leader:
        return
    log = scope.state.log(*key)
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
        after_ns=top.rounds.get(extent, 0),
    )
    while len(top.suspects) > _SUSPECTS_KEPT:
        del top.suspects[next(iter(top.suspects))]
    lineage = top.lineages.get(key)
    if lineage is None or lineage.cut is None or lineage.leader != fact.leader:
        return
    if fact.at_ns - lineage.cut_ns <= _CLOSE_NS:  # the cut was seen before its leader
        top.suspects[key].elected = True
        _report(
            scope, key, top.suspects[key], Where(*key, lineage.cut, leader_epoch=lineage.epoch), "offset-regression"
        )


def epoch_placed(scope: Scope, key: tuple[str, int], leader: int) -> None:
    """A leader has a leader epoch of its own: it was elected, however short it led."""
    suspect = scope.state.topology.suspects.get(key)
    if suspect is not None and suspect.leader == leader:
        suspect.elected = True


def conclude(scope: Scope) -> None:
    """Take new violations as evidence: a suspect's election was unclean if the log was cut there."""
    suspects = scope.state.topology.suspects
    if suspects:
        for found in scope.found.violations[scope.judged :]:
            if found.mode in UNORDERED:
                continue  # acks=1 loses with any change of leader
            if found.kind in _EVIDENCE and found.partition is not None and found.offset is not None:
                _consider(scope, found)
    scope.judged = len(scope.found.violations)


def _consider(scope: Scope, found: Violation) -> None:
    top = scope.state.topology
    suspect = top.suspects.get((found.topic, found.partition or 0))
    if suspect is None or suspect.concluded or found.offset is None:
        return
    if suspect.end is not None and found.offset >= suspect.end:
        return  # written after the election, which cannot have removed it
    if found.kind == "lost-write":
        suspect.lost += found.count if suspect.end is None else found.below(suspect.end)
        suspect.lost_first = found.offset if suspect.lost_first is None else min(suspect.lost_first, found.offset)
        suspect.lost_watched_ns = top.watched_ns.get(_extent(scope, found.topic), 0)
    else:
        key = found.topic, found.partition or 0
        _report(scope, key, suspect, Where(*key, found.offset, leader_epoch=found.leader_epoch), found.kind)


def _report(scope: Scope, key: tuple[str, int], suspect: Suspect, where: Where, proof: str) -> None:
    """Report an election; ``where`` the log was cut, and in which leader epoch."""
    if not suspect.elected and key in scope.state.topology.epochs:
        return
    suspect.concluded = True
    _count(scope, key, suspect)
    former = ",".join(map(str, suspect.former_isr))
    summary = (
        f"broker {suspect.leader} became leader outside the last known ISR ({former}), and the log ended at "
        f"{where.offset}: what only the former ISR had is gone"
    )
    evidence = {"election": as_json(suspect), "proof": proof, "lost_writes": suspect.lost}
    more: dict[str, Any] = {"evidence": evidence, "after_ns": suspect.after_ns, "before_ns": suspect.at_ns}
    scope.report("unclean-election", where, summary, severity="critical", by="watch", **more)


def _count(scope: Scope, key: tuple[str, int], suspect: Suspect) -> None:
    unclean = scope.state.topology.unclean
    if not suspect.counted:
        unclean[key] = unclean.get(key, 0) + 1
    suspect.counted, suspect.doubtful = True, False


def _look_again(scope: Scope, key: tuple[str, int], suspect: Suspect, leader: int) -> None:
    """Decide whether the suspect was elected, or a broker with old metadata named it."""
    if leader == suspect.leader:
        if scope.state.topology.watched_ns.get(_extent(scope, key[0]), 0) - suspect.watched_ns >= _SURE_NS:
            _count(scope, key, suspect)
    elif leader >= 0:
        suspect.doubtful = False


def settle(scope: Scope, extent: str) -> None:
    """Report elections that lost writes alone prove; forget suspects that have long been healed."""
    top = scope.state.topology
    now = top.watched_ns.get(extent, 0)
    for key, suspect in list(top.suspects.items()):
        known = top.topics.get(key[0])
        if _extent(scope, key[0]) != extent:
            continue
        if not suspect.concluded and suspect.lost_first is not None:
            log = scope.state.log(*key)
            patience = _DOUBT_NS if log is not None and log.busy else _GATHER_NS
            is_cut = log is None or log.cut_at is not None  # what was lost by itself was not lost by an election
            if is_cut and now - suspect.lost_watched_ns >= patience:
                epoch = None if log is None else log.epoch_of_cut
                _report(scope, key, suspect, Where(*key, suspect.lost_first, leader_epoch=epoch), "lost-write")
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


def as_json(suspect: Suspect) -> dict[str, object]:
    """Return an election as evidence."""
    known = asdict(suspect)
    return {name: known[name] for name in ("at_ns", "former_leader", "former_isr", "leader", "isr")}


def _extent(scope: Scope, topic: str) -> str:
    known = scope.state.topology.topics.get(topic)
    return "probe" if known is not None and known.ours else "all"
