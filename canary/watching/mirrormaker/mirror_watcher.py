"""The thread that reads one topic of another cluster and its mirror in this one, round after round."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import structlog
from confluent_kafka import KafkaException

from canary.anomalies.mirrormaker.facts import Anew, Answer, Checkpoint, PartitionRound, Question, Round
from canary.anomalies.mirrormaker.mirror import Mirror, MirrorView
from canary.anomalies.violation import Violation, reported
from canary.kafka.client_inbox import ClientInbox
from canary.kafka.quiet import Gate
from canary.kafka.responses import text_of
from canary.threads import system
from canary.threads.ports import Clock, Inbox
from canary.threads.worker import Worker, in_background
from canary.watching.mirrormaker.checkpoints import decoded
from canary.watching.mirrormaker.logs import Logs, NotReadError, Place, Progress, row_of

log = structlog.get_logger(__name__)

WINDOW_S: Final = 3600.0
"""So far back is read at the start, or to the newest record of the mirror: what happened while the canary was down is
found."""
_MARGIN_S: Final = 600.0
"""And so much further, and as much again in the mirror: its copies may have been made by a clock that is behind."""
_MARGIN_NS: Final = round(_MARGIN_S * 1e9)
_READ_S: Final = 2.0
_AGAIN_S: Final = 10.0
_MOST_QUESTIONS: Final = 20
_REFUSED_S: Final = 300.0
"""Checkpoints that are refused are asked for again after so long."""


@dataclass(slots=True)
class MirrorProgress:
    """How far both sides were read; ``begun``: the partitions that are read of each. It outlives the thread.

    ``anew``: partitions that begin anew, and why, until the judge has heard of it. ``oldest``: when the oldest probe
    was sent that waited then (ns), until it is known where reading begins. ``earlier``: returns the gaps that another
    process has said and that are open, or None if that is not known now; it is asked until the judge knows them.
    """

    source: Progress = field(default_factory=Progress)
    target: Progress = field(default_factory=Progress)
    begun: tuple[set[int], set[int]] = field(default_factory=lambda: (set(), set()))
    anew: dict[int, Anew] = field(default_factory=dict)
    oldest: dict[int, int] = field(default_factory=dict)
    earlier: Callable[[], Iterable[Violation] | None] | None = None


class MirrorWatcher(Worker):
    """Reads until stopped.

    Args:
        source: properties of a consumer of the source, whose positions are assigned.
        target: the same of the cluster that has the mirror.
        mirror: judges; it outlives this thread, as does ``progress``.
        checkpoints: the topic in which MirrorMaker 2 tells translated offsets.
        inbox: takes what is found.

    ``latest`` is what is known now; ``failing`` is what a cluster refuses, None if nothing.
    """

    def __init__(
        self,
        source: Mapping[str, Any],
        target: Mapping[str, Any],
        mirror: Mirror,
        progress: MirrorProgress,
        checkpoints: str,
        inbox: Inbox,
        clock: Clock,
        interval_s: float = 2.0,
    ) -> None:
        super().__init__(f"mirror-watcher-{mirror.link.source}-{mirror.link.topic}")
        self._configs = (source, target)
        self._mirror = mirror
        self._progress = progress
        self._checkpoints = checkpoints
        self._inbox = ClientInbox(inbox, clock, self.name, lambda: progress.target.met)
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
        self._inbox.tell([])
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
        earlier = self._progress.earlier
        if earlier is not None and (gaps := earlier()) is not None:
            self._mirror.remember(gaps)
            self._progress.earlier = None
        told = self._round(sides)
        self._inbox.tell(reported(self.name, *self._mirror.fold(told)))
        for question in self._mirror.questions(told.at_ns)[:_MOST_QUESTIONS]:
            answer = self._again(sides, question)
            if answer is not None:
                self._inbox.tell(reported(self.name, self._mirror.confirm(question, answer, self._clock.now_ns())))
        self.latest = self._mirror.view(self._clock.now_ns())

    def _round(self, sides: "_Sides") -> Round:
        """Read the mirror up to its end, then the source: so whatever is in the mirror is in the source, too."""
        link, progress = self._mirror.link, self._progress
        numbers = sides.source.partitions(link.topic)
        copied = set(sides.target.partitions(link.mirrored))
        due = system.monotonic() >= self._points_due
        points = (self._checkpoints, 0) if due and sides.target.partitions(self._checkpoints) else None
        self._begin(sides, numbers, copied)
        if points is not None and points not in progress.target.next:
            sides.target.begin({points: 0})
        targets = [(link.mirrored, number) for number in numbers if number in copied]
        target = self._read(sides.target, [*targets, *([points] if points else [])], 1)
        source = self._read(sides.source, [(link.topic, number) for number in numbers], 0)
        partitions = {}
        for number in numbers:
            here, there = source.get((link.topic, number)), target.get((link.mirrored, number))
            if (here and here.astray) or (there and there.astray):
                self._forget(sides, number, "cut")
            mirrored = () if here is None else progress.target.take((link.mirrored, number))
            partitions[number] = PartitionRound(
                tuple(map(row_of, progress.source.take((link.topic, number)))),
                tuple(map(row_of, mirrored)),
                source_complete=here is not None and here.complete,
                target_complete=there is not None and there.complete,
                hidden=None if here is None else here.hidden,
                restarted=progress.anew.pop(number, None),
                expired=(link.mirrored, number) in progress.target.partial,
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

    def _begin(self, sides: "_Sides", numbers: list[int], copied: set[int]) -> None:
        """Decide where logs are read from that are not read yet, or were made anew."""
        link, progress = self._mirror.link, self._progress
        places = [((link.topic, number), (link.mirrored, number)) for number in numbers]
        for number, (here, there) in zip(numbers, places, strict=True):
            if number in progress.begun[0] and here not in progress.source.next:
                self._forget(sides, number, "source")
            elif number in progress.begun[1] and there not in progress.target.next:
                self._forget(sides, number, "mirror")
        mirrored = [there for _, there in places if there[1] in copied and there not in progress.target.next]
        newest = sides.target.newest(mirrored)
        window_ns = self._clock.now_ns() - round(max(WINDOW_S, link.bound_s + _MARGIN_S) * 1e9)
        since_ns = {}
        for number, (_, there) in zip(numbers, places, strict=True):
            known_ns = [ns for ns in (progress.oldest.get(number), newest.get(there)) if ns is not None]
            since_ns[number] = min([window_ns, *(ns - _MARGIN_NS for ns in known_ns)])
        sides.source.begin({here: since_ns[here[1]] for here, _ in places if here not in progress.source.next})
        sides.target.begin({there: since_ns[there[1]] - _MARGIN_NS for there in mirrored})
        for number, (here, there) in zip(numbers, places, strict=True):
            if here in progress.source.next:
                progress.begun[0].add(number)
                progress.oldest.pop(number, None)
            if there in progress.target.next:
                progress.begun[1].add(number)

    def _forget(self, sides: "_Sides", number: int, why: Anew) -> None:
        """Read a partition anew, on both sides."""
        sides.source.forget([(self._mirror.link.topic, number)])
        sides.target.forget([(self._mirror.link.mirrored, number)])
        for begun in self._progress.begun:
            begun.discard(number)
        known = self._mirror.partitions.get(number)
        if known is not None and (oldest := known.oldest_ns()) is not None:
            self._progress.oldest[number] = oldest
        if self._progress.anew.get(number) != "source":
            self._progress.anew[number] = why

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
            place: _End(
                complete=side.progress.next[place] >= one.end,
                astray=place in astray,
                hidden=(one.end, one.high) if one.end < one.high else None,
            )
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
    """How a log was read.

    ``complete``: up to its end. ``astray``: it has not the position from which it is to be read. ``hidden``: the
    offsets, [first, end), that an open transaction hides; None: nothing is hidden.
    """

    complete: bool
    astray: bool
    hidden: tuple[int, int] | None
