"""What clients may ask of the simulated cluster, and what it answers: values and one Protocol, no behaviour.

A request reaches a broker or it does not: ``reaches`` says so at the moment of asking, and again when the answer goes
back. An answer comes by calling ``reply`` once (maybe at once, maybe in virtual seconds, maybe never: the broker died,
or the network between). Errors are KafkaError codes as integers (confluent_kafka.KafkaError.NOT_LEADER_FOR_PARTITION),
0 is none.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Isolation = Literal["read_committed", "read_uncommitted"]


@dataclass(slots=True, eq=False)
class Record:
    """One record of a log, the same object in every replica that holds it. ``control``: a transaction marker."""

    offset: int
    epoch: int
    """Leader epoch under which it was appended."""
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    producer_id: int = -1
    producer_epoch: int = -1
    sequence: int = -1
    transactional: bool = False
    control: Literal["commit", "abort"] | None = None
    at: float = 0.0
    """When it was appended, in virtual s."""
    batch: int = -1
    """Offset of the first record of its batch."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What a producer sends to one partition: (key, value, timestamp_ms) of each record, in order.

    Without ``first_sequence`` it is of no idempotent producer, or what a group's coordinator writes for a transaction:
    the broker looks at the producer's epoch alone there.
    """

    records: Sequence[tuple[bytes | None, bytes | None, int]]
    producer_id: int = -1
    producer_epoch: int = -1
    first_sequence: int = -1
    transactional_id: str | None = None


@dataclass(frozen=True, slots=True)
class Produced:
    """``offset`` of the first record; -1 with an error, or where the broker knows a copy but no longer its offset."""

    error: int
    offset: int = -1
    timestamp_ms: int = -1


@dataclass(frozen=True, slots=True)
class Fetched:
    """``records`` are in order from the asked offset on, without markers and without what the isolation hides.

    ``next_offset`` is where to read on: behind the last record, marker or hidden record that was passed. ``end`` is the
    high watermark, or the last stable offset for read_committed. ``diverging``: (epoch, end offset) where the log of
    the reader's epoch ends below its position (KIP-320), else None.
    """

    error: int
    records: Sequence[Record] = ()
    next_offset: int = -1
    end: int = -1
    start: int = -1
    diverging: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """An answer to ListOffsets."""

    error: int
    offset: int = -1
    epoch: int = -1


@dataclass(frozen=True, slots=True)
class PartitionMeta:
    """``leader`` is -1 where there is none."""

    id: int
    leader: int
    epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicMeta:
    """``topic_id`` is a UUID as text, None where the cluster does not tell ids. ``error``: 0 or a code."""

    name: str
    topic_id: str | None
    partitions: Sequence[PartitionMeta]
    error: int = 0


@dataclass(frozen=True, slots=True)
class Metadata:
    """As one broker knows the cluster, which may be late. Brokers are (id, rack); ``controller`` -1: none."""

    cluster_id: str
    brokers: Sequence[tuple[int, str | None]]
    controller: int
    topics: dict[str, TopicMeta] = field(default_factory=dict)


class ClusterApi(Protocol):
    """The simulated cluster, as clients see it. ``site`` names where a client runs ("canary"): networks part sites."""

    other_id: str | None
    """The id that brokers give of each topic, in place of its own."""

    schedule: Any
    changed_at: dict[tuple[str, int], int]
    """By (topic, partition), a number that rises with each change that a fetch could see."""

    @property
    def leads_to(self) -> "ClusterApi | None":
        """The cluster that new connections to the addresses of this one reach, None: this one."""

    def reaches(self, site: str, broker: int) -> bool:
        """Whether a request from ``site`` gets through to a live, not frozen broker now, and an answer back."""

    def overtaken(self, topic: str, partition: int) -> bool:
        """Whether what is sent next is overtaken by the request behind it."""

    def brokers(self) -> Sequence[int]:
        """Return the ids of all brokers there are, dead ones too: a client's bootstrap list."""

    def metadata(self, broker: int) -> Metadata:
        """Return what this broker knows."""

    def watch(self, topic: str, partition: int, call: Callable[[], None]) -> Callable[[], None]:
        """Call ``call`` after each change that a fetch of the partition could see; returns what ends that."""

    def produce(
        self, site: str, broker: int, topic: str, partition: int, batch: Batch, acks: int,
        timeout_s: float, reply: Callable[[Produced], None],
    ) -> None:  # fmt: skip
        """Append a batch; ``acks`` and ``timeout_s`` are those of the request."""

    def fetch(
        self, site: str, broker: int, topic: str, partition: int, offset: int, *, isolation: Isolation,
        current_epoch: int = -1, last_epoch: int = -1, most: int = 1000,
    ) -> Fetched:  # fmt: skip
        """Return what stands from an offset on; see ``Fetched``."""

    def list_offset(
        self, site: str, broker: int, topic: str, partition: int, which: Literal["earliest", "latest"],
        isolation: Isolation,
    ) -> Listing:  # fmt: skip
        """Return where the log begins or ends."""

    def create_topic(self, broker: int, name: str, assignments: Sequence[Sequence[int]], config: dict[str, str]) -> int:
        """Make a topic, with the brokers of each partition; return an error."""

    def delete_topic(self, broker: int, name: str) -> int:
        """Delete a topic; return an error."""

    def create_partitions(self, broker: int, name: str, assignments: Sequence[Sequence[int]]) -> int:
        """Add partitions; return an error."""

    def describe_config(self, broker: int, kind: Literal["topic", "broker"], name: str) -> tuple[int, dict[str, str]]:
        """Return (error, every setting in force)."""

    def alter_config(self, broker: int, topic: str, changes: dict[str, str]) -> int:
        """Change some settings of a topic; return an error."""

    def coordinator(self, transactional_id: str) -> int:
        """Return the broker that leads the partition of __transaction_state for this id; -1: none now."""

    def init_producer_id(
        self, broker: int, transactional_id: str | None, transaction_timeout_s: float
    ) -> tuple[int, int, int]:
        """Return (error, producer id, epoch). With an id: fences its former client, and ends what that left open.

        CONCURRENT_TRANSACTIONS while that end is under way; a broker that cannot reach a quorum of its state answers
        COORDINATOR_NOT_AVAILABLE or COORDINATOR_LOAD_IN_PROGRESS, another broker NOT_COORDINATOR.
        """

    def bump_epoch(self, broker: int, producer_id: int, epoch: int) -> tuple[int, int, int]:
        """For an idempotent producer (KIP-360): return (error, producer id, next epoch)."""

    def add_partitions(
        self, broker: int, transactional_id: str, producer_id: int, epoch: int, places: Sequence[tuple[str, int]]
    ) -> int:
        """Let partitions belong to the transaction; return an error."""

    def end_transaction(
        self,
        broker: int,
        transactional_id: str,
        producer_id: int,
        epoch: int,
        *,
        commit: bool,
        reply: Callable[[int], None],
    ) -> None:
        """Decide the transaction durably, reply, and write its markers; INVALID_TXN_STATE, PRODUCER_FENCED, ..."""
