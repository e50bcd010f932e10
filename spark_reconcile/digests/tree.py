"""Leaves of a partition, joined, replaced and compared: pure functions over columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Final, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from spark_reconcile.tables.columns import I64

T = TypeVar("T", bound=np.generic)

BITS: Final = 6
LEAF: Final = 1 << BITS
"""Offsets of a leaf."""
CHUNK: Final = 1 << 18
"""Leaves of a chunk."""
_ALL: Final = np.uint64(2**64 - 1)


class Run(NamedTuple):
    """``size`` consecutive offsets from ``offset``."""

    offset: int
    size: int

    @property
    def end(self) -> int:
        """The offset behind the last one."""
        return self.offset + self.size


@dataclass(frozen=True, slots=True)
class Leaves:
    """Leaves of one partition, ascending, none twice; those without a record are left out.

    Attributes:
        leaf: the number of each, its first offset divided by LEAF.
        mask: bit i is set if the leaf's i-th offset has a record.
        hash: XOR of the records' places (`canary.facts.digests.place`).
        keys: how many records have a key.
        bytes: of keys and values together.
        read_at: when all of it was last read from the log, in ns since the epoch.
    """

    leaf: I64
    mask: NDArray[np.uint64]
    hash: I64
    keys: I64
    bytes: I64
    read_at: I64

    @classmethod
    def none(cls) -> Self:
        """Return no leaf."""
        empty = np.zeros(0, dtype=np.int64)
        return cls(empty, empty.view(np.uint64), empty, empty, empty, empty)

    def __len__(self) -> int:
        """Return how many they are."""
        return len(self.leaf)

    @property
    def count(self) -> int:
        """How many records they have."""
        return _count(self.mask)

    @property
    def root(self) -> int:
        """The XOR of their hashes: the hash of whatever they are the leaves of."""
        return int(np.bitwise_xor.reduce(self.hash)) if len(self) else 0

    def between(self, start: int, end: int) -> Self:
        """Return the leaves that have an offset in [start, end)."""
        low = np.searchsorted(self.leaf, start >> BITS)
        high = np.searchsorted(self.leaf, -(-end >> BITS)) if end > start else low
        return self.taken(slice(low, high))

    def joined(self, others: Self) -> Self:
        """Return both, where no record is in both: leaves that are in both have the records of both."""
        both = [np.concatenate([getattr(self, one.name), getattr(others, one.name)]) for one in fields(self)]
        order = np.argsort(both[0], kind="stable")
        leaf, mask, content, keys, size, read_at = (column[order] for column in both)
        if not len(leaf):
            return self
        starts = np.flatnonzero(np.concatenate([[True], np.diff(leaf) != 0]))
        return replace(
            self,
            leaf=leaf[starts],
            mask=np.bitwise_or.reduceat(mask, starts),
            hash=np.bitwise_xor.reduceat(content, starts),
            keys=np.add.reduceat(keys, starts),
            bytes=np.add.reduceat(size, starts),
            read_at=np.minimum.reduceat(read_at, starts),
        )

    def replaced(self, others: Self, start: int, end: int) -> Self:
        """Return them with ``others`` in place of those that have an offset in [start, end)."""
        low = np.searchsorted(self.leaf, start >> BITS)
        high = max(low, np.searchsorted(self.leaf, -(-end >> BITS)))
        return self.taken(np.r_[0:low, high : len(self)]).joined(others)

    def retained(self, start: int) -> Self:
        """Return those that have a record at ``start`` or above."""
        return self.taken(np.flatnonzero(self.mask & _from(self.leaf, start)))

    def chunks(self) -> Iterator[tuple[int, Self]]:
        """Yield the number and the leaves of each chunk."""
        number = self.leaf // CHUNK
        for one in np.unique(number).tolist():
            yield one, self.taken(slice(*np.searchsorted(number, [one, one + 1])))

    def last_below(self, end: int) -> int | None:
        """Return the number of the last leaf that has an offset below ``end``; None: there is none."""
        found = np.searchsorted(self.leaf, -(-end >> BITS))
        return int(self.leaf[found - 1]) if found else None

    def taken(self, index: slice | NDArray[np.int64]) -> Self:
        """Return those that stand at ``index``."""
        return replace(self, **{one.name: getattr(self, one.name)[index] for one in fields(self)})


@dataclass(frozen=True, slots=True)
class Differences:
    """What is not as it was.

    Attributes:
        lost: offsets that had a record and have none.
        changed: leaves with the same offsets and another hash, or with a record where there was none, each as the run
            from its first to its last record: at least one record of each is another one. (Nothing is ever committed
            below the last stable offset, so a record that was not there means that the log was cut and filled again;
            not so where compaction works: each replica compacts by itself, and the next leader may have more.)
        replaced: offsets that had a record and have one behind an election's cut, in leaves that differ: another one.
        gone: offsets that had a record and have none, where compaction may have removed them.
        compared: how many of the records that were known are proven to be what they were.
        uncompared: how many are still there, in leaves that have other offsets now: their hash proves nothing.
        expired: how many were below the log's new start.
    """

    lost: tuple[Run, ...] = ()
    changed: tuple[Run, ...] = ()
    replaced: tuple[Run, ...] = ()
    gone: int = 0
    compared: int = 0
    uncompared: int = 0
    expired: int = 0

    def __bool__(self) -> bool:
        """Whether a record was lost or changed."""
        return bool(self.lost or self.changed or self.replaced)

    def places(self) -> list[Run]:
        """Return the leaves that differ, as runs of offsets."""
        runs = sorted(self.lost + self.changed + self.replaced)
        return list(merged(Run(one.offset >> BITS << BITS, _whole(one)) for one in runs))

    def plus(self, other: Self) -> Self:
        """Return both; ``other`` is about higher offsets or other partitions."""
        return replace(self, **{one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(self)})


def compare(before: Leaves, now: Leaves, first: int, compacted: int = 0, cut: int | None = None) -> Differences:
    """Return how leaves differ from the same leaves ``before``.

    Args:
        before: what was known of them.
        now: what the log has of the same offsets.
        first: the first offset of the log now: what was below it expired.
        compacted: compaction may have removed records below this offset, on each replica others.
        cut: whatever stands from here on was written after an election that had cut the log; None: not known.
    """
    leaf = np.union1d(before.leaf, now.leaf)
    old, new = _aligned(before.leaf, before.mask, leaf), _aligned(now.leaf, now.mask, leaf)
    old_hash, new_hash = _aligned(before.leaf, before.hash, leaf), _aligned(now.leaf, now.hash, leaf)
    retained, stays = _from(leaf, first), _from(leaf, compacted)
    expired = old & ~retained
    missing = old & retained & ~new
    lost = missing & stays
    same = (old == new) & (old != 0)
    changed = (same & (old_hash != new_hash)) | (new & ~old & retained & stays != 0)
    equal = same & (old_hash == new_hash)
    behind = _from(leaf, cut) if cut is not None else np.zeros(len(leaf), dtype=np.uint64)
    replaced = np.where((lost != 0) | changed, old & new & retained & behind, np.uint64(0))
    changed &= replaced == 0
    return Differences(
        lost=tuple(_runs(leaf, lost)),
        changed=tuple(_extents(leaf[changed], new[changed])),
        replaced=tuple(_runs(leaf, replaced)),
        gone=_count(missing & ~lost),
        compared=_count(old[equal]),
        uncompared=_count((old & new & ~replaced)[~equal & ~changed]),
        expired=_count(expired),
    )


def merged(runs: Iterable[Run]) -> Iterator[Run]:
    """Yield runs, given by offset, with those that touch or overlap as one."""
    last: Run | None = None
    for run in runs:
        if last is not None and run.offset <= last.end:
            last = Run(last.offset, max(last.end, run.end) - last.offset)
            continue
        if last is not None:
            yield last
        last = run
    if last is not None:
        yield last


def _aligned(numbers: I64, column: NDArray[T], leaf: I64) -> NDArray[T]:
    """Return a column for the leaves ``leaf``: 0 for those that it does not have."""
    result = np.zeros(len(leaf), dtype=column.dtype)
    result[np.searchsorted(leaf, numbers)] = column
    return result


def _from(leaf: I64, offset: int) -> NDArray[np.uint64]:
    """Return, for each leaf, the mask of its offsets from ``offset`` on."""
    skipped = np.clip(offset - (leaf << BITS), 0, LEAF)
    shifted = np.left_shift(_ALL, np.minimum(skipped, LEAF - 1).astype(np.uint64))
    return np.where(skipped == LEAF, np.uint64(0), shifted)


def _bits(mask: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Return the bits of masks, lowest first: a row a mask."""
    return np.unpackbits(mask.astype("<u8").view(np.uint8), bitorder="little").reshape(-1, LEAF)


def _runs(leaf: I64, mask: NDArray[np.uint64]) -> Iterator[Run]:
    """Yield the offsets whose bits are set, as runs."""
    some = mask != 0
    leaf, bits = leaf[some], _bits(mask[some]).ravel()
    edges = np.diff(np.concatenate([[0], bits, [0]]).astype(np.int8))
    breaks = (np.flatnonzero(np.diff(leaf) != 1) + 1) * LEAF  # leaves that do not follow each other
    starts = np.union1d(np.flatnonzero(edges == 1), breaks[bits[breaks] == 1])
    ends = np.union1d(np.flatnonzero(edges == -1), breaks[bits[breaks - 1] == 1])
    offsets = (leaf[starts >> BITS] << BITS) + (starts & (LEAF - 1))
    yield from map(Run, offsets.tolist(), (ends - starts).tolist())


def _extents(leaf: I64, mask: NDArray[np.uint64]) -> Iterator[Run]:
    """Yield each leaf from its first to its last record."""
    bits = _bits(mask)
    first = bits.argmax(axis=1)
    last = LEAF - 1 - bits[:, ::-1].argmax(axis=1)
    yield from map(Run, ((leaf << BITS) + first).tolist(), (last - first + 1).tolist())


def _whole(run: Run) -> int:
    """Return the size of the leaves that a run touches."""
    return ((run.end - 1 >> BITS) - (run.offset >> BITS) + 1) << BITS


def _count(mask: NDArray[np.uint64]) -> int:
    return int(np.bitwise_count(mask).sum())
