"""What a consumer hands out, without a broker."""

from __future__ import annotations

from confluent_kafka import KafkaError

from canary.probe.identity import Identity
from canary.probe.record import encode

TAG, TOPIC = b"tagg", "t"
EOF, OUT_OF_RANGE = KafkaError._PARTITION_EOF, KafkaError.OFFSET_OUT_OF_RANGE


def probe(sequence: int) -> bytes:
    return encode(Identity(7, 1, 0, sequence), tag=TAG, mode="idempotent", transaction_id=None, sent_at_ns=1)


class Message:
    """What a consumer hands out: a probe of ours, or an event."""

    def __init__(self, offset: int, code: int | None = None) -> None:
        self._offset = offset
        self._error = None if code is None else KafkaError(code)

    def error(self) -> KafkaError | None:
        return self._error

    def offset(self) -> int:
        return self._offset

    def topic(self) -> str:
        return TOPIC

    def partition(self) -> int:
        return 0

    def leader_epoch(self) -> int:
        return 3

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_790_000_000_000

    def value(self) -> bytes:
        return probe(self._offset)
