"""What a producer has for one partition: records that wait, and batches that were sent."""

from collections import deque
from collections.abc import Callable

from confluent_kafka import KafkaError

from simulation.clients.values import Message

Report = Callable[[KafkaError | None, Message], object] | None
"""What the application is told of a record."""


class PendingRecord:
    """A record that is not reported yet. ``number`` counts those of its partition from 1."""

    __slots__ = ("due", "key", "number", "report", "timestamp_ms", "value")

    def __init__(
        self, number: int, key: bytes | None, value: bytes | None, timestamp_ms: int, due: float, report: Report
    ) -> None:
        self.number = number
        self.key = key
        self.value = value
        self.timestamp_ms = timestamp_ms
        self.due = due
        self.report = report


class Request:
    """A batch that was sent, or is to be sent again just as it was."""

    __slots__ = ("deadline", "first", "partition", "pid", "purged", "records", "retries")

    def __init__(self, partition: "Partition", records: list[PendingRecord]) -> None:
        self.partition = partition
        self.records = records
        self.first = 0
        """Sequence number of the first record."""
        self.pid = (-1, -1)
        self.deadline = 0.0
        self.retries = 0
        self.purged = False


class Partition:
    """What a producer has for one partition."""

    def __init__(self, topic: str, partition: int, now: float) -> None:
        self.topic = topic
        self.partition = partition
        self.queue: deque[PendingRecord] = deque()
        self.retry: list[Request] = []
        """To be sent again, in their order, before ``queue``."""
        self.flight: list[Request] = []
        self.used_at = now
        self.held_until = 0.0
        self.last = 0
        """Number of the last record."""
        self.base = 0
        """Number of the record with sequence number 0 under ``pid``."""
        self.pid = (-1, -1)
        self.next_ack = 0
        self.next_error = 0
        self.acked = 0
        """Number of the last record that was acknowledged."""
        self.draining = False
        self.registered = False
        """Whether it takes part in the transaction that is open."""

    def waiting(self) -> bool:
        """Return whether something is to be sent."""
        return bool(self.retry or self.queue)

    def first_waiting(self) -> int:
        """Return the number of the first record that is to be sent."""
        return self.retry[0].records[0].number if self.retry else self.queue[0].number
