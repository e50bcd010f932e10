"""DELETE clusters/{c}: a decommissioned cluster leaves views, metrics and alerts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from api import create_app
from storage.store.repositories.leases import runner_lease
from tests.api.serving import Client, ProbeLogFake, lost, settings, view

if TYPE_CHECKING:
    from storage.store import Store


def filled(store: Store, cluster: str) -> None:
    store.views.save(cluster, "canary-0", time.time_ns(), view())
    store.violations.record(cluster, [lost(1)])
    made = store.reconciliations.request(cluster, "schedule", 1)
    store.reconciliations.claim("one", 2)
    store.reconciliations.finish(made.id, "one", 3, verdicts={"lost": 1})


def test_a_forgotten_cluster_is_on_no_page_in_no_list_and_has_no_series(store: Store) -> None:
    for cluster in ("old", "prod"):
        filled(store, cluster)
    client = Client(create_app(settings("prod"), store, ProbeLogFake()))
    assert 'cluster="old"' in client.get("/metrics").text
    answer = client.ask("DELETE", "/api/v1/clusters/old")
    assert (answer.status_code, answer.json()) == (
        200,
        {"cluster": "old", "violations": 1, "incidents": 1, "reconciliations": 1},
    )
    assert 'cluster="old"' not in client.get("/metrics").text
    assert ">old<" not in client.get("/").text
    for path in ("clusters", "violations", "incidents", "reconciliations"):
        items = client.get(f"/api/v1/{path}").json()["items"]
        assert {item.get("cluster") or item["name"] for item in items} == {"prod"}, path
    assert client.get("/api/v1/clusters/old/summary").status_code == 404
    assert client.get("/api/v1/actions").json()["items"][0]["target"] == "cluster old"


def test_what_is_unknown_or_probed_is_not_forgotten(store: Store) -> None:
    filled(store, "prod")
    client = Client(create_app(settings("prod"), store, ProbeLogFake()))
    answer = client.ask("DELETE", "/api/v1/clusters/nobody")
    assert (answer.status_code, "it does of: prod" in answer.json()["detail"]) == (404, True)
    store.leases.acquire(runner_lease("prod", "canary-0"), "process")
    answer = client.ask("DELETE", "/api/v1/clusters/prod")
    assert (answer.status_code, answer.json()["detail"]) == (
        409,
        "runner canary-0 probes prod at this moment; stop it first.",
    )
    assert client.get("/api/v1/clusters/prod/summary").json()["violations"]["lost-write"] == 1
