"""Logs for salvage: batches by kafka-python's encoder in segment files, and a cluster's log in memory."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from canary.salvage.directory import Replica
from canary.salvage.divergence import Holdings, spans
from canary.wire.records import batches
from tests.wire.test_records import encoded, mended

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from canary.wire.records import Batch

_EPOCH_AT, _ATTRIBUTES_LOW = 12, 22


class Told(NamedTuple):
    """A batch to be: what its records are of, without bytes."""

    base: int
    epoch: int
    contents: tuple[tuple[bytes | None, bytes | None], ...]
    codec: str = "none"
    producer_id: int = -1
    marker: str | None = None

    @property
    def end(self) -> int:
        return self.base + len(self.contents)

    def encoded(self) -> bytes:
        """Return its bytes."""
        of = {"producer_id": self.producer_id, "producer_epoch": 0, "base_sequence": 0}
        settings = of | {"is_transactional": True} if self.producer_id >= 0 else {}
        rows: list[Any] = [(1000 + self.base + n, key, value, []) for n, (key, value) in enumerate(self.contents)]
        if self.marker is not None:
            key = struct.pack(">hh", 0, 1 if self.marker == "commit" else 0)
            rows = [(1000 + self.base, key, struct.pack(">hi", 0, 0), [])]
        data = bytearray(encoded(rows, self.base, self.codec, **settings))
        if self.marker is not None:
            data[_ATTRIBUTES_LOW] |= 0x20
            data = bytearray(mended(data))
        struct.pack_into(">i", data, _EPOCH_AT, self.epoch)
        return bytes(data)


def batch(base: int, epoch: int, *values: bytes, codec: str = "none", producer_id: int = -1) -> Told:
    """Return a batch of records whose key is their value's first byte; none for one of b"-"."""
    contents = tuple((None if value[:1] == b"-" else value[:1], value) for value in values)
    return Told(base, epoch, contents, codec, producer_id)


def marker(base: int, epoch: int, producer_id: int, kind: str) -> Told:
    return Told(base, epoch, ((b"", b""),), "none", producer_id, kind)


@dataclass
class Memory:
    """The cluster's log of a partition."""

    told: list[Told]
    start: int = 0
    compacted: bool = False
    holdings: Holdings = field(init=False)

    def __post_init__(self) -> None:
        starts: list[tuple[int, int]] = []
        for one in self.told:
            if one.end > self.start and (not starts or starts[-1][0] != one.epoch):
                starts.append((one.epoch, max(one.base, self.start)))
        end = self.told[-1].end if self.told else self.start
        self.holdings = Holdings(self.start, end, spans(starts, end))

    def batches(self, start: int) -> Iterator[Batch]:
        for one in self.told:
            if one.end > max(start, self.start):
                yield from batches(one.encoded())


def folder(path: Path, told: Iterable[Told], *, topic: str = "t", per_segment: int = 3) -> Path:
    """Write a partition's folder; a segment has so many batches."""
    directory = path / f"{topic}-0"
    directory.mkdir(parents=True)
    rows = list(told)
    for at in range(0, len(rows), per_segment):
        some = rows[at : at + per_segment]
        (directory / f"{some[0].base:020d}.log").write_bytes(b"".join(one.encoded() for one in some))
    return directory


def replica(path: Path, told: Iterable[Told]) -> Replica:
    return Replica("t", 0, folder(path, told), "id", ())
