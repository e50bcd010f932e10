"""One partition of a topic and of its mirror: which probes wait, which were passed over, which came again."""

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from canary.anomalies.mirrormaker.facts import Anew, Answer, PartitionRound, Question, Row
from canary.anomalies.mirrormaker.offsets import OffsetPairs
from canary.anomalies.mirrormaker.runs import Run, Runs
from canary.anomalies.violation import Violation
from canary.probe.identity import Identity

MOST_RUNS: Final = 20_000
"""Runs of probes that wait: at 10 s each more than two days of one producer. Beyond it the source is not read on."""
MOST_WAITING: Final = 20_000
"""Records of the mirror that wait for the source to be read."""
OUTCOMES: Final = ("copied", "late", "again", "before", "foreign", "corrupt", "unjudged", "withdrawn")
_HOLE: Final = 10_000
"""Probes of one hole: so many are looked for again at once."""
MOST_HOLES: Final = 1000
"""Gaps that were said, of which it is remembered what they lack."""
_MOST_STREAMS: Final = 1000
_STRETCH_NS: Final = 10 * 10**9
"""Copies that come later than that after others are another stretch."""
_SELDOM_NS: Final = 60 * 10**9
"""What follows sooner is said together: two may copy the same topic, or a transformation may change each record."""


@dataclass(slots=True)
class Hole:
    """Probes that MirrorMaker 2 went past: a copy of a later one is in the mirror.

    Attributes:
        since_ns: When that copy was read.
        between: The mirror's offsets, exclusive, of the copies before and after.
        missing: The probes that are still missing.
        said: What was said of it; None: it is not confirmed yet.
        earlier: It was said before reading began anew, or by another process: its probes may be read once more.
        expired: How many of them the source removed before they were copied.
    """

    since_ns: int
    between: tuple[int, int]
    missing: Runs
    said: tuple[Violation, ...] | None = None
    expired: int = 0
    earlier: bool = False


@dataclass(slots=True)
class Copies:
    """A stretch of the mirror in which probes came again. ``offsets`` of the mirror: the first, and the last plus one.

    ``last_ns`` is when the last one was read; ``sources`` are the least and the greatest offset of the source that are
    known of them; None: none is.
    """

    first: Row
    offsets: tuple[int, int]
    last_ns: int
    count: int = 0
    sources: tuple[int, int] | None = None


@dataclass(slots=True)
class Found:
    """What a round has brought to light."""

    filled: list[Hole] = field(default_factory=list)
    """Holes of which it was said that they are, and in which nothing is missing any more."""
    copies: list[Copies] = field(default_factory=list)
    changed: list[tuple[int, Row]] = field(default_factory=list)
    """Copies that have not the key or headers of their original, and the source's offset of that."""


class _Highest:
    """The highest sequence of each of the streams that were heard of last."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], int] = {}

    def add(self, identity: Identity) -> None:
        stream = identity[:3]
        self._known[stream] = max(self._known.pop(stream, -1), identity.sequence)
        if len(self._known) > _MOST_STREAMS:
            del self._known[next(iter(self._known))]

    def reaches(self, identity: Identity) -> bool:
        """Say whether this sequence, or one above it, was added."""
        return identity.sequence <= self._known.get(identity[:3], -1)


class Partition:
    """Follows one partition; it outlives clients and threads.

    ``judged_from``: the source's offset from which on everything has to be in the mirror, whatever was found there
    before; None: what lies before the first probe that is found in both is not judged.
    """

    def __init__(self, judged_from: int | None = None) -> None:
        self.waiting = Runs()
        self.holes: list[Hole] = []
        self.pairs = OffsetPairs()
        self.counts: Counter[str] = Counter()
        self.heard_ns = 0
        """When the source was last heard of: a new probe was read, or, of the first ones, sent; 0: never."""
        self.hidden = False
        """An open transaction of the source hides what was written since it began."""
        self.copied_ns = 0
        """The same of the newest one in the mirror."""
        self.unread: str | None = "not read yet"
        """Why it is not known what is there; None: it is."""
        self._judged_from = judged_from
        self._matched = False
        self._ahead: deque[tuple[Row, int]] = deque()
        """Records of the mirror that are not judged, and up to which offset the source has to be read for that."""
        self._before = -1
        """The mirror's offset before the first one that was read."""
        self._read = _Highest()
        self._copied = _Highest()
        self._copies: Copies | None = None
        self._copies_said_ns = 0
        self._changed: list[tuple[int, Row]] = []
        self._changed_said_ns = 0

    @property
    def full(self) -> tuple[bool, bool]:
        """Whether so much is remembered that the source, and the mirror, is not to be read on for now."""
        return len(self.waiting) >= MOST_RUNS, len(self._ahead) >= MOST_WAITING

    @property
    def settled(self) -> bool:
        """Whether everything of the mirror that was read is judged."""
        return not self._ahead

    def oldest_ns(self) -> int | None:
        """Return when the oldest probe was sent that is not in the mirror; a gap that was said counts no more."""
        open_holes = (run.first_ns for hole in self.holes if hole.said is None for run in hole.missing)
        return min((*open_holes, *(run.first_ns for run in self.waiting)), default=None)

    def missing(self) -> int:
        """Return how many probes are missing in gaps that were said."""
        return sum(hole.missing.probes for hole in self.holes if hole.said is not None)

    def fold(self, told: PartitionRound, at_ns: int) -> Found:
        """Take what was read."""
        found = Found()
        if told.restarted is not None:
            self._restart(told.restarted)
        if told.expired and not self._matched:
            self._judged_from = None
        probes = [(row, row.identity) for row in told.source if row.identity is not None]
        for row, identity in probes:
            self.waiting.append(Run(row.offset, 1, identity, row.sent_ns, row.sent_ns, row.whole))
            self._read.add(identity)
        if probes:  # a sender's clock may be ahead, or behind
            self.heard_ns = at_ns if self.heard_ns else min(at_ns, probes[-1][0].sent_ns)
        self.hidden = told.hidden is not None
        if told.target and self._before < 0:
            self._before = told.target[0].offset - 1
        end = told.hidden[1] if told.hidden is not None else 0
        self._ahead.extend((row, end) for row in told.target)
        while self._ahead and (outcome := self._judge(*self._ahead[0], told, at_ns, found)) is not None:
            self.counts[outcome] += 1
            self._follow(self._ahead.popleft()[0], outcome, at_ns, found)
        if self._ahead and self.full[0]:  # MirrorMaker 2 is further ahead than the source was read: that is unknown
            self.counts["unjudged"] += sum(run.size for run in self.waiting.take_first(MOST_RUNS // 2))
        self.unread = told.missing or self._unread(told)
        if self._copies is not None and at_ns - self._copies.last_ns > _STRETCH_NS:
            self._copies_said_ns = 0
            self._end_copies(found, at_ns)
        if self._changed and (at_ns - self._changed_said_ns >= _SELDOM_NS or len(self._changed) >= _HOLE):
            found.changed, self._changed, self._changed_said_ns = self._changed, [], at_ns
        return found

    def _unread(self, told: PartitionRound) -> str | None:
        """Return why it is not known what the mirror lacks; of a source that is not read on the oldest waits."""
        judged = self.settled or (told.source_complete and told.hidden is not None)
        if judged and told.target_complete and (told.source_complete or self.waiting.probes):
            return None
        return "not read to the end yet"

    def remember(self, gap: Violation) -> None:
        """Take a gap that another process has said."""
        if any(gap.key("") == said.key("") for hole in self.holes for said in hole.said or ()):
            return
        missing = Runs()
        for run in gap.runs:
            if run.offset is not None and run.identity is not None:
                missing.append(Run(run.offset, run.size, run.identity, gap.at_ns, gap.at_ns, whole=False))
        if missing.probes:
            self.holes.insert(0, Hole(gap.at_ns, (0, 0), missing, (gap,), earlier=True))

    def questions(self, number: int, at_ns: int, after_ns: int) -> list[Question]:
        """Return what is to be read again of the holes that are old enough and not confirmed yet."""
        asked = []
        for hole in self.holes:
            if hole.said is None and at_ns - hole.since_ns >= after_ns:
                runs = list(hole.missing)
                asked.append(Question(number, (runs[0].offset, runs[-1].end), (hole.between[0] + 1, hole.between[1])))
        return asked

    def confirm(self, question: Question, answer: Answer) -> Hole | None:
        """Return the hole that an answer confirms; None: nothing is missing, or nothing of it was the source's."""
        for hole in self.holes:
            runs = list(hole.missing)
            if hole.said is None and (runs[0].offset, runs[-1].end) == question.source:
                self._sift(hole, answer)
                if hole.missing.probes:
                    return hole
                self.holes.remove(hole)
                return None
        return None

    def _sift(self, hole: Hole, answer: Answer) -> None:
        """Take out of a hole what the mirror has after all, and what the source has no more without its expiry."""
        earlier = [other for other in self.holes if other.earlier]
        for run in list(hole.missing):
            for one in (run.part(at, 1) for at in range(run.size)):
                if any(other.missing.find(one.identity) is not None for other in earlier):
                    hole.missing.take(one.identity)
                elif one.identity in answer.target:
                    hole.missing.take(one.identity)
                    self.counts["late"] += 1
                elif one.offset < answer.source_start:
                    hole.expired += 1
                elif (one.offset, one.identity) not in answer.source:
                    hole.missing.take(one.identity)
                    self.counts["withdrawn"] += 1

    def _judge(self, row: Row, end: int, told: PartitionRound, at_ns: int, found: Found) -> str | None:
        """Return what a record of the mirror is; None: it is not known until the source is read on, to ``end``."""
        if row.identity is None:
            return "corrupt" if row.refusal == "corrupt" else "foreign"
        offset = self.waiting.find(row.identity)
        if offset is not None:
            self._pass(offset, row, at_ns)
            run = self.waiting.take(row.identity)
            self._fill(row.identity, (hole for hole in self.holes if hole.earlier), found)
            return self._arrived(run, row, "copied")
        if (run := self._fill(row.identity, self.holes, found)) is not None:
            return self._arrived(run, row, "late")
        if not self._is_read(told, end) and not (self.full[0] and self._read.reaches(row.identity)):
            return None
        if self._copied.reaches(row.identity) or self.pairs.source_of(row.identity) is not None:
            return "again"
        return "foreign" if self._matched else "before"

    @staticmethod
    def _is_read(told: PartitionRound, end: int) -> bool:
        """Say whether the source is read so far that whatever it has below ``end`` is known.

        A probe may be in the source twice: so the second one is not taken for a copy of the first before that.
        """
        return told.source_complete and (told.hidden is None or told.hidden[0] >= end)

    def _fill(self, identity: Identity, holes: Iterable[Hole], found: Found) -> Run | None:
        """Take a probe out of the holes that lack it: of one that was said earlier there may be two."""
        run = None
        for hole in list(holes):
            taken = hole.missing.take(identity)
            if taken is not None and not hole.missing.probes:
                self.holes.remove(hole)
                if hole.said is not None:
                    found.filled.append(hole)
            run = run or taken
        return run

    def _pass(self, offset: int, row: Row, at_ns: int) -> None:
        """Note the probes before ``offset`` as passed over; those before the first one that is judged are not."""
        first = offset if self._judged_from is None else self._judged_from
        self.counts["unjudged"] += sum(run.size for run in self.waiting.take_below(min(first, offset)))
        passed = self.waiting.take_below(offset)
        between = (self.pairs.last if self.pairs.last is not None else self._before, row.offset)
        hole = Hole(at_ns, between, Runs())
        for run in passed:
            for start in range(0, run.size, _HOLE):
                part = run.part(start, min(_HOLE, run.size - start))
                if hole.missing.probes and hole.missing.probes + part.size > _HOLE:
                    self.holes.append(hole)
                    hole = Hole(at_ns, between, Runs())
                hole.missing.append(part)
        if hole.missing.probes:
            self.holes.append(hole)
        said = [one for one in self.holes if one.said is not None]
        for one in said[: max(0, len(said) - MOST_HOLES)]:  # what arrives of those is taken for a copy
            self.holes.remove(one)

    def _arrived(self, run: Run | None, row: Row, outcome: str) -> str:
        assert run is not None  # noqa: S101  # it was found
        self._matched, self._judged_from = True, 0
        self.copied_ns = max(self.copied_ns, row.sent_ns)
        self.pairs.add(run.offset, row.offset, run.identity)
        self._copied.add(run.identity)
        if run.whole and not row.whole:
            self._changed.append((run.offset, row))
        return outcome

    def _follow(self, row: Row, outcome: str, at_ns: int, found: Found) -> None:
        """Gather copies that follow each other; anything else ends the stretch."""
        if outcome != "again" or row.identity is None:
            if outcome in {"copied", "late"}:
                self._end_copies(found, at_ns)
            return
        source = self.pairs.source_of(row.identity)
        one = self._copies = self._copies or Copies(row, (row.offset, row.offset), at_ns)
        one.count, one.offsets, one.last_ns = one.count + 1, (one.offsets[0], row.offset + 1), at_ns
        if source is not None:
            low, high = one.sources or (source, source)
            one.sources = (min(low, source), max(high, source))
            self.pairs.add(source, row.offset, row.identity)

    def _end_copies(self, found: Found, at_ns: int) -> None:
        if self._copies is not None and at_ns - self._copies_said_ns >= _SELDOM_NS:
            found.copies.append(self._copies)
            self._copies, self._copies_said_ns = None, at_ns

    def _restart(self, why: Anew) -> None:
        """Begin anew, with nothing known of what waited: what was said stays said, what was counted stays counted.

        All of a source that was made anew has to be copied; of one that goes on, what lies behind the last known copy.
        """
        self.counts["unjudged"] += self.waiting.probes
        self.counts["unjudged"] += sum(hole.missing.probes for hole in self.holes if hole.said is None)
        if why == "source":
            self._judged_from = 0
        elif self._matched:
            self._judged_from = self.pairs.end
        self.waiting, self.pairs, self._matched, self._before = Runs(), OffsetPairs(), False, -1
        self.holes = [hole for hole in self.holes if hole.said is not None]
        for hole in self.holes:
            hole.earlier = True
        self._ahead.clear()
        self._read, self._copied = _Highest(), _Highest()
        self._copies = None
