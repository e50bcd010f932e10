import json
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from structlog.testing import capture_logs

from canary.cli import progress
from canary.lab import Lab
from canary.lab.state import save
from tests.support.command import Ended, canary
from tests.support.waiting import in_time, until


def process(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = "from canary.cli import main; main()"
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)


def test_no_lab_is_a_line_with_a_remedy(tmp_path: Path) -> None:
    done = process("lab", "status", "--directory", str(tmp_path / "none"))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("canary: no lab in")
    assert "canary lab up" in done.stderr


def test_a_property_without_a_value_is_refused(tmp_path: Path) -> None:
    done = canary("lab", "up", "--directory", str(tmp_path), "--set", "min.insync.replicas")
    assert done.status == 2
    assert "KEY=VALUE" in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.kafka
def test_up_leaves_a_cluster_running_that_down_stops_also_a_broker_that_a_command_restarted(tmp_path: Path) -> None:
    place = ("--directory", str(tmp_path / "lab"))
    asked = {"num.io.threads": 3, "broker.heartbeat.interval.ms": 500}  # a broker that ends is soon known to be gone
    up_with = [word for name, value in asked.items() for word in ("--set", f"{name}={value}")]
    up_with += ["--set-controller", "broker.session.timeout.ms=3000", "--brokers", "1", "--json"]
    try:
        up = process("lab", "up", *place, *up_with)
        assert up.returncode == 0, up.stderr
        shown = json.loads(up.stdout)
        assert [node["state"] for node in shown["nodes"]] == ["running", "running"]
        assert "num.io.threads=3" in (tmp_path / "lab" / "broker-1" / "server.properties").read_text().splitlines()
        restarted = process("lab", "restart", "1", *place, "--json")
        assert set(states(restarted).values()) == {"running"}, restarted.stderr
        assert canary("lab", "status", *place).status == 0
    finally:
        down = process("lab", "down", *place, "--json")
    assert [node["state"] for node in json.loads(down.stdout)["nodes"]] == ["stopped", "stopped"]
    assert canary("lab", "status", *place).status == 3
    assert [line for line in Path("/proc").glob("[0-9]*/cmdline") if str(tmp_path) in text_of(line)] == []


def test_progress_without_a_terminal_is_a_line_now_and_then() -> None:
    with capture_logs() as logs, progress.shown(terminal=False) as report:
        for done in range(101):
            report("fetching", done, 100)
        report("starting", 3, 3)
    assert [(entry["what"], entry["done"]) for entry in logs] == [("fetching", 0), ("fetching", 100), ("starting", 3)]


@pytest.mark.kafka
@pytest.mark.quick
def test_what_happens_to_brokers_is_done_to_the_lab_of_another_process(lab: Lab) -> None:
    place = ("--directory", str(lab.directory), "--json")
    topic = topic_of(lab, "commands", [[2, 1, 3]])
    producer = Producer({"bootstrap.servers": lab.bootstrap, "log_level": 0})
    producer.produce(topic, b"a", partition=0)
    in_time(producer.flush(120) == 0, "all acknowledgements")
    until(lambda: {lab.end_offset(broker, topic, 0) for broker in lab.brokers} == {1}, 30, "on every disk")

    assert states(process("lab", "pause", "3", *place)) == {1000: "running", 1: "running", 2: "running", 3: "paused"}
    assert states(canary("lab", "resume", 3, *place))[3] == "running"
    refused = canary("lab", "cut", 3, topic, 0, "--to-offset", 0, *place)
    assert (refused.status, "canary lab kill 3" in refused.err) == (1, True)
    assert states(canary("lab", "kill", 3, "controller", *place))[3] == "stopped"
    cut = canary("lab", "cut", 3, topic, 0, "--to-offset", 0, *place)
    assert {key: json.loads(cut.out)[key] for key in ("before", "after")} == {"before": 1, "after": 0}
    assert states(canary("lab", "wipe", 3, *place))[3] == "stopped"
    assert not (lab.directory / "broker-3" / "data" / f"{topic}-0").exists()
    assert set(states(canary("lab", "restart", "controller", 3, *place)).values()) == {"running"}
    lab.wait_isr(topic, 0, {1, 2, 3}, 120)
    assert lab.end_offset(3, topic, 0) == 1, "it has caught up from an empty disk"


def test_a_node_that_is_none_is_named_with_those_there_are(tmp_path: Path) -> None:
    lab = Lab(tmp_path, 2)
    save(tmp_path, lab._site.wanted)
    done = canary("lab", "kill", "three", "--directory", tmp_path)
    assert (done.status, "nodes are controller, 1000, 1, 2" in done.err) == (2, True)


def text_of(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:  # it has ended meanwhile
        return ""


def states(done: subprocess.CompletedProcess[str] | Ended) -> dict[int, str]:
    """Return every node's state, as a command reports it."""
    out = done.out if isinstance(done, Ended) else done.stdout
    return {node["id"]: node["state"] for node in json.loads(out)["nodes"]}


def topic_of(lab: Lab, name: str, replicas: list[list[int]]) -> str:
    """Create a topic with these replicas of each partition, and wait until all are in sync."""
    admin = AdminClient({"bootstrap.servers": lab.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(name, len(replicas), replica_assignment=replicas)])[name].result(60)
    for partition, brokers in enumerate(replicas):
        lab.wait_isr(name, partition, set(brokers), 120)
    return name
