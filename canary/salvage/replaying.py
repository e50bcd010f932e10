"""Writes salvaged records to a topic of its own, and reads them back: none missing, none added, in order.

One idempotent producer that leaves no gaps writes partition after partition. The target has nothing else in it, so its
end says how far an earlier run came: a second run compares what is there, and goes on behind it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from canary.errors import UserError
from canary.kafka.responses import text_of
from canary.salvage.cluster import UNREACHABLE
from canary.salvage.salvaged import Salvaged, rows
from canary.threads import system

GAPLESS: Final[dict[str, Any]] = {
    "enable.idempotence": True,
    "enable.gapless.guarantee": True,
    "acks": "all",
    "message.max.bytes": 1_000_000_000,
}
"""A record that cannot be written ends the producer: none behind it may pass it. The topic limits their size."""
_PATIENCE_S: Final = 120.0
_POLL_S: Final = 0.5
_LAST_S: Final = 10.0
_AT_ONCE: Final = 1000
_FAILED: Final = 1

log = structlog.get_logger(__name__)

Show = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True)
class Part:
    """What is replayed to one partition.

    Attributes:
        file: where its records are; None: it gets none.
        records: how many they are.
        untimed: how many of them have no timestamp, which get the present time.
        oldest_ms: the oldest timestamp, ms since the epoch; None: there is none.
    """

    partition: int
    file: Path | None = None
    records: int = 0
    untimed: int = 0
    oldest_ms: int | None = None


class Replayed(NamedTuple):
    """How a partition ended: ``before`` were there, ``written`` came now."""

    partition: int
    before: int
    written: int


class _Content(NamedTuple):
    """A record, as it can be compared; ``timestamp_ms`` None: whichever."""

    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]


def replay(
    parts: list[Part],
    topic: str,
    producer: Producer,
    consumer: Consumer,
    show: Show,
) -> list[Replayed]:
    """Write what the target does not have yet, and compare all of it.

    Args:
        parts: of each partition.
        topic: the target, with as many partitions.
        producer: made with GAPLESS.
        consumer: is assigned to the target.
        show: is told of steps.

    Raises:
        UserError: something else is in the target, a record was refused, or what was read is not what was written.
    """
    done = []
    for part in parts:
        before = _end(consumer, topic, part)
        if part.records:
            what = f"{topic}:{part.partition}"
            _compared(part, topic, before, consumer, lambda _: None)
            _write(part, topic, before, producer, partial(_shown, show, f"{what} written", part.records))
            _compared(part, topic, part.records, consumer, partial(_shown, show, f"{what} compared", part.records))
            _end(consumer, topic, part)
        done.append(Replayed(part.partition, before, part.records - before))
    return done


def _shown(show: Show, what: str, total: int, done: int) -> None:
    show(what, done, total)


def part_of(partition: int, file: Path) -> Part:
    """Return what a file holds.

    Raises:
        UserError: it cannot be read, or holds a record that this client cannot write.
    """
    records, untimed, oldest = 0, 0, None
    for row in rows(file):
        records += 1
        try:
            for name, _ in row.headers:
                name.decode()
        except UnicodeDecodeError:
            raise UserError(
                f"{file}: the record of offset {row.offset} has a header whose key is no UTF-8, which no client of "
                "librdkafka writes; write this file with a Java producer"
            ) from None
        if row.timestamp_ms <= 0:
            untimed += 1
        elif oldest is None or row.timestamp_ms < oldest:
            oldest = row.timestamp_ms
    return Part(partition, file, records, untimed, oldest)


def _content(row: Salvaged) -> _Content:
    stamp = row.timestamp_ms if row.timestamp_ms > 0 else None  # the client writes the present time instead
    return _Content(stamp, row.key, row.value, row.headers)


class _Delivery:
    """Writes to one partition; counts what the cluster has taken, up to the first failure."""

    def __init__(self, producer: Producer, topic: str, partition: int, before: int) -> None:
        self._producer = producer
        self._place = (topic, partition)
        self.delivered = before
        self.failure = ""

    def write(self, row: Salvaged) -> None:
        """Write a record, once there is room in the producer's queue."""
        topic, partition = self._place
        stamp = {"timestamp": row.timestamp_ms} if row.timestamp_ms > 0 else {}
        headers = [(name.decode(), value) for name, value in row.headers] or None
        while not self.failure:
            try:
                self._producer.produce(topic, row.value, row.key, partition, self._reported, headers=headers, **stamp)
                break
            except BufferError:
                self._producer.poll(_POLL_S)
            except KafkaException as error:
                self.failure = text_of(error.args[0])
        self._producer.poll(0)

    def _reported(self, error: KafkaError | None, _message: Message) -> None:
        if error is None:
            self.delivered += 1
        else:
            self.failure = self.failure or text_of(error)


def _write(part: Part, topic: str, before: int, producer: Producer, show: Callable[[int], None]) -> None:
    """Write what is behind the first ``before`` records.

    Raises:
        UserError: one was refused, or not answered for in time; what is written stays.
    """
    delivery = _Delivery(producer, topic, part.partition, before)
    try:
        for row in itertools.islice(rows(part.file) if part.file else (), before, None):
            delivery.write(row)
            if delivery.failure:
                break
            show(delivery.delivered)
        while not delivery.failure and producer.flush(_POLL_S):
            show(delivery.delivered)
    except KeyboardInterrupt:
        producer.purge(in_flight=False)  # what is under way is waited for
        producer.flush(_LAST_S)
        log.info("replay_stopped", topic=topic, partition=part.partition, written=delivery.delivered, of=part.records)
        raise
    if delivery.failure:
        producer.purge()
        raise UserError(
            f"{topic}:{part.partition}: {delivery.delivered} of {part.records} records are written, then: "
            f"{delivery.failure}; the same command goes on behind them",
            UNREACHABLE,
        )
    show(delivery.delivered)


def _end(consumer: Consumer, topic: str, part: Part) -> int:
    """Return how many records a partition of the target holds.

    Raises:
        UserError: no answer, its beginning is gone, or it holds more than it is to have.
    """
    try:
        place = TopicPartition(topic, part.partition)
        start, end = consumer.get_watermark_offsets(place, timeout=_PATIENCE_S / 4, cached=False)
    except KafkaException as error:
        raise UserError(f"{topic}:{part.partition}: {text_of(error.args[0])}", UNREACHABLE) from error
    if start > 0:
        raise UserError(f"{topic}:{part.partition} begins at offset {start}: records of it are gone; name a new topic")
    if end > part.records:
        raise UserError(
            f"{topic}:{part.partition} holds {end} records, and {part.records} are to be replayed: "
            "others write there; name a topic that nobody else uses in --to-topic"
        )
    return int(end)


def _compared(part: Part, topic: str, count: int, consumer: Consumer, show: Callable[[int], None]) -> None:
    """Read the first ``count`` records of the target, and compare them.

    Raises:
        UserError: they differ, or cannot be read.
    """
    if part.file is None or count == 0:
        return
    with closing(_read(consumer, topic, part.partition, count)) as found:
        for number, (there, row) in enumerate(zip(found, rows(part.file), strict=False)):
            expected = _content(row)
            if there._replace(timestamp_ms=there.timestamp_ms if expected.timestamp_ms else None) != expected:
                raise UserError(
                    f"{topic}:{part.partition} has another record at offset {number} than was salvaged from offset "
                    f"{row.offset}: others write there, or the topic changes timestamps; name a new topic",
                    _FAILED,
                )
            show(number + 1)


def _read(consumer: Consumer, topic: str, partition: int, count: int) -> Generator[_Content]:
    """Yield the records at offsets 0 to ``count`` - 1; there is one at each, or that is an error."""
    expected = 0
    try:
        consumer.assign([TopicPartition(topic, partition, 0)])
        last = system.monotonic()
        while expected < count:
            for message in consumer.consume(min(_AT_ONCE, count - expected), _POLL_S):
                if message.error() is not None:
                    if message.error().code() != KafkaError._PARTITION_EOF:  # noqa: SLF001  # public in librdkafka
                        raise UserError(f"{topic}:{partition}: {text_of(message.error())}", UNREACHABLE)
                    continue
                if message.offset() != expected:
                    raise UserError(f"{topic}:{partition} has no record at offset {expected}", _FAILED)
                expected, last = expected + 1, system.monotonic()
                headers = tuple((name.encode(), value) for name, value in message.headers() or ())
                yield _Content(message.timestamp()[1], message.key(), message.value(), headers)
            if system.monotonic() - last > _PATIENCE_S:
                raise UserError(f"{topic}:{partition} is not read beyond offset {expected}", UNREACHABLE)
    finally:
        consumer.unassign()


def objections(settings: Mapping[str, str], oldest_ms: int, now_ms: int) -> Iterator[str]:
    """Yield what in a target's settings would change or remove what is written to it.

    Args:
        settings: the topic's, by name.
        oldest_ms: the oldest timestamp of what is written, ms since the epoch.
        now_ms: the present time.
    """
    if settings.get("message.timestamp.type") == "LogAppendTime":
        yield "message.timestamp.type=LogAppendTime would give records other timestamps; set CreateTime"
    if "compact" in settings.get("cleanup.policy", ""):
        yield f"cleanup.policy={settings['cleanup.policy']} would remove records; set delete"
    retention = int(settings.get("retention.ms", -1))
    if 0 <= retention < now_ms - oldest_ms:
        yield f"retention.ms={retention} would remove records that are older; set -1"
    if int(settings.get("retention.bytes", -1)) >= 0:
        yield f"retention.bytes={settings['retention.bytes']} may remove records; set -1"
