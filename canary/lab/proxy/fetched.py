"""Offsets of record batches in an answer to Fetch, versions 4 to 18, which are changed so that a reader is misled.

A batch begins with its base offset, which its checksum does not cover: base offset 8 bytes, length 4, leader epoch 4,
magic 1, CRC 4, attributes 2, last offset delta 4, ... Topics have ids in place of names from version 13 on, and all
lengths are compact (varints, one more than the length) from version 12 on.
"""

import itertools
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from canary.lab.proxy.cursor import Cursor

How = Literal["skip", "swap"]

_BATCH: Final = struct.Struct(">qiib4xhi")  # base offset, length, leader epoch, magic, (crc), attributes, last delta
_OVERHEAD: Final = 12  # bytes of base offset and length, which the length does not count
_FLEXIBLE: Final = 12


@dataclass(frozen=True, slots=True)
class _Batch:
    """Where a batch begins in the answer, its base offset, and that of its last record from there."""

    at: int
    base: int
    delta: int


def shifted(frame: bytes, version: int, topics: frozenset[bytes], partition: int, how: How) -> bytes | None:
    """Return an answer in which a reader misses a batch, or gets two in the wrong order.

    Args:
        frame: the answer, with its length.
        version: of the request.
        topics: the topic's name and its id, of which the answer has one.
        partition: of the topic.
        how: "skip": a batch in the middle gets offsets below all others, which a reader drops as read already; "swap":
            two neighbours with as many records exchange their offsets; the last batch stays as it is.

    Returns:
        The answer, changed; None where it has no three batches of the partition, or no such neighbours.
    """
    try:
        sets = [(begin, end) for found, number, begin, end in _record_sets(frame, version)
                if found in topics and number == partition]  # fmt: skip
    except (struct.error, IndexError):  # not as this version should be
        return None
    batches = [batch for begin, end in sets for batch in _batches(frame, begin, end)]
    if len(batches) < 3:
        return None
    changed = bytearray(frame)
    if how == "skip":
        middle = batches[len(batches) // 2]
        struct.pack_into(">q", changed, middle.at, batches[0].base - middle.delta - 1)
        return bytes(changed)
    for one, other in itertools.pairwise(batches[:-1]):
        if one.delta == other.delta:
            struct.pack_into(">q", changed, one.at, other.base)
            struct.pack_into(">q", changed, other.at, one.base)
            return bytes(changed)
    return None


def _record_sets(frame: bytes, version: int) -> Iterator[tuple[bytes, int, int, int]]:
    """Yield topic (name or id), partition, begin and end of each partition's batches."""
    cursor = Cursor(frame, flexible=version >= _FLEXIBLE)
    cursor.number("i")  # throttle time
    if version >= 7:
        cursor.number("h")  # error
        cursor.number("i")  # session
    for _ in range(cursor.length("i")):
        topic = cursor.bytes(16 if version >= 13 else cursor.length("h"))
        for _ in range(cursor.length("i")):
            partition = cursor.number("i")
            cursor.number("h")  # error
            cursor.bytes(8 * (2 if version < 5 else 3))  # high watermark, last stable offset, log start offset
            for _ in range(cursor.length("i")):  # aborted transactions
                cursor.bytes(16)
                cursor.tags()
            if version >= 11:
                cursor.number("i")  # preferred replica
            size = max(cursor.length("i"), 0)
            yield topic, partition, cursor.at, cursor.at + size
            cursor.bytes(size)
            cursor.tags()
        cursor.tags()


def _batches(frame: bytes, begin: int, end: int) -> Iterator[_Batch]:
    """Yield the whole batches."""
    while begin + _BATCH.size <= end:
        base, length, _epoch, magic, _attributes, delta = _BATCH.unpack_from(frame, begin)
        behind = begin + _OVERHEAD + length
        if magic != 2 or length <= 0 or behind > end:
            return
        yield _Batch(begin, base, delta)
        begin = behind
