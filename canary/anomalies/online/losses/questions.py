"""What waits for an answer about one partition: missing probes, re-reads under way, held violations."""

from dataclasses import dataclass, field, replace
from typing import Any, Self

from canary.anomalies.online.sets.intervals import IntervalSet
from canary.anomalies.online.sets.runs import RunMap
from canary.anomalies.violation import Violation


@dataclass(slots=True)
class Missing:
    """Promised identities that were not found: ``count`` of them from (``offset``, ``sequence``) on.

    ``state``: "ask" (wants a fresh re-read), "asked" (``request_id`` is on its way), "beyond" (the log ended before
    it: it is asked for again once the log's end has been judged, or has come back) and "absent" (a fresh re-read did
    not find it; waits for ``samples`` equal topic ids asked after ``ordinal``, the last one at ``sampled_ns``).
    ``why``: skipped, late-ack, late-place, displaced, moved, reread, end.
    """

    offset: int
    count: int
    sequence: int
    tag: int
    why: str
    at_ns: int
    ordinal: int
    state: str = "ask"
    request_id: int | None = None
    samples: int = 0
    tries: int = 0
    given: bool = False
    """Passed for certain: every consumer has read beyond them, or a consumer restarted beyond them."""
    epoch: int | None = None
    """The log's ``whole_epoch`` when they were missed."""
    by_end: bool = False
    """Absent because the log's end was below them: read again if it is beyond them when they are to be reported."""
    sampled_ns: int = 0
    verified_ns: int | None = None
    """When they were last known to stand there; 0: not since they were sent; None: just missed."""
    cut: bool = False
    """The log's end was listed below them as often as that takes: a fetch that meets the end there, too, decides."""
    formers: int = 0
    """How many re-reads of them a former leader has answered, in this epoch; one by the present leader settles them."""

    def part(self, sequence: int, count: int, ordinal: int, **more: Any) -> Self:
        """Return ``count`` of them, from ``sequence`` on, as missing anew since ``ordinal``."""
        offset = self.offset + sequence - self.sequence
        found = type(self)(offset, count, sequence, self.tag, self.why, self.at_ns, ordinal, epoch=self.epoch, **more)
        found.verified_ns = self.verified_ns
        return found

    def split(self, offset: int) -> list[Self]:
        """Return those below ``offset``, and those at or above it, as far as there are any; all else is the same."""
        below = min(max(offset - self.offset, 0), self.count)
        return [
            replace(self, offset=self.offset + first, count=end - first, sequence=self.sequence + first)
            for first, end in ((0, below), (below, self.count))
            if first < end
        ]


@dataclass(slots=True)
class Unplaced:
    """A promise without an offset: its neighbours in sequence bracket it within [low, high) of offsets."""

    tag: int
    sequence: int
    low: int
    high: int
    at_ns: int
    ordinal: int
    state: str = "ask"
    request_id: int | None = None
    samples: int = 0
    sampled_ns: int = 0


@dataclass(slots=True)
class Held:
    """A violation that waits for ``samples`` equal topic ids asked after ``ordinal``, apart in time (decision 7).

    ``check``: "" or what must still hold when it is released: "order" (both places as they were), "copy" (a fresh
    re-read finds the first copy at ``first``), "stands" (it is where it was read), "retained" (its offset has not
    expired), "untaken" (nor did the relay of a process that died take it without a record of that), "late-ack" and
    "late-place" (a consumer of this log has passed it without a delivery, and is heard of since: its position is in the
    log, which was not cut below it). Of a range, ``sequence`` and ``first`` are the first record's; the others follow
    from there.
    """

    violation: Violation
    ordinal: int
    samples: int = 0
    check: str = ""
    tag: int = -1
    sequence: int = -1
    other_sequence: int = -1
    first: int = -1
    sampled_ns: int = 0


@dataclass(slots=True)
class Reread:
    """A re-read under way, and its deliveries so far (offset to sequence, tagged with the stream)."""

    start: int
    end: int
    reason: str
    ordinal: int
    expected: list[list[int]] = field(default_factory=list)
    """The promised claims [offset, count, sequence, tag] of the range when it was asked for: only these are judged."""
    delivered: RunMap = field(default_factory=RunMap)
    corrupt: IntervalSet = field(default_factory=IntervalSet)
    former: bool = False
    """A former leader answered: a record of an epoch that the log is past, or of a topic that was deleted since."""
    present: bool = False
    """The present leader answered: with a record of its own epoch."""
    asked_ns: int = 0
    begins: int | None = None
    """Where the log begins, as a fetch right below that was refused."""


@dataclass(slots=True)
class Regression:
    """A listed end below what was promised when it was asked for: counts only when seen so many ``looks`` in a row.

    ``looked_ns`` is when the last one that counts was answered.
    ``runs`` are the promised claims [offset, count, sequence, tag] in [end, known_end) at the first sight.
    """

    sample: int
    end: int
    known_end: int
    runs: list[list[int]] = field(default_factory=list)
    looks: int = 1
    looked_ns: int = 0


@dataclass(slots=True)
class Wanted:
    """A range to re-read as soon as the partition answers."""

    start: int
    end: int
    reason: str
    not_before_ordinal: int = 0
