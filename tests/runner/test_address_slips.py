"""The address leads to another cluster for a while (a DNS slip): that one is left alone, then probing goes on."""

from __future__ import annotations

import dataclasses
import threading
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from canary.facts import ClusterSeen
from canary.runner.cluster import connection
from canary.runner.cluster.cluster import ClusterRunner
from canary.settings import load
from canary.watching.sampler import Watcher
from storage.store import Store
from storage.store.values import ViolationFilter
from tests.support import stores
from tests.support.process import START_S
from tests.support.waiting import in_time, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from canary.lab import Lab
    from canary.settings import Settings

pytestmark = pytest.mark.kafka

TOPIC = "slipped"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=60) as opened:
        stores.upgrade(opened)
        yield opened


@pytest.fixture
def slipped(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """While it is set, the brokers say that they are another cluster."""
    slip = threading.Event()
    cluster_id, seen = connection.cluster_id, Watcher._cluster

    def other(watcher: Watcher, *told: Any) -> list[Any]:
        facts = seen(watcher, *told)
        return [
            dataclasses.replace(fact, cluster_id="another") if isinstance(fact, ClusterSeen) and slip.is_set() else fact
            for fact in facts
        ]

    monkeypatch.setattr(Watcher, "_cluster", other)
    monkeypatch.setattr(connection, "cluster_id", lambda *asked: "another" if slip.is_set() else cluster_id(*asked))
    return slip


@pytest.fixture
def settings(lab: Lab, tmp_path: Path) -> Settings:
    config = tmp_path / "canary.yaml"
    config.write_text(
        f"clusters: [{{name: t, kafka: {{bootstrap.servers: '{lab.bootstrap}'}}, topic: {{name: {TOPIC}}}, "
        "modes: {idempotent: {}, transactional: {}}}]\n"
        f"ledger: {{directory: {tmp_path}/ledger}}\nprobe_log: {{url: {tmp_path}/probe-log}}\n"
    )
    return load(config, {})


def acked(runner: ClusterRunner) -> int:
    shown = runner.published
    return sum(p.acked for p in shown.partitions) if shown is not None else 0


def all_seen(runner: ClusterRunner) -> bool:
    """Say whether whatever was acknowledged some time ago was seen: brokers gather for a while what comes now."""
    shown = runner.published
    assert shown is not None
    return all(one.oldest_unseen_s < 3 for place in shown.partitions for one in place.consumers.values())


def goes_on(runner: ClusterRunner, before: int = 0) -> None:
    in_time(runner.probing.wait(START_S), "what is waited for")
    until(lambda: acked(runner) > before + 60, 60, "probes are acknowledged")
    until(lambda: all_seen(runner), 60, "and seen")


def told(store: Store) -> list[tuple[str, str]]:
    page = store.violations.page(ViolationFilter(), None, 500)
    return [(v.kind, v.state) for v in page.items if v.severity != "info"]


def sightings(store: Store) -> int:
    """Return when it was last said that another cluster answers (ns), 0 if never."""
    page = store.violations.page(ViolationFilter(kind="another-cluster"), None, 500)
    return max((v.last_seen_ns for v in page.items), default=0)


def is_left_alone(runner: ClusterRunner, store: Store, lab: Lab) -> None:
    until(lambda: "leads to cluster another" in (runner.message or ""), 60, "it is said")
    assert not runner.probing.is_set()
    until(lambda: stands_still(store, lab), 60, "what was on its way has come, and nothing follows")
    assert told(store) == [("another-cluster", "open")]
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith(("producer-", "tail-"))] == []


def stands_still(store: Store, lab: Lab) -> bool:
    """Say whether nothing is written from one sighting of the other cluster to the next."""
    before, said = ends(lab), sightings(store)
    until(lambda: sightings(store) > said, 60, "it is said again")
    return ends(lab) == before


def ends(lab: Lab) -> list[int]:
    consumer = Consumer({"bootstrap.servers": lab.bootstrap, "group.id": "ends"})
    try:
        places = [TopicPartition(topic, p) for topic in (TOPIC, f"{TOPIC}-transactional") for p in range(3)]
        return [consumer.get_watermark_offsets(place, 20)[1] for place in places]
    finally:
        consumer.close()


def test_probing_goes_on_when_the_known_cluster_answers_again_in_the_same_process_and_the_next(
    lab: Lab, settings: Settings, store: Store, slipped: threading.Event
) -> None:
    runner = ClusterRunner(settings, settings.clusters[0], store)
    runner.start()
    try:
        goes_on(runner)
        slipped.set()
        is_left_alone(runner, store, lab)
        slipped.clear()
        goes_on(runner, acked(runner))
        assert runner.message is None
        until(lambda: told(store) == [("another-cluster", "resolved")], 30, "it has ended")
        slipped.set()
        is_left_alone(runner, store, lab)
    finally:
        runner.stop(15)
    runner = ClusterRunner(settings, settings.clusters[0], store)  # the snapshot says that nothing is judged
    runner.start()
    try:
        is_left_alone(runner, store, lab)
        slipped.clear()
        goes_on(runner, acked(runner))
        until(lambda: told(store) == [("another-cluster", "resolved")], 30, "it has ended")
    finally:
        runner.stop(15)
