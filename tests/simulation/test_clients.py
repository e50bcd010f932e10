"""The simulated clients on the simulated cluster; and, in the second half, beside confluent-kafka on a mock cluster."""

from __future__ import annotations

import random
import re
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import ConfigEntry, ConfigResource, NewPartitions, NewTopic, OffsetSpec, ResourceType

from canary.kafka.effective_config import IDEMPOTENT, logging_properties, require
from canary.kafka.producer_epochs import watching_epochs
from canary.kafka.quiet import quiet_logger
from simulation.clients import SimulatedFuture, SimulatedKafka, wait_futures
from simulation.cluster.cluster import Cluster
from simulation.cluster.groups import Groups
from simulation.machine.schedule import Process, Schedule
from tests.simulation.mock_clusters import MockCluster, Scripted

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.simulator

TOPIC = "t"
CALM = {"retry.backoff.ms": 250, "reconnect.backoff.ms": 250, "fetch.error.backoff.ms": 250, "socket.timeout.ms": 10000}
READER = CALM | {
    "group.id": "g",
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "isolation.level": "read_uncommitted",
}


class World:
    """A cluster of three brokers with the topic ``t``: partition p is on brokers p + 1, p + 2 and so on."""

    def __init__(self, partitions: int = 3) -> None:
        self.schedule = Schedule()
        self.cluster = Cluster(self.schedule, random.Random(1), brokers=3)
        self.process = Process("canary")
        self.kafka: Any = SimulatedKafka(self.schedule, self.cluster, self.process)
        replicas = [[(p + r) % 3 + 1 for r in range(3)] for p in range(partitions)]
        assert not self.cluster.create_topic(1, TOPIC, replicas, {"min.insync.replicas": "2"})
        self.schedule.run(self.schedule.now + 1)

    def run(self, *tasks: Callable[[], object], seconds: float = 600.0) -> None:
        """Let the tasks run to their end."""
        begun = [self.schedule.spawn(self.process, task, f"task {number}") for number, task in enumerate(tasks)]
        end = self.schedule.now + seconds
        while self.schedule.now < end and not all(one.ended for one in begun):
            self.schedule.run(min(self.schedule.now + 1, end))
        for one in begun:
            if one.failure is not None:
                raise one.failure
            assert one.ended, one.name

    def now(self) -> float:
        return self.schedule.now

    def sleep(self, seconds: float) -> None:
        self.schedule.park(self.schedule.now + seconds)

    def produced(self, count: int, partition: int = 0, **config: Any) -> Any:
        """Return a producer that has written ``count`` records."""
        producer = self.kafka.producer(CALM | {"enable.idempotence": True} | config)
        reports = Reports()
        for number in range(count):
            producer.produce(TOPIC, b"%d" % number, partition=partition, on_delivery=reports)
        assert producer.flush(60) == 0
        assert not reports.failed
        return producer

    def values(self, partition: int = 0, isolation: str = "read_uncommitted") -> list[bytes]:
        """Read a partition from its start to its end."""
        consumer = self.kafka.consumer(READER | {"isolation.level": isolation})
        consumer.assign([TopicPartition(TOPIC, partition, 0)])
        found: list[bytes] = []
        while (message := consumer.poll(30)) is not None and message.error() is None:
            found.append(message.value())
        assert message is not None
        assert message.error().code() == KafkaError._PARTITION_EOF
        consumer.close()
        return found


class Reports:
    """Delivery reports: (code, offset) of each, in their order."""

    def __init__(self) -> None:
        self.all: list[tuple[int, int | None]] = []

    def __call__(self, error: KafkaError | None, message: Any) -> None:
        self.all.append((error.code() if error is not None else 0, message.offset()))

    @property
    def failed(self) -> list[int]:
        return [code for code, _ in self.all if code]


@pytest.fixture
def world() -> World:
    return World()


def error_of(call: Callable[..., object], *args: Any, **kwargs: Any) -> KafkaError:
    with pytest.raises(KafkaException) as raised:
        call(*args, **kwargs)
    error: KafkaError = raised.value.args[0]
    return error


# ---- producing


def test_records_are_delivered_at_the_offsets_of_their_order(world: World) -> None:
    def main() -> None:
        reports = Reports()
        producer = world.kafka.producer(CALM | {"enable.idempotence": True})
        for number in range(20):
            producer.produce(TOPIC, b"%d" % number, b"key", partition=0, on_delivery=reports)
        assert len(producer) >= 20
        assert producer.flush(10) == 0
        assert reports.all == [(0, offset) for offset in range(20)]
        assert world.values() == [b"%d" % number for number in range(20)]

    world.run(main)
    assert world.schedule.now < 5


def test_a_record_that_is_written_and_not_answered_is_sent_again_and_recognised(world: World) -> None:
    """Followers are cut off from the leader, so that its answer is late; the copy goes to the same log."""

    def main() -> None:
        producer = world.produced(1)
        world.cluster.freeze(1)
        reports = Reports()
        producer.produce(TOPIC, b"late", partition=0, on_delivery=reports)
        producer.poll(2)
        assert reports.all == []
        world.cluster.resume(1)
        deadline = world.schedule.now + 60
        while not reports.all and world.schedule.now < deadline:
            producer.poll(1)
        assert not reports.failed
        world.sleep(10)
        assert world.values() == [b"0", b"late"]

    world.run(main)


def test_a_report_of_a_timeout_may_be_about_a_record_that_is_written(world: World) -> None:
    def main() -> None:
        producer = world.produced(1, **{"message.timeout.ms": 5000, "socket.timeout.ms": 3000})
        reports = Reports()
        world.cluster.cut("canary", 1)
        producer.produce(TOPIC, b"lost", partition=0, on_delivery=reports)
        while not reports.all:
            producer.poll(1)
        assert reports.failed == [KafkaError._MSG_TIMED_OUT]
        world.cluster.heal()
        producer.produce(TOPIC, b"next", partition=0, on_delivery=reports)
        while len(reports.all) < 2:
            producer.poll(1)
        assert reports.all[1][0] == 0
        assert world.values() in ([b"0", b"next"], [b"0", b"lost", b"next"])

    world.run(main)


def test_the_death_of_a_leader_costs_no_record_and_makes_no_copy(world: World) -> None:
    def main() -> None:
        producer = world.produced(1)
        reports = Reports()
        for number in range(1, 100):
            if number == 50:
                world.cluster.kill(1)
            producer.produce(TOPIC, b"%d" % number, partition=0, on_delivery=reports)
            producer.poll(0.02)
        assert producer.flush(60) == 0
        assert not reports.failed
        assert world.values() == [b"%d" % number for number in range(100)]

    world.run(main)


def test_a_new_producer_epoch_is_logged_before_its_records_are_sent(world: World) -> None:
    bumps: list[str] = []

    def main() -> None:
        logger = quiet_logger("client")
        config = CALM | {"enable.idempotence": True, "message.timeout.ms": 3000}
        config = watching_epochs(config, logger, bumps.append)
        config, effective = logging_properties(config, logger)
        producer = world.kafka.producer(config, logger)
        require(producer, effective, IDEMPOTENT)
        reports = Reports()
        producer.produce(TOPIC, b"0", partition=0, on_delivery=reports)
        producer.flush(10)
        for broker in (1, 2, 3):
            world.cluster.cut("canary", broker)
        producer.produce(TOPIC, b"1", partition=0, on_delivery=reports)
        while len(reports.all) < 2:
            producer.poll(1)
        world.cluster.heal()
        producer.produce(TOPIC, b"2", partition=0, on_delivery=reports)
        assert producer.flush(30) == 0
        assert [code for code, _ in reports.all] == [0, KafkaError._MSG_TIMED_OUT, 0]

    world.run(main)
    assert bumps == ["1 message(s) timed out on t [0]"]


def test_the_producer_of_a_log_that_was_cut_off_dies(world: World) -> None:
    """Sequence numbers that the broker does not know any more: the same producer cannot go on."""

    def main() -> None:
        producer = world.produced(3)
        leader: Any = world.cluster.partition(TOPIC, 0).leading()
        leader.log.truncate(2)
        next(iter(leader.lead.producers.by_id.values())).batches.pop()
        reports = Reports()
        producer.produce(TOPIC, b"3", partition=0, on_delivery=reports)
        error = error_of(producer.poll, 5)
        assert (error.code(), error.fatal()) == (KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER, True)
        refused = error_of(producer.produce, TOPIC, b"4", partition=0)
        assert refused.code() == KafkaError._FATAL
        producer.poll(0)
        assert reports.failed == [KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER]

    world.run(main)


def test_purge_reports_what_waits_and_what_is_on_its_way(world: World) -> None:
    def main() -> None:
        producer = world.produced(1, **{"linger.ms": 0})
        world.cluster.freeze(1)
        reports = Reports()
        for number in range(7):
            producer.produce(TOPIC, b"%d" % number, partition=0, on_delivery=reports)
        producer.purge()
        producer.poll(0)
        assert sorted(reports.failed) == [KafkaError._PURGE_QUEUE] * 2 + [KafkaError._PURGE_INFLIGHT] * 5
        assert len(producer) == 0

    world.run(main)


def test_a_dead_process_hears_nothing(world: World) -> None:
    reports = Reports()

    def main() -> None:
        producer = world.produced(1)
        producer.produce(TOPIC, b"1", partition=0, on_delivery=reports)
        world.schedule.kill(world.process)
        producer.poll(10)

    world.schedule.spawn(world.process, main, "main")
    world.schedule.run(world.schedule.now + 60)
    assert reports.all == []


# ---- transactions


def transactional(world: World, **config: Any) -> Any:
    timeouts = {"transaction.timeout.ms": 10000, "message.timeout.ms": 10000, "socket.timeout.ms": 5000}
    return world.kafka.producer(CALM | timeouts | {"transactional.id": "x"} | config)


def initialised(client: Any) -> Any:
    while (answer := flags(client.init_transactions, 2.0)) != ("fine",):
        assert answer[1:] == (False, True, False)
    return client


def test_committed_records_are_read_and_aborted_ones_are_hidden(world: World) -> None:
    def main() -> None:
        client = initialised(transactional(world))
        for number in range(6):
            reports = Reports()
            client.begin_transaction()
            client.produce(TOPIC, b"%d" % number, partition=0, on_delivery=reports)
            client.produce(TOPIC, b"%d" % number, partition=1, on_delivery=reports)
            if number % 2:
                client.flush(10)
                client.abort_transaction(5.0)
            else:
                client.commit_transaction(5.0)
            assert not reports.failed
        world.sleep(1)
        assert world.values(0, "read_committed") == [b"0", b"2", b"4"]
        assert world.values(1, "read_uncommitted") == [b"%d" % number for number in range(6)]

    world.run(main)


def test_a_commit_that_times_out_is_asked_again(world: World) -> None:
    def main() -> None:
        client = initialised(transactional(world))
        client.begin_transaction()
        client.produce(TOPIC, b"0", partition=0)
        assert client.flush(10) == 0
        coordinator = world.cluster.coordinator("x")
        world.cluster.cut("canary", coordinator)
        error = error_of(client.commit_transaction, 2.0)
        assert error.code() == KafkaError._TIMED_OUT
        assert (error.retriable(), error.fatal(), error.txn_requires_abort()) == (True, False, False)
        assert "Timed out waiting for operation" in error.str()
        conflict = error_of(client.abort_transaction, 1.0)
        assert conflict.code() == KafkaError._CONFLICT
        world.cluster.heal()
        client.commit_transaction(10.0)
        world.sleep(1)
        assert world.values(0, "read_committed") == [b"0"]

    world.run(main)


def test_the_former_client_of_a_transactional_id_is_fenced(world: World) -> None:
    def main() -> None:
        zombie = initialised(transactional(world))
        zombie.begin_transaction()
        zombie.produce(TOPIC, b"zombie", partition=0)
        assert zombie.flush(10) == 0
        client = initialised(transactional(world))
        error = error_of(zombie.commit_transaction, 5.0)
        assert (error.code(), error.fatal()) == (KafkaError._FENCED, True)
        client.begin_transaction()
        client.produce(TOPIC, b"new", partition=0)
        client.commit_transaction(5.0)
        world.sleep(1)
        assert world.values(0, "read_committed") == [b"new"]

    world.run(main)


def test_an_undelivered_transaction_must_be_aborted(world: World) -> None:
    def main() -> None:
        client = initialised(transactional(world, **{"message.timeout.ms": 2000}))
        client.begin_transaction()
        client.produce(TOPIC, b"0", partition=0)
        assert client.flush(10) == 0
        for broker in (1, 2, 3):
            world.cluster.cut("canary", broker)
        client.produce(TOPIC, b"1", partition=0)
        error = error_of(client.commit_transaction, 8.0)
        assert (error.retriable(), error.fatal(), error.txn_requires_abort()) == (False, False, True)
        assert error.code() == KafkaError._TIMED_OUT
        world.cluster.heal()
        client.abort_transaction(10.0)
        client.begin_transaction()
        client.produce(TOPIC, b"2", partition=0)
        client.commit_transaction(10.0)
        world.sleep(1)
        assert world.values(0, "read_committed") == [b"2"]

    world.run(main)


# ---- consuming


def test_a_waiting_reader_wakes_when_a_record_comes_and_not_before(world: World) -> None:
    def main() -> None:
        producer = world.produced(1)
        consumer = world.kafka.consumer(READER)
        consumer.assign([TopicPartition(TOPIC, 0, 1), TopicPartition(TOPIC, 1, 0), TopicPartition(TOPIC, 2, 0)])
        ends = [consumer.poll(5).error().code() for _ in range(3)]
        assert ends == [KafkaError._PARTITION_EOF] * 3
        before = world.schedule.steps
        assert consumer.poll(30) is None
        assert world.schedule.steps - before <= 2
        began = world.schedule.now
        world.schedule.after(3, lambda: producer.produce(TOPIC, b"1", partition=0))
        message = consumer.poll(30)
        assert (message.value(), message.offset(), message.leader_epoch()) == (b"1", 1, 0)
        assert world.schedule.now - began < 3.2
        assert consumer.consume(10, 0) == []

    world.run(main)


def test_a_position_beyond_the_log_is_an_event_and_the_log_can_be_asked_for(world: World) -> None:
    def main() -> None:
        world.produced(5)
        consumer = world.kafka.consumer(READER)
        consumer.assign([TopicPartition(TOPIC, 0, 9)])
        message = consumer.poll(5)
        assert message.error().code() == KafkaError._AUTO_OFFSET_RESET
        assert consumer.poll(5) is None
        assert consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=1.0) == (0, 5)
        consumer.incremental_unassign([TopicPartition(TOPIC, 0)])
        consumer.incremental_assign([TopicPartition(TOPIC, 0, 4)])
        assert consumer.poll(5).offset() == 4

    world.run(main)


def test_a_log_that_ends_below_the_position_under_its_epoch_was_cut_off(world: World) -> None:
    """The follower that becomes leader lacks the last two records, which were acknowledged."""

    def main() -> None:
        world.produced(5)
        consumer = world.kafka.consumer(READER)
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        assert [consumer.poll(5).offset() for _ in range(6)] == [0, 1, 2, 3, 4, 5]
        for broker in (2, 3):
            world.cluster.replicas[broker][TOPIC, 0].log.truncate(3)
        world.cluster.kill(1)
        world.sleep(30)
        world.produced(1)
        event = consumer.poll(60)
        while event.error() is None or event.error().code() == KafkaError._PARTITION_EOF:
            event = consumer.poll(60)
        assert event.error().code() == KafkaError._AUTO_OFFSET_RESET
        assert "broker end offset is 3 " in event.error().str()

    world.run(main)


def test_watermarks_of_a_dead_partition_time_out(world: World) -> None:
    def main() -> None:
        consumer = world.kafka.consumer(READER)
        for broker in (1, 2, 3):
            world.cluster.cut("canary", broker)
        began = world.schedule.now
        error = error_of(consumer.get_watermark_offsets, TopicPartition(TOPIC, 0), timeout=1.0)
        assert error.code() == KafkaError._TIMED_OUT
        assert world.schedule.now - began == pytest.approx(1.0)

    world.run(main)


# ---- groups

OFFSETS = [TopicPartition(TOPIC, 0, 7)]


def offsets_of(client: Any, seconds: float = 20.0) -> list[int]:
    return [place.offset for place in client.committed([TopicPartition(TOPIC, 0)], timeout=seconds)]


def test_committed_offsets_survive_the_death_of_their_coordinator(world: World) -> None:
    def main() -> None:
        client = world.kafka.consumer(READER)
        assert offsets_of(client) == [-1001]
        client.commit(offsets=OFFSETS, asynchronous=False)
        world.cluster.kill(Groups.of(world.cluster).coordinator("g"))
        error = error_of(client.committed, [TopicPartition(TOPIC, 0)], timeout=1.0)
        assert error.code() == KafkaError._TIMED_OUT
        assert offsets_of(client) == [7]
        client.commit(offsets=[TopicPartition(TOPIC, 0, 8)], asynchronous=False)
        assert offsets_of(client) == [8]

    world.run(main)


def test_offsets_of_a_transaction_count_once_it_is_committed(world: World) -> None:
    def main() -> None:
        reader = world.kafka.consumer(READER)
        client = initialised(transactional(world))
        for number, end in enumerate((client.abort_transaction, client.commit_transaction), start=1):
            client.begin_transaction()
            places = [TopicPartition(TOPIC, 0, number)]
            client.send_offsets_to_transaction(places, reader.consumer_group_metadata(), 5.0)
            assert error_of(reader.committed, places, timeout=1.0).code() == KafkaError._TIMED_OUT  # not yet decided
            end(5.0)
            assert offsets_of(reader) == [[-1001], [2]][number - 1]

    world.run(main)


def test_a_member_that_is_silent_for_too_long_has_lost_its_partitions(world: World) -> None:
    def main() -> None:
        member = Member(world.kafka)
        assert together(world.now, member, until=lambda: member.told == [("on_assign", 3)])
        member.client.commit(offsets=OFFSETS, asynchronous=False)
        world.cluster.isolate("canary")
        world.schedule.after(30, world.cluster.heal)
        assert together(world.now, member, until=lambda: len(member.told) == 3, seconds=60)
        assert member.told[1:] == [("on_lost", 3), ("on_assign", 3)]

    world.run(main)


# ---- asking


def test_the_admin_client_answers_at_once(world: World) -> None:
    def main() -> None:
        world.produced(3)
        admin = world.kafka.admin(CALM)
        began = world.schedule.now
        assert sorted(admin.list_topics(TOPIC, timeout=1.0).brokers) == [1, 2, 3]
        described = admin.describe_topics(TopicCollection([TOPIC, "none"]), request_timeout=2.0)
        assert [part.leader.id for part in described[TOPIC].result(3).partitions] == [1, 2, 3]
        assert error_of(described["none"].result, 3).code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        place = TopicPartition(TOPIC, 0)
        for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED):
            asked = {place: OffsetSpec.latest()}
            answers = admin.list_offsets(asked, isolation_level=level, request_timeout=2.0)
            assert (answers[place].result(3).offset, answers[place].result(3).leader_epoch) == (3, 0)
        new = NewTopic("other", num_partitions=1, replica_assignment=[[1, 2, 3]], config={"retention.ms": "1000"})
        admin.create_topics([new], request_timeout=2.0)["other"].result(3)
        again = admin.create_topics([new], request_timeout=2.0)["other"]
        assert error_of(again.result, 3).code() == KafkaError.TOPIC_ALREADY_EXISTS
        more = NewPartitions("other", 2, replica_assignment=[[2, 3, 1]])
        admin.create_partitions([more], request_timeout=2.0)["other"].result(3)
        assert len(admin.list_topics(timeout=1).topics["other"].partitions) == 2
        resource = ConfigResource(
            ResourceType.TOPIC, "other", incremental_configs=[ConfigEntry("retention.ms", "2000")]
        )
        admin.incremental_alter_configs([resource], request_timeout=2.0)[resource].result(3)
        settings = admin.describe_configs([ConfigResource(ResourceType.TOPIC, "other")], request_timeout=2.0)
        assert next(iter(settings.values())).result(3)["retention.ms"].value == "2000"
        assert world.schedule.now - began < 1

    world.run(main)


def test_questions_to_a_dead_controller_time_out_until_any_broker_is_asked(world: World) -> None:
    def main() -> None:
        admin = world.kafka.admin(CALM)
        first = admin.list_topics(timeout=1.0).controller_id
        world.cluster.kill(first)
        world.sleep(30)
        asked = described(admin)
        began = world.schedule.now
        assert wait_futures(world.schedule, [asked], 1.0) == {asked}
        assert wait_futures(world.schedule, [asked], 5.0) == set()
        assert world.schedule.now - began == pytest.approx(2.0)
        assert error_of(asked.result).code() == KafkaError._TIMED_OUT
        admin.list_topics(timeout=1.0)
        assert described(admin).result(3).name == TOPIC
        assert admin.list_topics(timeout=1.0).controller_id != first

    def described(admin: Any) -> Any:
        return admin.describe_topics(TopicCollection([TOPIC]), request_timeout=2.0)[TOPIC]

    world.run(main)


def test_many_answers_are_waited_for_in_one_turn_as_concurrent_futures_does(world: World) -> None:
    """Each second without a connection took a canary with many partitions a turn for each of them."""

    def main() -> None:
        futures = [SimulatedFuture(world.schedule) for _ in range(50)]
        for i, future in enumerate(futures):
            world.schedule.after(1.0 + i / 100, future.resolve)
        began, steps = world.schedule.now, world.schedule.steps
        assert wait_futures(world.schedule, futures, 5.0) == set()
        assert world.schedule.steps - steps == 1
        assert world.schedule.now - began == pytest.approx(1.49)

    world.run(main)


# ---- all at once


class Storm:
    """Two writers and two readers while brokers die, freeze, lag and are cut off, and the canary itself is frozen.

    Nothing of that loses what was acknowledged: there are two copies at least, and one broker at a time.
    """

    def __init__(self, seed: int, seconds: float = 300.0) -> None:
        self.world = World()
        self.dice = dice = random.Random(seed)
        self.world.cluster.latency_s = dice.choice([0, 0.001, 0.01])
        self.end = self.world.schedule.now + seconds
        self.acked: dict[bytes, tuple[int, int | None]] = {}
        self.bumps: list[str] = []
        self.outcomes: dict[bytes, str] = {}
        """What is known of each record of a transaction."""
        self.read: dict[tuple[str, int], list[tuple[int, bytes]]] = {}
        self.world.schedule.after(5, self.strike)

    def strike(self) -> None:
        world, dice, cluster = self.world, self.dice, self.world.cluster
        if world.schedule.now > self.end - 40:
            return
        broker, lasts = dice.randrange(3) + 1, dice.choice([0.3, 2, 5, 12, 20])
        harms: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
            "kill": (lambda: cluster.kill(broker), lambda: cluster.start(broker)),
            "freeze": (lambda: cluster.freeze(broker), lambda: cluster.resume(broker)),
            "cut": (lambda: cluster.cut("canary", broker), lambda: cluster.heal("canary", broker)),
            "isolate": (lambda: cluster.isolate("canary"), lambda: cluster.heal("canary")),
            "slow": (lambda: cluster.slow(broker, 2.5), lambda: cluster.slow(broker, 0)),
            "elect": (lambda: [cluster.elect(TOPIC, p, broker) for p in range(3)], lambda: None),
            "lag": (lambda: cluster.lag(broker, 0.5), lambda: cluster.lag(broker, 0)),
            "stop us": (lambda: world.schedule.freeze(world.process), lambda: world.schedule.resume(world.process)),
        }
        strike, mend = harms[dice.choice(list(harms))]
        strike()
        world.schedule.after(lasts, mend)
        world.schedule.after(lasts + dice.choice([0.5, 3, 15]), self.strike)

    def write(self) -> None:
        world, count, producer = self.world, 0, None
        while world.schedule.now < self.end:
            if producer is None:
                logger = quiet_logger("client")
                config = CALM | {"enable.idempotence": True, "message.timeout.ms": self.dice.choice([4000, 120000])}
                producer = world.kafka.producer(watching_epochs(config, logger, self.bumps.append), logger)
            for partition in range(3):
                count += 1
                value = b"i%d" % count

                def reported(error: Any, message: Any) -> None:
                    if error is None:
                        self.acked[message.value()] = (message.partition(), message.offset())

                producer.produce(TOPIC, value, partition=partition, on_delivery=reported)
            world.sleep(0.1 if len(producer) < 100 else 1.0)
            if flags(producer.poll, 0.2) != ("fine",):
                producer = None  # it has died
        if producer is not None:
            flags(producer.flush, 130)

    def transact(self) -> None:
        world, count, client = self.world, 0, None
        while world.schedule.now < self.end:
            world.sleep(0.2)
            if client is None:
                client = transactional(world, **{"linger.ms": 0})
                while (answer := flags(client.init_transactions, 2.0))[1:] == (False, True, False):
                    world.sleep(0.3)
                if answer != ("fine",):
                    client = None
                    continue
            values = [b"x%d.%d" % (count, number) for number in range(4)]
            count += 1
            outcome = self.transaction(client, values)
            self.outcomes |= dict.fromkeys(values, outcome.removesuffix("!"))
            if outcome.endswith("!"):
                client = None

    def transaction(self, client: Any, values: list[bytes]) -> str:
        """Return what became of it; with "!" if the client is of no use any more."""
        world, reports = self.world, Reports()
        well = flags(client.begin_transaction) == ("fine",)
        for number, value in enumerate(values):
            well = well and write(client, reports, value, partition=number % 3) == [("fine",)]
        deadline = world.schedule.now + 6
        while well and len(reports.all) < len(values) and world.schedule.now < deadline:
            well = flags(client.poll, 0.1) == ("fine",)
        well = well and len(reports.all) == len(values) and not reports.failed
        if not well or self.dice.random() < 0.2:
            return "aborted" if flags(client.abort_transaction, 2.0) == ("fine",) and well else "aborted!"
        for _ in range(40):
            answer = flags(client.commit_transaction, 2.0)
            if answer == ("fine",):
                return "committed"
            if answer != (KafkaError._TIMED_OUT, False, True, False):
                return "unknown!"
            world.sleep(0.3)
        return "unknown!"

    def read_on(self, isolation: str) -> None:
        consumer = self.world.kafka.consumer(READER | {"isolation.level": isolation})
        consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(3)])
        for partition in range(3):
            self.read[isolation, partition] = []
        while self.world.schedule.now < self.end + 60:
            first = consumer.poll(0.25)
            for message in [first, *consumer.consume(1000, 0)] if first is not None else []:
                if message.error() is None:
                    self.read[isolation, message.partition()].append((message.offset(), message.value()))
                else:
                    assert message.error().code() == KafkaError._PARTITION_EOF

    def live(self) -> None:
        self.world.run(
            self.write,
            self.transact,
            lambda: self.read_on("read_committed"),
            lambda: self.read_on("read_uncommitted"),
            seconds=self.end + 600,
        )


@pytest.mark.parametrize("seed", [*range(5), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(5, 12))])
def test_what_clients_say_in_a_storm_is_true(seed: int) -> None:
    storm = Storm(seed)
    storm.live()
    logs = {partition: storm.read["read_uncommitted", partition] for partition in range(3)}
    places = {(partition, offset): value for partition, log in logs.items() for offset, value in log}
    assert len(storm.acked) > 1000
    for value, (partition, offset) in storm.acked.items():
        if offset is None:
            assert value in {one for _, one in logs[partition]}
        else:
            assert places[partition, offset] == value
    if not storm.bumps:
        assert len(set(places.values())) == len(places)
    committed = {value for partition in range(3) for _, value in storm.read["read_committed", partition]}
    known = {value for value, outcome in storm.outcomes.items() if outcome != "unknown"}
    assert committed & known == {value for value in known if storm.outcomes[value] == "committed"}
    for value in committed & storm.outcomes.keys():
        transaction = value.split(b".")[0]
        assert all(b"%s.%d" % (transaction, number) in committed for number in range(4))
    for partition in range(3):
        shown = [one for one in logs[partition] if one[1] in committed]
        assert storm.read["read_committed", partition] == shown


# ---- beside the real client

FAST = {"retry.backoff.ms": 50, "socket.timeout.ms": 3000, "message.timeout.ms": 8000}
TRANSACTIONAL = FAST | {"transactional.id": "x", "transaction.timeout.ms": 8000}
ABORTABLE = [KafkaError.INVALID_PRODUCER_ID_MAPPING, KafkaError.NOT_CONTROLLER, KafkaError.REQUEST_TIMED_OUT]
PASSING = [
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.CONCURRENT_TRANSACTIONS,
]
FENCING = [KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.INVALID_TXN_STATE]


class Real:
    """confluent-kafka's clients on librdkafka's mock cluster, whose topic ``t`` has four partitions."""

    def __init__(self) -> None:
        self.cluster = MockCluster()
        self.cluster.create_topic(TOPIC, 4)
        self._found = {"bootstrap.servers": self.cluster.bootstrap, "log_level": 0}

    def producer(self, config: dict[str, Any], logger: Any = None) -> Any:
        return confluent_kafka.Producer(self._found | config, **({} if logger is None else {"logger": logger}))

    def consumer(self, config: dict[str, Any]) -> Any:
        return confluent_kafka.Consumer(self._found | {"check.crcs": False} | config)

    def nowhere(self, config: dict[str, Any]) -> Any:
        return confluent_kafka.Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0} | config)

    def now(self) -> float:
        return time.monotonic()


class Simulated:
    def __init__(self) -> None:
        self.world = World(partitions=4)
        self.cluster = self.world.kafka.cluster = Scripted(self.world.cluster)

    def producer(self, config: dict[str, Any], logger: Any = None) -> Any:
        return self.world.kafka.producer(config, logger)

    def consumer(self, config: dict[str, Any]) -> Any:
        return self.world.kafka.consumer(config)

    def nowhere(self, config: dict[str, Any]) -> Any:
        self.world.cluster.isolate("canary")
        return self.world.kafka.producer(config)

    def now(self) -> float:
        return self.world.schedule.now


def beside(scenario: Callable[..., list[Any]], *cases: tuple[Any, ...]) -> None:
    """Run a scenario with real clients and with simulated ones, once for each case: both see the same."""

    def in_reality(case: tuple[Any, ...]) -> list[Any]:
        clients = Real()
        try:
            return scenario(clients, *case)
        finally:
            clients.cluster.close()

    with ThreadPoolExecutor(8) as pool:
        real = list(pool.map(in_reality, cases or [()]))
    for case, expected in zip(cases or [()], real, strict=True):
        simulated, seen = Simulated(), list[Any]()

        def main(case: Any = case, simulated: Any = simulated, seen: Any = seen) -> None:
            seen.extend(scenario(simulated, *case))

        simulated.world.run(main)
        assert seen == expected, case


def flags(call: Callable[..., object], *args: Any) -> tuple[Any, ...]:
    """Return what a call raises: code, fatal, retriable, requires abort; or that it raises nothing."""
    try:
        call(*args)
    except KafkaException as raised:
        error = raised.args[0]
        return error.code(), bool(error.fatal()), bool(error.retriable()), bool(error.txn_requires_abort())
    return ("fine",)


def served(clients: Any, producer: Any, seconds: float = 6.0) -> list[Any]:
    """Poll until everything is reported; return what poll() raised."""
    seen: list[Any] = []
    deadline = clients.now() + seconds
    while len(producer) and clients.now() < deadline:
        answer = flags(producer.poll, 0.1)
        if answer != ("fine",):
            seen.append(answer)
    return seen


def write(producer: Any, reports: Reports, *values: bytes, partition: int = 0) -> list[Any]:
    return [
        flags(lambda value=value: producer.produce(TOPIC, value, partition=partition, on_delivery=reports))
        for value in values
    ]


def ten_records(clients: Any, config: dict[str, Any]) -> list[Any]:
    reports = Reports()
    producer = clients.producer(config)
    seen = write(producer, reports, *[b"%d" % number for number in range(10)])
    return [*seen, producer.flush(30), len(producer), *reports.all]


def test_ten_records_are_reported_alike() -> None:
    beside(ten_records, ({"enable.idempotence": True},), ({"acks": 1, "enable.idempotence": False},))


def unknown_partition(clients: Any) -> list[Any]:
    producer = clients.producer({})
    reports = Reports()
    write(producer, reports, b"")
    producer.flush(30)
    return [*write(producer, reports, b"", partition=9), *reports.all]


def test_a_partition_that_does_not_exist_is_refused_alike() -> None:
    beside(unknown_partition)


def failing_writes(clients: Any, idempotent: bool, errors: list[int]) -> list[Any]:  # noqa: FBT001  # a scenario's case
    """One record, then one whose requests get these errors, then another."""
    bumps: list[str] = []
    logger = quiet_logger("client")
    config = FAST | ({"enable.idempotence": True} if idempotent else {"acks": 1, "enable.idempotence": False})
    producer = clients.producer(watching_epochs(config, logger, bumps.append), logger)
    reports = Reports()
    seen = write(producer, reports, b"first") + served(clients, producer)
    clients.cluster.fail("produce", errors)
    seen += write(producer, reports, b"second") + served(clients, producer)
    seen += write(producer, reports, b"third") + served(clients, producer)
    return [*seen, *reports.all, *bumps]


def test_errors_of_writes_are_handled_alike() -> None:
    errors = [
        [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.REQUEST_TIMED_OUT],
        [KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.KAFKA_STORAGE_ERROR],
        [KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND, KafkaError.FENCED_LEADER_EPOCH],
        [KafkaError.MSG_SIZE_TOO_LARGE],
        [KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER],
        [KafkaError.INVALID_PRODUCER_EPOCH],
        [KafkaError.UNKNOWN_PRODUCER_ID],
        [KafkaError.UNKNOWN],
        [KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER],
        [KafkaError.INVALID_MSG],
    ]
    beside(failing_writes, *[(idempotent, one) for one in errors for idempotent in (True, False)])


def late_write(clients: Any) -> list[Any]:
    """A record is written, but its answer comes after its timeout: the next one goes under a new epoch."""
    bumps: list[str] = []
    logger = quiet_logger("client")
    config = watching_epochs(FAST | {"enable.idempotence": True, "message.timeout.ms": 1500}, logger, bumps.append)
    producer = clients.producer(config, logger)
    reports = Reports()
    seen = write(producer, reports, b"first") + served(clients, producer)
    clients.cluster.slow("produce", 4.0)
    seen += write(producer, reports, b"late") + served(clients, producer)
    seen += write(producer, reports, b"next") + served(clients, producer)
    return [*seen, *reports.all, *bumps]


def test_a_write_that_times_out_is_followed_by_a_new_epoch_alike() -> None:
    beside(late_write)


def transact(clients: Any, client: Any, reports: Reports, *, commit: bool = True) -> list[Any]:
    end = client.commit_transaction if commit else client.abort_transaction
    return [flags(client.begin_transaction), *write(client, reports, b"a"), flags(end, 6.0), *served(clients, client)]


def transactions(clients: Any) -> list[Any]:
    client = clients.producer(TRANSACTIONAL)
    reports = Reports()
    seen: list[Any] = [flags(client.begin_transaction), flags(client.commit_transaction, 5.0)]
    seen += write(client, reports, b"")
    seen += [flags(client.init_transactions, 20.0), flags(client.init_transactions, 5.0)]
    for commit, end in ((True, client.commit_transaction), (False, client.abort_transaction)):
        seen += [flags(end, 5.0), *transact(clients, client, reports, commit=commit)]
        seen += [flags(client.begin_transaction), flags(client.begin_transaction), flags(end, 20.0)]
    return [*seen, *reports.all]


def test_the_calls_of_transactions_answer_alike() -> None:
    beside(transactions)


def failing_transaction(clients: Any, request: str, error: int, commit: bool) -> list[Any]:  # noqa: FBT001  # a scenario's case
    """A transaction, then one of whose requests one gets this error, then another."""
    client = clients.producer(TRANSACTIONAL)
    reports = Reports()
    seen = [flags(client.init_transactions, 20.0), *transact(clients, client, reports)]
    if request != "end":
        clients.cluster.fail(request, [error])
    seen += [flags(client.begin_transaction), *write(client, reports, b"b"), *served(clients, client, 4.0)]
    if request == "end":
        clients.cluster.fail(request, [error])
    seen.append(flags(client.commit_transaction if commit else client.abort_transaction, 5.0))
    seen.append(flags(client.abort_transaction, 5.0))
    return [*seen, *transact(clients, client, reports), *(code for code, _ in reports.all)]


@pytest.mark.parametrize("request_kind", ["add", "produce", "end"])
def test_errors_in_transactions_are_handled_alike(request_kind: str) -> None:
    errors = [*PASSING, *FENCING, *ABORTABLE]
    beside(failing_transaction, *[(request_kind, one, commit) for one in errors for commit in (True, False)])


def late_end(clients: Any, commit: bool) -> list[Any]:  # noqa: FBT001  # a scenario's case
    """The coordinator answers late: the call can be made again, and nothing else can."""
    client = clients.producer(TRANSACTIONAL)
    reports = Reports()
    calls = [client.commit_transaction, client.abort_transaction][:: 1 if commit else -1]
    seen = [flags(client.init_transactions, 20.0), *transact(clients, client, reports)]
    seen += [flags(client.begin_transaction), *write(client, reports, b"b"), *served(clients, client)]
    clients.cluster.slow("end", 2.0)
    seen += [flags(calls[0], 0.5), flags(calls[1], 0.5), flags(client.begin_transaction), *write(client, reports, b"c")]
    seen += [flags(calls[0], 0.5), flags(calls[0], 6.0), *transact(clients, client, reports)]
    return [*seen, *(code for code, _ in reports.all)]


def test_a_late_coordinator_is_waited_for_alike() -> None:
    beside(late_end, (True,), (False,))


def initialising(clients: Any, errors: list[int]) -> list[Any]:
    client = clients.producer(TRANSACTIONAL)
    clients.cluster.fail("init", errors)
    seen = [flags(client.init_transactions, 8.0), flags(client.init_transactions, 1.0)]
    return [*seen, flags(client.begin_transaction)]


def test_errors_of_an_initialisation_are_handled_alike() -> None:
    beside(initialising, *[([one],) for one in (*PASSING, *FENCING[:2], KafkaError.INVALID_TRANSACTION_TIMEOUT)])


def to_the_end(clients: Any) -> list[Any]:
    producer = clients.producer({"enable.idempotence": True})
    for number in range(10):
        producer.produce(TOPIC, b"%d" % number, b"k", partition=0)
    producer.flush(30)
    consumer = clients.consumer(READER | {"fetch.wait.max.ms": 100})
    consumer.assign([TopicPartition(TOPIC, 0, 3)])
    seen: list[Any] = [_shown(consumer.poll(20)) for _ in range(8)]
    seen.append(consumer.poll(0.5))
    producer.produce(TOPIC, b"more", partition=0)
    producer.flush(30)
    seen += [_shown(consumer.poll(20)) for _ in range(2)]
    seen.append(consumer.get_watermark_offsets(TopicPartition(TOPIC, 0), timeout=10))
    seen.append([one.offset for one in consumer.position([TopicPartition(TOPIC, 0)])])
    seen.append(flags(consumer.incremental_unassign, [TopicPartition(TOPIC, 1)]))
    consumer.incremental_unassign([TopicPartition(TOPIC, 0)])
    consumer.incremental_assign([TopicPartition(TOPIC, 0, 10)])
    seen += [_shown(consumer.poll(20)) for _ in range(2)]
    consumer.close()
    return seen


def _shown(message: Any) -> tuple[Any, ...]:
    error = message.error()
    if error is None:
        return message.offset(), message.key(), message.value(), message.partition(), message.timestamp()[0]
    return message.offset(), error.code(), re.sub(r"[0-9]+", "N", error.str())


def test_records_and_ends_are_told_alike() -> None:
    beside(to_the_end)


def failing_reads(clients: Any, offset: int, errors: list[int]) -> list[Any]:
    producer = clients.producer({})
    for _ in range(3):
        producer.produce(TOPIC, b"", partition=0)
    producer.flush(30)
    clients.cluster.fail("fetch", errors)
    consumer = clients.consumer(READER | {"fetch.wait.max.ms": 100, "fetch.error.backoff.ms": 50})
    consumer.assign([TopicPartition(TOPIC, 0, offset)])
    polled = [consumer.poll(1.0) for _ in range(4)]
    consumer.close()
    return [_shown(message) if message is not None else None for message in polled]


def test_errors_of_reads_are_told_or_hidden_alike() -> None:
    hidden = [
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
    ]
    told = [KafkaError.OFFSET_OUT_OF_RANGE, KafkaError.INVALID_MSG, KafkaError.UNKNOWN]
    beside(failing_reads, (100, []), *[(1, [one]) for one in (*hidden, *told)])


def bounds(clients: Any, errors: list[int]) -> list[Any]:
    consumer = clients.consumer({"group.id": "g", "retry.backoff.ms": 50})
    clients.cluster.fail("list", errors)
    places = [(TOPIC, 0), (TOPIC, 0), (TOPIC, 9), ("none", 0)]
    seen = [flags(consumer.get_watermark_offsets, TopicPartition(*place), 2.0) for place in places]
    consumer.close()
    return seen


def test_questions_for_offsets_are_answered_alike() -> None:
    beside(bounds, ([],), ([KafkaError.FENCED_LEADER_EPOCH],))


def recreated(clients: Any) -> list[Any]:
    """A topic is made anew: its leader epochs are lower than those that its clients know."""
    producer = clients.producer(FAST | {"enable.idempotence": True})
    consumer = clients.consumer(READER | {"fetch.wait.max.ms": 100, "fetch.error.backoff.ms": 50})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    reports = Reports()
    seen: list[Any] = []
    for leader in (2, 3, 1):
        clients.cluster.lead(TOPIC, 0, leader)
        seen += write(producer, reports, b"old") + served(clients, producer)
        seen.append(_record(consumer))
    clients.cluster.recreate_topic(TOPIC)
    clients.cluster.lead(TOPIC, 0, 2)
    seen += write(producer, reports, b"new") + served(clients, producer, 1.0)
    other = clients.producer(FAST | {"enable.idempotence": True})
    seen += write(other, reports, b"other") + served(clients, other)
    seen += [_record(consumer, 1.0), *reports.all]
    consumer.close()
    another = clients.consumer(READER)
    another.assign([TopicPartition(TOPIC, 0, 0)])
    seen.append(_record(another))
    another.close()
    return seen


def _record(consumer: Any, seconds: float = 10.0) -> Any:
    """Return (offset, value) of the next record."""
    while (message := consumer.poll(seconds)) is not None:
        if message.error() is None:
            return message.offset(), message.value(), message.leader_epoch()
    return None


def test_a_topic_that_is_made_anew_stops_its_clients_alike() -> None:
    beside(recreated)


class Member:
    """A consumer of a group, and what it was told: (what, how many partitions)."""

    def __init__(self, clients: Any, **config: Any) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.values: list[bytes] = []
        timeouts = {"session.timeout.ms": 3000, "heartbeat.interval.ms": 100}
        reading = {"group.id": "group", "auto.offset.reset": "earliest", "enable.auto.commit": False}
        self.client = clients.consumer(timeouts | reading | {"on_commit": self._committed} | config)
        callbacks = {name: partial(self._tell, name) for name in ("on_assign", "on_revoke", "on_lost")}
        self.client.subscribe([TOPIC], **callbacks)

    def _tell(self, what: str, _client: Any, places: list[Any]) -> None:
        self.told.append((what, len(places)))

    def _committed(self, error: Any, places: list[Any]) -> None:
        answers = [(place.partition, place.offset, place.error) for place in places]
        self.told.append(("on_commit", error, sorted(answers)))

    def poll(self, seconds: float = 0.1) -> None:
        message = self.client.poll(seconds)
        if message is not None and message.error() is None:
            self.values.append(message.value())


def together(now: Callable[[], float], *members: Member, until: Callable[[], object], seconds: float = 20.0) -> bool:
    deadline = now() + seconds
    while not until() and now() < deadline:
        for member in members:
            member.poll()
    return bool(until())


def groups(clients: Any) -> list[Any]:
    """A member joins, reads and commits; another one joins, and leaves again."""
    producer = clients.producer({})
    for partition in range(4):
        producer.produce(TOPIC, b"%d" % partition, partition=partition)
    producer.flush(30)
    places = [TopicPartition(TOPIC, partition) for partition in range(4)]
    first = Member(clients)
    seen: list[Any] = [together(clients.now, first, until=lambda: len(first.values) == 4), sorted(first.values)]
    seen.append([place.offset for place in first.client.committed(places, timeout=5)])
    told = first.client.commit(offsets=[TopicPartition(TOPIC, 0, 1), TopicPartition(TOPIC, 1, 1)], asynchronous=False)
    seen.append([(place.partition, place.offset, place.error) for place in told])
    first.client.commit(offsets=[TopicPartition(TOPIC, 2, 1)], asynchronous=True)
    seen.append(together(clients.now, first, until=lambda: first.told[-1][0] == "on_commit"))
    seen.append([place.offset for place in first.client.committed(places, timeout=5)])
    second = Member(clients)
    seen.append(together(clients.now, first, second, until=lambda: second.told and first.told[-1] == ("on_assign", 2)))
    together(clients.now, first, second, until=lambda: False, seconds=1.0)
    second.client.close()
    seen.append(together(clients.now, first, until=lambda: first.told[-1] == ("on_assign", 4)))
    first.client.close()
    return [*seen, *(list(dict.fromkeys(map(str, one.told))) for one in (first, second))]  # the mock rebalances twice


def test_members_of_a_group_are_told_alike() -> None:
    beside(groups)


def purged(clients: Any) -> list[Any]:
    reports = Reports()
    producer = clients.nowhere({"enable.idempotence": True})
    seen = write(producer, reports, b"", b"", b"")
    producer.purge()
    seen += served(clients, producer)
    return [*seen, *reports.all]  # not len(): the real one counts the word "all brokers down" too, whenever that comes


def unreachable(clients: Any) -> list[Any]:
    reports = Reports()
    producer = clients.nowhere({"enable.idempotence": True, "message.timeout.ms": 500})
    seen = write(producer, reports, b"") + served(clients, producer)
    return [*seen, *reports.all, flags(lambda: producer.list_topics(timeout=0.5))]


def unreachable_transactions(clients: Any) -> list[Any]:
    client = clients.nowhere({"transactional.id": "x", "transaction.timeout.ms": 10000})
    return [flags(client.init_transactions, 0.5), flags(client.init_transactions, 0.5), flags(client.begin_transaction)]


@pytest.mark.parametrize("scenario", [purged, unreachable, unreachable_transactions])
def test_without_a_cluster_both_say_the_same(scenario: Callable[..., list[Any]]) -> None:
    beside(scenario)
