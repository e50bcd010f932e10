"""Harms replicas on the disks of stopped brokers, as a bug or a bad disk does, so that they are served all the same.

Nothing else on the disk is changed but the indexes of the segment, which the broker makes again when it starts.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

import google_crc32c

if TYPE_CHECKING:
    from pathlib import Path

    from canary.lab import Lab

_HEADER = struct.Struct(">qiibIhi")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset delta."""
_OVERHEAD = 12
_CRC_AT, _CHECKED_FROM = 17, 21


class _Place(NamedTuple):
    segment: Path
    start: int
    end: int
    first: int
    last: int


def destroy(lab: Lab, topic: str, partition: int, count: int) -> int:
    """Kill every broker, cut the last ``count`` records off every replica, start them again; return the new end."""
    end = max(lab.end_offset(broker, topic, partition) for broker in lab.brokers)
    for broker in lab.brokers:
        lab.kill(broker)
    for broker in lab.brokers:
        lab.truncate(broker, topic, partition, to_offset=end - count)
    for broker in lab.brokers:
        lab.start_broker(broker, timeout=0)
    lab.wait_ready(including=lab.brokers)
    return end - count


def remove_batch(lab: Lab, broker: int, topic: str, partition: int, offset: int) -> tuple[int, int]:
    """Take the batch that holds an offset out of a stopped broker's log; return its first and last offset."""
    found = _find(lab, broker, topic, partition, offset)
    data = found.segment.read_bytes()
    found.segment.write_bytes(data[: found.start] + data[found.end :])
    for suffix in (".index", ".timeindex"):
        found.segment.with_suffix(suffix).unlink(missing_ok=True)
    return found.first, found.last


def change_byte(
    lab: Lab, broker: int, topic: str, partition: int, offset: int, *, mend_crc: bool = True
) -> tuple[int, int]:
    """Change the last byte but one of the batch that holds an offset: of its last record's value, without headers.

    ``mend_crc``: give the batch the CRC of what it is then. Returns its first and last offset.
    """
    found = _find(lab, broker, topic, partition, offset)
    data = bytearray(found.segment.read_bytes())
    data[found.end - 2] ^= 0x01
    if mend_crc:
        crc = google_crc32c.value(bytes(data[found.start + _CHECKED_FROM : found.end]))
        struct.pack_into(">I", data, found.start + _CRC_AT, crc)
    found.segment.write_bytes(data)
    return found.first, found.last


def _find(lab: Lab, broker: int, topic: str, partition: int, offset: int) -> _Place:
    assert broker not in lab.alive(), "stop it before"
    for segment in sorted((lab._site.data(broker) / f"{topic}-{partition}").glob("*.log")):
        data, start = segment.read_bytes(), 0
        while start + _HEADER.size <= len(data):
            base, length, _epoch, _magic, _crc, _attributes, delta = _HEADER.unpack_from(data, start)
            end = start + _OVERHEAD + length
            if base <= offset <= base + delta:
                return _Place(segment, start, end, base, base + delta)
            start = end
    raise AssertionError(f"broker {broker} has no batch with offset {offset} of {topic}-{partition}")
