"""What producers do: generations, sends and their outcomes, transactions and theirs."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GenerationBegan:
    """(producer_id, generation) is now the only writer of ``mode`` to ``topic``; every older generation is dead.

    ``topic_id`` is the incarnation whose tag its records bear, None where the cluster has no topic ids. A generation
    may still begin under the former incarnation just after a topic was recreated.
    """

    at_ns: int
    topic: str
    mode: str
    producer_id: int
    generation: int
    topic_id: str | None = None


@dataclass(frozen=True, slots=True)
class _Send:
    """A fact about one probe that is sent."""

    at_ns: int
    topic: str
    partition: int
    producer_id: int
    generation: int
    sequence: int


@dataclass(frozen=True, slots=True)
class Sent(_Send):
    """A probe is about to be handed to the client; enters the queue before produce() is called."""

    mode: str
    transaction_id: int | None = None


@dataclass(frozen=True, slots=True)
class Acked(_Send):
    """A delivery report without error. ``offset`` is None when the broker gives none (a retried duplicate)."""

    offset: int | None
    latency_ns: int | None = None


@dataclass(frozen=True, slots=True)
class Failed(_Send):
    """The probe is definitely not written: produce() itself raised (decision 3)."""

    error: str


@dataclass(frozen=True, slots=True)
class Indeterminate(_Send):
    """A delivery report with an error: the record may be in the log, now or later (decision 3)."""

    error: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """``count`` probes were due and not sent: earlier ones have no outcome yet, or the writer came too late.

    Or the partition has not answered since the start, and so no reader is there: then a mode that does not write to
    every partition in each of its rounds says 0.
    """

    at_ns: int
    topic: str
    partition: int
    mode: str
    count: int
    late: int = 0
    """So many of them because the writer came too late, whatever the cluster did."""


@dataclass(frozen=True, slots=True)
class ProducerEpochBumped:
    """The client takes a new producer epoch, and sends everything in flight again under that epoch.

    Brokers recognise a copy by producer id, epoch and sequence, so they append again what they had appended already
    (librdkafka issue 4953: an OUT_OF_ORDER_SEQUENCE_NUMBER or a timeout of one partition bumps the epoch of all).
    ``generation`` is the canary's own (decision 1) and does not change.
    """

    at_ns: int
    topic: str
    producer_id: int
    generation: int
    reason: str


@dataclass(frozen=True, slots=True)
class ProducerLooked:
    """The store's answer about a producer that a read showed and this process does not know.

    ``generation`` is the highest that the store knows, None when it does not know the producer at all.
    """

    at_ns: int
    producer_id: int
    generation: int | None


@dataclass(frozen=True, slots=True)
class TransactionBegan:
    """begin_transaction() is about to be called."""

    at_ns: int
    mode: str
    producer_id: int
    generation: int
    transaction_id: int


@dataclass(frozen=True, slots=True)
class _Transaction:
    """A fact about one transaction."""

    at_ns: int
    producer_id: int
    generation: int
    transaction_id: int


@dataclass(frozen=True, slots=True)
class CommitAsked(_Transaction):
    """commit_transaction() is about to be called."""


@dataclass(frozen=True, slots=True)
class Committed(_Transaction):
    """commit_transaction() returned."""


@dataclass(frozen=True, slots=True)
class Aborted(_Transaction):
    """The transaction definitely did not and will not commit (the table in canary.kafka.transaction_errors)."""

    error: str | None = None


@dataclass(frozen=True, slots=True)
class TransactionIndeterminate(_Transaction):
    """The transaction may have committed or not."""

    error: str


@dataclass(frozen=True, slots=True)
class Relayed(_Transaction):
    """The transaction takes the input offsets [start, end) of ``topic``: it writes them on, and commits them.

    ``topic_id`` is the incarnation of the input that the relay reads.
    """

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str | None = None


@dataclass(frozen=True, slots=True)
class CoordinatorsSeen:
    """The transaction coordinators that serve no transactional id of ``mode``: broker ids, "1,3", "" for none."""

    at_ns: int
    mode: str
    brokers: str
