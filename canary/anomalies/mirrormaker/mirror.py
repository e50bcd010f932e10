"""A topic of another cluster and its mirror in this one: violations, and what is shown of it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from canary.anomalies.age import not_looked_at
from canary.anomalies.mirrormaker.facts import Answer, Checkpoint, Question, Round, Row
from canary.anomalies.mirrormaker.offsets import Translated
from canary.anomalies.mirrormaker.partition import OUTCOMES, Copies, Hole, Partition
from canary.anomalies.violation import MOST_RUNS, Records, Violation, following

_LEAST_IDLE_S: Final = 60.0
_MOST_POINTS: Final = 2000
"""Translated offsets that are known; groups come and go, and MirrorMaker 2 does not say which are gone."""
_NEVER: Final = "no probe of the source was read yet"


@dataclass(frozen=True, slots=True)
class Link:
    """What is copied: ``topic`` of the cluster ``source``, to ``mirrored`` here; ``bound_s``: the recovery point."""

    source: str
    topic: str
    mirrored: str
    bound_s: float


@dataclass(frozen=True, slots=True)
class MirrorPlace:
    """What is known of a partition.

    ``behind_s``: how long ago the oldest probe was sent that is not in the mirror, 0 if all are; None: not known, and
    ``unknown`` says why. ``missing``: probes in gaps that were said.
    """

    partition: int
    behind_s: float | None
    waiting: int
    missing: int
    unknown: str | None


@dataclass(frozen=True, slots=True)
class FailoverView:
    """Where a group of the source would go on in a partition of the mirror, by MirrorMaker 2's checkpoints.

    ``upstream`` and ``downstream``: the offset in the source and in the mirror; ``skips`` and ``rereads``: probes that
    it would not be given, and records that it would be given again; None: not known, and ``unknown`` says why.
    """

    group: str
    partition: int
    upstream: int
    downstream: int
    skips: int | None
    rereads: int | None
    unknown: str | None


@dataclass(frozen=True, slots=True)
class MirrorView:
    """A mirrored topic as it is shown, as of ``at_ns``.

    ``recovery_point_s`` is the greatest ``behind_s`` of its partitions; None: not known, and ``unknown`` says why.
    ``copied_ns``: when the newest probe in the mirror was sent. ``counts``: records of the mirror by what they were.
    ``translation_unknown``: why nothing is known of translated offsets.
    """

    source: str
    topic: str
    mirrored: str
    bound_s: float
    at_ns: int = 0
    recovery_point_s: float | None = None
    unknown: str | None = None
    copied_ns: int | None = None
    waiting: int = 0
    missing: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    places: tuple[MirrorPlace, ...] = ()
    failovers: tuple[FailoverView, ...] = ()
    translation_unknown: str | None = None

    def aged(self, now_ns: int, most_s: float) -> Self:
        """Return the same, with nothing known if it is older than ``most_s``: nobody looks any more."""
        reason = not_looked_at(self.at_ns, now_ns, most_s)
        if reason is None:
            return self
        places = tuple(replace(one, behind_s=None, unknown=reason) for one in self.places)
        failovers = tuple(replace(one, skips=None, rereads=None, unknown=reason) for one in self.failovers)
        return replace(
            self,
            recovery_point_s=None,
            unknown=reason,
            places=places,
            failovers=failovers,
            translation_unknown=reason,
        )


@dataclass(slots=True)
class _Point:
    """A translated offset.

    ``since_ns``: since when it skips something; ``said``: the condition that was reported; ``done``: it skips nothing,
    and nothing that is read changes that.
    """

    point: Checkpoint
    translated: Translated
    done: bool = False
    since_ns: int | None = None
    said: Violation | None = None


class Mirror:
    """Judges one mirrored topic; what it knows outlives clients and threads.

    ``confirm_s``: how long what was passed over may arrive after all, and a translated offset be corrected.
    """

    def __init__(self, link: Link, confirm_s: float = 10.0) -> None:
        self.link = link
        self._confirm_ns = round(confirm_s * 1e9)
        self.partitions: dict[int, Partition] = {}
        self._present: set[int] = set()
        """The partitions that the source had last; one that is made anew may have fewer."""
        self._points: dict[tuple[str, int], _Point] = {}
        self._unanswered: str | None = "not looked at yet"
        self._translation_unknown: str | None = "not looked at yet"

    def unanswered(self, reason: str) -> None:
        """Note that nothing is known now."""
        self._unanswered = reason

    def fold(self, told: Round) -> tuple[list[Violation], list[Violation]]:
        """Take a round; return what is to be said, and what of it holds no more."""
        self._unanswered = None if told.partitions else f"there is no topic {self.link.topic}, or it cannot be read"
        said: list[Violation] = []
        over: list[Violation] = []
        first = 0 if self._present else None  # one that is added later is known from its first record on
        for number, news in sorted(told.partitions.items()):
            one = self.partitions.setdefault(number, Partition(first))
            if news.restarted is not None:
                for (_, place), translated in self._points.items():
                    translated.done = translated.done and place != number
            found = one.fold(news, told.at_ns)
            for hole in found.filled:
                over += _ended(hole.said or (), told.at_ns)
            said += [self._copied_again(number, copies, told.at_ns) for copies in found.copies]
            said += self._changed(number, found.changed, told.at_ns)
        self._present = set(told.partitions) or self._present
        self._translation_unknown = None
        if told.checkpoints is None:
            self._translation_unknown = "MirrorMaker 2 writes no checkpoints here, or they cannot be read"
        for point in told.checkpoints or ():
            key = (point.group, point.partition)
            known = self._points.pop(key, None) or _Point(point, Translated(unknown="not judged yet"))
            known.point, known.done = point, False
            self._points[key] = known  # the one that was heard of last is the last one
            if len(self._points) > _MOST_POINTS:
                forgotten = self._points.pop(next(iter(self._points))).said
                over += _ended([forgotten] if forgotten is not None else [], told.at_ns)
        self._judge_points(told.at_ns, said, over)
        return said, over

    def questions(self, at_ns: int) -> list[Question]:
        """Return what is to be read again before it is called a gap."""
        return [
            question
            for number, one in sorted(self.partitions.items())
            for question in one.questions(number, at_ns, self._confirm_ns)
        ]

    def confirm(self, question: Question, answer: Answer, at_ns: int) -> list[Violation]:
        """Take what was read again; return the gap, if it is one."""
        hole = self.partitions[question.partition].confirm(question, answer)
        if hole is None:
            return []
        hole.said = self._gap(question.partition, hole, at_ns)
        return list(hole.said)

    def reported(self, at_ns: int) -> list[Violation]:
        """Return the conditions that hold and were reported, as ended."""
        return _ended((one.said for one in self._points.values() if one.said is not None), at_ns)

    def remember(self, gaps: Iterable[Violation]) -> None:
        """Take gaps that another process has said and that are open: they end when they are filled."""
        for gap in gaps:
            if gap.partition is not None:
                self.partitions.setdefault(gap.partition, Partition()).remember(gap)

    def view(self, at_ns: int) -> MirrorView:
        """Return it as it is shown."""
        present = sorted(self._present & self.partitions.keys())
        places = tuple(self._place(number, self.partitions[number], at_ns) for number in present)
        unknown = next((f"partition {one.partition}: {one.unknown}" for one in places if one.unknown), None)
        unknown = self._unanswered or unknown
        counts = sum((one.counts for one in self.partitions.values()), Counter[str]())
        link = self.link
        return MirrorView(
            link.source,
            link.topic,
            link.mirrored,
            link.bound_s,
            at_ns,
            recovery_point_s=None if unknown else max((one.behind_s or 0.0 for one in places), default=None),
            unknown=unknown,
            copied_ns=max((one.copied_ns for one in self.partitions.values()), default=0) or None,
            waiting=sum(one.waiting for one in places),
            missing=sum(one.missing for one in places),
            counts={outcome: counts[outcome] for outcome in OUTCOMES},
            places=places,
            failovers=tuple(_failover(one) for _, one in sorted(self._points.items())),
            translation_unknown=self._unanswered or self._translation_unknown,
        )

    def _place(self, number: int, one: Partition, at_ns: int) -> MirrorPlace:
        oldest_ns, unknown = one.oldest_ns(), self._unanswered or one.unread
        behind_s = max((at_ns - oldest_ns) / 1e9, 0.0) if oldest_ns is not None else 0.0
        idle_s = (at_ns - one.heard_ns) / 1e9
        if unknown is None and oldest_ns is None and idle_s > max(self.link.bound_s, _LEAST_IDLE_S):
            hides = "a transaction that is open in the source has hidden what was written for"
            what = hides if one.hidden else "the source has had no new probe for"
            unknown = f"{what} {idle_s:.0f} s" if one.heard_ns else _NEVER
        return MirrorPlace(number, None if unknown else behind_s, one.waiting.probes, one.missing(), unknown)

    def _judge_points(self, at_ns: int, said: list[Violation], over: list[Violation]) -> None:
        for one in self._points.values():
            partition = self.partitions.get(one.point.partition)
            if one.done or partition is None or partition.unread is not None:
                continue  # what was known stays
            one.translated = partition.pairs.translated(one.point)
            if one.translated.unknown is not None:
                continue
            if not one.translated.skips:
                over += _ended([one.said] if one.said is not None else [], at_ns)
                one.since_ns = one.said = None
                one.done = partition.pairs.reaches(one.point)
                continue
            one.since_ns = at_ns if one.since_ns is None else one.since_ns
            if one.said is None and at_ns - one.since_ns >= self._confirm_ns:
                one.said = self._skipping(one, at_ns)
                said.append(one.said)

    def _gap(self, number: int, hole: Hole, at_ns: int) -> tuple[Violation, ...]:
        link = self.link
        summary = f"probes of {link.topic}-{number} in {link.source} are not in {link.mirrored}, and later ones are" + (
            f" ({hole.expired} of them expired in the source before they were copied)" if hole.expired else ""
        )
        evidence: dict[str, Any] = {
            "why": "missing",
            "passed_ns": hole.since_ns,
            "mirror_offset_before": hole.between[0],
            "mirror_offset_after": hole.between[1],
            "expired_in_source": hole.expired,
            "damaged_in_mirror": self.partitions[number].counts["corrupt"],
        }
        runs = list(hole.missing)
        lacking = self._lacking(number, [run.records for run in runs], at_ns, summary, evidence)
        return tuple(one.since(min(run.first_ns for run in runs)) for one in lacking)

    def _changed(self, number: int, changed: Sequence[tuple[int, Row]], at_ns: int) -> tuple[Violation, ...]:
        if not changed:
            return ()
        link, (first, copy) = self.link, changed[0]
        summary = (
            f"offset {first} of {link.topic}-{number} in {link.source} is at offset {copy.offset} of {link.mirrored} "
            "with another key or other headers"
        )
        runs = [Records(offset, 1, row.identity) for offset, row in sorted(changed)]
        lacking = self._lacking(number, runs, at_ns, summary, {"why": "changed", "mirror_offset": copy.offset})
        return tuple(one.since(min(row.sent_ns for _, row in changed)) for one in lacking)

    def _lacking(
        self, number: int, runs: Sequence[Records], at_ns: int, summary: str, evidence: Mapping[str, Any]
    ) -> tuple[Violation, ...]:
        """Return the violations of records in the order of the source's offsets."""
        joined: list[Records] = []
        for run in runs:
            last = joined[-1] if joined else None
            if last is not None and (_end(last), following(last.identity, last.size)) == (run.offset, run.identity):
                joined[-1] = last._replace(size=last.size + run.size)
            else:
                joined.append(run)
        evidence = {"source": self.link.source, "source_topic": self.link.topic, **evidence}
        parts = [joined[at : at + MOST_RUNS] for at in range(0, len(joined), MOST_RUNS)]
        return tuple(self._violation("mirror-gap", number, part, at_ns, summary, evidence) for part in parts)

    def _copied_again(self, number: int, copies: Copies, at_ns: int) -> Violation:
        link, (first, end) = self.link, copies.offsets
        summary = (
            f"{copies.count:,} probes of {link.topic} in {link.source} are in {link.mirrored}-{number} once more, at "
            f"offsets {first} to {end - 1}"
        )
        evidence = {
            "source": link.source,
            "source_topic": link.topic,
            "copies": copies.count,
            "mirror_offsets": [first, end - 1],
            "source_offsets": None if copies.sources is None else list(copies.sources),
        }
        runs = [Records(first, 1, copies.first.identity)]
        return self._violation("mirror-copies", number, runs, at_ns, summary, evidence)

    def _skipping(self, one: _Point, at_ns: int) -> Violation:
        link, point = self.link, one.point
        summary = (
            f"group {point.group} has committed offset {point.upstream} of {link.topic}-{point.partition} in "
            f"{link.source}; its translated offset {point.downstream} of {link.mirrored} would skip "
            f"{one.translated.skips:,} probes"
        )
        evidence = {
            "source": link.source,
            "source_topic": link.topic,
            "group": point.group,
            "upstream_offset": point.upstream,
            "downstream_offset": point.downstream,
            "skips": one.translated.skips,
            "first_skipped_source_offset": one.translated.first,
        }
        runs = [Records(point.downstream, 1, None)]
        return self._violation("mirror-offset-skips", point.partition, runs, at_ns, summary, evidence, point.group)

    @property
    def _home(self) -> str:
        return f"from {self.link.source}:{self.link.topic}"

    def is_about(self, topic: str, topic_id: str) -> bool:
        """Say whether a gap with these is one of this mirror."""
        return (topic, topic_id) == (self.link.mirrored, self._home)

    def _violation(
        self,
        kind: str,
        number: int,
        runs: Sequence[Records],
        at_ns: int,
        summary: str,
        evidence: Mapping[str, Any],
        group: str | None = None,
    ) -> Violation:
        home = self._home
        return Violation(
            kind=kind,
            severity="info" if kind == "mirror-copies" else "critical",
            topic=self.link.mirrored,
            topic_id=home if group is None else f"{home} group {group}",
            partition=number,
            at_ns=at_ns,
            by="watch",
            summary=summary,
            evidence=evidence,
        ).about(runs)


def _ended(said: Iterable[Violation], at_ns: int) -> list[Violation]:
    return [replace(one, at_ns=at_ns) for one in said]


def _end(run: Records) -> int:
    return (run.offset or 0) + run.size


def _failover(one: _Point) -> FailoverView:
    known, point = one.translated, one.point
    skips = None if known.unknown is not None else known.skips
    return FailoverView(
        point.group, point.partition, point.upstream, point.downstream, skips, known.rereads, known.unknown
    )
