"""Ends of logs in an answer to ListOffsets, versions 1 to 10, which are lowered."""

import struct
from typing import Final

from canary.lab.proxy.cursor import Cursor

_FLEXIBLE: Final = 6


def lowered(frame: bytes, version: int, topic: str, by: int) -> bytes:
    """Return the answer with each offset of a topic lowered by so many, to 0 at least; -1 stays."""
    changed = bytearray(frame)
    try:
        cursor = Cursor(frame, flexible=version >= _FLEXIBLE)
        if version >= 2:
            cursor.number("i")  # throttle time
        for _ in range(cursor.length("i")):
            name = cursor.bytes(cursor.length("h"))
            for _ in range(cursor.length("i")):
                cursor.bytes(4 + 2 + 8)  # partition, error, timestamp
                at, offset = cursor.at, cursor.number("q")
                if name == topic.encode() and offset >= 0:
                    struct.pack_into(">q", changed, at, max(offset - by, 0))
                cursor.bytes(4 if version >= 4 else 0)  # leader epoch
                cursor.tags()
            cursor.tags()
    except (struct.error, IndexError):  # not as this version should be
        return frame
    return bytes(changed)
