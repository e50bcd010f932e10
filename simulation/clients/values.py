"""What the simulated clients hand out where confluent-kafka has classes that only it can make: messages and errors."""

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE, KafkaError


def failure(code: int, why: str | None = None, **flags: bool) -> KafkaError:
    """Return an error; without ``why``, the text is the one of its code."""
    return KafkaError(code, why, **flags) if why is not None else KafkaError(code, KafkaError(code).str(), **flags)


class Message:
    """A record or an event of a consumer, or what a delivery report is about."""

    __slots__ = ("_epoch", "_error", "_key", "_offset", "_partition", "_timestamp_ms", "_topic", "_value")

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        key: bytes | None = None,
        value: bytes | None = None,
        timestamp_ms: int = -1,
        epoch: int = -1,
        error: KafkaError | None = None,
    ) -> None:
        self._topic = topic
        self._partition = partition
        self._offset = offset
        self._key = key
        self._value = value
        self._timestamp_ms = timestamp_ms
        self._epoch = epoch
        self._error = error

    def topic(self) -> str:
        """Return the topic."""
        return self._topic

    def partition(self) -> int:
        """Return the partition."""
        return self._partition

    def offset(self) -> int | None:
        """Return the offset, None if there is none."""
        return self._offset if self._offset >= 0 else None

    def key(self) -> bytes | None:
        """Return the key."""
        return self._key

    def value(self) -> bytes | None:
        """Return the value, or the text of the error."""
        return self._value if self._error is None or self._value is not None else self._error.str().encode()

    def error(self) -> KafkaError | None:
        """Return the error that this is about, None if it is a record."""
        return self._error

    def leader_epoch(self) -> int | None:
        """Return the leader epoch of the record, None if it is not known."""
        return self._epoch if self._epoch >= 0 else None

    def timestamp(self) -> tuple[int, int]:
        """Return the kind of timestamp and its value in ms."""
        kind = TIMESTAMP_CREATE_TIME if self._timestamp_ms >= 0 else TIMESTAMP_NOT_AVAILABLE
        return kind, self._timestamp_ms
