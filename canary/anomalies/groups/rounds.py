"""Round after round of all groups: violations, conditions that ended, and how every group does."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from canary.anomalies.absence import Absences
from canary.anomalies.groups.ends import Ends
from canary.anomalies.groups.place import Event, PlaceState, State
from canary.anomalies.groups.sample import Log, Place, Round, Told
from canary.anomalies.policy import is_due
from canary.anomalies.violation import Violation

_NAMED: Final = 100
"""Partitions that the evidence of one violation names."""
_STATES: Final[tuple[State, ...]] = ("ok", "stuck", "unmoved", "stopped", "reset", "expired", "unknown")


@dataclass(frozen=True, slots=True)
class PlaceView:
    """How far a group is in a partition. ``lag_s`` is the age of the first record that it has not committed.

    None: not known. ``at_least``: that record is older than ``lag_s``.
    """

    topic: str
    partition: int
    committed: int | None = None
    end: int | None = None
    lag: int | None = None
    lag_s: float | None = None
    at_least: bool = False
    state: str = "unknown"


@dataclass(frozen=True, slots=True)
class GroupView:
    """How a group does; ``places`` are its first partitions, ``left_out`` is how many more it has.

    Sums, maximum and ``states`` (how many partitions there are in each state) are of all of them. ``error``: why
    nothing is known of it now; ``members`` None then.
    """

    group: str
    members: int | None = None
    error: str | None = None
    lag: int = 0
    lag_s: float = 0.0
    at_least: int = 0
    states: Mapping[str, int] = field(default_factory=dict)
    places: tuple[PlaceView, ...] = ()
    left_out: int = 0

    def lost(self, reason: str) -> Self:
        """Return the same group when nothing is known of it now."""
        places = tuple(PlaceView(one.topic, one.partition) for one in self.places)
        states = dict.fromkeys(self.states, 0) | {"unknown": sum(self.states.values())}
        return replace(self, members=None, error=reason, lag=0, lag_s=0.0, at_least=0, states=states, places=places)


@dataclass(slots=True)
class _Group:
    told: Told
    places: dict[Place, PlaceState] = field(default_factory=dict)
    said_ns: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By topic in which it is stuck: since when, and when that was said last."""


class Groups:
    """All groups that are watched, of one cluster, since this process began.

    Args:
        patience_s: how long (s) a group may commit nothing, though there is something to read, before it is stuck.
        most_places: partitions of a group that are shown.
    """

    def __init__(self, patience_s: float, most_places: int) -> None:
        self._patience_s = patience_s
        self._most = most_places
        self._groups: dict[str, _Group] = {}
        self._ends: dict[Place, Ends] = {}
        self._logs: Mapping[Place, Log] = {}
        self._ids: dict[str, str | None] = {}
        self._absences = Absences()
        self._now_ns = 0

    def fold(self, told: Round) -> tuple[list[Violation], list[Violation]]:
        """Take a round; return the violations, and the conditions that ended."""
        self._now_ns, self._logs = told.at_ns, told.logs
        self._forget_topics(told)
        for place, log in told.logs.items():
            self._ends.setdefault(place, Ends()).add(told.at_ns, log.end)
        found: list[Violation] = []
        ended: list[Violation] = []
        for name in sorted(self._groups.keys() | told.groups.keys()):
            one = told.groups.get(name)
            if one is None and not told.whole:
                one = Told(error="a broker that may know of it did not answer")
            group = self._groups.setdefault(name, _Group(Told()))
            group.told = one or Told()
            if group.told.error is not None:
                continue
            found += self._happened(name, group)
            stuck, over = self._stuck(name, group)
            found += stuck
            ended += over
            if one is None and all(state.expired for state in group.places.values()):
                del self._groups[name]
        known = self.places()
        self._ends = {place: ends for place, ends in self._ends.items() if place in known}
        return found, ended

    def unanswered(self, reason: str) -> None:
        """Note that a round failed as a whole."""
        for group in self._groups.values():
            group.told = Told(error=reason)

    def views(self) -> tuple[GroupView, ...]:
        """Return how the groups do, by name."""
        return tuple(self._view(name, group) for name, group in sorted(self._groups.items()))

    def reported(self) -> list[Violation]:
        """Return the conditions that hold and were reported; their summaries are not those of then."""
        return [
            self._condition(name, topic, "ended", {}) for name, group in self._groups.items() for topic in group.said_ns
        ]

    def places(self) -> set[Place]:
        """Return the partitions in which a group has committed, as far as is known."""
        return {place for group in self._groups.values() for place in group.places}

    def _forget_topics(self, told: Round) -> None:
        """Forget a topic that is gone, or that was made again: what was committed there meant other records."""
        for topic, topic_id in told.topics.items():
            before = self._ids.setdefault(topic, topic_id)
            if topic_id is not None and before is not None and before != topic_id:
                self._forget(topic)
            self._ids[topic] = topic_id or before
        for topic in self._absences.gone(self._ids.keys(), told.topics):
            self._forget(topic)
            del self._ids[topic]

    def _forget(self, topic: str) -> None:
        for group in self._groups.values():
            group.places = {place: state for place, state in group.places.items() if place[0] != topic}
        self._ends = {place: ends for place, ends in self._ends.items() if place[0] != topic}

    def _happened(self, name: str, group: _Group) -> list[Violation]:
        """Judge every partition; return what happened to committed offsets, one violation a topic and sort."""
        events: dict[tuple[str, str, str, bool], list[tuple[int, Event]]] = {}
        committed = {place for place in group.told.commits if place[0] in self._ids}
        for place in sorted(group.places.keys() | committed):
            log, now = self._logs.get(place), group.told.commits.get(place)
            state = group.places.setdefault(place, PlaceState())
            if log is None:
                state.state = "unknown"
                continue
            event = state.judge(group.told, log, now, self._now_ns, self._patience_s)
            if event is not None:
                sort = (place[0], event.kind, event.how, event.mild)
                events.setdefault(sort, []).append((place[1], event))
        return [self._event(name, group, sort, found) for sort, found in events.items()]

    def _event(
        self,
        name: str,
        group: _Group,
        sort: tuple[str, str, str, bool],
        events: Sequence[tuple[int, Event]],
    ) -> Violation:
        topic, kind, how, mild = sort
        partition, first = events[0]
        to = "" if first.now is None else f" to {first.now}"
        where = f"partition {partition} of {topic}" if len(events) == 1 else f"{len(events)} partitions of {topic}"
        example = (
            f"{first.before}{to}" if len(events) == 1 else f"for example partition {partition}: {first.before}{to}"
        )
        rows = [{"partition": n, "before": e.before, "now": e.now} for n, e in events[:_NAMED]]
        evidence = {"group": name, "members": group.told.members, "partitions": rows, "count": len(events)}
        return Violation(
            kind=kind,
            severity="info" if mild else "warning",
            topic=topic,
            topic_id=f"group {name} at {self._now_ns}",
            partition=partition if len(events) == 1 else None,
            offset=first.before if len(events) == 1 else None,
            at_ns=self._now_ns,
            by="watch",
            summary=f"the committed offset of group {name} in {where} {how} ({example})",
            evidence=evidence,
        ).since(min(event.after_ns for _, event in events))

    def _stuck(self, name: str, group: _Group) -> tuple[list[Violation], list[Violation]]:
        """Return what is to be said now of the topics in which the group is stuck, and what is over."""
        stuck: dict[str, list[int]] = {}
        unsure = {place[0] for place, state in group.places.items() if state.state == "unknown"}
        for (topic, partition), state in sorted(group.places.items()):
            if state.state == "stuck":
                stuck.setdefault(topic, []).append(partition)
        found, ended = [], []
        for topic in sorted(group.said_ns.keys() | stuck.keys()):
            since_ns, said_ns = group.said_ns.get(topic, (0, 0))
            if topic not in stuck:
                if topic not in unsure:
                    del group.said_ns[topic]
                    ended.append(self._condition(name, topic, "ended", {}))
                continue
            if said_ns and not is_due(said_ns, self._now_ns):
                continue
            summary, evidence = self._words(name, group, topic, stuck[topic])
            since_ns = since_ns or evidence["since_ns"]
            group.said_ns[topic] = since_ns, self._now_ns
            found.append(self._condition(name, topic, summary, evidence | {"since_ns": since_ns}))
        return found, ended

    def _condition(self, name: str, topic: str, summary: str, evidence: Mapping[str, Any]) -> Violation:
        return Violation(
            kind="group-stuck",
            severity="warning",
            topic=topic,
            topic_id=f"group {name}",
            at_ns=self._now_ns,
            by="watch",
            summary=summary,
            evidence=evidence,
        )

    def _words(self, name: str, group: _Group, topic: str, partitions: Sequence[int]) -> tuple[str, dict[str, Any]]:
        rows = [self._row(topic, n, group.places[topic, n]) for n in partitions]
        worst = max(rows, key=lambda row: row["lag"])
        rest = f", and in {len(rows) - 1} partitions more" if len(rows) > 1 else ""
        minutes = max(row["standing_s"] for row in rows) / 60
        summary = (
            f"group {name} has {group.told.members} members and has committed nothing in partition "
            f"{worst['partition']} of {topic}{rest} for {minutes:.0f} min, though records are added "
            f"({worst['lag']:,} behind, at offset {worst['committed']})"
        )
        if worst["committed"] == worst["stable"]:
            summary += "; that is the last stable offset: an open transaction holds up read_committed consumers there"
        since_ns = self._now_ns - round(max(row["standing_s"] for row in rows) * 1e9)
        return summary, {
            "group": name,
            "members": group.told.members,
            "since_ns": since_ns,
            "count": len(rows),
            "partitions": rows[:_NAMED],
        }

    def _row(self, topic: str, partition: int, state: PlaceState) -> dict[str, Any]:
        log = self._logs[topic, partition]
        committed = state.commit.offset if state.commit is not None else log.start
        since_ns = state.standing.since_ns if state.standing is not None else self._now_ns
        return {
            "partition": partition,
            "committed": committed,
            "end": log.end,
            "stable": log.stable,
            "lag": log.end - committed,
            "standing_s": round((self._now_ns - since_ns) / 1e9, 1),
            "usual_s": round(state.usual_s, 1),
        }

    def _view(self, name: str, group: _Group) -> GroupView:
        views = [self._place_view(place, state) for place, state in sorted(group.places.items())]
        counts = Counter(one.state for one in views)
        view = GroupView(
            group=name,
            members=group.told.members,
            lag=sum(one.lag or 0 for one in views),
            lag_s=max((one.lag_s or 0.0 for one in views), default=0.0),
            at_least=sum(one.at_least for one in views),
            states={state: counts[state] for state in _STATES},
            places=tuple(views[: self._most]),
            left_out=max(0, len(views) - self._most),
        )
        return view if group.told.error is None else view.lost(group.told.error)

    def _place_view(self, place: Place, state: PlaceState) -> PlaceView:
        log, view = self._logs.get(place), PlaceView(*place, state=state.state)
        if log is None:
            return replace(view, state="unknown")
        view = replace(view, end=log.end)
        if state.commit is None or state.expired or state.beyond:
            return view
        committed = state.commit.offset
        lag = max(0, log.end - max(committed, log.start))
        age = self._ends[place].age(committed, self._now_ns) if lag else None
        seconds = 0.0 if not lag else None if age is None else round(age.seconds, 3)
        at_least = age is not None and age.at_least
        return replace(view, committed=committed, lag=lag, lag_s=seconds, at_least=at_least)
