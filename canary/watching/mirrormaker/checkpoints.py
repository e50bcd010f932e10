"""The records of MirrorMaker 2's checkpoints topic (org.apache.kafka.connect.mirror.Checkpoint), big-endian.

Key: group, topic, i32 partition; value: i16 version, i64 upstream offset, i64 downstream offset, metadata.
A text is its length in bytes (i16) and UTF-8. ``topic`` is the mirrored topic's name.
"""

import struct
from typing import Final

from canary.anomalies.mirrormaker.facts import Checkpoint

_VERSION: Final = 0
_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_OFFSETS: Final = struct.Struct(">hqq")


def decoded(key: bytes | None, value: bytes | None) -> tuple[str, Checkpoint] | None:
    """Return the mirrored topic and the checkpoint that a record is; None: it is none, or of another version."""
    try:
        if not key or not value:
            return None
        group, at = _text(key, 0)
        topic, at = _text(key, at)
        (partition,) = _INT.unpack_from(key, at)
        version, upstream, downstream = _OFFSETS.unpack_from(value)
    except (struct.error, UnicodeDecodeError):
        return None
    return (topic, Checkpoint(group, partition, upstream, downstream)) if version == _VERSION else None


def encoded(topic: str, point: Checkpoint) -> tuple[bytes, bytes]:
    """Return the key and value of a checkpoint."""
    names = b"".join(_SHORT.pack(len(one.encode())) + one.encode() for one in (point.group, topic))
    key = names + _INT.pack(point.partition)
    return key, _OFFSETS.pack(_VERSION, point.upstream, point.downstream) + _SHORT.pack(0)


def _text(content: bytes, at: int) -> tuple[str, int]:
    (length,) = _SHORT.unpack_from(content, at)
    begin = at + _SHORT.size
    if length < 0 or begin + length > len(content):
        raise struct.error("a text that is cut off")
    return content[begin : begin + length].decode(), begin + length
