"""What consumers do: positions, deliveries, re-reads, committed offsets."""

from dataclasses import dataclass
from typing import Literal

Isolation = Literal["read_committed", "read_uncommitted"]


@dataclass(frozen=True, slots=True)
class _Read:
    """A fact about one consumer at one offset."""

    at_ns: int
    consumer: str
    isolation: str
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Positioned(_Read):
    """The canary put the consumer at ``offset``: it was assigned, moved or renewed there.

    ``topic_id`` is the incarnation whose tag the consumer takes for the canary's own (see GenerationBegan).
    """

    reason: str
    topic_id: str | None = None


@dataclass(frozen=True, slots=True)
class Polled(_Read):
    """The consumer was given an intact probe.

    ``timestamp_ms`` is when the broker appended it, by the broker's clock (LogAppendTime); None where the topic keeps
    the producer's time. ``sent_at_ns`` is in its content.
    """

    producer_id: int
    generation: int
    sequence: int
    transaction_id: int | None = None
    timestamp_ms: int | None = None
    sent_at_ns: int | None = None
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Refused(_Read):
    """The consumer was given a record that is no intact probe of the canary.

    ``refusal`` is "foreign" (another magic or tag: counted), "corrupt" (ours, but altered or cut short) or
    "unknown-version" (ours and intact, of a later version: counted). ``error`` says what is wrong.
    """

    refusal: str
    error: str
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class EndOfPartition(_Read):
    """The consumer reached the end of what it may read; ``offset`` is its position, markers included."""


@dataclass(frozen=True, slots=True)
class OutOfRange(_Read):
    """The consumer's position ``offset`` is not in the log (``_AUTO_OFFSET_RESET``): truncated, or expired."""

    error: str


@dataclass(frozen=True, slots=True)
class RereadEnded:
    """The re-read ``request_id`` of [start, end) is over.

    Its deliveries came before as Polled and Refused facts of the consumer ``reread-<request_id>``. ``reached`` is its
    contiguous position; ``complete`` is False when it could not come to ``end`` (``error`` says why).
    ``leader_epoch`` is the first one of the partition that its client learned: it was answered in that one or a later
    one. None where brokers give none. ``cluster_id`` is what the client was told when it
    ended, "" if it was told none; None: a former release did not note it.
    """

    at_ns: int
    request_id: int
    isolation: str
    topic: str
    partition: int
    start: int
    end: int
    reached: int
    complete: bool
    error: str | None = None
    leader_epoch: int | None = None
    cluster_id: str | None = None


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """A consumer group's offset: ``reason`` "committed" (the commit was acknowledged) or "fetched" (asked for).

    ``offset`` is None when the group has none.
    """

    at_ns: int
    consumer: str
    topic: str
    partition: int
    offset: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class ScrubAsked:
    """The scrubber may read ``records`` more of a partition; with a ``start``, a new pass begins there."""

    at_ns: int
    topic: str
    partition: int
    records: int
    start: int | None = None


@dataclass(frozen=True, slots=True)
class RandomReadAsked:
    """The ``records`` from ``start`` on, a place drawn at random, are to be read again."""

    at_ns: int
    topic: str
    partition: int
    start: int
    records: int
