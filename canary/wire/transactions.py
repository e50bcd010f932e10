"""Whose transaction is open in a partition (KIP-664): DescribeProducers, ListTransactions, DescribeTransactions."""

import contextlib
from dataclasses import dataclass
from typing import Any

from kafka.errors import KafkaError, TransactionalIdNotFoundError
from kafka.structs import TopicPartition

from canary.wire.client import explained
from canary.wire.errors import WireError


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """What a partition's leader knows: who has had a transaction open there since ``start_offset``.

    ``last_ms``: the timestamp (ms since the epoch) of its last record, -1 if unknown; it is the producer's own clock.
    """

    producer_id: int
    producer_epoch: int
    start_offset: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class Coordinated:
    """What a coordinator knows of a transactional id; ``started_ms`` -1: it has no transaction now."""

    transactional_id: str
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int
    partitions: frozenset[tuple[str, int]]

    def covers(self, open_transaction: OpenTransaction, topic: str, partition: int) -> bool:
        """Return whether the coordinator knows of this very transaction, and so will end it when its time is over.

        The epoch may be one higher there: the coordinator has begun to abort it.
        """
        known = self.producer_id == open_transaction.producer_id and self.state not in {"Empty", "Dead"}
        return (
            known and self.producer_epoch >= open_transaction.producer_epoch and (topic, partition) in self.partitions
        )


def open_in(admin: Any, topic: str, partition: int, leader: int) -> list[OpenTransaction]:
    """Return the transactions that are open in a partition, the first one first. Needs the right to Read the topic.

    ``admin`` is a client (canary.wire.client.opened), ``leader`` the broker to ask.

    Raises:
        WireError: it does not answer, or refuses.
    """
    place = TopicPartition(topic, partition)
    try:
        (producers,) = admin.describe_producers([place], broker_id=leader).values()
    except KafkaError as error:
        raise explained(error) from error
    found = (
        OpenTransaction(one.producer_id, one.producer_epoch, one.current_transaction_start_offset, one.last_timestamp)
        for one in producers.active_producers
        if one.current_transaction_start_offset >= 0
    )
    return sorted(found, key=lambda one: one.start_offset)


def coordinated(admin: Any, producer_id: int) -> Coordinated | None:
    """Return the transactional id of a producer id and what its coordinator knows of it; None: no coordinator has it.

    Needs the right to Describe the transactional id: one that may not be described is None as well.

    Raises:
        WireError: a broker does not answer, so that the id may be there.
    """
    try:
        listed = admin.list_transactions(producer_id_filters=[producer_id])
        names = [row.transactional_id for rows in listed.values() for row in rows if row.producer_id == producer_id]
        for name in names:
            with contextlib.suppress(TransactionalIdNotFoundError):
                return _described(name, admin.describe_transactions([name])[name])
    except KafkaError as error:
        raise explained(error) from error
    except ValueError as error:  # a state of transactions that the library does not know
        raise WireError(str(error)) from error
    return None


def _described(name: str, found: Any) -> Coordinated:
    return Coordinated(
        transactional_id=name,
        coordinator=found.coordinator_id,
        state=found.state.value,
        producer_id=found.producer_id,
        producer_epoch=found.producer_epoch,
        timeout_ms=found.transaction_timeout_ms,
        started_ms=found.transaction_start_time_ms,
        partitions=frozenset((one.topic, one.partition) for one in found.topic_partitions),
    )
