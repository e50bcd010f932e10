"""What a plain client finds, without any of the canary's judgement, and what of the canary's promises it does not."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow.dataset as ds
from confluent_kafka import Consumer, KafkaException, TopicPartition

from canary.lab import LabError
from canary.probe.identity import Identity
from canary.probe.record import Probe, decode

_PATIENCE_S: Final = 60.0
GONE: Final = "gone"
"""What was promised and is no longer what was promised."""
SHOWN: Final = "aborted and shown"
"""What a read_committed consumer is given, though its transaction was aborted."""
TWICE: Final = "there twice"
"""Where a probe stands that stands at a lower offset already."""
DISORDERED: Final = "out of order"
"""Where a probe stands before one that its producer sent earlier."""


class Place(NamedTuple):
    """Where a record is."""

    topic: str
    partition: int
    offset: int


class Record(NamedTuple):
    """A record as it was read: its key and value are bytes or nothing."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


def client(kafka: str | Mapping[str, Any], isolation: str = "read_committed") -> Consumer:
    """Return a consumer that keeps nothing and commits nothing; ``kafka``: bootstrap servers, or properties."""
    return Consumer(
        {
            "group.id": "direct-reading",
            **({"bootstrap.servers": kafka} if isinstance(kafka, str) else kafka),
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )


def records(
    kafka: str | Mapping[str, Any], topic: str, isolation: str = "read_committed", *, newest: int | None = None
) -> Iterator[Record]:
    """Yield all that a topic holds now; what is appended meanwhile may be among it.

    Args:
        kafka: bootstrap servers, or a client's properties.
        topic: its name.
        isolation: the isolation level.
        newest: only so many offsets at the end of each partition; None: all.

    Raises:
        LabError: its end is not reached within a minute.
    """
    consumer = client(kafka, isolation)
    try:
        partitions = sorted(consumer.list_topics(topic, timeout=10).topics[topic].partitions)
        places = [TopicPartition(topic, partition, 0) for partition in partitions]
        ends = {one.partition: consumer.get_watermark_offsets(one, timeout=10)[1] for one in places}
        for one in places:
            one.offset = 0 if newest is None else max(ends[one.partition] - newest, 0)
        consumer.assign(places)
        waiting = {partition for partition, end in ends.items() if end > 0}
        deadline = time.monotonic() + _PATIENCE_S
        while waiting:
            if time.monotonic() > deadline:
                raise LabError(f"{topic} could not be read to the end of its partitions {sorted(waiting)}")
            for message in consumer.consume(5000, 0.5):
                partition, offset = message.partition(), message.offset()
                if message.error() is None:
                    yield Record(partition, offset, message.key(), message.value())
                elif message.error().name() != "_PARTITION_EOF":
                    continue
                if offset >= ends[partition] - 1:  # with traffic there may be no such event, without it no such record
                    waiting.discard(partition)
    finally:
        consumer.close()


def readable(bootstrap: str, topic: str, partition: int) -> bool:
    """Tell whether a leader answers for the end of a partition."""
    consumer = client(bootstrap)
    try:
        consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=1.0, cached=False)
    except KafkaException:
        return False
    finally:
        consumer.close()
    return True


class Look(NamedTuple):
    """A probe log, and what a direct reading finds in its topics.

    Attributes:
        sent: the probe log's rows of probes.
        outcomes: of transactions, by producer id, generation and transaction id.
        there: what stands at each place; None: a record that is no probe.
    """

    sent: list[dict[str, Any]]
    outcomes: Mapping[tuple[int, int, int | None], str]
    there: Mapping[Place, Identity | None]

    def outcome(self, row: Mapping[str, Any]) -> str | None:
        """Return what became of the transaction of a probe; that of one without is committed. None: not known."""
        return "committed" if row["transaction_id"] is None else self.outcomes.get(_transaction(row))

    def acked(self, row: Mapping[str, Any]) -> bool:
        """Tell whether a probe was acknowledged and, where it is part of a transaction, committed."""
        return row["outcome"] == "acked" and self.outcome(row) == "committed"

    @property
    def probes(self) -> dict[Place, Identity]:
        """The probes that are there."""
        return {place: who for place, who in self.there.items() if who is not None}


def look(bootstrap: str, probe_log: Path) -> Look:
    """Read a shipped probe log, and all of its topics."""
    sent = rows(probe_log / "probes")
    outcomes = {_transaction(one): one["outcome"] for one in rows(probe_log / "transactions")}
    there: dict[Place, Identity | None] = {}
    for topic in {one["topic"] for one in sent}:
        there |= standing(bootstrap, topic)
    return Look(sent, outcomes, there)


def readings(seen: Look, shown_before: Mapping[Place, Identity]) -> dict[str, dict[Place, Identity]]:
    """Return what is not as a canary was promised: GONE, SHOWN, TWICE, DISORDERED.

    Promised is what was acknowledged, unless it was part of a transaction that did not commit; and of an aborted
    transaction nothing is shown, neither now nor ``shown_before``: which aborted records are shown differs from leader
    to leader.
    """
    there = seen.probes
    gone: dict[Place, Identity] = {}
    aborted: set[tuple[str, Identity]] = set()
    for one in seen.sent:  # a place may have been promised twice: again after a loss
        who = identity(one)
        if seen.outcome(one) == "aborted":
            aborted.add((one["topic"], who))
        if seen.acked(one) and one["offset"] is not None and there.get(where(one)) != who:
            gone[where(one)] = who
    shown = {place: who for place, who in {**shown_before, **there}.items() if (place.topic, who) in aborted}
    return {GONE: gone, SHOWN: shown, TWICE: _twice(there), DISORDERED: _disordered(there)}


def _twice(there: Mapping[Place, Identity]) -> dict[Place, Identity]:
    places = sorted(there)
    first: dict[tuple[str, Identity], Place] = {}
    for place in places:
        first.setdefault((place.topic, there[place]), place)
    return {place: there[place] for place in places if first[place.topic, there[place]] != place}


def _disordered(there: Mapping[Place, Identity]) -> dict[Place, Identity]:
    first = {(place.topic, there[place]): place for place in sorted(there, reverse=True)}
    found: dict[Place, Identity] = {}
    for (topic, one), (other_topic, other) in pairwise(sorted(first)):
        if topic == other_topic and one[:3] == other[:3] and first[topic, one] > first[topic, other]:
            found[first[topic, other]] = other
    return found


def standing(bootstrap: str, topic: str) -> dict[Place, Identity | None]:
    """Return the identity at each place of a topic that holds a record; None: that is no probe of any canary."""
    read = ((one, decode(one.value, None)) for one in records(bootstrap, topic))
    return {
        Place(topic, one.partition, one.offset): probe.identity if isinstance(probe, Probe) else None
        for one, probe in read
    }


def found(bootstrap: str, topic: str) -> dict[Place, Identity]:
    """Return the identity at each place of a topic that holds a probe, of any canary."""
    return {place: who for place, who in standing(bootstrap, topic).items() if who is not None}


def rows(directory: Path) -> list[dict[str, Any]]:
    """Return all rows of one table of a probe log."""
    return ds.dataset(directory).to_table().to_pylist() if directory.exists() else []


def identity(row: Mapping[str, int]) -> Identity:
    """Return the identity in a row of a probe log."""
    return Identity(row["producer_id"], row["generation"], row["partition"], row["sequence"])


def where(row: Mapping[str, Any]) -> Place:
    """Return the place in a row of a probe log, which has an offset."""
    return Place(row["topic"], row["partition"], row["offset"])


def _transaction(row: Mapping[str, Any]) -> tuple[int, int, int | None]:
    return row["producer_id"], row["generation"], row["transaction_id"]
