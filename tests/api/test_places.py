"""A cluster, topic or partition that there is not is a 404 that names those there are, never an empty list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from api import create_app
from canary.anomalies.topology_change import TopologyChange
from storage.probe_log.reading import ProbeLogReader
from storage.probe_log.schemas import PROBES
from tests.api.serving import NOW_NS, Client, ProbeLogFake, settings, view

if TYPE_CHECKING:
    from pathlib import Path

    from storage.store import Store

TIME = {"from": "2026-01-02T03:00:00Z", "to": "2026-01-02T04:00:00Z"}
BY_PARTITION = ("log", "unseen", "export", "violations", "incidents", "topology")
BY_CLUSTER = (*BY_PARTITION, "audit", "reconciliations")


@pytest.fixture
def asked(store: Store, tmp_path: Path) -> Client:
    """An application over a probe log that has files of prod, and no row."""
    store.views.save("prod", "canary-0", NOW_NS, view())
    store.topology.record("prod", [TopologyChange(1, "partition", "orders", 4, leader=1, replicas="1,2", isr="1,2")])
    (tmp_path / "probes").mkdir()
    pq.write_table(pa.Table.from_pylist([], schema=PROBES), tmp_path / "probes" / "prod--r--ab-0000000001.parquet")
    return Client(create_app(settings("prod"), store, ProbeLogReader(str(tmp_path))))


def get(client: Client, path: str, cluster: str, topic: str, partition: int) -> tuple[int, str]:
    place: dict[str, Any] = {"cluster": cluster}
    if path in BY_PARTITION:
        place |= {"topic": topic, "partition": partition}
    answer = client.get(f"/api/v1/{path}", **place, **(TIME if path == "export" else {}))
    return answer.status_code, answer.json().get("detail", "") if answer.text else ""


@pytest.mark.parametrize("path", BY_CLUSTER)
def test_an_unknown_cluster(asked: Client, path: str) -> None:
    found = get(asked, path, "prod-ue", "durability-canary", 1)
    assert found == (404, "No cluster is called 'prod-ue'; there are: prod.")


@pytest.mark.parametrize("path", BY_PARTITION)
def test_an_unknown_topic_or_partition(asked: Client, path: str) -> None:
    found = get(asked, path, "prod", "durability", 1)
    assert found == (404, "No topic is called 'durability'; these are probed: durability-canary.")
    found = get(asked, path, "prod", "durability-canary", 7)
    assert found == (404, "Topic 'durability-canary' has no partition 7; there are: 0 to 2.")


@pytest.mark.parametrize("path", BY_CLUSTER)
def test_a_place_where_nothing_happened_is_an_empty_list(asked: Client, path: str) -> None:
    assert get(asked, path, "prod", "durability-canary", 2) == (200, "")


@pytest.mark.parametrize("path", ["violations", "incidents", "log"])
def test_a_topic_that_is_only_watched_is_known_with_its_partitions(asked: Client, path: str) -> None:
    assert get(asked, path, "prod", "orders", 4) == (200, "")
    assert get(asked, path, "prod", "orders", 5) == (404, "Topic 'orders' has no partition 5; there are: 4 to 4.")


def test_before_a_runner_has_told_of_its_topics_none_is_unknown(store: Store) -> None:
    client = Client(create_app(settings("prod"), store, ProbeLogFake()))
    assert get(client, "violations", "prod", "durability-canary", 1) == (200, "")
    assert get(client, "violations", "nobody", "durability-canary", 1)[0] == 404
