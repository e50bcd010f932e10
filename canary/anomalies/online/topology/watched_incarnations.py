"""Which of the ids that brokers give of a watched topic is its own; no record of such a topic is read to find out.

A broker with old metadata, or that lies, gives another id than the others, and so does every broker of a topic that was
deleted and made again. So another id is a question: the topic is another one once that id was given for half a minute,
and the known one by nobody; for ten minutes, where it was never seen and comes with logs that are no shorter than they
were. Meanwhile what each id's logs are known to hold is kept apart, and judged by itself, so neither a wrong word nor a
real new topic hides a cut. As long as both are given, which is right is unknown, and said to be.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final, NamedTuple

from canary.anomalies.online.scope import Scope, Where
from canary.anomalies.online.state import State
from canary.anomalies.online.topology import clock, timeline, vanished
from canary.anomalies.online.topology.state import HeldCut, Known, OtherIncarnation, Topology
from canary.anomalies.violation import Violation

SETTLED_NS: Final = 30 * 10**9
"""Brokers with old metadata, and frozen ones, give a former id for seconds."""
_ALIKE_NS: Final = 600 * 10**9
"""As SETTLED_NS, where only the word of brokers speaks for it."""
_ROUND_NS: Final = 3 * 10**9
"""Between two answers at most; beyond it nobody was asked, or nobody answered, and who would say what is not known."""


@contextmanager
def judged_by(scope: Scope, topic: str, partition: int, topic_id: str | None, end: int = -1) -> Iterator[None]:
    """Hold an answer that names a topic's id (None: has none) against what is known of that very topic's log.

    ``end`` is that of its log, -1: not asked for.
    """
    known, top = timeline.topic_of(scope, topic, ours=False), scope.state.topology
    if topic_id is not None:
        known.told_ids["epochs" if end < 0 else "offsets"] = topic_id
    _told(scope, topic, known, topic_id)
    other = known.others.get(topic_id or "")
    mine = top.ends.get((topic, partition)) if other is not None and end >= 0 else None
    if other is not None and mine is not None and (end < mine.end or (mine.end > 0 and other.alike is None)):
        other.alike = end >= mine.end
    both = [] if other is None else _logs(top, other)
    _exchange(both, topic, partition)
    place = known.partitions.pop(partition, None) if both else None  # no other log's epoch is that of its leader
    try:
        yield
    finally:
        _exchange(both, topic, partition)
        if place is not None:
            known.partitions[partition] = place


def found(scope: Scope, violation: Violation, topic_id: str | None, at_ns: int, *, lasts: bool = False) -> None:
    """Tell of a cut that was seen ``at_ns`` in the log of the topic with this id, once it is known whose log it was.

    One broker gives ids and another one offsets: while two ids are given, the one may come with the other one's log.
    What ``lasts`` for as long as that may be is told at once.
    """
    known = scope.state.topology.topics.get(violation.topic)
    if known is None or not known.others:
        _tell(scope, violation)
        return
    of = topic_id or known.topic_id or ""
    is_said = lasts and of == known.topic_id
    known.held[f"{of} {violation.partition} {at_ns}"] = HeldCut(replace(violation, topic_id=of), is_said)
    if is_said:
        _tell(scope, violation)


def _tell(scope: Scope, violation: Violation) -> None:
    regressions, key = scope.state.topology.regressions, (violation.topic, violation.partition or 0)
    regressions[key] = regressions.get(key, 0) + 1
    scope.emit(violation)


def _settled(scope: Scope, known: Known) -> None:
    """Tell what was found in the log of this topic while it was in question, if it is not any more."""
    if known.others:
        return
    held, known.held = known.held, {}
    own = {one.violation.partition for one in held.values() if one.violation.topic_id == known.topic_id}
    for cut, is_said in ((one.violation, one.is_said) for one in held.values()):
        is_own = cut.topic_id == known.topic_id or cut.partition not in own  # else: the same cut
        if is_own and not is_said and cut.topic_id not in known.dead_ids:
            _tell(scope, replace(cut, topic_id=known.topic_id or ""))


class Doubted(NamedTuple):
    """A topic of which brokers give another id than its own, since then (ns)."""

    topic: str
    topic_id: str | None
    other_id: str
    other_since_ns: int
    other_is_former: bool


def doubted(state: State) -> Iterator[Doubted]:
    """Yield the watched topics that brokers give two ids of."""
    top = state.topology
    for name, known in top.topics.items():
        for one, other in known.others.items() if top.watched.has(name) else ():
            yield Doubted(name, known.topic_id, one, other.since_ns, one in known.dead_ids)


def _logs(top: Topology, other: OtherIncarnation) -> list[tuple[dict[Any, Any], dict[int, Any]]]:
    return [(top.ends, other.ends), (top.epochs, other.epochs), (top.lineages, other.lineages)]


def _exchange(both: list[tuple[dict[Any, Any], dict[int, Any]]], topic: str, partition: int) -> None:
    """Put what is known of the other topic's log in the place of the known one's, or back."""
    for known, other in both:
        mine, theirs = known.pop((topic, partition), None), other.pop(partition, None)
        if theirs is not None:
            known[topic, partition] = theirs
        if mine is not None:
            other[partition] = mine


def _told(scope: Scope, name: str, known: Known, topic_id: str | None) -> None:
    now_ns = scope.state.now_ns
    if known.topic_id is None or topic_id in {None, known.topic_id}:
        timeline.topic_seen(scope, name, topic_id)
        for other in known.others.values() if topic_id is not None else ():
            other.alone_ns = 0
        return
    other = known.others.setdefault(str(topic_id), OtherIncarnation(now_ns, now_ns))
    for one in known.others.values():
        one.alone_ns *= one is other
    other.alone_ns += min(now_ns - other.told_ns, _ROUND_NS)
    other.told_ns = now_ns
    is_shorter = not other.alike or topic_id in known.dead_ids
    if other.alone_ns >= (SETTLED_NS if is_shorter and other.ends else _ALIKE_NS):
        _is_another(scope, name, known, str(topic_id))


def judge(scope: Scope) -> None:
    """End the questions that nobody asks any more; called once a round."""
    for name, known in [item for item in scope.state.topology.topics.items() if item[1].others or item[1].held]:
        for topic_id, other in list(known.others.items()):
            is_last = topic_id in known.told_ids.values()
            if topic_id == known.told_ids.get("epochs"):  # who watches epochs tells changes, and goes on to mean these
                _told(scope, name, known, topic_id)
            elif not clock.lately(scope.state, other.told_ns, _ALIKE_NS if is_last else SETTLED_NS):
                del known.others[topic_id]
        _settled(scope, known)


def _is_another(scope: Scope, name: str, known: Known, topic_id: str) -> None:
    top, other, former_id = scope.state.topology, known.others.pop(topic_id), known.topic_id
    was_said, is_former = known.said_gone, topic_id in known.dead_ids
    records = vanished.records_of(top, name, known)
    timeline.topic_seen(scope, name, topic_id)
    for logs, its in _logs(top, other):
        logs.update({(name, partition): one for partition, one in its.items()})
    scope.report(
        "topic-recreated",
        Where(name),
        f"topic {name} {'has a former id again' if is_former else 'was deleted and made again'}"
        f"{f': {records:,} records were in it' if records else ''}",
        severity="critical" if name in top.watched.names and records != 0 and not was_said else "warning",
        evidence={"former_topic_id": former_id, "topic_id": topic_id, "promises_voided": 0, "records": records},
        by="watch",
        after_ns=known.former_ns,
        before_ns=other.since_ns,
    )
