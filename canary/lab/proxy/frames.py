"""Kafka's frames: four bytes of length, then an answer, or a request (key, version, correlation id, client id, ...).

All numbers are big-endian. An answer begins with the correlation id of its request.
"""

import struct
from dataclasses import dataclass
from typing import Final

_LARGEST: Final = 1 << 28
"""No request or answer is as long (100 MiB is Kafka's limit): what claims to be is TLS, or no Kafka at all."""
_HEADER: Final = struct.Struct(">ihhih")  # length, key, version, correlation id, length of the client id
_ANSWER: Final = struct.Struct(">ii")

APIS: Final = {
    0: "Produce",
    1: "Fetch",
    2: "ListOffsets",
    3: "Metadata",
    8: "OffsetCommit",
    9: "OffsetFetch",
    10: "FindCoordinator",
    11: "JoinGroup",
    12: "Heartbeat",
    13: "LeaveGroup",
    14: "SyncGroup",
    18: "ApiVersions",
    19: "CreateTopics",
    20: "DeleteTopics",
    21: "DeleteRecords",
    22: "InitProducerId",
    23: "OffsetForLeaderEpoch",
    24: "AddPartitionsToTxn",
    25: "AddOffsetsToTxn",
    26: "EndTxn",
    27: "WriteTxnMarkers",
    28: "TxnOffsetCommit",
    32: "DescribeConfigs",
    52: "Vote",
    53: "BeginQuorumEpoch",
    54: "EndQuorumEpoch",
    56: "AlterPartition",
    58: "Envelope",
    62: "BrokerRegistration",
    63: "BrokerHeartbeat",
    67: "AllocateProducerIds",
    68: "ConsumerGroupHeartbeat",
}
"""Names of the APIs that a fault can be about, by key."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request's header; ``api`` is its name, ``client`` the client id ("" where there is none)."""

    api: str
    version: int
    correlation: int
    client: str


class Frames:
    """Cuts a stream into whole frames. One that has none, or is not ``framed``, is passed on as it comes."""

    def __init__(self, *, framed: bool = True) -> None:
        self._rest = bytearray()
        self._framed = framed

    def feed(self, data: bytes) -> list[bytes]:
        """Take what has arrived; return the frames, each with its length, that are whole now."""
        if not self._framed:
            return [data]
        self._rest += data
        found = []
        begin = 0
        while begin + 4 <= len(self._rest):
            size = int.from_bytes(self._rest[begin : begin + 4], "big")
            if size > _LARGEST:  # a negative one, too
                self._framed = False
                found.append(bytes(self._rest[begin:]))
                self._rest.clear()
                return found
            end = begin + 4 + size
            if end > len(self._rest):
                break
            found.append(bytes(self._rest[begin:end]))
            begin = end
        del self._rest[:begin]
        return found


def request(frame: bytes) -> Request | None:
    """Return the header of a request; None if it is none that a fault can be about."""
    if len(frame) < _HEADER.size:
        return None
    _size, key, version, correlation, length = _HEADER.unpack_from(frame)
    api = APIS.get(key)
    if api is None:
        return None
    client = frame[_HEADER.size : _HEADER.size + max(length, 0)].decode(errors="replace")
    return Request(api, version, correlation, client)


def answered(frame: bytes) -> int | None:
    """Return the correlation id of the request that a frame answers; None if it is no answer."""
    return int(_ANSWER.unpack_from(frame)[1]) if len(frame) >= _ANSWER.size else None
