"""What every reader does alike: the properties it reads with, and how a delivery becomes a fact."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import methodcaller
from typing import Any

import numpy as np
from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException

from canary.facts import Batch, Facts, Isolation, Polled, Refused
from canary.facts.batch import FEW, NULL
from canary.kafka import opening
from canary.kafka.quiet import ErrorReporter, calm, quiet_logger
from canary.probe.batch import decode_batch
from canary.probe.record import WRONG_HEADERS, Refusal, decode, header_fields
from canary.settings.clients import ASSIGNED
from canary.threads.ports import Clock, Inbox

DRAIN = 1000
"""Most records taken in one go after the one that woke the reader."""

_OFFSET, _TIMESTAMP, _LEADER_EPOCH = methodcaller("offset"), methodcaller("timestamp"), methodcaller("leader_epoch")

_DEFAULTS: Mapping[str, object] = {
    "fetch.wait.max.ms": 500,
    "fetch.error.backoff.ms": 250,
    "group.id": "durability-canary",  # demanded by the client; nothing joins it and nothing is committed
}


@dataclass(frozen=True, slots=True)
class Target:
    """One incarnation of a topic: its id, the tag of our records in it, and its partitions."""

    topic_id: str | None
    tag: bytes
    partitions: tuple[int, ...]


def open_consumer(config: Mapping[str, object], name: str, isolation: Isolation, inbox: Inbox, clock: Clock) -> Any:
    """Return a new client that reads at ``isolation``, commits nothing, joins nothing and never jumps silently.

    ``auto.offset.reset=error``: a position that is not in the log is an event to tell, not a reason to go elsewhere.
    The corruption of a batch is the cluster's to answer for: its CRC is checked, and what fails is an error event.
    """
    forced: dict[str, object] = {
        **ASSIGNED,
        "isolation.level": isolation,
        "error_cb": ErrorReporter(name, inbox, clock),
    }
    properties = calm({**_DEFAULTS, **config}, name, forced=forced)
    return opening.consumer(properties, quiet_logger(name))


def take(client: Any, timeout_s: float, report: Callable[[KafkaError], None]) -> list[Any]:
    """Return what the client has, events included, in its order: waits for the first, then takes all that is there.

    Empty after ``timeout_s`` seconds without any. What the client raises is reported; what it gave before is kept.
    """
    messages: list[Any] = []
    try:
        first = client.poll(timeout_s)
        if first is not None:
            messages.append(first)
            messages += client.consume(DRAIN, 0)
    except KafkaException as error:
        report(error.args[0])
    return messages


def facts_of(messages: Sequence[Any], consumer: str, isolation: Isolation, tag: bytes, at_ns: Sequence[int]) -> Facts:
    """Return the facts that delivered records (no error events) are, in their order; ``at_ns`` is when each was taken.

    Many records at once are decoded at once; if one of them is no intact probe, each by itself.
    """
    batch = _batch_of(messages, consumer, isolation, tag, at_ns) if len(messages) >= FEW else None
    if batch is not None:
        return [batch]
    return [fact_of(message, consumer, isolation, tag, ns) for message, ns in zip(messages, at_ns, strict=True)]


def _batch_of(
    messages: Sequence[Any], consumer: str, isolation: Isolation, tag: bytes, at_ns: Sequence[int]
) -> Batch[Polled] | None:
    """Return the records of one topic as one batch, None if they are not all intact probes."""
    count, topic = len(messages), messages[0].topic()
    content = decode_batch([message.value() for message in messages], tag)
    partition = np.fromiter((message.partition() for message in messages), np.int64, count)
    if content.status.any() or (content.partition != partition).any():
        return None
    if content.headers.any() and not all(map(_headed, messages)):
        return None
    times = (time if kind == TIMESTAMP_LOG_APPEND_TIME else NULL for kind, time in map(_TIMESTAMP, messages))
    epochs = (NULL if epoch is None else epoch for epoch in map(_LEADER_EPOCH, messages))
    numbers = {
        "at_ns": np.array(at_ns, np.int64),
        "partition": partition,
        "offset": np.fromiter(map(_OFFSET, messages), np.int64, count),
        "producer_id": content.producer_id,
        "generation": content.generation.astype(np.int64),
        "sequence": content.sequence,
        "transaction_id": np.where(content.transaction_id < 0, NULL, content.transaction_id),
        "timestamp_ms": np.fromiter(times, np.int64, count),
        "sent_at_ns": content.sent_at_ns,
        "leader_epoch": np.fromiter(epochs, np.int64, count),
    }
    return Batch.of(Polled, {"consumer": consumer, "isolation": isolation, "topic": topic}, numbers)


def _headed(message: Any) -> bool:
    """Say whether an intact probe has the headers that it was sent with; what lies on the way may add others."""
    content = decode(message.value(), None)
    if isinstance(content, Refusal):
        return True
    wanted = header_fields(content.identity, content.form)
    names = {name for name, _ in wanted}
    return wanted == [one for one in message.headers() or () if one[0] in names]


def fact_of(message: Any, consumer: str, isolation: Isolation, tag: bytes, at_ns: int) -> Polled | Refused:
    """Return the fact that a delivered record (no error event) is."""
    place = (at_ns, consumer, isolation, message.topic(), message.partition(), message.offset())
    epoch = message.leader_epoch()
    content = decode(message.value(), tag)
    if isinstance(content, Refusal):
        return Refused(*place, refusal=content.reason, error=content.detail, leader_epoch=epoch)
    identity = content.identity
    if content.form.headers and not _headed(message):
        return Refused(*place, refusal=WRONG_HEADERS.reason, error=WRONG_HEADERS.detail, leader_epoch=epoch)
    if identity.partition != message.partition():
        error = f"it was written for partition {identity.partition}"
        return Refused(*place, refusal="corrupt", error=error, leader_epoch=epoch)
    kind, timestamp_ms = message.timestamp()
    return Polled(
        *place,
        producer_id=identity.producer_id,
        generation=identity.generation,
        sequence=identity.sequence,
        transaction_id=content.transaction_id,
        timestamp_ms=timestamp_ms if kind == TIMESTAMP_LOG_APPEND_TIME else None,  # else it is our own
        sent_at_ns=content.sent_at_ns,
        leader_epoch=epoch,
    )
