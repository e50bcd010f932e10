"""The bytes of a segment: a header, then frames. All numbers are little-endian.

Header (48 bytes)::

    0:8   b"KDCLEDG1"
    8:24  ledger id: 16 random bytes, the same in every segment of a directory
    24:32 segment number u64
    32:40 number of the segment before this one u64 (0: none)
    40:48 how many bytes of that segment count u64

Frame (20 bytes and the payload)::

    0:4   b"KDCF"
    4:8   kind u32 (1 snapshot, 2 facts)
    8:16  length of the payload u64
    16:20 CRC-32 (zlib) of bytes 4:16 and the payload u32

The header is followed by the CRC-32 of its 48 bytes (u32) and 4 zero bytes.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

FILE_MAGIC = b"KDCLEDG1"
FRAME_MAGIC = b"KDCF"
SNAPSHOT = 1
FACTS = 2
_HEADER = struct.Struct("<8s16sQQQ")
_HEADER_CHECK = struct.Struct("<II")
_FRAME = struct.Struct("<4sIQI")
_CHECKED = struct.Struct("<IQ")
HEADER_BYTES = _HEADER.size + _HEADER_CHECK.size
FRAME_BYTES = _FRAME.size


@dataclass(frozen=True, slots=True)
class Header:
    """Names a segment, and says how much of its predecessor counts."""

    ledger_id: bytes
    number: int
    previous: int
    previous_bytes: int

    def encode(self) -> bytes:
        """Return the header's HEADER_BYTES bytes."""
        body = _HEADER.pack(FILE_MAGIC, self.ledger_id, self.number, self.previous, self.previous_bytes)
        return body + _HEADER_CHECK.pack(zlib.crc32(body), 0)


def decode_header(data: bytes | memoryview) -> Header | None:
    """Return the header at the start of ``data``; None if it is cut short, not ours or damaged."""
    if len(data) < HEADER_BYTES:
        return None
    magic, ledger_id, number, previous, previous_bytes = _HEADER.unpack_from(data)
    checksum, zero = _HEADER_CHECK.unpack_from(data, _HEADER.size)
    if magic != FILE_MAGIC or zero or checksum != zlib.crc32(data[: _HEADER.size]):
        return None
    return Header(ledger_id, number, previous, previous_bytes)


def encode_frame(kind: int, payload: bytes) -> bytes:
    """Return ``payload`` as one frame."""
    return _FRAME.pack(FRAME_MAGIC, kind, len(payload), _checksum(kind, payload)) + payload


def _checksum(kind: int, payload: bytes | memoryview) -> int:
    return zlib.crc32(payload, zlib.crc32(_CHECKED.pack(kind, len(payload))))


@dataclass(frozen=True, slots=True)
class Frame:
    """The place of an intact frame's payload in its file."""

    kind: int
    start: int
    end: int


def frame_at(data: memoryview, position: int) -> Frame | None:
    """Return the frame that begins at ``position`` if it is whole and its checksum is right, else None."""
    if position + FRAME_BYTES > len(data):
        return None
    magic, kind, length, checksum = _FRAME.unpack_from(data, position)
    start = position + FRAME_BYTES
    if magic != FRAME_MAGIC or length > len(data) - start:
        return None
    if checksum != _checksum(kind, data[start : start + length]):
        return None
    return Frame(kind, start, start + length)


def frame_length(header: bytes) -> int:
    """Return the payload's length that a frame's first FRAME_BYTES bytes claim; 0 if they are no frame's."""
    magic, _, length, _ = _FRAME.unpack(header)
    return int(length) if magic == FRAME_MAGIC else 0


def spoiled_snapshot(data: memoryview) -> int | None:
    """Return where a segment's first frame ends if it was a snapshot and is damaged; None if that is not certain.

    Recovery may skip a snapshot, because it follows from the facts before it, but never facts. So the frame's kind and
    length are believed only if they lead to a frame or to the end, or if the checksum confirms them.
    """
    start = HEADER_BYTES + FRAME_BYTES
    if len(data) < start:
        return None
    magic, kind, length, checksum = _FRAME.unpack_from(data, HEADER_BYTES)
    claimed: int = start + length
    if (magic, kind) == (FRAME_MAGIC, SNAPSHOT) and (claimed == len(data) or frame_at(data, claimed) is not None):
        return claimed
    ends = (end for end in (claimed, *_magics(data, start), len(data)) if end <= len(data))
    return next((end for end in ends if checksum == _checksum(SNAPSHOT, data[start:end])), None)


def is_unfinished(data: memoryview, position: int) -> bool:
    """Whether the bytes from ``position`` on are the beginning of a frame that was never written to its end.

    A process that dies leaves such a beginning. A bad frame of its full length was altered later, and so was one whose
    checksum fits the bytes that are there: its length was altered.
    """
    start = position + FRAME_BYTES
    if start > len(data):
        return True
    _, kind, length, checksum = _FRAME.unpack_from(data, position)
    return bool(length > len(data) - start and checksum != _checksum(kind, data[start:]))


def _magics(data: memoryview, start: int) -> Iterator[int]:
    """Yield every position from ``start`` on where a frame may begin."""
    haystack = bytes(data)
    found = haystack.find(FRAME_MAGIC, start)
    while found >= 0:
        yield found
        found = haystack.find(FRAME_MAGIC, found + 1)


def has_frame_after(data: memoryview, position: int) -> bool:
    """Whether an intact frame begins after ``position``; then bad bytes there are damage, not a torn tail."""
    return any(frame_at(data, found) is not None for found in _magics(data, position + 1))
