"""Moves replicas and preferred leaders by hand, as kafka-reassign-partitions.sh does: the client has no call for it.

AlterPartitionReassignments version 0 (KIP-455); a broker hands it on to the controller.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

from canary.lab import LabError
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from canary.lab import Lab

_ALTER_PARTITION_REASSIGNMENTS = 45
_CLIENT = b"by-hand"
_NO_TAGS = b"\0"


def reassign(lab: Lab, topic: str, replicas: Mapping[int, Sequence[int]], timeout: float = 20.0) -> None:
    """Give partitions other replicas, the preferred leader first, and return when the cluster says that it is so."""
    partitions = b"".join(
        struct.pack(">ib", number, len(ids) + 1) + struct.pack(f">{len(ids)}i", *ids) + _NO_TAGS
        for number, ids in sorted(replicas.items())
    )
    name = topic.encode()
    body = struct.pack(">i", 60_000) + bytes([2, len(name) + 1]) + name + bytes([len(replicas) + 1])
    body += partitions + _NO_TAGS + _NO_TAGS
    header = struct.pack(">hhih", _ALTER_PARTITION_REASSIGNMENTS, 0, 1, len(_CLIENT)) + _CLIENT + _NO_TAGS
    with socket.create_connection(("127.0.0.1", lab.port(lab.alive()[0])), 60) as connection:
        connection.sendall(struct.pack(">i", len(header + body)) + header + body)
        with connection.makefile("rb") as answers:
            (size,) = struct.unpack(">i", answers.read(4))
            answer = answers.read(size)
    (error,) = struct.unpack_from(">h", answer, 9)  # behind correlation id, tags and throttle time
    assert error == 0, f"refused: error {error}"

    def reached() -> bool:
        try:
            return all(lab.partition(topic, number).replicas == tuple(ids) for number, ids in replicas.items())
        except LabError:  # no broker answered in time
            return False

    until(reached, timeout, f"{topic} is reassigned: {answer!r}")
