"""Ask one broker, over a plain socket, what it believes about its cluster.

A Kafka client would ask *some* broker it learned of, may be a dead one, and prints a line per failed reconnect. Here
the question is always "what does this very broker say", which is also the only honest readiness: a broker that was just
restarted answers from a metadata image in which its old session has been fenced. What the controller believes is asked
by way of a broker: one that was just resumed does not know yet that it was fenced meanwhile.

Metadata request version 7 (Kafka 2.1 to 4.x): the first with leader epochs, the last but one without compact fields.
CreateTopics request version 4 (2.4 to 4.x): the last without compact fields.
"""

import socket
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

_T = TypeVar("_T")
_METADATA = 3
_CREATE_TOPICS = 19
_UNREGISTER = 64
_VERSION = 7
_CREATE_VERSION = 4
_DEFAULT = -1
_CLIENT = b"canary-lab"


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition as one broker sees it.

    Attributes:
        leader: id of the leading broker; None when there is none.
        leader_epoch: how often the leader has changed; -1 unknown.
        replicas: ids in assignment order.
        isr: ids in sync.
    """

    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: frozenset[int]


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A broker's answer: the registered, unfenced brokers, and the partitions asked for, by (topic, partition)."""

    cluster_id: str | None
    brokers: frozenset[int]
    partitions: dict[tuple[str, int], PartitionState]


class _Reader:
    """A cursor over the bytes of a response."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, code: str) -> int:
        (value,) = struct.unpack_from(">" + code, self._data, self._at)
        self._at += struct.calcsize(">" + code)
        return int(value)

    def text(self) -> str | None:
        length = self.number("h")
        if length < 0:
            return None
        value = self._data[self._at : self._at + length].decode()
        self._at += length
        return value

    def array(self, item: Callable[[], _T]) -> list[_T]:
        return [item() for _ in range(self.number("i"))]

    def ids(self) -> tuple[int, ...]:
        return tuple(self.array(lambda: self.number("i")))


def ask(port: int, topics: tuple[str, ...] = (), *, timeout: float = 1.0) -> ClusterState | None:
    """Ask the broker at 127.0.0.1:``port``; None if it does not answer within ``timeout`` seconds.

    Args:
        port: of the broker's client listener.
        topics: which topics' partitions to return; a topic it does not know is left out.
        timeout: seconds for connecting, and again for each read.
    """
    body = struct.pack(">i", len(topics))
    for topic in topics:
        body += _text(topic)
    body += b"\0"  # do not create topics
    header = _header(_METADATA, _VERSION)
    try:
        data = _exchange(port, header + body, timeout)
    except OSError:  # refused, reset or timed out: it does not answer, which is an answer
        return None
    return _parse(data)


def unfenced(port: int, brokers: Iterable[int], *, timeout: float = 5.0) -> frozenset[int]:
    """Ask the controller, through the broker at ``port``, which of these it does not hold for fenced.

    It is asked whether it would make a topic with its only replica on each one (CreateTopics with validate_only, so
    nothing is made); of a fenced broker it says INVALID_REPLICA_ASSIGNMENT. A replication factor would not tell: a
    fenced broker counts for it.

    Args:
        port: of the asked broker's client listener.
        brokers: their ids.
        timeout: seconds for connecting, for each read, and for the controller.

    Returns:
        Their ids; none if nobody answers.
    """
    names = {f"canary-lab-placed-on-{broker}": broker for broker in brokers}
    body = struct.pack(">i", len(names))
    for name, broker in names.items():
        placed = struct.pack(">iiii", 1, 0, 1, broker)  # one partition, number 0, with one replica
        body += _text(name) + struct.pack(">ih", _DEFAULT, _DEFAULT) + placed + struct.pack(">i", 0)  # no settings
    body += struct.pack(">i?", int(timeout * 1000), True)  # validate only
    try:
        data = _exchange(port, _header(_CREATE_TOPICS, _CREATE_VERSION) + body, timeout)
    except OSError:  # as in ask()
        return frozenset()
    reader = _Reader(data)
    reader.number("i")  # correlation id
    reader.number("i")  # throttle time

    def answer() -> tuple[str, int]:
        name, error = reader.text() or "", reader.number("h")
        reader.text()  # the error in words
        return name, error

    return frozenset(names[name] for name, error in reader.array(answer) if error == 0)


def unregister(port: int, broker: int, *, timeout: float = 10.0) -> bool:
    """Have the broker at ``port`` unregister another one (UnregisterBroker version 0); False if that was not done."""
    header = _header(_UNREGISTER, 0) + b"\0"
    try:
        data = _exchange(port, header + struct.pack(">i", broker) + b"\0", timeout)
    except OSError:  # as in ask()
        return False
    (error,) = struct.unpack_from(">h", data, 9)  # behind correlation id, tags and throttle time
    return bool(error == 0)


def _header(key: int, version: int) -> bytes:
    return struct.pack(">hhih", key, version, 1, len(_CLIENT)) + _CLIENT


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack(">h", len(data)) + data


def _exchange(port: int, request: bytes, timeout: float) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", _receive(connection, 4))
        return _receive(connection, size)


def _receive(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise ConnectionResetError
        data += piece
    return bytes(data)


def _parse(data: bytes) -> ClusterState:
    reader = _Reader(data)
    reader.number("i")  # correlation id
    reader.number("i")  # throttle time

    def broker() -> int:
        identity = reader.number("i")
        reader.text()  # host
        reader.number("i")  # port
        reader.text()  # rack
        return identity

    brokers = frozenset(reader.array(broker))
    cluster_id = reader.text()
    reader.number("i")  # controller
    partitions: dict[tuple[str, int], PartitionState] = {}

    def partition() -> tuple[int, PartitionState]:
        reader.number("h")  # error: no leader is said by leader -1 as well
        index = reader.number("i")
        leader = reader.number("i")
        epoch = reader.number("i")
        replicas = reader.ids()
        isr = frozenset(reader.ids())
        reader.ids()  # offline replicas
        return index, PartitionState(leader if leader >= 0 else None, epoch, replicas, isr)

    for _ in range(reader.number("i")):
        reader.number("h")  # error: an unknown topic has no partitions
        name = reader.text() or ""
        reader.number("b")  # internal
        partitions.update({(name, index): state for index, state in reader.array(partition)})
    return ClusterState(cluster_id, brokers, partitions)
