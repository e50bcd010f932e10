"""What each replica gave of a range of offsets, and where these copies differ.

A follower appends the bytes of its leader, so batches are compared first: by offsets, leader epoch, CRC and length.
Only those that are not the same on all replicas are decoded, and their records compared. Each replica is compacted by
its own broker, which writes batches anew: then the records that it keeps are the same, and the batches are not.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol

MISSING: Final = "missing"
BAD_CRC: Final = "bad-crc"
UNDECODABLE: Final = "undecodable"
OUT_OF_ORDER: Final = "out-of-order"
UNREADABLE: Final = "unreadable"
BROKEN: Final = frozenset({BAD_CRC, UNDECODABLE, OUT_OF_ORDER, UNREADABLE})
"""What no sound replica has."""


class UndecodableError(ValueError):
    """The records of a batch cannot be decoded."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept of a record.

    Attributes:
        digest: of everything that all replicas have alike, in hex: times, key, value, headers, producer, leader epoch.
        key: a digest of its key; None: it has none.
        tombstone: it has a key and no value.
        marker: of a control record: whether it ends a transaction with a commit, an abort, or is of another kind.
        producer: the producer id of a transactional or control record; None: it is neither.
    """

    offset: int
    digest: str
    key: bytes | None = None
    tombstone: bool = False
    marker: Literal["commit", "abort", "other"] | None = None
    producer: int | None = None


class Batch(Protocol):
    """A record batch as a broker holds it; ``intact``: its CRC is right. Its last offset is inclusive."""

    @property
    def base_offset(self) -> int: ...  # noqa: D102
    @property
    def last_offset(self) -> int: ...  # noqa: D102
    @property
    def leader_epoch(self) -> int: ...  # noqa: D102
    @property
    def crc(self) -> int: ...  # noqa: D102
    @property
    def size(self) -> int: ...  # noqa: D102
    @property
    def intact(self) -> bool: ...  # noqa: D102
    def kept(self) -> Iterable[Kept]:
        """Return its records, ascending.

        Raises:
            UndecodableError: they cannot be decoded.
        """


@dataclass(frozen=True, slots=True)
class Copy:
    """What ``broker`` gave: batches in its order, the first and the last of which may reach beyond the range.

    ``unreadable`` is the offset at which the broker says that its log is corrupt; None: it could be read.
    """

    broker: int
    batches: Sequence[Batch]
    unreadable: int | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """Offsets ``first`` to ``last`` (inclusive) at which replicas differ.

    ``found`` is by broker what it has there: a digest, or a word for what it lacks (MISSING or one of BROKEN).
    ``record`` is the one record that all those have who have one; None: they differ, or it is no single record.
    """

    first: int
    last: int
    found: Mapping[int, str]
    record: Kept | None = None

    @property
    def only_missing(self) -> bool:
        """Whether some replicas have the record, all the same one, and the others lack it."""
        return self.record is not None and set(self.found.values()) == {self.record.digest, MISSING}


@dataclass(slots=True)
class _Decoded:
    """What is compared of a copy: the records of its batches that are not on all replicas, and broken ranges."""

    records: dict[int, Kept] = field(default_factory=dict)
    broken: list[tuple[int, int, str]] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)

    def at(self, offset: int) -> str:
        """Return what the replica has at an offset that some replica has outside of the batches all have."""
        if offset in self.records:
            return self.records[offset].digest
        return next((why for first, last, why in self.broken if first <= offset <= last), MISSING)


def differences(copies: Sequence[Copy], start: int, end: int, *, compacted: bool | None) -> list[Difference]:
    """Return where copies differ at offsets from ``start`` to below ``end``, ascending.

    ``compacted``: whether brokers compact the topic; None: not known. Where they do not, the batches have to be the
    same, not only their records.
    """
    batches = {copy.broker: [one for one in copy.batches if _reaches(one, start, end)] for copy in copies}
    common = set.intersection(*({_identity(one) for one in of} for of in batches.values())) if copies else set()
    decoded = {copy.broker: _decoded(batches[copy.broker], common, copy.unreadable, end) for copy in copies}
    offsets = {offset for one in decoded.values() for offset in one.records}
    offsets |= {max(first, start) for one in decoded.values() for first, _, _ in one.broken}
    found = list(_by_record(decoded, sorted(one for one in offsets if start <= one < end)))
    if compacted is False:
        found += _by_batch(decoded, found, start, end)
    return sorted(found, key=lambda one: one.first)


def _reaches(batch: Batch, start: int, end: int) -> bool:
    return batch.last_offset >= start and batch.base_offset < end


def _identity(batch: Batch) -> tuple[int, ...]:
    """Return what is the same where the batch is the same; a batch that is not intact equals none."""
    name = (batch.base_offset, batch.last_offset, batch.leader_epoch, batch.crc, batch.size)
    return name if batch.intact else (*name, id(batch))


def _decoded(batches: Iterable[Batch], common: set[tuple[int, ...]], unreadable: int | None, end: int) -> _Decoded:
    found = _Decoded()
    behind = -1
    for batch in batches:
        in_order = batch.base_offset >= behind
        behind = max(behind, batch.last_offset + 1)
        if not in_order:
            found.broken.append((batch.base_offset, batch.last_offset, OUT_OF_ORDER))
        elif not batch.intact:
            found.broken.append((batch.base_offset, batch.last_offset, BAD_CRC))
        elif _identity(batch) not in common:
            try:
                found.records |= {one.offset: one for one in batch.kept()}
                found.batches.append(batch)
            except UndecodableError:
                found.broken.append((batch.base_offset, batch.last_offset, UNDECODABLE))
    if unreadable is not None:
        found.broken.append((unreadable, end, UNREADABLE))
    return found


def _by_record(decoded: Mapping[int, _Decoded], offsets: Iterable[int]) -> Iterator[Difference]:
    for offset in offsets:
        found = {broker: one.at(offset) for broker, one in decoded.items()}
        values = set(found.values())
        if len(values) == 1 and not values & BROKEN:
            continue
        records = {one.records[offset].digest: one.records[offset] for one in decoded.values() if offset in one.records}
        yield Difference(offset, offset, found, next(iter(records.values())) if len(records) == 1 else None)


def _by_batch(
    decoded: Mapping[int, _Decoded], known: Sequence[Difference], start: int, end: int
) -> Iterator[Difference]:
    """Yield batches in the range that differ though no record of theirs does."""
    ranges = {(one.base_offset, one.last_offset) for copy in decoded.values() for one in copy.batches}
    for first, last in sorted(ranges):
        if first < start or last >= end or any(first <= one.first <= last for one in known):
            continue
        found = {
            broker: next(
                (f"batch {b.crc:08x}" for b in copy.batches if (b.base_offset, b.last_offset) == (first, last)),
                "other batches",
            )
            for broker, copy in decoded.items()
        }
        yield Difference(first, last, found)
