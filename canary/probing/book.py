"""The numbers of a writer's probes and transactions, and the facts about them.

Outcomes are decided by where an error shows (ARCHITECTURE decision 3): an exception of produce() itself is ``Failed``,
because the client never took the record. Every error in a delivery report is ``Indeterminate``, because Python shows no
persistence status and a retry may have landed. So is a probe whose client ends before its report.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from confluent_kafka import KafkaError

from canary.facts import Acked, Batch, Failed, Indeterminate, Sent, TransactionBegan
from canary.facts.batch import FEW, NULL, F
from canary.kafka.responses import text_of
from canary.probe.identity import Identity
from canary.probing.base import Renewal, Wiring
from canary.probing.sending.records import Record, Shape, records


@dataclass(slots=True)
class Open:
    """A transaction that is not settled.

    ``spoiled`` says why it must not be committed; ``doubtful``: whether a write of it was given up unanswered.
    """

    producer_id: int
    generation: int
    number: int
    spoiled: str | None = None
    doubtful: bool = False
    asked_at: float | None = None
    unresolved: dict[Identity, int] = field(default_factory=dict)

    @property
    def key(self) -> tuple[int, int, int]:
        """(producer_id, generation, transaction_id), as facts carry it."""
        return (self.producer_id, self.generation, self.number)


class Book:
    """What one writer has numbered so far. Used by its thread alone."""

    def __init__(self, wiring: Wiring[Any], under: Renewal) -> None:
        self.under = under
        self._wiring = wiring
        self.inbox = wiring.inbox
        self.clock = wiring.clock
        self._topic = wiring.topic
        self._shape = Shape.of(wiring.settings)
        self._sequences: Counter[int] = Counter()
        self._transactions = 0

    def renew(self, under: Renewal) -> None:
        """Go on under another generation, or under the same one with other partitions."""
        if under.generation != self.under.generation:
            self._sequences.clear()
        self.under = under

    def begin(self) -> Open:
        """Put into the inbox that a transaction is about to begin."""
        number, self._transactions = self._transactions, self._transactions + 1
        transaction = Open(self._wiring.producer_id, self.under.generation, number)
        self.inbox.put([TransactionBegan(self.clock.now_ns(), self._wiring.mode, *transaction.key)])
        return transaction

    def send(self, partitions: Sequence[int], transaction_id: int | None = None) -> Sequence[Sent]:
        """Number a probe for each of the partitions, and put into the inbox that they are about to be sent."""
        at_ns = self.clock.now_ns()
        who = (self._wiring.producer_id, self.under.generation)
        if len(partitions) < FEW:
            mode = self._wiring.mode
            sent: Sequence[Sent] = [
                Sent(at_ns, self._topic, p, *who, self._next(p), mode, transaction_id) for p in partitions
            ]
            self.inbox.put(sent)
            return sent
        rest = NULL if transaction_id is None else transaction_id
        rows = [(at_ns, p, *who, self._next(p), rest) for p in partitions]
        names = ("at_ns", "partition", "producer_id", "generation", "sequence", "transaction_id")
        batch = self._batch(Sent, {"mode": self._wiring.mode}, names, rows)
        self.inbox.put([batch])
        return batch

    def _batch(
        self, kind: type[F], texts: Mapping[str, str], names: Sequence[str], rows: Sequence[Sequence[int]]
    ) -> Batch[F]:
        """Return facts about this topic, of which ``rows`` have the numbers."""
        columns = np.array(rows, np.int64).T
        return Batch.of(kind, {"topic": self._topic, **texts}, dict(zip(names, columns, strict=True)))

    def _next(self, partition: int) -> int:
        sequence = self._sequences[partition]
        self._sequences[partition] = sequence + 1
        return sequence

    def records(self, sent: Sequence[Sent]) -> list[Record]:
        """Return the records of probes, all of which are of one transaction (or of none)."""
        return records(sent, self.under.tag, self._wiring.mode, self._shape)

    def produce(self, client: Any, partition: int, record: Record, on_delivery: Callable[..., None]) -> None:
        """Hand a probe to a client.

        Raises:
            BufferError, KafkaException: the client did not take it.
        """
        more = {} if record.headers is None else {"headers": record.headers}
        client.produce(self._topic, record.value, record.key, partition=partition, on_delivery=on_delivery, **more)

    def acked(self, acks: Sequence[tuple[int, int, int, int, int]]) -> list[Acked] | list[Batch[Acked]]:
        """Return the facts of delivery reports: each partition, sequence, time (ns), offset and latency (ns)."""
        who = (self._wiring.producer_id, self.under.generation)
        if len(acks) < FEW:
            return [Acked(ns, self._topic, p, *who, sequence, at, took) for p, sequence, ns, at, took in acks]
        names = ("partition", "sequence", "at_ns", "offset", "latency_ns", "producer_id", "generation")
        return [self._batch(Acked, {}, names, [(*ack, *who) for ack in acks])]

    def identity(self, partition: int, sequence: int) -> Identity:
        """Return the identity of a probe of this generation."""
        return Identity(self._wiring.producer_id, self.under.generation, partition, sequence)

    def failed(self, identity: Identity, error: Exception) -> Failed:
        """Return the fact that the client did not take a probe."""
        return Failed(self.clock.now_ns(), self._topic, *_fields(identity), error=str(error))

    def reported(
        self, identity: Identity, started_ns: int, error: KafkaError | None, message: Any
    ) -> Acked | Indeterminate:
        """Return the fact that a delivery report is; ``started_ns`` is when the client took the probe."""
        at_ns = self.clock.now_ns()
        if error is not None:
            return Indeterminate(at_ns, self._topic, *_fields(identity), error=text_of(error))
        offset = message.offset()
        known = offset if offset is not None and offset >= 0 else None
        return Acked(at_ns, self._topic, *_fields(identity), offset=known, latency_ns=at_ns - started_ns)

    def unreported(self, identities: Iterable[Identity], why: str) -> list[Indeterminate]:
        """Return the facts that probes will get no report any more."""
        at_ns = self.clock.now_ns()
        return [Indeterminate(at_ns, self._topic, *_fields(one), error=why) for one in identities]


def _fields(identity: Identity) -> tuple[int, int, int, int]:
    """Return an identity in the order in which facts carry it."""
    return identity.partition, identity.producer_id, identity.generation, identity.sequence
