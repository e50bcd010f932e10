"""Record batches (magic 2, Kafka 0.11 and later) out of the bytes of a Fetch, or of a segment of a log.

https://kafka.apache.org/documentation/#recordbatch. Of kafka-python's decoder only the varints are used: it copies each
batch, needs three more packages for the codecs, and takes the key of a header that is no UTF-8 for a corrupt record.
Older messages (magic 0 and 1) are not decoded; Kafka 4.0 has none.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

import google_crc32c
from kafka.record.util import decode_varint

from canary.wire.compression import CODECS, decompressed
from canary.wire.errors import RecordsError

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_PREFIX: Final = struct.Struct(">qi")
"""Base offset and length, in front of whatever is counted in the length; the same in each magic."""
_MAGIC_AT: Final = 16
_MAGIC: Final = 2
_CHECKED_FROM: Final = 21
"""The CRC is of what follows it: a leader fills in base offset and leader epoch, and leaves the CRC as it is."""
_CODEC, _APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_MARKER: Final = struct.Struct(">hh")


class Record(NamedTuple):
    """One record. The key of a header is what the producer wrote: UTF-8, unless its client is careless.

    ``timestamp_ms``: since the epoch, the producer's or the broker's, as the batch says.
    """

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Batch:
    """The header of a record batch, and its bytes.

    Attributes:
        position: where it begins in the data, in bytes; ``size`` is its length with everything.
        last_offset: of the batch when it was written: compaction removes records, and leaves it as it is.
        leader_epoch: of the leader that appended it.
        count: how many records are left in it.
        base_timestamp_ms: what the records' timestamps are counted from; since the epoch, -1: none.
        producer_id: -1 if the producer is not idempotent, as are ``producer_epoch`` and ``base_sequence``.
        data: the whole batch, a view of the data it was found in.
    """

    position: int
    size: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    codec: str
    timestamp_type: Literal["create", "append"]
    transactional: bool
    control: bool
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int
    data: memoryview = field(repr=False)

    @property
    def crc_is_right(self) -> bool:
        """Whether the bytes are those of which the CRC was made; computed each time."""
        return int(google_crc32c.value(bytes(self.data[_CHECKED_FROM:]))) == self.crc

    def records(self) -> Iterator[Record]:
        """Return the records, in order; of a control batch its marker.

        Raises:
            RecordsError: the CRC is wrong, or what it is right of are no records.
        """
        if not self.crc_is_right:
            raise RecordsError(self.position, f"the CRC of the batch of offset {self.base_offset} is wrong")
        try:
            data = decompressed(self.data[_HEADER.size :], self.codec)
            yield from self._records(data)
        except (ValueError, IndexError) as error:
            reason = str(error) if isinstance(error, ValueError) else "a record ends behind its batch"
            raise RecordsError(self.position, f"batch of offset {self.base_offset}: {reason}") from error

    def _records(self, data: bytes) -> Iterator[Record]:
        at = 0
        for _ in range(self.count):
            record, at = self._record(data, at)
            yield record
        if at != len(data):
            raise ValueError(f"{len(data) - at} bytes behind the last record")

    def marker(self) -> Literal["commit", "abort"] | None:
        """Return how this control batch ends the transaction of its producer; None: it is none, or ends nothing.

        Raises:
            RecordsError: as ``records``.
        """
        if not self.control:
            return None
        for record in self.records():
            if record.key is not None and len(record.key) >= _MARKER.size:
                _, kind = _MARKER.unpack_from(record.key)
                return "abort" if kind == 0 else "commit" if kind == 1 else None
        return None

    def _record(self, data: bytes, start: int) -> tuple[Record, int]:
        length, at = decode_varint(data, start)
        end = at + length
        at += 1  # attributes, of which there are none
        time, at = decode_varint(data, at)
        delta, at = decode_varint(data, at)
        key, at = _nullable(data, at)
        value, at = _nullable(data, at)
        count, at = decode_varint(data, at)
        headers = []
        for _ in range(count):
            name, at = _nullable(data, at)
            content, at = _nullable(data, at)
            headers.append((name or b"", content))
        if at != end:
            raise ValueError(f"a record of {end - start} bytes that ends behind {at - start}")
        stamp = self.max_timestamp_ms if self.timestamp_type == "append" else self.base_timestamp_ms + time
        return Record(self.base_offset + delta, stamp, key, value, tuple(headers)), at


def batches(data: bytes | bytearray | memoryview, start: int = 0) -> Iterator[Batch]:
    """Return the batches of ``data``, from its byte ``start`` on; none is decompressed, or copied, before it is asked.

    ``data`` is what a Fetch returned, or a whole segment (``memoryview(mmap)``).

    Raises:
        RecordsError: what is there is no batch, or not a whole one; those before it have been returned.
    """
    view = memoryview(data).toreadonly()
    at = start
    while at < len(view):
        batch = _batch(view, at)
        yield batch
        at += batch.size


def whole(data: bytes) -> bytes:
    """Return ``data`` without a last batch that is only partly there, as brokers end what they send at a limit."""
    at = 0
    while at + _PREFIX.size <= len(data):
        size = _PREFIX.size + _PREFIX.unpack_from(data, at)[1]
        if size <= _PREFIX.size or at + size > len(data):
            break
        at += size
    return data[:at]


def _batch(view: memoryview, at: int) -> Batch:
    left = len(view) - at
    if left <= _MAGIC_AT:
        raise RecordsError(at, f"{left} bytes are left, no whole batch")
    if (magic := view[at + _MAGIC_AT]) != _MAGIC:
        older = "; messages of before Kafka 0.11 are not supported" if magic < _MAGIC else ""
        raise RecordsError(at, f"no record batch: magic {magic}{older}")
    if left < _HEADER.size:
        raise RecordsError(at, f"{left} bytes are left, no whole batch")
    base, length, epoch, _, crc, attributes, delta, first, last, pid, pid_epoch, sequence, count = _HEADER.unpack_from(
        view, at
    )
    size = _PREFIX.size + length
    if size < _HEADER.size or base < 0 or delta < 0 or count < 0:
        raise RecordsError(at, f"no record batch: length {length}, base offset {base}, {count} records")
    if size > left:
        raise RecordsError(at, f"the batch of offset {base} has {size} bytes, and {left} are left")
    if (codec := attributes & _CODEC) >= len(CODECS):
        raise RecordsError(at, f"the batch of offset {base} has an unknown codec, {codec}")
    return Batch(
        position=at,
        size=size,
        base_offset=base,
        last_offset=base + delta,
        leader_epoch=epoch,
        crc=crc,
        codec=CODECS[codec],
        timestamp_type="append" if attributes & _APPEND_TIME else "create",
        transactional=bool(attributes & _TRANSACTIONAL),
        control=bool(attributes & _CONTROL),
        base_timestamp_ms=first,
        max_timestamp_ms=last,
        producer_id=pid,
        producer_epoch=pid_epoch,
        base_sequence=sequence,
        count=count,
        data=view[at : at + size],
    )


def _nullable(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = decode_varint(data, at)
    if size < 0:
        return None, at
    end = at + size
    if end > len(data):
        raise ValueError(f"{size} bytes where {len(data) - at} are left")
    return data[at:end], end
