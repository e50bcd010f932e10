"""A raw client: it asks every broker, over a socket that stays open, what a partition's log holds at one offset.

There is nothing between it and the answer: no metadata, no backoff, no epochs that are checked first. What it is told
is the earliest that any client could know.

ListOffsets request version 5 (Kafka 2.2 to 4.x): the last without compact fields; a leader that does not know its high
watermark yet gives no offset (KIP-207). Fetch request version 4 (0.11 to 4.x): the first that 4.x answers.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PACE_S: Final = 0.02
_LIST_OFFSETS, _FETCH = (2, 5), (1, 4)
_LATEST, _READ_UNCOMMITTED, _CONSUMER = -1, 0, -1
_OUT_OF_RANGE: Final = 1
_TIMEOUT_S: Final = 1.0
_BATCH: Final = struct.Struct(">qiibI")  # base offset, length, leader epoch, magic, CRC


@dataclass(frozen=True, slots=True)
class Answer:
    """What a partition's leader says: its end, and the batches from the offset on that was asked for.

    ``end`` is None, and ``batches`` are empty, where it does not say.
    """

    end: int | None
    out_of_range: bool
    data: bytes

    @property
    def batches(self) -> dict[int, int]:
        """CRC by base offset of every whole batch; the CRC is of neither base offset nor leader epoch."""
        found: dict[int, int] = {}
        at = 0
        while at + _BATCH.size <= len(self.data):
            base, length, _, _, crc = _BATCH.unpack_from(self.data, at)
            at += 12 + length
            if at <= len(self.data):
                found[base] = crc
        return found


class Connection:
    """Asks one broker about one partition."""

    def __init__(self, port: int, topic: str, partition: int) -> None:
        self._port = port
        self._topic = _text(topic)
        self._partition = partition
        self._socket: socket.socket | None = None

    def ask(self, offset: int) -> Answer | None:
        """Return the leader's answer; None from a broker that does not lead, or does not answer."""
        try:
            end = self._end()
            return None if end is None else self._fetched(offset, end)
        except (OSError, struct.error):
            self.close()
            return None

    def close(self) -> None:
        """Close the socket; the next question opens another one."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None

    def _end(self) -> int | None:
        place = struct.pack(">iiiq", 1, self._partition, -1, _LATEST)
        body = struct.pack(">ibi", _CONSUMER, _READ_UNCOMMITTED, 1) + self._topic + place
        answer = self._exchange(_LIST_OFFSETS, body)
        # correlation id, throttle, topics, name, partitions, partition
        error, _, offset, _ = struct.unpack_from(">hqqi", answer, 8 + 4 + len(self._topic) + 4 + 4)
        return None if error in _NOT_LEADING else offset if error == 0 else -1

    def _fetched(self, offset: int, end: int) -> Answer:
        place = struct.pack(">iiqi", 1, self._partition, offset, 1 << 20)
        body = struct.pack(">iiiibi", _CONSUMER, 0, 0, 1 << 20, _READ_UNCOMMITTED, 1) + self._topic + place
        answer = self._exchange(_FETCH, body)
        at = 8 + 4 + len(self._topic) + 4 + 4
        (error,) = struct.unpack_from(">h", answer, at)
        at += 2 + 8 + 8
        (aborted,) = struct.unpack_from(">i", answer, at)
        at += 4 + max(aborted, 0) * 16
        (size,) = struct.unpack_from(">i", answer, at)
        known_end = end if end >= 0 else None
        return Answer(known_end, error == _OUT_OF_RANGE and known_end is not None, answer[at + 4 : at + 4 + size])

    def _exchange(self, request: tuple[int, int], body: bytes) -> bytes:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), _TIMEOUT_S)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        content = struct.pack(">hhih", *request, 1, 3) + b"raw" + body
        self._socket.sendall(struct.pack(">i", len(content)) + content)
        (size,) = struct.unpack(">i", self._receive(4))
        return self._receive(size)

    def _receive(self, count: int) -> bytes:
        assert self._socket is not None
        data = bytearray()
        while len(data) < count:
            part = self._socket.recv(count - len(data))
            if not part:
                raise ConnectionResetError
            data += part
        return bytes(data)


_NOT_LEADING: Final = frozenset({3, 6})
"""UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER."""


class Watch:
    """Asks every broker, until one answer shows what was done; ``known_ns`` is when it came (epoch, ns), else None."""

    def __init__(
        self, ports: Mapping[int, int], topic: str, partition: int, offset: int, shows: Callable[[Answer], bool]
    ) -> None:
        self.known_ns: int | None = None
        self.done = threading.Event()
        self._offset = offset
        self._shows = shows
        self._threads = [
            threading.Thread(target=self._watch, args=(Connection(port, topic, partition),), daemon=True)
            for port in ports.values()
        ]

    def __enter__(self) -> Self:
        """Begin."""
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End."""
        self.done.set()
        for thread in self._threads:
            thread.join()

    def _watch(self, connection: Connection) -> None:
        while not self.done.is_set():
            answer = connection.ask(self._offset)
            if answer is not None and self._shows(answer):
                self.known_ns = self.known_ns or time.time_ns()
                self.done.set()
            self.done.wait(PACE_S)
        connection.close()


def asked(ports: Mapping[int, int], topic: str, partition: int, offset: int) -> Answer:
    """Return the answer of the broker that leads, as soon as one does."""
    while True:
        for port in ports.values():
            connection = Connection(port, topic, partition)
            with suppress(OSError):
                answer = connection.ask(offset)
                connection.close()
                if answer is not None and answer.end is not None:
                    return answer
        time.sleep(PACE_S)


def _text(value: str) -> bytes:
    data = value.encode()
    return struct.pack(">h", len(data)) + data
