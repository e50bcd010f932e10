"""A start while a broker is down: of its partitions nothing is known, and all others are probed, read and judged."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from canary.runner.cluster.cluster import ClusterRunner
from canary.runner.topics import probe_topics
from canary.settings import load
from storage.store import Store
from storage.store.values import ViolationFilter
from tests.support import stores
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from canary.lab import Lab
    from canary.settings import ClusterSettings, Settings

pytestmark = [pytest.mark.kafka, pytest.mark.quick]

MAIN, OWN = "apart", "apart-transactional"
DOWN, CUT = 1, 2
"""The brokers of partitions 0 and 1: one stays away, the other loses the end of its log while no canary runs."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=60) as opened:
        stores.upgrade(opened)
        yield opened


def of(lab: Lab, tmp_path: Path, modes: str) -> Settings:
    config = tmp_path / "canary.yaml"
    config.write_text(
        f"clusters: [{{name: t, kafka: {{bootstrap.servers: '{lab.bootstrap}'}}, topic: {{name: {MAIN}}}, "
        f"watch: {{under_replicated_after: 10s}}, modes: {modes}}}]\nledger: {{directory: {tmp_path}/ledger}}\n"
        f"probe_log: {{url: {tmp_path}/probe-log}}\nrunner: {{name: r}}\n"
    )
    return load(config, {})


def acked(runner: ClusterRunner, topic: str = MAIN) -> list[int]:
    shown = runner.published
    return [] if shown is None else [one.acked for one in shown.of_topic(topic)]


def seen(runner: ClusterRunner) -> list[int]:
    """Return how many probes of partition 0 each consumer was given."""
    shown = runner.published
    return [0] if shown is None else [one.seen for one in shown.of_topic(MAIN)[0].consumers.values()]


def unacknowledged(runner: ClusterRunner) -> list[float]:
    shown = runner.published
    assert shown is not None
    (column,) = (one for one in shown.columns if one.name == "canary_unacknowledged_seconds")
    return [s or 0.0 for (topic, _), s in zip(shown.places, column.values, strict=False) if topic == MAIN]


def said(store: Store) -> set[tuple[str, str, int | None]]:
    page = store.violations.page(ViolationFilter(), None, 500)
    return {(one.kind, one.topic, one.partition) for one in page.items if one.severity != "info"}


def test_a_partition_without_a_leader_at_the_start_keeps_no_other_and_no_mode_waiting(
    lab: Lab, tmp_path: Path, store: Store
) -> None:
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    new = NewTopic(MAIN, 3, replica_assignment=[[DOWN], [CUT], [3]], config={"min.insync.replicas": "1"})
    admin.create_topics([new])[MAIN].result(10)
    settings = of(lab, tmp_path, "{idempotent: {}}")
    runner = ClusterRunner(settings, settings.clusters[0], store)
    runner.start()
    try:
        until(lambda: min(acked(runner), default=0) > 60, 60, "each partition acknowledges")
    finally:
        runner.stop(15)
    lab.kill(DOWN)
    lab.kill(CUT)
    lab.truncate(CUT, MAIN, 1, to_offset=40)
    lab.start_broker(CUT)
    # its topic has three replicas, and so cannot be made while a broker is down
    settings = of(lab, tmp_path, "{idempotent: {}, transactional: {}}")
    runner = ClusterRunner(settings, settings.clusters[0], store)
    runner.start()
    try:
        until(runner.probing.is_set, 20, "it probes what it can")
        before = acked(runner)
        until(lambda: min(acked(runner)[1:]) > max(before) + 30, 20, "the others acknowledge")
        assert acked(runner)[0] == before[0]
        until(lambda: ("lost-write", MAIN, 1) in said(store), 20, "what the others have lost is found")
        until(lambda: ("offline-partition", MAIN, 0) in said(store), 60, "the partition is said to have no leader")
        until(lambda: unacknowledged(runner)[0] > 15, 30, "its writes wait")
        assert max(unacknowledged(runner)[1:]) < 10
        lab.start_broker(DOWN)
        until(lambda: acked(runner)[0] > before[0] + 30, 60, "it is probed when its leader is back")
        until(lambda: min(acked(runner, OWN), default=0) > 0, 60, "so is the topic that could not be made")
        until(lambda: max(unacknowledged(runner)) < 5, 30, "nothing waits")
        until(lambda: min(seen(runner)) > before[0] + 30, 30, "both consumers read it")
    finally:
        runner.stop(15)
    assert {one for one in said(store) if one[0] == "lost-write"} == {("lost-write", MAIN, 1)}
    assert ("unwritable", MAIN, 0) not in said(store)


def test_a_topic_that_gets_no_answer_holds_nothing_else_up(
    lab: Lab, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the start of the others nor the runner's loop, which starts an ended writer again."""
    answers, ensure = threading.Event(), probe_topics.ensure

    def held(admin: Any, cluster: ClusterSettings, topic: str) -> bool:
        if topic == OWN:
            answers.wait(120)
        return ensure(admin, cluster, topic)

    monkeypatch.setattr(probe_topics, "ensure", held)
    settings = of(lab, tmp_path, "{idempotent: {}, transactional: {}}")
    runner = ClusterRunner(settings, settings.clusters[0], store)
    runner.start()
    try:
        until(runner.probing.is_set, 20, "it probes what it can")
        assert acked(runner, OWN) == []
        until(lambda: min(acked(runner), default=0) > 10, 20, "the other topic is probed")
        assert runner._clients is not None
        writers = runner._clients.probes[MAIN].writers
        ended = writers["idempotent"]
        ended.ask_stop()
        until(lambda: writers["idempotent"] is not ended and writers["idempotent"].alive, 10, "there is another writer")
        answers.set()
        until(lambda: min(acked(runner, OWN), default=0) > 0, 30, "the topic that answers now is probed")
    finally:
        answers.set()
        runner.stop(15)
    assert said(store) == set()
