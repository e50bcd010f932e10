"""The thread that reads one topic of another cluster and its mirror in this one, round after round."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import structlog
from confluent_kafka import KafkaException

from canary.anomalies.mirrormaker.facts import Answer, Checkpoint, PartitionRound, Question, Round
from canary.anomalies.mirrormaker.mirror import Mirror, MirrorView
from canary.kafka.quiet import Gate
from canary.kafka.responses import text_of
from canary.threads import system
from canary.threads.ports import Clock
from canary.threads.worker import Worker, in_background
from canary.watching.groups.group_watcher import Report
from canary.watching.mirrormaker.checkpoints import decoded
from canary.watching.mirrormaker.logs import Logs, NotReadError, Place, Progress, row_of

log = structlog.get_logger(__name__)

WINDOW_S: Final = 3600.0
"""So far back is read at the start: what happened while the canary was down is found."""
_MARGIN_S: Final = 600.0
"""And so much further in the mirror, for its copies may have been made by a clock that is behind."""
_READ_S: Final = 2.0
_AGAIN_S: Final = 10.0
_MOST_QUESTIONS: Final = 20
_REFUSED_S: Final = 300.0
"""Checkpoints that are refused are asked for again after so long."""
_ANEW: Final = "a topic was made anew"
_ASTRAY: Final = "records were gone before they were read, or the log was cut"


@dataclass(slots=True)
class MirrorProgress:
    """How far both sides were read; ``both``: the partitions that are read on both. It outlives the thread."""

    source: Progress = field(default_factory=Progress)
    target: Progress = field(default_factory=Progress)
    both: set[int] = field(default_factory=set)


class MirrorWatcher(Worker):
    """Reads until stopped.

    Args:
        source: properties of a consumer of the source, whose positions are assigned.
        target: the same of the cluster that has the mirror.
        mirror: judges; it outlives this thread, as does ``progress``.
        checkpoints: the topic in which MirrorMaker 2 tells translated offsets.
        report: takes what is found.

    ``latest`` is what is known now; ``failing`` is what a cluster refuses, None if nothing.
    """

    def __init__(
        self,
        source: Mapping[str, Any],
        target: Mapping[str, Any],
        mirror: Mirror,
        progress: MirrorProgress,
        checkpoints: str,
        report: Report,
        clock: Clock,
        interval_s: float = 2.0,
    ) -> None:
        super().__init__(f"mirror-watcher-{mirror.link.source}-{mirror.link.topic}")
        self._configs = (source, target)
        self._mirror = mirror
        self._progress = progress
        self._checkpoints = checkpoints
        self._report = report
        self._clock = clock
        self._interval_s = interval_s
        self._gate = Gate()
        self._points_due = 0.0
        self.latest: MirrorView = mirror.view(clock.now_ns())
        self.failing: str | None = None

    def run(self) -> None:
        """Read until stopped; after an error with new clients."""
        sides: _Sides | None = None
        going = True
        while going:
            began = system.monotonic()
            try:
                sides = sides or self._opened()
                self._look(sides)
                self.failing = None
            except (KafkaException, NotReadError) as error:
                self._unanswered(error)
                self._close(sides)
                sides = None
            going = self.wait(max(0.0, self._interval_s - (system.monotonic() - began)))
        self._close(sides)

    def _opened(self) -> "_Sides":
        link, stopping = self._mirror.link, self.stopping.is_set
        source, target = self._configs
        return _Sides(
            Logs(source, f"{self.name}-source", link.source, self._progress.source, stopping),
            Logs(target, f"{self.name}-target", "this cluster", self._progress.target, stopping),
        )

    @staticmethod
    def _close(sides: "_Sides | None") -> None:
        if sides is not None:
            in_background(sides.source.close, "mirror-watcher-closing")  # its end may wait for answers
            in_background(sides.target.close, "mirror-watcher-closing")

    def _unanswered(self, error: KafkaException | NotReadError) -> None:
        reason = text_of(error.args[0]) if isinstance(error, KafkaException) else str(error)
        if isinstance(error, NotReadError) and error.refused and error.topic == self._checkpoints:
            self._points_due = system.monotonic() + _REFUSED_S  # all else can be known without them
            return
        if isinstance(error, NotReadError) and error.refused:
            self.failing = f"replicated_from: {reason} (docs/acl.md)"
        if self._gate.admit("unanswered") is not None:
            log.info("mirror_not_read", source=self._mirror.link.source, topic=self._mirror.link.topic, reason=reason)
        self._mirror.unanswered(reason)
        self.latest = self._mirror.view(self._clock.now_ns())

    def _look(self, sides: "_Sides") -> None:
        """Read, judge what was read, also where it broke off, and read again what may be a gap."""
        told = self._round(sides)
        said, over = self._mirror.fold(told)
        self._report(said, over)
        for question in self._mirror.questions(told.at_ns)[:_MOST_QUESTIONS]:
            answer = self._again(sides, question)
            if answer is not None:
                self._report(self._mirror.confirm(question, answer, self._clock.now_ns()), [])
        self.latest = self._mirror.view(self._clock.now_ns())

    def _round(self, sides: "_Sides") -> Round:
        """Read the mirror up to its end, then the source: so whatever is in the mirror is in the source, too."""
        link, progress = self._mirror.link, self._progress
        numbers = sides.source.partitions(link.topic)
        copied = set(sides.target.partitions(link.mirrored))
        due = system.monotonic() >= self._points_due
        points = (self._checkpoints, 0) if due and sides.target.partitions(self._checkpoints) else None
        anew = self._begin(sides, numbers, copied, points)
        targets = [(link.mirrored, number) for number in numbers if number in copied]
        target = self._read(sides.target, [*targets, *([points] if points else [])], 1)
        source = self._read(sides.source, [(link.topic, number) for number in numbers], 0)
        partitions = {}
        for number in numbers:
            here, there = source.get((link.topic, number)), target.get((link.mirrored, number))
            reason = anew.get(number)
            if (here and here.astray) or (there and there.astray):
                reason = _ASTRAY
                self._forget(sides, number)
            partitions[number] = PartitionRound(
                tuple(map(row_of, progress.source.take((link.topic, number)))),
                tuple(map(row_of, progress.target.take((link.mirrored, number)))),
                source_complete=here is not None and here.complete,
                target_complete=there is not None and there.complete,
                restarted=reason,
                missing=self._missing(number, copied, here, there),
            )
        if points is not None and (end := target.get(points)) is not None and end.astray:
            sides.target.forget([points])
        return Round(self._clock.now_ns(), partitions, self._points(points))

    def _missing(self, number: int, copied: set[int], here: "_End | None", there: "_End | None") -> str | None:
        link = self._mirror.link
        if number not in copied:
            return f"there is no {link.mirrored}-{number}"
        unknown = link.topic if here is None else link.mirrored if there is None else None
        return None if unknown is None else f"the offsets of {unknown}-{number} are not known (no leader?)"

    def _begin(self, sides: "_Sides", numbers: list[int], copied: set[int], points: Place | None) -> dict[int, str]:
        """Decide where logs are read from that are not read yet; return partitions that begin anew, and why."""
        link, progress = self._mirror.link, self._progress
        anew = {}
        for number in [number for number in numbers if number in progress.both]:
            known = (link.topic, number) in progress.source.next, (link.mirrored, number) in progress.target.next
            if not all(known):
                self._forget(sides, number)
                anew[number] = _ANEW
        since_ns = self._clock.now_ns() - round(WINDOW_S * 1e9)
        new = [(link.topic, number) for number in numbers if (link.topic, number) not in progress.source.next]
        sides.source.begin(new, since_ns)
        both = [number for number in numbers if number in copied]
        new = [(link.mirrored, number) for number in both if (link.mirrored, number) not in progress.target.next]
        sides.target.begin(new, since_ns - round(_MARGIN_S * 1e9))
        if points is not None and points not in progress.target.next:
            sides.target.begin([points], 0)
        progress.both |= {
            number
            for number in both
            if (link.topic, number) in progress.source.next and (link.mirrored, number) in progress.target.next
        }
        return anew

    def _forget(self, sides: "_Sides", number: int) -> None:
        sides.source.forget([(self._mirror.link.topic, number)])
        sides.target.forget([(self._mirror.link.mirrored, number)])
        self._progress.both.discard(number)

    def _read(self, side: Logs, places: list[Place], which: int) -> "dict[Place, _End]":
        """Read these up to where they end now; return what came of it, for each of which the end is known."""
        begun = [place for place in places if place in side.progress.next]
        bounds = side.bounds(begun) if begun else {}
        full = {
            place for place in bounds if (one := self._mirror.partitions.get(place[1])) is not None and one.full[which]
        }
        full.discard((self._checkpoints, 0))
        astray = {place for place, one in bounds.items() if side.progress.astray(place, one)}
        until = {place: one.end for place, one in bounds.items() if place not in astray}
        astray |= side.read(until, full, _READ_S) if until else set()
        return {
            place: _End(complete=side.progress.next[place] >= one.end, astray=place in astray)
            for place, one in bounds.items()
        }

    def _points(self, points: Place | None) -> tuple[Checkpoint, ...] | None:
        if points is None or points not in self._progress.target.next:
            return None
        told = (decoded(one.key(), one.value()) for one in self._progress.target.take(points))
        return tuple(one[1] for one in told if one is not None and one[0] == self._mirror.link.mirrored)

    def _again(self, sides: "_Sides", question: Question) -> Answer | None:
        """Read with fresh clients what a question is about; None: it cannot be read now."""
        link, number = self._mirror.link, question.partition
        source = sides.source.between((link.topic, number), *question.source, _AGAIN_S)
        begin, end = question.target
        target = sides.target.between((link.mirrored, number), begin, end, _AGAIN_S) if begin < end else ([], 0)
        if source is None or target is None:
            return None
        return Answer(
            frozenset((row.offset, row.identity) for row in source[0] if row.identity is not None),
            source[1],
            frozenset(row.identity for row in target[0] if row.identity is not None),
        )


@dataclass(frozen=True, slots=True)
class _Sides:
    source: Logs
    target: Logs


@dataclass(frozen=True, slots=True)
class _End:
    """``complete``: a log was read up to its end. ``astray``: it has not the position from which it is to be read."""

    complete: bool
    astray: bool
