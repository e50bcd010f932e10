"""The records of a topic, read directly by a plain consumer; and those that salvage has written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow.parquet as pq
from confluent_kafka import Consumer, Message, TopicPartition

from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PATIENCE_S = 60.0

Content: TypeAlias = tuple[int, "bytes | None", "bytes | None", tuple[tuple[bytes, "bytes | None"], ...]]
"""Timestamp (ms), key, value, headers."""


def content(message: Message) -> Content:
    headers = tuple((name.encode(), value) for name, value in message.headers() or ())
    return message.timestamp()[1], message.key(), message.value(), headers


def read(bootstrap: str, topic: str, partition: int) -> dict[int, Content]:
    """Return what a plain consumer finds, uncommitted too, by offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "x",
            "enable.partition.eof": True,
            "isolation.level": "read_uncommitted",
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    found = {message.offset(): content(message) for message in _messages(consumer)}
    consumer.close()
    return found


def _messages(consumer: Consumer) -> Iterator[Message]:
    """Yield messages up to the end of the partition."""
    while True:
        (message,) = until(lambda: consumer.consume(1, 1.0), PATIENCE_S, "a message, or the end")
        if message.error() is not None:
            return
        yield message


def salvaged(out: Path, topic: str, partition: int) -> dict[int, dict[str, Any]]:
    """Return the rows that ``canary salvage --out`` has written, in their order, by offset."""
    return {row["offset"]: row for row in pq.read_table(out / f"{topic}-{partition}.parquet").to_pylist()}


def content_of(row: dict[str, Any]) -> Content:
    """Return what a salvaged row holds."""
    headers = tuple((one["key"], one["value"]) for one in row["headers"])
    return row["timestamp_ms"], row["key"], row["value"], headers
