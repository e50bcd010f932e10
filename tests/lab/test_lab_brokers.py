"""The lab on real brokers. Every test leaves the shared lab whole (fixture lab)."""

import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from canary.lab import CONTROLLER, Lab, LabError, NodeProperties
from canary.wire import broker_view
from tests.support.waiting import in_time, until

pytestmark = [pytest.mark.kafka, pytest.mark.quick]

QUIET = {"log_level": 0}


@pytest.fixture
def topic(lab: Lab) -> str:
    """A topic of one partition on all three brokers, led by broker 1."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": lab.bootstrap, **QUIET})
    admin.create_topics([NewTopic(name, num_partitions=1, replica_assignment=[[1, 2, 3]])])[name].result(60)
    lab.wait_isr(name, 0, {1, 2, 3}, 120)
    return name


def create_small_topic(lab: Lab) -> None:
    admin = AdminClient({"bootstrap.servers": lab.bootstrap, **QUIET})
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(60)


def produce(lab: Lab, topic: str, values: list[str], *, idempotent: bool = True) -> list[int]:
    """Write values, each as a batch of its own, and return the offsets that acks=all acknowledged."""
    offsets: list[int] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        offset = message.offset()
        assert offset is not None
        offsets.append(offset)

    producer = Producer({"bootstrap.servers": lab.bootstrap, "acks": "all", "enable.idempotence": idempotent, **QUIET})
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=delivered)
        in_time(producer.flush(120) == 0, "all acknowledgements")
    return offsets


def read(lab: Lab, topic: str) -> list[str]:
    """Return every value a fresh consumer gets before the end of the partition."""
    consumer = Consumer(
        {"bootstrap.servers": lab.bootstrap, "group.id": "x", "enable.partition.eof": True, "enable.auto.commit": False}
        | QUIET
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values = []
    while (message := consumer.poll(120)) is not None:
        error = message.error()
        if error is not None and error.code() == KafkaError._PARTITION_EOF:
            break
        assert error is None, error
        values.append((message.value() or b"").decode())
    consumer.close()
    return values


def on_every_disk(lab: Lab, topic: str, end: int) -> None:
    """Wait until every replica's log has everything: what is acked need not be on one that left the ISR."""
    until(lambda: {lab.end_offset(broker, topic, 0) for broker in lab.brokers} == {end}, 30, f"{end} on every disk")
    lab.wait_isr(topic, 0, {1, 2, 3}, 120)


def test_every_broker_is_in_the_cluster_when_start_returns(lab: Lab) -> None:
    assert lab.alive() == (1, 2, 3)
    admin = AdminClient({"bootstrap.servers": lab.bootstrap, **QUIET})
    assert admin.list_topics(timeout=60).cluster_id == lab.cluster_id
    # asked again, because one that stalls is out of the cluster for a moment
    until(lambda: sorted(admin.list_topics(timeout=60).brokers) == [1, 2, 3], 30, "all three in the metadata")


def test_no_port_is_an_ephemeral_one(lab: Lab) -> None:
    assert all(node.port < 32768 for node in lab.status())


def test_a_running_lab_is_not_started_twice(lab: Lab) -> None:
    with pytest.raises(LabError, match="is running"):
        Lab(lab.directory).start()
    assert lab.alive() == (1, 2, 3)


def test_a_broker_that_another_process_killed_comes_back_with_its_port_and_its_data(lab: Lab, topic: str) -> None:
    assert produce(lab, topic, ["a", "b"]) == [0, 1]
    port = lab.port(1)
    code = f"from canary.lab import Lab; lab = Lab.attach({str(lab.directory)!r}); lab.kill(1); print(lab.alive())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "(2, 3)\n"
    assert lab.alive() == (2, 3)
    lab.wait_isr(topic, 0, {2, 3}, 120)
    assert lab.leader(topic, 0) in {2, 3}
    lab.start_broker(1)
    lab.wait_isr(topic, 0, {1, 2, 3}, 120)
    assert lab.port(1) == port
    assert read(lab, topic) == ["a", "b"]


def test_a_paused_broker_leaves_the_isr_until_it_is_resumed(lab: Lab, topic: str) -> None:
    lab.pause(3)
    assert {node.node: node.state for node in lab.status()}[3] == "paused"
    lab.wait_isr(topic, 0, {1, 2}, 120)
    lab.resume(3)
    lab.wait_isr(topic, 0, {1, 2, 3}, 120)


def test_a_resumed_broker_is_ready_when_the_controller_gives_it_replicas_again(lab: Lab) -> None:
    lab.pause(3)
    until(lambda: broker_view.unfenced(lab.port(1), {1, 2, 3}) == {1, 2}, 30, "broker 3 fenced")
    lab.resume(3)
    lab.wait_ready()
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    admin.create_topics([NewTopic("on-3", 1, replica_assignment=[[3]])])["on-3"].result(60)
    assert not [name for name in admin.list_topics(timeout=60).topics if name.startswith("canary-lab-")]


def test_a_restart_is_over_when_the_broker_is_back_with_an_environment_of_its_own(lab: Lab) -> None:
    before = {node.node: node.pid for node in lab.status()}
    lab.restart(2, environment={"JAVA_TOOL_OPTIONS": "-Dcanary.lab.test=1"})
    after = {node.node: node.pid for node in lab.status()}
    assert after.pop(2) != before.pop(2)
    assert after == before
    assert "-Dcanary.lab.test=1" in (lab.directory / "broker-2" / "console.log").read_text()


def test_the_controller_can_be_killed_and_restarted(lab: Lab, topic: str) -> None:
    lab.kill(CONTROLLER)
    assert produce(lab, topic, ["a"], idempotent=False) == [0]  # leaders stay leaders; only ids need it
    lab.restart(CONTROLLER)
    assert lab.alive() == (1, 2, 3)


def test_acked_records_cut_from_every_replica_are_gone_also_after_a_clean_stop(lab: Lab, topic: str) -> None:
    values = [f"value{n}" for n in range(20)]
    assert produce(lab, topic, values) == list(range(20))
    on_every_disk(lab, topic, 20)
    with pytest.raises(LabError, match="is running"):
        lab.truncate(1, topic, 0, bytes=1)
    for broker in (1, 2, 3):
        lab.stop_broker(broker)
    cuts = [lab.truncate(broker, topic, 0, to_offset=12) for broker in (1, 2, 3)]
    assert [(cut.before, cut.after) for cut in cuts] == [(20, 12)] * 3
    for broker in (1, 2, 3):
        assert lab.truncate(broker, topic, 0, bytes=10).after == 11, "ten bytes cost the last record"
        lab.start_broker(broker, timeout=0)
    lab.wait_ready()
    lab.wait_isr(topic, 0, {1, 2, 3}, 120)
    assert read(lab, topic) == values[:11]
    assert produce(lab, topic, ["new"]) == [11], "the offset that was promised to value11"


def test_a_broker_can_be_added_with_its_rack_and_removed(lab: Lab) -> None:
    added = lab.add_broker({"broker.rack": "z"})
    assert added == 4
    admin = AdminClient({"bootstrap.servers": lab.bootstrap, **QUIET})

    def racks() -> dict[int, str | None]:
        return {node.id: node.rack for node in admin.describe_cluster(request_timeout=60).result(90).nodes}

    assert until(lambda: racks().get(4), 30, "the rack of broker 4") == "z"
    lab.remove_broker(4)
    assert lab.brokers == (1, 2, 3)
    assert not (lab.directory / "broker-4").exists()
    lab.wait_ready()


def test_after_a_crash_of_everything_it_starts_again_and_stops_at_once_without_its_controller(
    tmp_path: Path,
) -> None:
    """Pid files are left behind; one of them now names a living stranger."""
    safe = NodeProperties({"min.insync.replicas": 1})
    lab = Lab(tmp_path, brokers=1, profile="quick", properties=safe, die_with_parent=True)
    lab.start()
    create_small_topic(lab)
    produce(lab, "t", ["a"])
    identity = lab.cluster_id
    processes = [psutil.Process(node.pid) for node in lab.status() if node.pid is not None]
    for process in processes:
        process.kill()
    psutil.wait_procs(processes, timeout=60)
    (tmp_path / "broker-1" / "pid").write_text(f"{os.getpid()} 1\n")
    with Lab(tmp_path, die_with_parent=True) as again:
        assert again.cluster_id == identity
        assert again.brokers == (1,)
        assert read(again, "t") == ["a"]
        again.pause(CONTROLLER)
        began = time.time()
    assert [node.state for node in lab.status()] == ["stopped", "stopped"]
    assert {event.what for event in lab.events(began)} == {"killed"}, "brokers would ask it for leave, and wait"
    assert psutil.pid_exists(os.getpid())
    left = [p.pid for p in psutil.process_iter() if any(str(tmp_path) in word for word in arguments(p))]
    assert left == []


def arguments(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []


def test_a_broker_that_cannot_start_says_why_and_nothing_stays_behind(tmp_path: Path) -> None:
    lab = Lab(tmp_path, brokers=1, properties=NodeProperties({"num.io.threads": "none"}), die_with_parent=True)
    with pytest.raises(LabError, match=r"num\.io\.threads"):
        lab.start()
    assert [node.state for node in lab.status()] == ["stopped", "stopped"]
