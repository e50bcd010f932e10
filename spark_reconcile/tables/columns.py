"""Probe log and dump of one partition as columns of NumPy arrays: what the kernel works on.

Every class here is a struct of arrays of equal length n, one element a row of the Parquet table of the same name
(CONTRACTS "Probe log and dump"). Nulls are the constants below. Times are us since the epoch.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

I64: TypeAlias = NDArray[np.int64]
I32: TypeAlias = NDArray[np.int32]
I16: TypeAlias = NDArray[np.int16]
U8: TypeAlias = NDArray[np.uint8]
Bool: TypeAlias = NDArray[np.bool_]
Index: TypeAlias = NDArray[Any] | slice

NO_OFFSET: Final = -1
NO_TRANSACTION: Final = int(np.iinfo(np.int64).min)
NEVER: Final = int(np.iinfo(np.int64).max)

ACKED, FAILED, INDETERMINATE = 0, 1, 2
OUTCOMES: Final = ("acked", "failed", "indeterminate")
PLAIN, COMMITTED, ABORTED, OPEN = 0, 1, 2, 3
TRANSACTION_OUTCOMES: Final = ("", "committed", "aborted", "indeterminate")
COMMITTED_LEVEL, UNCOMMITTED_LEVEL = 1, 2
ISOLATIONS: Final = ("read_committed", "read_uncommitted")


C = TypeVar("C", bound="Columns")


@dataclass(frozen=True, slots=True)
class Columns:
    """Arrays of equal length. Fields that are no arrays are the same for every row."""

    def take(self, rows: Index) -> Self:
        """Return the rows chosen by a mask, an index or a slice."""
        if isinstance(rows, np.ndarray) and rows.dtype == np.bool_:
            if rows.all():
                return self
            rows = np.flatnonzero(rows)  # so that a mask is gone through once, not once a column
        return replace(self, **{name: column[rows] for name, column in self._arrays().items()})

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        """Return all rows of ``parts`` (at least one), in their order."""
        return joined(parts)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}


def joined(parts: Sequence[C]) -> C:
    """Return all rows of ``parts`` (at least one), in their order."""
    names = parts[0]._arrays()  # noqa: SLF001  # of the same module
    some = next(iter(names))
    filled = [part for part in parts if len(getattr(part, some))]
    if len(filled) == 1 or len(parts) == 1:
        return filled[0] if filled else parts[0]
    return replace(parts[0], **{name: np.concatenate([getattr(part, name) for part in parts]) for name in names})


@dataclass(frozen=True, slots=True)
class Identities(Columns):
    """Who: with the partition, which is the same for all, the identity of a probe (ARCHITECTURE decision 1)."""

    producer: I64
    generation: I32
    sequence: I64

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.sequence)

    def who(self) -> Identities:
        """Return the identities alone."""
        return Identities(self.producer, self.generation, self.sequence)

    @classmethod
    def nobody(cls) -> Identities:
        """Return no identities."""
        return Identities(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int64))


@dataclass(frozen=True, slots=True)
class Probes(Identities):
    """Rows of probes/. ``transaction_state`` is PLAIN, COMMITTED, ABORTED or OPEN; ``other``: another incarnation's.

    ``mode`` numbers ``modes``. ``offset`` is NO_OFFSET, ``acked_at`` NEVER, ``transaction`` NO_TRANSACTION for null.
    """

    offset: I64
    outcome: U8
    acked_at: I64
    sent_at: I64
    transaction: I64
    transaction_state: U8
    other: Bool
    mode: I16
    modes: tuple[str, ...] = ()

    @classmethod
    def none(cls) -> Probes:
        """Return no rows."""
        return cls(
            producer=np.empty(0, np.int64),
            generation=np.empty(0, np.int32),
            sequence=np.empty(0, np.int64),
            offset=np.empty(0, np.int64),
            outcome=np.empty(0, np.uint8),
            acked_at=np.empty(0, np.int64),
            sent_at=np.empty(0, np.int64),
            transaction=np.empty(0, np.int64),
            transaction_state=np.empty(0, np.uint8),
            other=np.empty(0, np.bool_),
            mode=np.empty(0, np.int16),
        )

    @classmethod
    def concat(cls, parts: Sequence[Probes]) -> Probes:
        """Return all rows of ``parts``, their modes numbered anew where they differ."""
        filled = [part for part in parts if len(part)]
        if not filled:
            return parts[0] if parts else cls.none()
        modes = tuple(sorted({mode for part in filled for mode in part.modes}))
        return joined([part.with_modes(modes) for part in filled])

    def with_modes(self, modes: tuple[str, ...]) -> Probes:
        """Return the same rows with ``mode`` numbering ``modes``, which has all of ours."""
        if modes == self.modes:
            return self
        numbers = np.array([modes.index(mode) for mode in self.modes], dtype=np.int16)
        return replace(self, mode=numbers[self.mode] if len(self) else self.mode, modes=modes)


@dataclass(frozen=True, slots=True)
class Found(Identities):
    """Rows of records/ or polls/ that bear an identity, at ``offset``.

    ``level``: COMMITTED_LEVEL or UNCOMMITTED_LEVEL.
    """

    offset: I64
    level: U8

    @classmethod
    def none(cls) -> Found:
        """Return no rows."""
        return cls(
            np.empty(0, np.int64),
            np.empty(0, np.int32),
            np.empty(0, np.int64),
            np.empty(0, np.int64),
            np.empty(0, np.uint8),
        )


@dataclass(frozen=True, slots=True)
class Damaged(Columns):
    """Rows of records/ with valid=false: only where they stand is known."""

    offset: I64
    level: U8

    @classmethod
    def none(cls) -> Damaged:
        """Return no rows."""
        return cls(np.empty(0, np.int64), np.empty(0, np.uint8))


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a dump covers of one partition (bounds/): at read_committed, and at read_uncommitted if that was dumped.

    Starts are inclusive, ends exclusive; ``dumped_at`` in us. ``retention_ms`` and ``retention_bytes`` None = unknown.
    """

    start: int
    end: int
    dumped_at: int
    retention_ms: int | None
    retention_bytes: int | None
    uncommitted_start: int | None = None
    uncommitted_end: int | None = None
    uncommitted_dumped_at: int | None = None

    @property
    def both(self) -> bool:
        """Whether both isolation levels were dumped."""
        return self.uncommitted_end is not None

    @property
    def high(self) -> int:
        """The higher of both ends."""
        return self.end if self.uncommitted_end is None else max(self.end, self.uncommitted_end)

    @property
    def low(self) -> int:
        """The lower of both starts."""
        return self.start if self.uncommitted_start is None else min(self.start, self.uncommitted_start)

    @property
    def earlier(self) -> int:
        """The earlier dumped_at."""
        return self.dumped_at if self.uncommitted_dumped_at is None else min(self.dumped_at, self.uncommitted_dumped_at)


def lookup(rows: Identities, wanted: Identities) -> I64:
    """Return for each of ``rows`` the place of the same identity in ``wanted`` (all different), or -1."""
    found = np.full(len(rows), -1, dtype=np.int64)
    if not len(rows) or not len(wanted):
        return found
    near = np.flatnonzero(np.isin(rows.sequence, wanted.sequence))
    if not len(near):
        return found
    both = Identities.concat([wanted.who(), rows.who().take(near)])
    number, _ = numbered(both)
    place = np.full(int(number.max()) + 1, -1, dtype=np.int64)
    place[number[: len(wanted)]] = np.arange(len(wanted))
    found[near] = place[number[len(wanted) :]]
    return found


def numbered(rows: Identities) -> tuple[I64, Identities]:
    """Return for each row the number of its identity among the n different ones, and these in ascending order."""
    if not len(rows):
        return np.empty(0, np.int64), rows.who()
    order = np.lexsort((rows.sequence, rows.generation, rows.producer))
    ranked = rows.who().take(order)
    fresh = np.ones(len(rows), dtype=np.bool_)
    fresh[1:] = (
        (ranked.sequence[1:] != ranked.sequence[:-1])
        | (ranked.generation[1:] != ranked.generation[:-1])
        | (ranked.producer[1:] != ranked.producer[:-1])
    )
    number = np.empty(len(rows), dtype=np.int64)
    number[order] = np.cumsum(fresh) - 1
    return number, ranked.take(fresh)


def by_producer(rows: Identities) -> list[tuple[int, int, Index]]:
    """Return (producer_id, generation, rows of it in their order) for each producer's generation. Cheap for a few."""
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
    edges = np.flatnonzero(
        (np.diff(rows.producer[order]) != 0) | (np.diff(rows.generation[order]) != 0),
    )
    for part in np.split(order, edges + 1):
        part.sort()
        groups.append((int(rows.producer[part[0]]), int(rows.generation[part[0]]), part))
    return groups


def union(first: I64, last: I64) -> tuple[I64, I64]:
    """Return spans [first, last] that overlap as few that do not, in ascending order."""
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
