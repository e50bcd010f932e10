"""One replica's log: records from a start offset on, its history of leader epochs, and what of it is on the disk."""

import random
from bisect import bisect_right
from collections import deque
from dataclasses import dataclass

from simulation.kafka.contract import Record

FLUSH_S = 30.0
"""How long the page cache keeps what was written before it is on the disk."""
LOOK_S = 5.0
"""How often a log notes how far it is, for the flush."""


@dataclass(slots=True)
class LogSettings:
    """What a topic's configuration says about its logs; one object for all replicas, changed in place."""

    segment_records: int = 2000
    segment_s: float = 7 * 86400.0
    fsync: bool = False
    """Every append is flushed before it is answered."""


class Log:
    """``base`` is the offset of ``records[0]``, ``start`` the first offset that may be read (not below ``base``)."""

    __slots__ = (
        "_began_at",
        "_look_at",
        "_marks",
        "_roll_at",
        "base",
        "epochs",
        "flushed",
        "lies",
        "records",
        "segments",
        "settings",
        "start",
        "written_at",
    )

    def __init__(self, settings: LogSettings, start: int = 0) -> None:
        self.settings = settings
        self.lies = False
        """The disk says that it flushed, and did not."""
        self.reset(start)

    def reset(self, start: int) -> None:
        """Begin again with nothing, at the offset ``start``."""
        self.records: list[Record] = []
        self.base = self.start = self.flushed = start
        self.epochs: list[tuple[int, int]] = []
        self.segments: list[int] = [start]
        self._roll_at = start + self.settings.segment_records
        self._marks: deque[tuple[float, int]] = deque()
        self._look_at = 0.0
        self._began_at = 0.0
        self.written_at = 0.0

    @property
    def end(self) -> int:
        """The offset that the next record gets."""
        return self.base + len(self.records)

    def append(self, batch: list[Record], now: float) -> None:
        """Add records that continue the log, all of one epoch."""
        end = self.base + len(self.records)
        if now >= self._look_at or end >= self._roll_at:
            self._look(now, end)
        epoch = batch[0].epoch
        if not self.epochs or self.epochs[-1][0] < epoch:
            self.epochs.append((epoch, end))
        self.records += batch
        self.written_at = now

    def _look(self, now: float, end: int) -> None:
        if end > self.segments[-1] and (end >= self._roll_at or now - self._began_at >= self.settings.segment_s):
            self.segments.append(end)
            self.flushed = end
            self._began_at = now
        elif end == self.segments[-1]:
            self._began_at = now
        self._roll_at = self.segments[-1] + self.settings.segment_records
        if now >= self._look_at:
            self._flush(now)
            self._marks.append((now, end))
            self._look_at = now + min(LOOK_S, self.settings.segment_s)

    def _flush(self, now: float) -> None:
        while self._marks and self._marks[0][0] <= now - FLUSH_S:
            self.flushed = max(self.flushed, self._marks.popleft()[1])
        if (self.settings.fsync and not self.lies) or self.written_at <= now - FLUSH_S:
            self.flushed = self.end

    def synced(self, now: float) -> int:
        """Return the offset below which everything survives a power cut."""
        self._flush(now)
        return self.flushed

    def sync(self) -> None:
        """Flush everything."""
        self.flushed = self.end

    def record(self, offset: int) -> Record | None:
        """Return the record at ``offset``, None where the log has none."""
        at = offset - self.base
        return self.records[at] if 0 <= at < len(self.records) else None

    def slice(self, first: int, end: int) -> list[Record]:
        """Return the records of [first, end) that there are."""
        return self.records[max(first - self.base, 0) : max(end - self.base, 0)]

    def truncate(self, to: int) -> list[Record]:
        """Remove what is at ``to`` and above; return it."""
        if to < self.base:
            removed = self.records
            self.reset(to)
            return removed
        removed = self.records[to - self.base :]
        del self.records[to - self.base :]
        while self.epochs and self.epochs[-1][1] >= to:
            self.epochs.pop()
        while len(self.segments) > 1 and self.segments[-1] > to:
            self.segments.pop()
        self._roll_at = self.segments[-1] + self.settings.segment_records
        self.flushed = min(self.flushed, to)
        self._marks = deque((at, min(end, to)) for at, end in self._marks)
        self.start = min(self.start, to)
        return removed

    def lose_tail(self, dice: random.Random, now: float) -> list[Record]:
        """Lose what a power cut takes: everything above some point that is not below what was flushed."""
        synced = self.synced(now)
        keep = dice.randint(synced, self.end)
        cut = self.record(keep)
        if cut is not None and cut.batch < keep:
            keep = max(cut.batch, synced)  # half a batch is no batch
        removed = self.truncate(keep)
        self.sync()
        return removed

    def drop_prefix(self, start: int) -> list[Record]:
        """Raise the log start; return what whole segments below it were removed."""
        self.start = max(self.start, min(start, self.end))
        keep = bisect_right(self.segments, self.start) - 1
        base = self.segments[keep]
        removed = self.records[: base - self.base]
        if base > self.base:
            del self.records[: base - self.base]
            del self.segments[:keep]
            self.base = base
            first = bisect_right([begin for _, begin in self.epochs], base) - 1
            if first > 0:
                del self.epochs[:first]
        return removed

    def begin_epoch(self, epoch: int) -> None:
        """Note that a leader's epoch begins at the end of the log. A lower one, after a restore, ends higher ones."""
        while self.epochs and self.epochs[-1][0] > epoch:
            self.epochs.pop()
        if not self.epochs or self.epochs[-1][0] < epoch:
            self.epochs.append((epoch, self.end))

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the greatest epoch up to ``epoch`` that the log knows, and where it ends; (-1, -1): it knows none.

        An epoch before all that it knows ended where the first of them begins.
        """
        after = bisect_right(self.epochs, epoch, key=lambda entry: entry[0])
        if after == 0:
            return (epoch, self.epochs[0][1]) if self.epochs else (-1, -1)
        return self.epochs[after - 1][0], self.epochs[after][1] if after < len(self.epochs) else self.end

    def follow(self, leader: "Log", now: float) -> list[Record]:
        """Become a copy of the leader's log, as a follower does; return the own records that went."""
        removed: list[Record] = []
        while self.epochs:
            last = self.epochs[-1]
            epoch, end = leader.end_of_epoch(last[0])
            if epoch < 0:
                break
            own_epoch, own_end = self.end_of_epoch(epoch)
            removed = self.truncate(min(end, own_end)) + removed
            if own_epoch == epoch or (self.epochs and self.epochs[-1] == last):
                break
        if self.end > leader.end:
            removed = self.truncate(leader.end) + removed
        if self.end < leader.start:
            removed = self.records + removed
            self.reset(leader.start)
        end = self.end
        missing = leader.slice(end, leader.end)
        if missing:
            self._look(now, end)
            for epoch, begin in leader.epochs:
                if (not self.epochs or epoch > self.epochs[-1][0]) and (begin >= end or epoch == missing[0].epoch):
                    self.epochs.append((epoch, max(begin, end)))
            self.records += missing
            self.segments += [one for one in leader.segments if one > self.segments[-1]]
            self._roll_at = self.segments[-1] + self.settings.segment_records
            self.written_at = now
        if leader.start > self.start:
            removed = self.slice(self.start, leader.start) + removed
            self.drop_prefix(leader.start)
        return removed
