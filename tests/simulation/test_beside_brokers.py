"""The same scenarios with real clients on real brokers and simulated ones on simulated brokers: both see the same."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.simulation import test_clients as beside
from tests.simulation.test_clients import FAST, READER, TOPIC, Reports, Simulated, flags, served, write
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable

    from canary.lab import Lab

pytestmark = [pytest.mark.kafka, pytest.mark.quick, pytest.mark.simulator]

PATIENT = FAST | {"message.timeout.ms": 120000}
READING = READER | {"fetch.wait.max.ms": 100, "fetch.error.backoff.ms": 50}
REPLICAS = [[(p + r) % 3 + 1 for r in range(3)] for p in range(4)]
ALL = {1, 2, 3}


class Brokers:
    """confluent-kafka's clients on the lab, whose topic ``t`` is made anew with the replicas of the simulated one."""

    def __init__(self, lab: Lab) -> None:
        self.cluster = self
        self._lab = lab
        self._found = {"bootstrap.servers": lab.bootstrap, "log_level": 0}
        self._admin = AdminClient(self._found)
        if self._there():
            self._settled()
            self._admin.delete_topics([TOPIC])[TOPIC].result(20)
            until(lambda: not self._there(), 20, "the topic is deleted")
        new = NewTopic(TOPIC, len(REPLICAS), replica_assignment=REPLICAS, config={"min.insync.replicas": "2"})
        self._admin.create_topics([new])[TOPIC].result(20)
        self.whole()

    def _there(self) -> bool:
        return TOPIC in self._admin.list_topics(timeout=20).topics

    def _settled(self) -> None:
        """Wait until the last transaction's markers are written: one that comes late lands in the topic made anew.

        EndTxn is answered before its markers are written; the next InitProducerId waits for them (KIP-98).
        """
        self.producer(beside.TRANSACTIONAL).init_transactions(60)

    def producer(self, config: dict[str, Any]) -> Any:
        return confluent_kafka.Producer(self._found | config)

    def consumer(self, config: dict[str, Any]) -> Any:
        return confluent_kafka.Consumer(self._found | config)

    def now(self) -> float:
        return time.monotonic()

    def kill(self, broker: int) -> None:
        self._lab.kill(broker)

    def start(self, broker: int) -> None:
        self._lab.start_broker(broker)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        place = TopicPartition(topic, partition, before)
        self._admin.delete_records([place])[place].result(20)

    def whole(self) -> None:
        """Wait until every replica is in the ISR."""
        for partition in range(len(REPLICAS)):
            self._lab.wait_isr(TOPIC, partition, ALL)


class Scripted(Simulated):
    """The simulated clients and brokers."""

    def whole(self) -> None:
        deadline = self.now() + 90
        while any(set(self.world.cluster.partition(TOPIC, p).isr) != ALL for p in range(len(REPLICAS))):
            assert self.now() < deadline
            self.world.sleep(0.5)


def shown(consumer: Any, count: int) -> list[Any]:
    """Return the next ``count`` events: (offset, value), or (offset, code of the error)."""
    seen: list[Any] = []
    while len(seen) < count:
        message = consumer.poll(60)
        assert message is not None, seen
        error = message.error()
        seen.append((message.offset(), message.value() if error is None else error.code()))
    return seen


def leader_dies(clients: Any) -> list[Any]:
    """The leader is killed between two writes, and comes back: every record is acknowledged once, in order."""
    reports = Reports()
    producer = clients.producer(PATIENT | {"enable.idempotence": True})
    seen = write(producer, reports, b"a", b"b") + served(clients, producer)
    clients.cluster.kill(1)
    seen += write(producer, reports, b"c", b"d") + served(clients, producer, 90.0)
    clients.cluster.start(1)
    clients.whole()
    seen += write(producer, reports, b"e") + served(clients, producer, 90.0)
    consumer = clients.consumer(READING)
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    seen += shown(consumer, 6)
    consumer.close()
    return [*seen, *reports.all]


def too_few_replicas(clients: Any) -> list[Any]:
    """Of three replicas one is left: nothing is acknowledged until they are back."""
    reports = Reports()
    producer = clients.producer(FAST | {"message.timeout.ms": 20000, "enable.idempotence": True})
    seen = write(producer, reports, b"a") + served(clients, producer)
    clients.cluster.kill(2)
    clients.cluster.kill(3)
    seen += write(producer, reports, b"b") + served(clients, producer, 60.0)
    clients.cluster.start(2)
    clients.cluster.start(3)
    clients.whole()
    return [*seen, *reports.all]


def committed_and_aborted(clients: Any) -> list[Any]:
    """What readers of both isolations see of a committed and of an aborted transaction, with the places of markers."""
    client = clients.producer(beside.TRANSACTIONAL)
    reports = Reports()
    seen: list[Any] = [flags(client.init_transactions, 20.0)]
    for end in (client.commit_transaction, client.abort_transaction, client.commit_transaction):
        seen += [
            flags(client.begin_transaction),
            *write(client, reports, b"a", b"b"),
            client.flush(20),
            flags(end, 20.0),
        ]
    for isolation, count in (("read_uncommitted", 7), ("read_committed", 5)):
        consumer = clients.consumer(READING | {"isolation.level": isolation})
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        seen += shown(consumer, count)
        consumer.close()
    return [*seen, *reports.all]


def fenced(clients: Any) -> list[Any]:
    """A second client takes the transactional id; the first one is told."""
    first, reports = clients.producer(beside.TRANSACTIONAL), Reports()
    seen: list[Any] = [flags(first.init_transactions, 20.0), flags(first.begin_transaction)]
    seen += write(first, reports, b"first")
    first.flush(20)
    second = clients.producer(beside.TRANSACTIONAL)
    seen += [flags(second.init_transactions, 20.0)]
    seen += [flags(first.commit_transaction, 20.0), flags(first.begin_transaction)]
    seen += beside.transact(clients, second, reports)
    consumer = clients.consumer(READING | {"isolation.level": "read_committed"})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    return [*seen, *shown(consumer, 2), *reports.all]


def deleted_records(clients: Any) -> list[Any]:
    """Records are deleted below a place: a position there is out of range, and the log begins higher."""
    producer, reports = clients.producer({}), Reports()
    seen = write(producer, reports, b"a", b"b", b"c", b"d") + served(clients, producer)
    clients.cluster.delete_records(TOPIC, 0, 3)
    consumer = clients.consumer(READING)
    seen.append(consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=20))
    consumer.assign([TopicPartition(TOPIC, 0, 1)])
    seen += shown(consumer, 1)
    consumer.assign([TopicPartition(TOPIC, 0, 3)])
    seen += shown(consumer, 2)
    consumer.close()
    return [*seen, *reports.all]


SCENARIOS: list[tuple[Callable[..., list[Any]], tuple[Any, ...]]] = [
    (beside.ten_records, ({"enable.idempotence": True},)),
    (beside.ten_records, ({"acks": 1, "enable.idempotence": False},)),
    (beside.to_the_end, ()),
    (beside.transactions, ()),
    (committed_and_aborted, ()),
    (fenced, ()),
    (deleted_records, ()),
    (leader_dies, ()),
    (too_few_replicas, ()),
]


def simulated(scenario: Callable[..., list[Any]], case: tuple[Any, ...]) -> list[Any]:
    clients, seen = Scripted(), list[Any]()
    clients.world.run(lambda: seen.extend(scenario(clients, *case)))
    return seen


def test_clients_see_on_real_brokers_what_they_see_on_simulated_ones(lab: Lab) -> None:
    for scenario, case in SCENARIOS:
        assert simulated(scenario, case) == scenario(Brokers(lab), *case), scenario.__name__
