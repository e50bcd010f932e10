"""why-fsync: what was acknowledged by all in sync, and read, is cut off and replaced, and nobody gets an error."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from canary.lab import LabError
from canary.probing.readers.tail import TailConsumer
from canary.runner.cluster.cluster import ClusterRunner
from canary.settings import load
from storage.store import Store
from storage.store.values import ViolationFilter
from tests.support import stores
from tests.support.process import START_S
from tests.support.waiting import in_time, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from canary.lab import Lab
    from canary.metrics.published import PartitionView

pytestmark = [pytest.mark.kafka, pytest.mark.quick]

TOPIC = "replaced"
LEADER, FOLLOWER, LATE = 2, 3, 1
CUT = 3
WITHIN_S = 10.0
"""From the new leader to the alarm."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=60) as opened:
        stores.upgrade(opened)
        yield opened


def partition(runner: ClusterRunner) -> PartitionView:
    assert runner.published is not None
    return runner.published.partitions[0]


def read_to(runner: ClusterRunner) -> int:
    return partition(runner).consumers["read_committed"].position


def all_read(runner: ClusterRunner) -> bool:
    now = partition(runner)
    return now.acked > 60 and all(one.seen > 60 for one in now.consumers.values())


def leads(lab: Lab, after: int) -> bool:
    try:
        now = lab.partition(TOPIC, 0)
    except LabError:  # nobody answers just now
        return False
    return now.leader == LEADER and now.leader_epoch > after


def lost(store: Store) -> dict[int, int]:
    """Return the offset of each lost write, and when that was said (ns); nothing else stands between lost ones here."""
    page = store.violations.page(ViolationFilter(kind="lost-write"), None, 500)
    return {v.offset + i: v.first_seen_ns for v in page.items if v.offset is not None for i in range(v.count)}


def test_what_was_read_and_then_replaced_is_flagged_soon_though_the_tail_consumers_never_go_back(
    lab: Lab, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TailConsumer, "_stray", lambda *_: [])  # they do not even hear of it
    new = NewTopic(TOPIC, 1, replica_assignment=[[LEADER, FOLLOWER, LATE]], config={"min.insync.replicas": "2"})
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    admin.create_topics([new])[TOPIC].result(10)
    config = tmp_path / "canary.yaml"
    config.write_text(
        f"clusters: [{{name: t, kafka: {{bootstrap.servers: '{lab.bootstrap}'}}, topic: {{name: {TOPIC}}}}}]\n"
        f"ledger: {{directory: {tmp_path}/ledger}}\nprobe_log: {{url: {tmp_path}/probe-log}}\n"
    )
    settings = load(config, {})
    runner = ClusterRunner(settings, settings.clusters[0], store)
    lab.wait_isr(TOPIC, 0, {LEADER, FOLLOWER, LATE})
    lab.kill(LATE)
    lab.wait_isr(TOPIC, 0, {LEADER, FOLLOWER})
    runner.start()
    try:
        in_time(runner.probing.wait(START_S), "what is waited for")
        until(lambda: all_read(runner), 60, "60 are acknowledged by both, and read")
        lab.pause(FOLLOWER)
        lab.wait_isr(TOPIC, 0, {LEADER})
        until(lambda: all_read(runner), 30, "everything acknowledged is read")
        epoch, end = lab.partition(TOPIC, 0).leader_epoch, read_to(runner)
        lab.kill(LEADER)
        cut = lab.truncate(LEADER, TOPIC, 0, to_offset=end - CUT)
        assert end - cut.after >= CUT
        lab.start_broker(LATE, timeout=0)
        lab.start_broker(LEADER, timeout=0)
        until(lambda: leads(lab, epoch), 60, "who lost the end of its log leads again")
        new_leader_ns = time.time_ns()
        gone = set(range(cut.after, end))
        until(lambda: lost(store).keys() >= gone, 60, f"{gone} are flagged")
        until(lambda: (partition(runner).end or 0) > end, 30, "other probes stand in their places")
    finally:
        runner.stop(15)
    assert lost(store).keys() == gone
    assert (max(lost(store).values()) - new_leader_ns) / 1e9 < WITHIN_S
    page = store.violations.page(ViolationFilter(), None, 500)
    kinds = {v.kind for v in page.items if v.severity != "info"}
    # for a while there was one replica in sync, then no leader; and what stands there now was passed over indeed
    true = {"isr-of-one", "offline-partition", "poll-skip"}
    assert kinds <= {"lost-write", "truncation", "inconsistent-offsets", *true}
