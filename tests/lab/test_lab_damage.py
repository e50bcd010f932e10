"""Disks that are full, empty or old, and nodes of two versions, on real brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from canary.lab import CONTROLLER, Lab, LabError, NodeProperties
from tests.support.waiting import in_time, until

if TYPE_CHECKING:
    from pathlib import Path

    from confluent_kafka import KafkaError, Message

pytestmark = pytest.mark.kafka


def create(lab: Lab, name: str, replicas: list[int]) -> None:
    admin = AdminClient({"bootstrap.servers": lab.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(name, 1, replica_assignment=[replicas])])[name].result(60)
    lab.wait_isr(name, 0, set(replicas), 120)
    logs = [lab.directory / f"broker-{broker}" / "data" / f"{name}-0" for broker in replicas]
    until(lambda: all(any(log.glob("*.log")) for log in logs), 60, "in the ISR from the start, each has its log now")


def write(lab: Lab, topic: str, count: int) -> list[int]:
    """Write records of a kilobyte, each acknowledged by all, and return their offsets."""
    offsets: list[int] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        offsets.append(message.offset() or 0)

    producer = Producer({"bootstrap.servers": lab.bootstrap, "acks": "all", "log_level": 0})
    for _ in range(count):
        producer.produce(topic, b"x" * 1000, partition=0, on_delivery=delivered)
    in_time(producer.flush(120) == 0, "all acknowledgements")
    return offsets


@pytest.mark.quick
def test_a_broker_whose_disk_is_full_halts_and_comes_back_when_there_is_space(lab: Lab) -> None:
    create(lab, "full", [2, 1, 3])
    told = lab.directory / "broker-2" / "server.log"
    room = told.stat().st_size + 250_000  # the limit is that of its own log, too, which is to say why it halts
    count = room // 1000
    assert write(lab, "full", count)[-1] == count - 1
    lab.limit_file_size(2, room)
    assert write(lab, "full", 1) == [count], "another leads, and has it"
    until(lambda: 2 not in lab.alive(), 60, "broker 2 halts with its only disk")
    assert "File too large" in told.read_text()
    lab.start_broker(2)
    lab.wait_isr("full", 0, {1, 2, 3}, 120)
    lab.limit_file_size(2, 1)
    lab.limit_file_size(2, None)
    assert write(lab, "full", 100)[-1] == count + 100
    lab.wait_isr("full", 0, {1, 2, 3}, 120)


@pytest.mark.quick
def test_a_broker_catches_up_from_an_old_copy_of_its_disk(lab: Lab) -> None:
    create(lab, "old", [1, 2, 3])
    with pytest.raises(LabError, match="is running; kill it before its data is copied"):
        lab.copy_data(3)
    lab.kill(3)
    copy = lab.copy_data(3)
    lab.start_broker(3)
    assert write(lab, "old", 3) == [0, 1, 2]
    until(lambda: lab.end_offset(3, "old", 0) == 3, 30, "broker 3 has all")
    lab.kill(3)
    lab.put_data(3, copy)
    assert lab.end_offset(3, "old", 0) == 0
    lab.start_broker(3)
    lab.wait_isr("old", 0, {1, 2, 3}, 120)
    assert lab.end_offset(3, "old", 0) == 3


@pytest.mark.slow
def test_a_cluster_is_upgraded_node_by_node_and_not_back(tmp_path: Path) -> None:
    properties = NodeProperties({"min.insync.replicas": 1})
    with Lab(tmp_path, 2, version="3.9.1", profile="quick", properties=properties, die_with_parent=True) as lab:
        create(lab, "t", [1, 2])
        for at, node in enumerate((CONTROLLER, 1, 2)):
            assert write(lab, "t", 1) == [at]
            lab.restart(node, version="4.1.0")
            lab.wait_isr("t", 0, {1, 2}, 120)
            assert lab.version == ("4.1.0" if node == 2 else "3.9.1")
        with pytest.raises(LabError, match=r"of Kafka 4\.1\.0, newer than 3\.9\.1"):
            lab.restart(1, version="3.9.1")
    with pytest.raises(LabError, match=r"of Kafka 4\.1\.0, newer than 3\.9\.1"):
        Lab(tmp_path, version="3.9.1").start()
    with Lab.attach(tmp_path) as again:
        assert write(again, "t", 1) == [3]
