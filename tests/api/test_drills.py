"""Drills of live clusters: listed, proven by Alertmanager's webhook, and measured."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.api.serving import view

if TYPE_CHECKING:
    from storage.store import Store
    from storage.store.values import DrillRun
    from tests.api.serving import Client

S = 10**9


def begun(store: Store) -> DrillRun:
    now = time.time_ns()
    return store.drills.begin("prod", "duplicate", "t-drill", now - 20 * S, now + 900 * S, "ann")


def notified(name: str = "CanaryDrill", cluster: str = "prod", status: str = "firing") -> dict[str, Any]:
    """Return a notification as Alertmanager 0.25 sends it."""
    alert = {
        "status": status,
        "labels": {"alertname": name, "cluster": cluster, "severity": "critical"},
        "annotations": {"summary": "A drill"},
        "startsAt": "2026-11-26T12:00:00Z",
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "http://prometheus/graph",
        "fingerprint": "a1",
    }
    return {
        "version": "4",
        "groupKey": "{}",
        "truncatedAlerts": 0,
        "status": status,
        "receiver": "page",
        "groupLabels": {},
        "commonLabels": {},
        "commonAnnotations": {},
        "externalURL": "http://alertmanager",
        "alerts": [alert, alert],
    }


def test_a_notification_proves_the_page_of_the_drill_that_runs(client: Client, store: Store) -> None:
    run = begun(store)
    store.drills.note(run.id, knowable_ns=run.began_ns + S, detected_ns=run.began_ns + 3 * S)
    assert client.post("/api/v1/drills/paged", notified()).json() == {"drills": 1}
    assert client.post("/api/v1/drills/paged", notified()).json() == {"drills": 0}, "Alertmanager repeats itself"
    store.drills.note(run.id, ended_ns=time.time_ns())
    (listed,) = client.get("/api/v1/drills").json()["items"]
    assert listed["paged_at"] is not None
    assert listed["error"] is None
    shown = client.get("/metrics").text
    assert 'canary_drill_detection_seconds{cluster="prod"} 2.0' in shown
    (page,) = (line for line in shown.splitlines() if line.startswith("canary_drill_page_seconds{"))
    assert 19 <= float(page.split()[-1]) < 60
    assert [row.action for row in store.actions.page().items] == ["drill-paged", "drill-paged"]


@pytest.mark.parametrize(
    "other",
    [notified("CanaryLostWrite"), notified(cluster="elsewhere"), notified(status="resolved"), {"alerts": []}],
)
def test_any_other_notification_proves_nothing(client: Client, store: Store, other: dict[str, Any]) -> None:
    run = begun(store)
    assert client.post("/api/v1/drills/paged", other).json() == {"drills": 0}
    found = store.drills.get(run.id)
    assert found is not None
    assert found.paged_ns is None


def test_what_is_no_notification_is_refused_with_its_place(client: Client) -> None:
    refused = client.post("/api/v1/drills/paged", {"alerts": [{"status": "firing"}]})
    assert refused.status_code == 422
    assert "labels" in refused.json()["detail"]


def test_only_a_cluster_with_the_mode_has_a_series_that_can_be_overdue(client: Client, store: Store) -> None:
    assert "canary_drill_last_success_timestamp_seconds{" not in client.get("/metrics").text
    sent = ["canary_probes_sent_total", ["drill", "0", "idempotent"], 3]
    store.views.save("prod", "canary-0", time.time_ns(), view(measurements=[sent]))
    assert "canary_drill_last_success_timestamp_seconds{" not in client.get("/metrics").text, "a topic of that name"
    sent = ["canary_probes_sent_total", ["t-drill", "0", "drill"], 3]
    store.views.save("prod", "canary-0", time.time_ns(), view(measurements=[sent]))
    assert 'canary_drill_last_success_timestamp_seconds{cluster="prod"} 0.0' in client.get("/metrics").text
