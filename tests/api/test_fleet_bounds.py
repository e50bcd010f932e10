"""What one cluster has does not hide what another one has, however many there are: on each kind of database."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from api import create_app
from storage.store import Store
from tests.api.serving import NOW_NS, Client, ProbeLogFake, lost, settings, view
from tests.support import stores

if TYPE_CHECKING:
    from collections.abc import Iterator

DAY_NS = 86_400 * 10**9
CLUSTERS = [f"cluster-{number:02}" for number in range(50)]
NIGHTS = 6


@pytest.fixture
def fleet_store(store_url: str) -> Iterator[Store]:
    with Store.connect(store_url, timeout=60) as store:
        stores.upgrade(store)
        yield store


def reconciled(store: Store, cluster: str, ended_ns: int, lost: int = 0, error: str | None = None) -> None:
    made = store.reconciliations.request(cluster, "schedule", ended_ns - 2)
    store.reconciliations.claim("one", ended_ns - 1)
    store.reconciliations.finish(made.id, "one", ended_ns, verdicts={"lost": lost}, error=error)


@pytest.mark.dear("fills a store with a fleet's nights")
def test_the_last_good_night_of_a_cluster_is_told_however_many_others_had_since(fleet_store: Store) -> None:
    for cluster in CLUSTERS:
        reconciled(fleet_store, cluster, NOW_NS - 9 * DAY_NS, lost=1)
        reconciled(fleet_store, cluster, NOW_NS - 8 * DAY_NS, lost=2)
        reconciled(fleet_store, cluster, NOW_NS - 7 * DAY_NS, error="no broker")
    for night in range(NIGHTS):
        for cluster in CLUSTERS[1:]:
            reconciled(fleet_store, cluster, NOW_NS - (NIGHTS - night) * DAY_NS, lost=3)
    text = Client(create_app(settings(*CLUSTERS), fleet_store, ProbeLogFake())).get("/metrics").text
    name = "canary_reconcile_last_success_timestamp_seconds"
    ended = {line.split('"')[1]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if f"{name}{{" in line}
    assert sorted(ended) == CLUSTERS
    assert ended["cluster-00"] == pytest.approx((NOW_NS - 8 * DAY_NS) / 1e9)
    assert [ended[cluster] for cluster in CLUSTERS[1:]] == pytest.approx([(NOW_NS - DAY_NS) / 1e9] * 49)
    assert 'canary_reconcile_verdicts{cluster="cluster-00",verdict="lost"} 2.0' in text


def test_a_loss_under_care_is_no_less_so_for_what_others_acknowledged_since(fleet_store: Store) -> None:
    for cluster in ("busy", "quiet"):
        fleet_store.views.save(cluster, "canary-0", time.time_ns(), view())
    fleet_store.violations.record("quiet", [lost(1, at_ns=NOW_NS - 1000)])
    fleet_store.violations.record("busy", [lost(n, at_ns=NOW_NS) for n in range(1500)])
    for incident in fleet_store.incidents.page().items:
        fleet_store.incidents.acknowledge(incident.id)
    client = Client(create_app(settings("busy", "quiet"), fleet_store, ProbeLogFake()))
    for cluster in ("busy", "quiet"):
        assert client.get(f"/api/v1/clusters/{cluster}/summary").json()["healthy"] is False
    assert {row.cluster: (row.state, row.records) for row in fleet_store.violations.groups()} == {
        "busy": ("acknowledged", 1500),
        "quiet": ("acknowledged", 1),
    }


def test_a_window_that_holds_is_known_however_many_are_planned_later(fleet_store: Store) -> None:
    fleet_store.maintenance.plan("busy", NOW_NS - DAY_NS, NOW_NS + DAY_NS, "upgrade", "ann")
    for week in range(1, 211):
        fleet_store.maintenance.plan("quiet", NOW_NS + week * 7 * DAY_NS, NOW_NS + week * 8 * DAY_NS, "weekly", "ann")
    text = Client(create_app(settings("busy", "quiet"), fleet_store, ProbeLogFake())).get("/metrics").text
    assert 'canary_quiet{cluster="busy",reason="maintenance"} 1.0' in text
    assert 'canary_quiet{cluster="quiet"' not in text
