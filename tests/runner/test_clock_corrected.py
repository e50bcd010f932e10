"""A canary begins while its machine's clock is an hour behind; then the clock is put right, and brokers go by it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient

from canary.probing.book import Book
from canary.runner.cluster.cluster import ClusterRunner
from canary.settings import load
from canary.threads import system
from canary.watching import own_topics
from storage.probe_log.reading import ProbeLogReader
from storage.probe_log.windows import Window
from storage.store import Store
from storage.store.values import ViolationFilter
from tests.support import stores
from tests.support.process import START_S
from tests.support.topics import alter
from tests.support.waiting import in_time, until

if TYPE_CHECKING:
    from pathlib import Path

    from canary.lab import Lab

pytestmark = pytest.mark.kafka

HOUR_NS = 3600 * 10**9
TOPIC = "corrected"


class Machine:
    """Its clock: that of Python's code and of the client library, which stamps records with it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.behind_ns = HOUR_NS
        produce = Book.produce

        class Stamping:
            def __init__(self, client: Any) -> None:
                self.client = client

            def produce(self, *record: Any, **more: Any) -> None:
                self.client.produce(*record, **more, timestamp=system.wall_ns() // 10**6)

        monkeypatch.setattr(system.System, "wall_ns", lambda _: time.time_ns() - self.behind_ns)
        monkeypatch.setattr(Book, "produce", lambda book, client, *more: produce(book, Stamping(client), *more))


def started(runner: ClusterRunner) -> list[int]:
    shown = runner.published
    return [] if shown is None else [one.start for one in shown.partitions]


def acked(runner: ClusterRunner) -> int:
    shown = runner.published
    return 0 if shown is None else sum(one.acked for one in shown.partitions)


def test_what_retention_took_by_the_clock_that_was_put_right_is_not_too_early_and_is_filed_by_that_clock(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_topics, "CONFIGURED_S", 0.5)
    settings_seen: list[str] = []
    configured = own_topics.OwnTopics.configured

    def noted(own: own_topics.OwnTopics, topic: str, *more: Any) -> Any:
        settings_seen.append(topic)
        return configured(own, topic, *more)

    monkeypatch.setattr(own_topics.OwnTopics, "configured", noted)
    machine = Machine(monkeypatch)
    config = tmp_path / "canary.yaml"
    kept = "{retention.ms: '-1', segment.ms: '600000'}"
    config.write_text(
        f"clusters: [{{name: t, kafka: {{bootstrap.servers: '{lab.bootstrap}'}}, topic: {{name: {TOPIC}, "
        f"partitions: 1, config: {kept}}}, modes: {{idempotent: {{interval: 200ms}}}}}}]\n"
        f"ledger: {{directory: {tmp_path}/ledger}}\nprobe_log: {{url: {tmp_path}/probe-log}}\n"
    )
    settings = load(config, {})
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    began_ns = time.time_ns()
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=60) as store:
        stores.upgrade(store)
        runner = ClusterRunner(settings, settings.clusters[0], store)
        runner.start()
        in_time(runner.probing.wait(START_S), "probes are acknowledged")
        until(lambda: acked(runner) > 20, 60, "some that are an hour old for brokers")
        machine.behind_ns = 0
        before = acked(runner)
        until(lambda: acked(runner) > before + 10, 60, "some that are not")
        alter(admin, TOPIC, retention_ms="600000")
        until(lambda: min(started(runner), default=0) > 0, 60, "what is an hour old has expired")
        answers = len(settings_seen)
        until(lambda: len(settings_seen) > answers + 2, 60, "the settings by which that is judged were seen")
        before = acked(runner)
        until(lambda: acked(runner) > before + 5, 60, "and folded")
        admin.delete_topics([TOPIC])[TOPIC].result(30)
        until(lambda: store.violations.page(ViolationFilter(kind="topic-recreated"), None, 9).items, 60, "that is said")
        runner.stop(60)
        said = store.violations.page(ViolationFilter(), None, 500).items
    found = [one for one in said if one.severity != "info"]
    assert sorted(one.kind for one in found) == ["promises-void", "topic-recreated"]
    assert min(one.first_seen_ns for one in found) > began_ns, "not an hour earlier"
    whole = Window("t", began_ns - 2 * HOUR_NS, time.time_ns())
    sent = [
        row["sent_at"].timestamp() * 1e9 - began_ns
        for row in ProbeLogReader(settings.probe_log.url).window(whole).probes
    ]
    assert {round(one / HOUR_NS) for one in sent} == {-1, 0}, "each by the clock that the machine had then"
