"""What a proxied lab's network does, on real brokers. Every test leaves the network of the shared lab whole."""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from canary.drills.rig.performance import clear
from canary.lab import CONTROLLER, Cut, Delay, Hold, Lab, LabError, LoseAnswers, NodeProperties, ShiftFetch
from tests.support import labs
from tests.support.command import canary
from tests.support.waiting import in_time, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka import KafkaError, Message

    from canary.lab.proxy.fetched import How

pytestmark = [pytest.mark.kafka, pytest.mark.quick]


@pytest.fixture(scope="module")
def _network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Three brokers and a proxy, in a directory with a path that no socket could have."""
    labs.discard()
    directory = tmp_path_factory.mktemp("a-long-name-" * 9)
    features = {"eligible.leader.replicas.version": 0}
    one = NodeProperties({"min.insync.replicas": 1})
    with Lab(
        directory, profile="quick", features=features, properties=one, proxied=True, die_with_parent=True
    ) as running:
        yield running


@pytest.fixture
def network(_network: Lab) -> Iterator[Lab]:
    """The lab, whole; before the test and after it."""
    yield _network
    _network.heal()
    clear(_network)


@pytest.fixture
def topic(network: Lab, request: pytest.FixtureRequest) -> str:
    """A topic of one partition, led by broker 1."""
    name = str(request.function.__name__)
    admin = AdminClient({"bootstrap.servers": network.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(name, 1, replica_assignment=[[1, 2, 3]])])[name].result(60)
    network.wait_isr(name, 0, {1, 2, 3}, 120)
    return name


class Writer:
    """A producer of single records, and what was said of each: its offset, or the error's name."""

    def __init__(self, lab: Lab, topic: str, **settings: Any) -> None:
        self.said: dict[str, int | str | None] = {}
        self._topic = topic
        self.producer = Producer(
            {"bootstrap.servers": lab.bootstrap, "linger.ms": 0, "log_level": 0}
            | {name.replace("_", "."): value for name, value in settings.items()}
        )

    def write(self, value: str, wait_s: float = 120) -> int:
        """Write a record, in a batch of its own; return how many are not reported after so many seconds."""

        def delivered(error: KafkaError | None, message: Message) -> None:
            self.said[value] = message.offset() if error is None else error.name()

        self.producer.produce(self._topic, value, partition=0, on_delivery=delivered)
        return int(self.producer.flush(wait_s))


def read(lab: Lab, topic: str) -> list[str]:
    """Return every committed value, in the order of arrival."""
    return [value for _, value in fetched(lab, topic)]


def fetched(lab: Lab, topic: str) -> list[tuple[int | None, str]]:
    """Return offset and value of every committed record, in the order of arrival."""
    consumer = Consumer(
        {"bootstrap.servers": lab.bootstrap, "group.id": "x", "enable.partition.eof": True, "log_level": 0}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while (message := consumer.poll(120)) is not None and message.error() is None:
        found.append((message.offset(), (message.value() or b"").decode()))
    consumer.close()
    return found


def test_a_leader_cut_off_from_its_followers_goes_on_alone(network: Lab, topic: str) -> None:
    began = time.time()
    network.nemesis(Cut(1, 2), Cut(3, 1))
    writer = Writer(network, topic, acks="all")
    writer.write("a")
    assert writer.said == {"a": 0}
    network.wait_isr(topic, 0, {1}, 60)
    assert network.leader(topic, 0) == 1, "the controller hears from it"
    network.heal()
    network.wait_isr(topic, 0, {1, 2, 3}, 60)
    until(lambda: {network.end_offset(broker, topic, 0) for broker in network.brokers} == {1}, 30, "all have it")
    done = [(one.what, one.node) for one in network.events(began) if one.what in {"impaired", "healed"}]
    assert done == [(what, broker) for what in ("impaired", "healed") for broker in (1, 2, 3)]


def test_a_leader_cut_off_from_the_controller_is_replaced_and_does_not_know(network: Lab, topic: str) -> None:
    network.nemesis(Cut(1, CONTROLLER), Cut(1, 2), Cut(1, 3))
    until(lambda: network.leader(topic, 0) in {2, 3}, 30, "another leads")
    network.heal()
    network.wait_isr(topic, 0, {1, 2, 3}, 60)


def test_what_is_cut_one_way_goes_back(network: Lab, topic: str) -> None:
    writer = Writer(network, topic, acks="all")
    writer.write("a")
    network.nemesis(Cut(1, "client", both=False))
    assert writer.write("b", 0) == 1
    until(lambda: network.end_offset(1, topic, 0) == 2, 30, "the leader has it")
    assert writer.producer.flush(0.5) == 1, "and cannot say so"
    network.nemesis(Cut("client", 1, both=False))
    in_time(writer.producer.flush(120) == 0, "all acknowledgements")
    assert writer.write("c", 0.5) == 1
    assert network.end_offset(1, topic, 0) == 2
    network.heal()
    in_time(writer.producer.flush(120) == 0, "all acknowledgements")
    assert writer.said == {"a": 0, "b": 1, "c": 2}


def test_bytes_are_late_in_the_direction_that_is_slow(network: Lab, topic: str) -> None:
    writer = Writer(network, topic)
    writer.write("a")
    network.nemesis(Delay(2, "client", 30))
    assert writer.write("b", 20) == 0, "broker 2 has no part in it"
    network.nemesis(Delay("client", 1, 1))
    assert writer.write("c", 0.5) == 1
    in_time(writer.producer.flush(60) == 0, "all acknowledgements")
    network.nemesis(Delay("client", 1, 30, api="Fetch"))
    assert writer.write("d", 20) == 0, "no reader asks"
    network.nemesis(Delay("client", 1, 1, api="Produce"))
    assert writer.write("e", 0.5) == 1
    in_time(writer.producer.flush(60) == 0, "all acknowledgements")


def test_a_lost_answer_makes_a_writer_without_a_memory_write_twice(network: Lab, topic: str) -> None:
    network.nemesis(LoseAnswers("Produce", count=2))
    writer = Writer(network, topic, enable_idempotence=False, retries=5)
    writer.write("a")
    assert writer.said == {"a": 2}
    assert network.faults() == []
    assert read(network, topic) == ["a", "a", "a"]
    writer = Writer(network, topic, enable_idempotence=True)
    network.nemesis(LoseAnswers("Produce"))
    writer.write("b")
    assert read(network, topic) == ["a", "a", "a", "b"]


def test_two_requests_of_a_connection_are_swapped(network: Lab, topic: str) -> None:
    writer = Writer(network, topic, enable_idempotence=False)
    writer.write("a")
    network.nemesis(Hold("Produce", until_api="Produce"))
    assert writer.write("b", 1) == 1
    assert writer.write("c") == 0
    assert writer.said == {"a": 0, "c": 1, "b": 2}
    assert read(network, topic) == ["a", "c", "b"]


@pytest.mark.parametrize("release", ["before", "after"])
def test_the_end_of_a_transaction_comes_when_its_writer_has_gone(network: Lab, topic: str, release: str) -> None:
    """The client has closed all connections; another one, of the same name, is what it was held back for."""
    writer = Writer(network, topic, transactional_id="late", client_id="one")
    writer.producer.init_transactions(60)
    writer.producer.begin_transaction()
    writer.write("a")
    network.nemesis(Hold("EndTxn", until_api="Produce", release=release))  # type: ignore[arg-type]  # one of both
    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        writer.producer.commit_transaction(1)
    del writer
    assert read(network, topic) == []
    other = Writer(network, topic, client_id="one", acks=1)
    other.write("b")
    until(lambda: read(network, topic) == ["a", "b"], 10, "committed, and so visible")


@pytest.mark.parametrize(("how", "offsets"), [("skip", [0, 1, 2, 4, 5]), ("swap", [1, 0, 2, 3, 4, 5])])
def test_a_reader_is_misled_and_a_second_one_is_not(network: Lab, topic: str, how: How, offsets: list[int]) -> None:
    writer = Writer(network, topic)
    for value in "abcdef":
        writer.write(value)
    network.nemesis(ShiftFetch("client", 1, topic, 0, how))
    values = [value for value in "abcdef" if how == "swap" or value != "d"]
    assert fetched(network, topic) == list(zip(offsets, values, strict=True))
    assert network.faults() == []
    assert fetched(network, topic) == list(enumerate("abcdef"))


@contextmanager
def connected(lab: Lab) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", lab.port(1)), 30) as connection:
        yield connection


def test_nothing_that_a_client_does_harms_the_proxy_which_cuts_new_connections_too(network: Lab, topic: str) -> None:
    network.nemesis(LoseAnswers("Heartbeat"))  # so that requests are looked into
    for strange in (os.urandom(100_000), b"\0\0\0\x0a\0\0", b"\0\0\0\0" * 100, b"\xff" * 50, b"GET / HTTP/1.1\r\n\r\n"):
        with connected(network) as connection:
            connection.sendall(strange)
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(30)
            try:
                while connection.recv(65536):
                    pass
            except ConnectionResetError:
                pass
    for _ in range(50):
        with connected(network):
            pass
    thread = threading.Thread(target=network.kill, args=(2,))
    thread.start()
    writer = Writer(network, topic, acks="all")
    writer.write("a")
    thread.join()
    assert writer.said == {"a": 0}
    assert (network.directory / "proxy" / "console.log").read_text() == ""
    network.nemesis(Cut("any", 2))
    network.start_broker(2, timeout=0)
    with pytest.raises(LabError, match="not all in the cluster"):
        network.wait_ready(3)  # new connections are cut as the old ones were
    network.heal()
    network.wait_ready()


def test_a_command_cuts_the_network(network: Lab) -> None:
    place = ("--directory", network.directory)
    assert canary("lab", "partition", 1, 2, *place).status == 0
    assert canary("lab", "partition", "controller", "client", "--one-way", *place).status == 0
    assert network.faults() == [Cut(1, 2), Cut(CONTROLLER, "client", both=False)]
    assert canary("lab", "partition", "--heal", *place).out == "everything passes\n"
    assert network.faults() == []
    assert canary("lab", "partition", 1, *place).status == 2


def test_a_lab_without_a_proxy_says_how_to_have_one(tmp_path: Any) -> None:
    lab = Lab(tmp_path, 1)
    lab._site.prepare(None)
    done = canary("lab", "partition", 1, "client", "--directory", tmp_path)
    assert (done.status, "canary lab up --proxied" in done.err) == (1, True)
