"""Compares what the directory and the cluster should both have, record by record: two logs in the order of offsets."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from canary.salvage.divergence import Holdings
from canary.salvage.segments import Damage
from canary.wire.errors import RecordsError
from canary.wire.records import Batch, Record


class ClusterLog(Protocol):
    """The cluster's log of one partition. ``compacted``: records may be gone on purpose."""

    holdings: Holdings
    compacted: bool

    def batches(self, start: int) -> Iterator[Batch]:
        """Yield the batches from an offset on, up to the high watermark as it is when the reading begins."""


@dataclass(slots=True)
class Verified:
    """What the comparison found.

    Attributes:
        missing: offsets [start, end), in order, of records that the cluster lacks in an epoch that it has; of a
            compacted topic none, for nobody can tell these from what was compacted.
        changed: how many records it has with another timestamp, key, value or header.
        unverified: how many were not compared: the cluster lets nobody read them yet, or a batch is damaged.
    """

    missing: list[tuple[int, int]] = field(default_factory=list)
    changed: int = 0
    unverified: int = 0

    def misses(self, first: int, last: int) -> bool:
        """Return whether any of the offsets from ``first`` to ``last`` is missing."""
        at = bisect_right(self.missing, last, key=lambda one: one[0]) - 1
        return at >= 0 and self.missing[at][1] > first

    def miss(self, offset: int) -> None:
        """Note a missing record; offsets come in order."""
        if self.missing and self.missing[-1][1] == offset:
            self.missing[-1] = (self.missing[-1][0], offset + 1)
        else:
            self.missing.append((offset, offset + 1))


def verified(scanned: Iterable[tuple[object, Batch | Damage]], log: ClusterLog) -> Verified:
    """Compare.

    Raises:
        WireError: the cluster gives no answer.
    """
    found = Verified()
    theirs = _Following(log)
    for _, batch in scanned:
        if isinstance(batch, Damage) or batch.control:
            continue
        if log.holdings.fate(batch.last_offset, batch.leader_epoch) != "held":
            continue
        try:
            records = list(batch.records())
        except RecordsError:
            found.unverified += batch.count
            continue
        for record in records:
            if log.holdings.fate(record.offset, batch.leader_epoch) == "held":
                _compare(record, theirs, found, compacted=log.compacted)
    return found


def _compare(record: Record, theirs: "_Following", found: Verified, *, compacted: bool) -> None:
    other = theirs.at(record.offset)
    if other is None:
        if record.offset >= theirs.reached:
            found.unverified += 1
        elif not compacted:
            found.miss(record.offset)
    elif other != record:
        found.changed += 1


class _Following:
    """The cluster's records, asked for by offset, in order; ``reached``: the offset behind all that were read."""

    def __init__(self, log: ClusterLog) -> None:
        self._log = log
        self._records: Iterator[Record] | None = None
        self._next: Record | None = None
        self.reached = -1

    def at(self, offset: int) -> Record | None:
        """Return the record at an offset; None: there is none, or (at or above ``reached``) it cannot be read."""
        if self._records is None:
            self._records = self._all(offset)
            self._next = next(self._records, None)
        while self._next is not None and self._next.offset < offset:
            self._next = next(self._records, None)
        return self._next if self._next is not None and self._next.offset == offset else None

    def _all(self, start: int) -> Iterator[Record]:
        for batch in self._log.batches(start):
            self.reached = batch.last_offset + 1
            if not batch.control:
                yield from batch.records()
