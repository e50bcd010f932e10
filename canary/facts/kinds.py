"""The facts themselves: one frozen dataclass a kind, and the columns that all of them share."""

from __future__ import annotations

import dataclasses
import types
import typing
from dataclasses import dataclass
from typing import Literal

Isolation = Literal["read_committed", "read_uncommitted"]


@dataclass(frozen=True, slots=True)
class RunnerStarted:
    """A runner began (or began again) to put facts here; whatever was in flight before it has no outcome any more.

    ``installation`` is what its store is called, a part of every probe's tag. ``remembered_ns`` is the time of the last
    fact that the ledger held before the process, None if there was none.
    """

    at_ns: int
    runner: str
    version: str
    installation: str | None = None
    remembered_ns: int | None = None


@dataclass(frozen=True, slots=True)
class MemoryLost:
    """The ledger was damaged, wiped or put back: what happened from ``from_ns`` (None: ever) to now is not known."""

    at_ns: int
    from_ns: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class GenerationBegan:
    """(producer_id, generation) is now the only writer of ``mode`` to ``topic``; every older generation is dead.

    ``topic_id`` is the incarnation that its records are marked for, None where the cluster tells none: between the
    sight of a new one and everybody's going on there, a generation may begin under the former.
    """

    at_ns: int
    topic: str
    mode: str
    producer_id: int
    generation: int
    topic_id: str | None = None


@dataclass(frozen=True, slots=True)
class Sent:
    """A probe is about to be handed to the client: enters the queue before produce() is called."""

    at_ns: int
    topic: str
    partition: int
    producer_id: int
    generation: int
    sequence: int
    mode: str
    transaction_id: int | None = None


@dataclass(frozen=True, slots=True)
class Acked:
    """A delivery report without error. ``offset`` is None when the broker did not say (a retried duplicate)."""

    at_ns: int
    topic: str
    partition: int
    producer_id: int
    generation: int
    sequence: int
    offset: int | None
    latency_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """Definitely not written: produce() itself raised (decision 3)."""

    at_ns: int
    topic: str
    partition: int
    producer_id: int
    generation: int
    sequence: int
    error: str


@dataclass(frozen=True, slots=True)
class Indeterminate:
    """A delivery report with an error: the record may be in the log, now or later (decision 3)."""

    at_ns: int
    topic: str
    partition: int
    producer_id: int
    generation: int
    sequence: int
    error: str


@dataclass(frozen=True, slots=True)
class Positioned:
    """A consumer will read on from ``offset``: it was assigned, moved or renewed there by us.

    ``topic_id`` is the incarnation whose records it knows for ours (see GenerationBegan).
    """

    at_ns: int
    consumer: str
    isolation: str
    topic: str
    partition: int
    offset: int
    reason: str
    topic_id: str | None = None


@dataclass(frozen=True, slots=True)
class Polled:
    """A consumer was given a record of ours, intact.

    ``timestamp_ms`` is when the broker appended it, by its clock (LogAppendTime); None where the topic has our own.
    ``sent_at_ns`` is in its content.
    """

    at_ns: int
    consumer: str
    isolation: str
    topic: str
    partition: int
    offset: int
    producer_id: int
    generation: int
    sequence: int
    transaction_id: int | None = None
    timestamp_ms: int | None = None
    sent_at_ns: int | None = None
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """A consumer was given a record that is no intact probe of ours.

    ``refusal`` is "foreign" (not our magic and tag: silent), "corrupt" (ours, but altered or cut short) or
    "unknown-version" (ours and intact, of a later version: counted). ``error`` says what was wrong.
    """

    at_ns: int
    consumer: str
    isolation: str
    topic: str
    partition: int
    offset: int
    refusal: str
    error: str
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class EndOfPartition:
    """A consumer reached the end of what it may read; ``offset`` is its position, markers included."""

    at_ns: int
    consumer: str
    isolation: str
    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class OutOfRange:
    """A consumer's position ``offset`` is not in the log (``_AUTO_OFFSET_RESET``): cut off, or expired."""

    at_ns: int
    consumer: str
    isolation: str
    topic: str
    partition: int
    offset: int
    error: str


@dataclass(frozen=True, slots=True)
class RereadEnded:
    """The re-read ``request_id`` of [start, end) is over.

    Its deliveries came before as Polled and Refused facts of the consumer ``reread-<request_id>``. ``reached`` is its
    contiguous position; ``complete`` is False when it could not come to ``end`` (``error`` says why).
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


@dataclass(frozen=True, slots=True)
class WatchAsked:
    """The cluster is about to be asked; answers with this ``sample`` speak of facts before this one."""

    at_ns: int
    sample: int


@dataclass(frozen=True, slots=True)
class WatchFailed:
    """A part of the round ``sample`` got no answer."""

    at_ns: int
    sample: int
    error: str


@dataclass(frozen=True, slots=True)
class ClusterSeen:
    """The cluster behind the address calls itself ``cluster_id``; ``brokers`` are the live ones' ids, "1,2,3"."""

    at_ns: int
    sample: int
    cluster_id: str
    brokers: str
    controller: int | None = None


@dataclass(frozen=True, slots=True)
class TopicSeen:
    """The topic exists, as incarnation ``topic_id`` (None where the cluster does not tell), with so many partitions."""

    at_ns: int
    sample: int
    topic: str
    topic_id: str | None
    partitions: int


@dataclass(frozen=True, slots=True)
class TopicGone:
    """The cluster, asked with sufficient rights, says that there is no such topic."""

    at_ns: int
    sample: int
    topic: str


@dataclass(frozen=True, slots=True)
class TopicConfigured:
    """Settings of the topic in force that excuse what disappears. -1 = unlimited; None = not known."""

    at_ns: int
    topic: str
    retention_ms: int | None
    retention_bytes: int | None
    cleanup_policy: str | None
    min_insync_replicas: int | None


@dataclass(frozen=True, slots=True)
class PartitionSeen:
    """Leader (-1: none), replicas and in-sync replicas of a partition, as "1,2,3"."""

    at_ns: int
    sample: int
    topic: str
    partition: int
    leader: int
    replicas: str
    isr: str


@dataclass(frozen=True, slots=True)
class Listed:
    """ListOffsets of a partition: first offset, end (exclusive), last stable offset, and the leader epoch."""

    at_ns: int
    sample: int
    topic: str
    partition: int
    start: int
    end: int
    stable: int | None = None
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class TransactionBegan:
    """begin_transaction() is about to be called."""

    at_ns: int
    mode: str
    producer_id: int
    generation: int
    transaction_id: int


@dataclass(frozen=True, slots=True)
class CommitAsked:
    """commit_transaction() is about to be called."""

    at_ns: int
    producer_id: int
    generation: int
    transaction_id: int


@dataclass(frozen=True, slots=True)
class Committed:
    """commit_transaction() returned."""

    at_ns: int
    producer_id: int
    generation: int
    transaction_id: int


@dataclass(frozen=True, slots=True)
class Aborted:
    """The transaction definitely did not and will not commit (the table in canary.probing.taxonomy)."""

    at_ns: int
    producer_id: int
    generation: int
    transaction_id: int
    error: str | None = None


@dataclass(frozen=True, slots=True)
class TransactionIndeterminate:
    """Nobody can say whether the transaction committed."""

    at_ns: int
    producer_id: int
    generation: int
    transaction_id: int
    error: str


@dataclass(frozen=True, slots=True)
class Relayed:
    """The transaction takes the input offsets [start, end) of ``topic``: it writes them on, and commits them.

    ``topic_id`` is the incarnation of the input that it was told to read (see GenerationBegan).
    """

    at_ns: int
    producer_id: int
    generation: int
    transaction_id: int
    topic: str
    partition: int
    start: int
    end: int
    topic_id: str | None = None


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """Where a consumer group stands: ``reason`` "committed" (the commit was acknowledged) or "fetched" (asked for).

    ``offset`` is None when the group says that it has none.
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
class CoordinatorsSeen:
    """The transaction coordinators that no transactional id of ``mode`` meets: broker ids, "1,3", "" for none."""

    at_ns: int
    mode: str
    brokers: str


@dataclass(frozen=True, slots=True)
class ClientError:
    """An error that a client reported outside any delivery: evidence, never a violation by itself."""

    at_ns: int
    client: str
    code: str
    error: str
    fatal: bool = False


@dataclass(frozen=True, slots=True)
class ProducerEpochBumped:
    """The client takes a new producer epoch, and sends under it again what it has in flight.

    Brokers know a copy by producer id, epoch and sequence, so what they had appended already is appended twice
    (librdkafka issue 4953: an OUT_OF_ORDER_SEQUENCE_NUMBER, or a timeout, of one partition does that to all).
    ``generation`` is ours (decision 1) and stays.
    """

    at_ns: int
    topic: str
    producer_id: int
    generation: int
    reason: str


@dataclass(frozen=True, slots=True)
class ProducerLooked:
    """The store was asked for a producer that reads showed and nobody here knows: it is another runner's, or nobody's.

    ``generation`` is the highest that the store knows, None when it does not know the producer at all.
    """

    at_ns: int
    producer_id: int
    generation: int | None


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed and nothing else did. Lets timers run in a pure fold."""

    at_ns: int


@dataclass(frozen=True, slots=True)
class BrokerSeen:
    """A live broker: where it is reached ("host:port"), and its rack."""

    at_ns: int
    sample: int
    broker: int
    host: str
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class WatchedPartition:
    """PartitionSeen of a topic that we do not write to: told once, and then only when it changes."""

    at_ns: int
    sample: int
    topic: str
    partition: int
    leader: int
    replicas: str
    isr: str


@dataclass(frozen=True, slots=True)
class WatchedGone:
    """A topic that we do not write to is in the metadata no more."""

    at_ns: int
    sample: int
    topic: str


@dataclass(frozen=True, slots=True)
class WatchedConfigured:
    """min.insync.replicas of a topic that we do not write to; asked for when its replicas are out of sync."""

    at_ns: int
    topic: str
    min_insync_replicas: int | None


@dataclass(frozen=True, slots=True)
class WatchedListed:
    """Listed of a partition that the operator named; ``topic_id`` was told in the same round."""

    at_ns: int
    sample: int
    topic: str
    topic_id: str | None
    partition: int
    start: int
    end: int
    stable: int | None = None
    leader_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class TopologySeen:
    """The round told every change of leaders and replicas there is: of ``extent`` "probe" (topics) or "all"."""

    at_ns: int
    sample: int
    extent: str


Fact = (
    RunnerStarted
    | GenerationBegan
    | Sent
    | Acked
    | Failed
    | Indeterminate
    | Positioned
    | Polled
    | Refused
    | EndOfPartition
    | OutOfRange
    | RereadEnded
    | WatchAsked
    | WatchFailed
    | ClusterSeen
    | TopicSeen
    | TopicGone
    | TopicConfigured
    | PartitionSeen
    | Listed
    | TransactionBegan
    | CommitAsked
    | Committed
    | Aborted
    | TransactionIndeterminate
    | ClientError
    | Tick
    | ProducerLooked
    | Relayed
    | GroupOffset
    | BrokerSeen
    | WatchedPartition
    | WatchedGone
    | WatchedConfigured
    | WatchedListed
    | TopologySeen
    | ScrubAsked
    | CoordinatorsSeen
    | ProducerEpochBumped
    | MemoryLost
)

FACT_KINDS: tuple[type[Fact], ...] = typing.get_args(Fact)
"""Every kind of fact. The position in this tuple is its number on disk: append, never reorder."""


def _columns() -> dict[str, type]:
    """Return the type (int, str or bool) of each field name, the same in every fact that has it."""
    columns: dict[str, type] = {}
    for kind in FACT_KINDS:
        hints = typing.get_type_hints(kind)
        for field in dataclasses.fields(kind):
            hint = hints[field.name]
            if isinstance(hint, types.UnionType):
                (hint,) = (part for part in typing.get_args(hint) if part is not type(None))
            if columns.setdefault(field.name, hint) is not hint:
                raise TypeError(f"{kind.__name__}.{field.name} is {hint}, elsewhere {columns[field.name]}")
    return columns


COLUMNS: dict[str, type] = _columns()
"""Field name to int, str or bool: the columns of a table that can hold any fact (absent = null)."""
