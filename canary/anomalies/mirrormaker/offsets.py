"""Which offset of the mirror has which of the source, by its probes; and what a translated offset would skip."""

from collections import deque
from dataclasses import dataclass
from typing import Final, NamedTuple

from canary.anomalies.mirrormaker.facts import Checkpoint
from canary.anomalies.online.sets.intervals import IntervalSet
from canary.probe.identity import Identity

MOST_SEGMENTS: Final = 10_000
"""So many are known of a partition; older ones are forgotten. Each transaction of MirrorMaker 2 begins another one."""


class Segment(NamedTuple):
    """``size`` probes at consecutive offsets of both logs; ``identity`` is the first one's."""

    source: int
    target: int
    size: int
    identity: Identity


@dataclass(frozen=True, slots=True)
class Translated:
    """What a failover of a group to its translated offset would do.

    Attributes:
        skips: Probes that the group has not committed and would not be given: they lie before the offset only.
        first: The source's offset of the first of them; None: there is none.
        rereads: Records of the mirror that it would be given again; None: not known.
        unknown: Why it cannot be told; None: it can.
    """

    skips: int = 0
    first: int | None = None
    rereads: int | None = None
    unknown: str | None = None


class OffsetPairs:
    """The pairs of one partition, in the order of the mirror; what was copied twice has two."""

    def __init__(self) -> None:
        self._segments: deque[Segment] = deque(maxlen=MOST_SEGMENTS)

    @property
    def last(self) -> int | None:
        """The mirror's offset of the last pair."""
        return self._segments[-1].target + self._segments[-1].size - 1 if self._segments else None

    @property
    def end(self) -> int | None:
        """The greatest offset of the source that has a pair, plus one."""
        return max((one.source + one.size for one in self._segments), default=None)

    def reaches(self, point: Checkpoint) -> bool:
        """Say whether both offsets of a checkpoint lie before the last pair: what follows adds nothing about it."""
        return (self.last or 0) >= point.downstream and (self.end or 0) > point.upstream

    def add(self, source: int, target: int, identity: Identity) -> None:
        """Add what lies behind all others in the mirror."""
        if self._segments:
            last = self._segments[-1]
            after = (last.source + last.size, last.target + last.size, *last.identity[:3])
            if after == (source, target, *identity[:3]) and last.identity.sequence + last.size == identity.sequence:
                self._segments[-1] = last._replace(size=last.size + 1)
                return
        self._segments.append(Segment(source, target, 1, identity))

    def source_of(self, identity: Identity) -> int | None:
        """Return the source's offset of a probe that was copied; None: it is not known."""
        for one in reversed(self._segments):
            at = identity.sequence - one.identity.sequence
            if identity[:3] == one.identity[:3] and 0 <= at < one.size:
                return one.source + at
        return None

    def translated(self, point: Checkpoint) -> Translated:
        """Judge a translated offset: no probe from ``upstream`` on may lie below ``downstream`` only (KIP-382)."""
        if not self._segments or point.upstream < min(one.source for one in self._segments):
            return Translated(unknown="older than the pairs of offsets that are known")
        lost, kept = IntervalSet(), IntervalSet()
        for one in self._segments:
            below = min(max(point.downstream - one.target, 0), one.size)
            begin = max(one.source, point.upstream)
            if begin < one.source + below:
                lost.add(begin, one.source + below)
            if (begin := max(begin, one.source + below)) < one.source + one.size:
                kept.add(begin, one.source + one.size)
        for begin, end in kept:
            lost.remove(begin, end)
        return Translated(lost.total, lost.first(), self._rereads(point))

    def _rereads(self, point: Checkpoint) -> int:
        """Return how far below the first copy of the first probe that was not committed the offset is."""
        ahead = [
            (max(one.source, point.upstream), one.target + max(point.upstream - one.source, 0))
            for one in self._segments
            if one.source + one.size > point.upstream
        ]
        first = min(ahead)[1] if ahead else (self.last or 0) + 1
        return max(first - point.downstream, 0)
