"""Asks one broker, over a plain socket, for its own view of the cluster. For the lab, on 127.0.0.1.

A Kafka client would ask *some* broker, maybe a dead one. Here the question is always what this very broker knows, which
is also the only sound test of readiness: a broker that was just restarted answers from a metadata image in which its
old session has been fenced. The controller is asked through a broker: one that was just resumed does not know yet that
it was fenced meanwhile.

kafka-python (canary.wire) cannot take this place: it has to learn of the cluster before it asks anything, which a
broker that is starting does not let it do (it knows of no live broker yet), and a client of it is opened in 18 ms where
this asks in 1 (and is loaded in 0.7 s): a lab that starts asks each broker many times.

Metadata request version 7 (Kafka 2.1 to 4.x): the first with leader epochs, the last but one without compact fields.
CreateTopics request version 4 (2.4 to 4.x): the last without compact fields.
"""

import re
import socket
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import BinaryIO, TypeVar

_T = TypeVar("_T")
_METADATA, _CREATE_TOPICS, _UNREGISTER = (3, 7), (19, 4), (64, 0)
"""Key and version of each request."""
_DEFAULT = -1
_CLIENT = b"canary-lab"


@dataclass(frozen=True, slots=True)
class PartitionState:
    """One partition as one broker sees it: replica ids in assignment order, and the ids of those in sync.

    ``leader`` is None when there is none; ``leader_epoch`` counts the changes of leader, -1: unknown.
    """

    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: frozenset[int]


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A broker's answer: the registered, unfenced brokers, and the partitions asked for, by (topic, partition).

    ``controller`` is where a client sends what is for the controller: with KRaft any broker. -1: nobody knows.
    """

    brokers: frozenset[int]
    partitions: dict[tuple[str, int], PartitionState]
    controller: int


class _Reader:
    """A cursor over the bytes of a response, behind its correlation id and throttle time."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 8

    def number(self, code: str) -> int:
        (value,) = struct.unpack_from(">" + code, self._data, self._at)
        self._at += struct.calcsize(">" + code)
        return int(value)

    def text(self) -> str | None:
        length = self.number("h")
        if length < 0:
            return None
        self._at += length
        return self._data[self._at - length : self._at].decode()

    def array(self, item: Callable[[], _T]) -> list[_T]:
        return [item() for _ in range(self.number("i"))]

    def ids(self) -> tuple[int, ...]:
        return tuple(self.array(lambda: self.number("i")))


def ask(port: int, topics: tuple[str, ...] = (), *, timeout: float = 1.0) -> ClusterState | None:
    """Ask the broker at 127.0.0.1:``port`` for the cluster and for these topics, of which it leaves out unknown ones.

    Returns None if it does not connect, or does not answer, within ``timeout`` seconds each.
    """
    do_not_create = b"\0"
    body = struct.pack(">i", len(topics)) + b"".join(map(_text, topics)) + do_not_create
    data = _exchange(port, _METADATA, body, timeout)
    return None if data is None else _cluster(_Reader(data))


def accepts(port: int, *, timeout: float = 1.0) -> bool:
    """Return whether somebody takes connections at 127.0.0.1:``port``."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout).close()
    except OSError:
        return False
    return True


def unfenced(port: int, brokers: Iterable[int], *, timeout: float = 5.0) -> frozenset[int]:
    """Ask the controller, through the broker at ``port``, which of these brokers are not fenced; none without answer.

    The question is whether it would create a topic with its only replica on each one (CreateTopics with validate_only,
    so nothing is created): for a fenced broker the answer is INVALID_REPLICA_ASSIGNMENT. A replication factor would not
    do, because a fenced broker counts for it.
    """
    names = {f"canary-lab-placed-on-{broker}": broker for broker in brokers}
    body = struct.pack(">i", len(names))
    for name, broker in names.items():
        placed = struct.pack(">iiii", 1, 0, 1, broker)  # one partition, number 0, with one replica
        body += _text(name) + struct.pack(">ih", _DEFAULT, _DEFAULT) + placed + struct.pack(">i", 0)  # no settings
    body += struct.pack(">i?", int(timeout * 1000), True)  # validate only
    data = _exchange(port, _CREATE_TOPICS, body, timeout)
    if data is None:
        return frozenset()
    reader = _Reader(data)

    def created() -> tuple[str, int]:
        name, error = reader.text() or "", reader.number("h")
        reader.text()  # the error in words
        return name, error

    return frozenset(names[name] for name, error in reader.array(created) if error == 0)


def registered(port: int, *, timeout: float = 1.0) -> frozenset[int] | None:
    """Ask the ZooKeeper at 127.0.0.1:``port`` which brokers have a session; None without answer."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout) as connection, connection.makefile("rb") as stream:
            connection.sendall(b"dump")
            answer = stream.read()
    except OSError:
        return None
    if b"Sessions with Ephemerals" not in answer:  # it is starting
        return None
    return frozenset(int(broker) for broker in re.findall(rb"/brokers/ids/(\d+)\s", answer))


def unregister(port: int, broker: int, *, timeout: float = 10.0) -> bool:
    """Have the broker at ``port`` unregister another one; returns whether that was done."""
    tags = b"\0"  # a compact request: tags end its header and its body
    data = _exchange(port, _UNREGISTER, tags + struct.pack(">i", broker) + tags, timeout)
    if data is None:
        return False
    (error,) = struct.unpack_from(">h", data, 9)  # behind correlation id, tags and throttle time
    return bool(error == 0)


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack(">h", len(data)) + data


def _exchange(port: int, request: tuple[int, int], body: bytes, timeout: float) -> bytes | None:
    """Return the response to a request; None if the broker refuses, resets, or does not answer in time."""
    content = struct.pack(">hhih", *request, 1, len(_CLIENT)) + _CLIENT + body
    try:
        with socket.create_connection(("127.0.0.1", port), timeout) as connection, connection.makefile("rb") as stream:
            connection.sendall(struct.pack(">i", len(content)) + content)
            (size,) = struct.unpack(">i", _receive(stream, 4))
            return _receive(stream, size)
    except OSError:
        return None


def _receive(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise ConnectionResetError
    return data


def _cluster(reader: _Reader) -> ClusterState:
    def broker() -> int:
        identity = reader.number("i")
        reader.text()  # host
        reader.number("i")  # port
        reader.text()  # rack
        return identity

    brokers = frozenset(reader.array(broker))
    reader.text()  # cluster id
    controller = reader.number("i")
    partitions: dict[tuple[str, int], PartitionState] = {}

    def partition() -> tuple[int, PartitionState]:
        reader.number("h")  # error: a missing leader is leader -1 as well
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
    return ClusterState(brokers, partitions, controller)
