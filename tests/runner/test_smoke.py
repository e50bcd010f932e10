"""canary smoke as a deployment gate: clean, violation, inconclusive."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from canary.lab import Lab, LabError
from canary.lab.state import free_ports
from canary.metrics.published import ConsumerView, PartitionView, Published
from canary.processes import smoke as rounds
from canary.settings import load
from tests.support.process import START_S, Canary
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kafka


def configured(directory: Path, bootstrap: str, topic: str, **modes: Any) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    settings = {
        "clusters": [
            {
                "name": "t",
                "kafka": {"bootstrap.servers": bootstrap},
                "topic": {"name": topic},
                "modes": {"idempotent": {}, **modes},
            }
        ],
        "store": {"url": f"sqlite:///{directory}/store.db"},
        "ledger": {"directory": str(directory / "ledger")},
        "probe_log": {"url": str(directory / "probe-log")},
    }
    config = directory / "smoke.yaml"
    config.write_text(json.dumps(settings))
    return config


def smoke(directory: Path, bootstrap: str, topic: str, seconds: str = "5s", **modes: Any) -> subprocess.Popen[str]:
    config = configured(directory, bootstrap, topic, **modes)
    command = [sys.executable, "-m", "canary.cli", "smoke", "--for", seconds, "--json", "--config", str(config)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def outcome(process: subprocess.Popen[str], timeout: float = 2 * START_S) -> tuple[int, dict[str, Any]]:
    out, err = process.communicate(timeout=timeout)
    assert out, err
    return process.returncode, json.loads(out)


@pytest.mark.round
def test_a_healthy_cluster_is_clean_in_every_mode_and_nothing_is_kept(lab: Lab, tmp_path: Path) -> None:
    modes: dict[str, Any] = {name: {} for name in ("transactional", "relay", "group", "fencing", "plain")}
    status, said = outcome(smoke(tmp_path, lab.bootstrap, "smoke", "8s", **modes))
    assert (status, said["outcome"], said["violations"], said["doubts"]) == (0, "clean", [], [])
    assert said["probes"]["acked"] > 100
    assert said["probes"]["seen"] > said["probes"]["acked"]
    assert [path.name for path in tmp_path.iterdir()] == ["smoke.yaml"]


def test_a_cluster_that_cannot_be_reached_is_inconclusive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "_START_S", 2.0)
    (port,) = free_ports(1)
    settings = load(configured(tmp_path, f"127.0.0.1:{port}", "nowhere"), {})
    said = rounds.smoke(settings, 3.0, threading.Event())
    assert (said.status, said.violations) == (rounds.INCONCLUSIVE, [])
    assert "t did not answer within 3 s" in said.doubts[0]


class Runner:
    """What a round asks of a cluster's runner; it takes its time to start."""

    name = "t"
    alive = True
    reader = ConsumerView("rc", seen=1)
    partition = PartitionView(
        "t", 0, fresh=True, sent=1, acked=1, failed=1, indeterminate=1, scrubbed_ns=1, consumers={"rc": reader}
    )

    def __init__(self) -> None:
        self.probing = threading.Event()
        self.published = Published(partitions=(self.partition,))
        self.began = self.ended = 0.0

    def start(self) -> None:
        self.began = time.monotonic()
        self.probing.set()

    def silence(self) -> None:
        self.ended = time.monotonic()

    def read_again(self, _since: int = 0) -> int:
        return 0


def test_what_a_cluster_takes_to_start_is_no_part_of_the_round() -> None:
    runner = Runner()
    later = threading.Timer(0.6, runner.start)
    later.start()
    assert rounds._probe([runner], 0.3, threading.Event()) == []  # type: ignore[list-item]
    assert runner.ended - runner.began >= 0.3


def test_a_partition_that_does_not_answer_is_named_and_the_others_are_a_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rounds, "_REREAD_S", 0.5)
    runner = Runner()
    runner.published = Published(partitions=(runner.partition, PartitionView("t", 1)))
    runner.start()
    said = rounds._probe([runner], 0.1, threading.Event())  # type: ignore[list-item]
    assert said == ["t: partition 1 of t did not answer: nothing is known of it"]


@pytest.mark.quick
def test_a_loss_during_the_round_is_a_violation(lab: Lab, tmp_path: Path) -> None:
    process = smoke(tmp_path, lab.bootstrap, "smoke-lossy", "25s")
    try:
        until(lambda: written(lab, "smoke-lossy"), 60, "the round goes on")
        for broker in lab.brokers:
            lab.kill(broker)
        for broker in lab.brokers:
            for partition in range(3):
                lab.truncate(broker, "smoke-lossy", partition, to_offset=10)
        for broker in lab.brokers:
            lab.start_broker(broker)
        lab.wait_ready(60)
        status, said = outcome(process)
    finally:
        process.kill()
    assert (status, said["outcome"]) == (1, "violation")
    assert {"lost-write", "truncation"} <= {violation["kind"] for violation in said["violations"]}, said


def written(lab: Lab, topic: str) -> bool:
    """Say whether every replica holds a few probes more than are to be left."""
    try:
        return all(lab.end_offset(broker, topic, number) >= 30 for broker in lab.brokers for number in range(3))
    except LabError:  # the topic is not made yet
        return False


def test_a_running_canary_and_a_round_on_its_topic_ignore_each_other(lab: Lab, tmp_path: Path) -> None:
    """Two installations on one topic, of which the second one is fresh and the topic is old."""
    with Canary(tmp_path / "canary", lab.bootstrap, "smoke-beside") as canary:
        canary.until_probing()
        status, said = outcome(smoke(tmp_path / "smoke", lab.bootstrap, "smoke-beside", "5s"))
        assert (status, said["violations"], said["doubts"]) == (0, [], []), said
        assert said["probes"]["seen"] >= said["probes"]["acked"] > 30
        canary.until(lambda: canary.metric("canary_foreign_records_total") > 20, 30, "the round's probes are foreign")
        canary.until_all_seen()
        assert canary.broken_promises() == []
