"""Logs as brokers hold them, compacted by each broker for itself, and harmed."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, Literal

from canary.anomalies.replicas.copies import Kept, UndecodableError

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class FakeBatch:
    """A batch of ``records``; ``salt`` stands for whatever else of its bytes the CRC covers."""

    base_offset: int
    last_offset: int
    records: tuple[Kept, ...]
    leader_epoch: int = 0
    intact: bool = True
    salt: int = 0
    decodes: bool = True
    written_ms: int = -1

    @property
    def batch(self) -> SimpleNamespace:
        """What else its header has."""
        return SimpleNamespace(max_timestamp_ms=self.written_ms)

    @property
    def crc(self) -> int:
        """A digest of what the CRC covers."""
        return zlib.crc32(repr((self.last_offset - self.base_offset, self.records, self.salt)).encode())

    @property
    def size(self) -> int:
        """Its length in bytes, more or less."""
        return 61 + 20 * len(self.records)

    def kept(self) -> Sequence[Kept]:
        """Its records."""
        if not self.decodes:
            raise UndecodableError
        return self.records


def record(offset: int, key: bytes | None = b"k", digest: str | None = None, **more: object) -> Kept:
    """A record whose digest is that of its offset, unless another one is given."""
    return Kept(offset, digest or f"{offset:016x}", key, **more)  # type: ignore[arg-type]  # by name


def batch(*records: Kept) -> FakeBatch:
    """A batch of these records."""
    return FakeBatch(records[0].offset, records[-1].offset, records)


def log(rng: random.Random, size: int) -> list[FakeBatch]:
    """A log of about ``size`` records: plain ones, tombstones, and transactions that are committed or aborted."""
    found: list[FakeBatch] = []
    offset = 0
    epoch = 0
    while offset < size:
        producer = rng.choice([None, None, 7, 8])
        epoch += rng.random() < 0.05
        records = tuple(
            record(
                offset + i,
                rng.choice([b"a", b"b", b"c", b"%d" % rng.randrange(size), None]),
                tombstone=rng.random() < 0.1,
                producer=producer,
            )
            for i in range(rng.randint(1, 6))
        )
        records = tuple(replace(one, tombstone=one.tombstone and one.key is not None) for one in records)
        found.append(FakeBatch(offset, records[-1].offset, records, epoch))
        offset += len(records)
        if producer is not None:
            end: Literal["commit", "abort"] = rng.choice(["commit", "abort"])
            found.append(FakeBatch(offset, offset, (record(offset, None, marker=end, producer=producer),), epoch))
            offset += 1
    return found


def cleaned(batches: Sequence[FakeBatch], below: int, rng: random.Random) -> list[FakeBatch]:
    """The log as one broker's cleaner leaves it that has cleaned up to ``below``; it may remove tombstones, too."""
    old = below if rng.random() < 0.5 else 0  # tombstones and markers below are older than delete.retention.ms
    latest = _latest(batches, below)

    def stays(each: Kept) -> bool:
        if each.offset >= below:
            return True
        if each.marker is not None:
            return each.offset >= old or _needed(each, batches, latest)
        return each.offset in latest and not (each.tombstone and each.offset < old)

    found = []
    for one in batches:
        kept = tuple(filter(stays, one.records))
        if kept == one.records:
            found.append(one)
        elif kept:
            found.append(replace(one, records=kept, salt=rng.randrange(9)))
    return found


def _latest(batches: Sequence[FakeBatch], below: int) -> set[int]:
    """The offsets of the records that are the last ones of their keys below an offset, and not aborted."""
    last: dict[bytes, int] = {}
    open_ones: dict[int, list[Kept]] = {}
    ended: list[Kept] = []
    for each in (each for one in batches for each in one.records):
        if each.producer is None:
            ended.append(each)
        elif each.marker is None:
            open_ones.setdefault(each.producer, []).append(each)
        else:
            data = open_ones.pop(each.producer, [])
            ended += data if each.marker == "commit" else []
    for each in sorted(ended, key=lambda one: one.offset):
        if each.key is not None and each.offset < below:
            last[each.key] = each.offset
    return set(last.values())


def _needed(marker: Kept, batches: Sequence[FakeBatch], latest: set[int]) -> bool:
    """Whether data of the marker's producer before it is still there: then the cleaner keeps the marker."""
    return any(
        each.producer == marker.producer and each.offset in latest and each.offset < marker.offset
        for one in batches
        for each in one.records
    )
