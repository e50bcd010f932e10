"""Probe log and dump of one partition as columns of NumPy arrays: what the kernel works on.

Every class here is a struct of arrays of equal length n, one element a row of the Parquet table of the same name
(CONTRACTS "Probe log and dump"). Nulls are the constants below. Times are us since the epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cache, reduce
from typing import Any, Final, Self, TypeAlias, get_type_hints

import numpy as np
from numpy.typing import NDArray

I64: TypeAlias = NDArray[np.int64]
I32: TypeAlias = NDArray[np.int32]
I16: TypeAlias = NDArray[np.int16]
U8: TypeAlias = NDArray[np.uint8]
Bool: TypeAlias = NDArray[np.bool_]
Index: TypeAlias = NDArray[Any] | slice
_TYPES: Final[dict[Any, type[np.generic]]] = {I64: np.int64, I32: np.int32, I16: np.int16, U8: np.uint8, Bool: np.bool_}

NO_OFFSET: Final = -1
NO_TRANSACTION: Final = int(np.iinfo(np.int64).min)
NEVER: Final = int(np.iinfo(np.int64).max)

ACKED, FAILED, INDETERMINATE = 0, 1, 2
OUTCOMES: Final = ("acked", "failed", "indeterminate")
PLAIN, COMMITTED, ABORTED, OPEN = 0, 1, 2, 3
TRANSACTION_OUTCOMES: Final = {"committed": COMMITTED, "aborted": ABORTED, "indeterminate": OPEN}
COMMITTED_LEVEL, UNCOMMITTED_LEVEL = 1, 2
ISOLATIONS: Final = ("read_committed", "read_uncommitted")


@dataclass(frozen=True, slots=True)
class Columns:
    """Arrays of equal length. Fields that are no arrays hold for every row."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(getattr(self, fields(self)[0].name))

    def take(self, rows: Index) -> Self:
        """Return the rows chosen by a mask, an index or a slice."""
        if isinstance(rows, np.ndarray) and rows.dtype == np.bool_:
            if rows.all():
                return self
            rows = np.flatnonzero(rows)  # so that a mask is gone through once, not once a column
        return replace(self, **{name: getattr(self, name)[rows] for name in self._arrays()})

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """Return all rows of ``parts``, in their order."""
        filled = [part for part in parts if len(part)]
        if len(filled) < 2:
            return filled[0] if filled else cls.zeros()
        columns = {name: np.concatenate([getattr(part, name) for part in filled]) for name in cls._arrays()}
        return replace(filled[0], **columns)

    @classmethod
    def zeros(cls, rows: int = 0) -> Self:
        """Return so many rows of zeros or False."""
        return cls(**{name: np.zeros(rows, kind) for name, kind in cls._arrays().items()})

    @classmethod
    @cache
    def _arrays(cls) -> dict[str, type[np.generic]]:
        """Return the element type of each field that is an array, whether its module evaluates annotations or not."""
        hints = get_type_hints(cls)
        return {field.name: _TYPES[hints[field.name]] for field in fields(cls) if hints[field.name] in _TYPES}


@dataclass(frozen=True, slots=True)
class Identities(Columns):
    """With the partition, which is the same for all rows, the identities of probes (ARCHITECTURE decision 1)."""

    producer: I64
    generation: I32
    sequence: I64

    def identities(self) -> Identities:
        """Return the identities alone."""
        return Identities(self.producer, self.generation, self.sequence)

    def changes(self) -> Bool:
        """Return for each row but the first whether its identity is another than that of the row before."""
        return changes(self.sequence, self.generation, self.producer)


@dataclass(frozen=True, slots=True)
class Placed(Identities):
    """Identities, each with an offset (NO_OFFSET: none)."""

    offset: I64


@dataclass(frozen=True, slots=True)
class Probes(Placed):
    """Rows of probes/. ``transaction_state`` is PLAIN, COMMITTED, ABORTED or OPEN; ``other``: another incarnation's.

    ``mode`` numbers ``modes``. ``offset`` is NO_OFFSET, ``acked_at`` NEVER, ``transaction`` NO_TRANSACTION for null.
    """

    outcome: U8
    acked_at: I64
    sent_at: I64
    transaction: I64
    transaction_state: U8
    other: Bool
    mode: I16
    modes: tuple[str, ...] = ()

    @property
    def acknowledged(self) -> Bool:
        """Which rows the cluster promised to keep, in any incarnation (rule 2)."""
        result: Bool = (self.outcome == ACKED) & (self.transaction_state <= COMMITTED)
        return result

    @property
    def promised(self) -> Bool:
        """Which rows the cluster promised to keep in the dumped incarnation (rules 1 and 2)."""
        return self.acknowledged & ~self.other

    @property
    def refused(self) -> Bool:
        """Which rows are definitely not committed (rule 2)."""
        result: Bool = (self.outcome == FAILED) | (self.transaction_state == ABORTED)
        return result

    @property
    def plain(self) -> Bool:
        """Which rows were sent without a transaction."""
        result: Bool = self.transaction_state == PLAIN
        return result

    @classmethod
    def concat(cls, parts: Sequence[Probes]) -> Probes:
        """Return all rows of ``parts``, their modes numbered again where they differ."""
        filled = [part for part in parts if len(part)]
        modes = tuple(sorted({mode for part in filled for mode in part.modes}))
        return super(Probes, cls).concat([part.with_modes(modes) for part in filled])

    def with_modes(self, modes: tuple[str, ...]) -> Probes:
        """Return the same rows with ``mode`` numbering ``modes``, which has all of ours."""
        if modes == self.modes:
            return self
        numbers = np.array([modes.index(mode) for mode in self.modes], dtype=np.int16)
        return replace(self, mode=numbers[self.mode] if len(self) else self.mode, modes=modes)


@dataclass(frozen=True, slots=True)
class Found(Placed):
    """Rows of records/ or polls/ with an identity. ``level``: COMMITTED_LEVEL or UNCOMMITTED_LEVEL."""

    level: U8


@dataclass(frozen=True, slots=True)
class Damaged(Columns):
    """Rows of records/ with valid=false: only their offset is known."""

    offset: I64
    level: U8


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a dump covers of one partition (bounds/): at read_committed, and at read_uncommitted if that was dumped.

    Starts are inclusive, ends exclusive; ``dumped_at`` in us. None = unknown, of ``retention_ms``, ``retention_bytes``
    and ``size_bytes``, that of the leader's log.
    """

    start: int
    end: int
    dumped_at: int
    retention_ms: int | None
    retention_bytes: int | None
    uncommitted_start: int | None = None
    uncommitted_end: int | None = None
    uncommitted_dumped_at: int | None = None
    size_bytes: int | None = None

    @property
    def both(self) -> bool:
        """Whether both isolation levels were dumped."""
        return self.uncommitted_end is not None

    @property
    def high(self) -> int:
        """The higher of both ends."""
        return self.end if self.uncommitted_end is None else max(self.end, self.uncommitted_end)

    @property
    def earlier(self) -> int:
        """The earlier dumped_at."""
        return self.dumped_at if self.uncommitted_dumped_at is None else min(self.dumped_at, self.uncommitted_dumped_at)

    @property
    def later(self) -> int:
        """The later dumped_at."""
        return max(self.dumped_at, self.uncommitted_dumped_at or 0)


def changes(*columns: NDArray[Any]) -> Bool:
    """Return for each row but the first whether one of ``columns`` differs from the row before."""
    result: Bool = reduce(np.logical_or, (column[1:] != column[:-1] for column in columns))
    return result


def lookup(rows: Identities, wanted: Identities) -> I64:
    """Return for each of ``rows`` the place of the same identity in ``wanted`` (all different), or -1."""
    found = np.full(len(rows), -1, dtype=np.int64)
    near = np.flatnonzero(np.isin(rows.sequence, wanted.sequence))
    if not len(near):
        return found
    both = Identities.concat([wanted.identities(), rows.identities().take(near)])
    number, _ = numbered(both)
    place = np.full(int(number.max()) + 1, -1, dtype=np.int64)
    place[number[: len(wanted)]] = np.arange(len(wanted))
    found[near] = place[number[len(wanted) :]]
    return found


def numbered(rows: Identities) -> tuple[I64, Identities]:
    """Return for each row the number of its identity among the n different ones, and these in ascending order."""
    if not len(rows):
        return np.empty(0, np.int64), rows.identities()
    order = np.lexsort((rows.sequence, rows.generation, rows.producer))
    ranked = rows.identities().take(order)
    fresh = np.concatenate([[True], ranked.changes()])
    number = np.empty(len(rows), dtype=np.int64)
    number[order] = np.cumsum(fresh) - 1
    return number, ranked.take(fresh)


def by_producer(rows: Identities) -> list[tuple[int, int, Index]]:
    """Return (producer_id, generation, its rows in their order) for each producer's generation. Cheap for a few."""
    groups: list[tuple[int, int, Index]] = []
    rest: I64 = np.arange(len(rows))
    whole = True
    for _ in range(32):
        if not len(rest):
            return groups
        producer, generation = rows.producer[rest[0]], rows.generation[rest[0]]
        mine = (rows.producer[rest] == producer) & (rows.generation[rest] == generation)
        if mine.all():
            groups.append((int(producer), int(generation), slice(None) if whole else rest))
            return groups
        groups.append((int(producer), int(generation), rest[mine]))
        rest, whole = rest[~mine], False
    order = rest[np.lexsort((rows.generation[rest], rows.producer[rest]))]
    edges = np.flatnonzero(changes(rows.producer[order], rows.generation[order]))
    for part in np.split(order, edges + 1):
        part.sort()
        groups.append((int(rows.producer[part[0]]), int(rows.generation[part[0]]), part))
    return groups


def union(first: I64, last: I64) -> tuple[I64, I64]:
    """Return the union of spans [first, last] as spans that do not overlap, ascending."""
    order = np.argsort(first, kind="stable")
    first, last = first[order], last[order]
    if not len(first):
        return first, last
    reach = np.maximum.accumulate(last)
    fresh = np.ones(len(first), dtype=np.bool_)
    fresh[1:] = first[1:] > reach[:-1]
    starts = np.flatnonzero(fresh)
    ends = np.concatenate([starts[1:] - 1, [len(first) - 1]])
    return first[starts], reach[ends]
