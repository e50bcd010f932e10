"""New connections reach another cluster behind the address, while the known one lives and old connections stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from canary.lab import Lab, LoseAnswers, Redirect
from canary.runner.cluster.cluster import ClusterRunner
from canary.settings import load
from storage.store import Store
from storage.store.values import ViolationFilter
from tests.support import labs, stores
from tests.support.process import START_S
from tests.support.waiting import in_time, until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from canary.settings import Settings

pytestmark = pytest.mark.kafka

TOPIC = "moved"
PARTITIONS = 2
MOST = 20_000
"""More records than the known cluster has in a partition."""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The known cluster, at an address that can be given away."""
    labs.discard()
    with Lab(tmp_path_factory.mktemp("here"), 1, proxied=True, die_with_parent=True) as lab:
        yield lab


@pytest.fixture(scope="module")
def there(here: Lab, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Another cluster, which has a topic of that name with other records: more of them."""
    assert here.brokers == (1,)
    with Lab(tmp_path_factory.mktemp("there"), 1, die_with_parent=True) as lab:
        client = {"bootstrap.servers": lab.bootstrap, "log_level": 0}
        admin = AdminClient(client)
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(60)
        producer = Producer(client)
        for number in range(PARTITIONS * MOST):
            producer.produce(TOPIC, b"another's", partition=number % PARTITIONS)
        assert producer.flush(60) == 0
        yield lab


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=60) as opened:
        stores.upgrade(opened)
        yield opened


@pytest.fixture
def settings(here: Lab, tmp_path: Path) -> Settings:
    config = tmp_path / "canary.yaml"
    config.write_text(
        f"clusters: [{{name: t, kafka: {{bootstrap.servers: '{here.bootstrap}'}}, "
        f"topic: {{name: {TOPIC}, partitions: {PARTITIONS}, replication_factor: 1}}, modes: {{idempotent: {{}}}}}}]\n"
        f"ledger: {{directory: {tmp_path}/ledger}}\nprobe_log: {{url: {tmp_path}/probe-log}}\n"
    )
    return load(config, {})


def told(store: Store) -> dict[str, str]:
    """Return the violations of the topic's records, and that of the address, with their states."""
    found = store.violations.page(ViolationFilter(), None, 500).items
    return {one.kind: one.state for one in found if one.severity == "critical"}


def acked(runner: ClusterRunner) -> int:
    shown = runner.published
    return sum(one.acked for one in shown.partitions) if shown is not None else 0


def goes_on(runner: ClusterRunner) -> None:
    before = acked(runner)
    until(lambda: acked(runner) > before + 100, 60, "probes are acknowledged")


def test_it_is_said_that_another_cluster_answers_and_nothing_is_lost(
    here: Lab, there: Lab, settings: Settings, store: Store, *, long: bool
) -> None:
    """Scrubbing goes on: each re-read opens a client, which meets the other cluster, where no record of ours is.

    In the long form so do, a second time, clients that lose their connections.
    """
    runner = ClusterRunner(settings, settings.clusters[0], store)
    runner.start()
    try:
        in_time(runner.probing.wait(START_S), "what is waited for")
        goes_on(runner)
        for lost in ((), ("Produce", "Fetch")) if long else ((),):
            here.nemesis(Redirect("client", 1, there.port(1)), *(LoseAnswers(api, count=3) for api in lost))
            until(lambda: told(store) == {"another-cluster": "open"}, 60, "it is said, and nothing else")
            until(lambda: there.cluster_id in (runner.message or ""), 60, "which one it is")
            here.heal()
            in_time(runner.probing.wait(START_S), "it goes on")
            goes_on(runner)
            until(lambda: told(store) == {"another-cluster": "resolved"}, 60, "it has ended, and nothing was lost")
    finally:
        here.heal()
        runner.stop(15)
