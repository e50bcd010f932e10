"""A drill of a live cluster, all of it real: from a forged record to the pager, and the proof of it back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.command import canary as command
from tests.support.monitoring import Pager, monitoring
from tests.support.process import Canary
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from canary.lab import Lab

pytestmark = [pytest.mark.e2e, pytest.mark.kafka, pytest.mark.quick]


@pytest.mark.timeout(1800)
def test_a_drill_of_a_live_cluster_pages_as_a_drill_and_proves_the_page(lab: Lab, tmp_path: Path) -> None:
    cluster = {
        "name": "t",
        "kafka": {"bootstrap.servers": lab.bootstrap},
        "topic": {"name": "drilled", "partitions": 1},
        "modes": {"idempotent": {"interval": "100ms"}, "drill": {"interval": "200ms"}},
    }
    pager = Pager()
    canary = Canary(tmp_path / "canary", lab.bootstrap, "drilled", settings={"clusters": [cluster]})
    webhook = f"{canary.base}/api/v1/drills/paged"
    with canary, monitoring(tmp_path, [canary.port], [webhook, pager.address]):
        canary.until_probing()
        canary.until(
            lambda: canary.metric("canary_probes_seen_total", topic="drilled-drill") > 10, 60, "the topic is probed"
        )
        assert canary.metric("canary_drill_last_success_timestamp_seconds", cluster="t") == 0
        options = ("--cluster", "t", "--page-within", "5m", "--json", "--config", str(canary.config))
        done = command("drill", "run", "duplicate", *options)
        assert done.status == 0, done.err
        (item,) = json.loads(done.out)["items"]
        assert item["knowable_ns"] <= item["paged_ns"] <= item["ended_ns"]
        assert item["detected_ns"] <= item["paged_ns"]
        (found,) = (one for one in canary.violations() if one["kind"] == "drill")
        assert found["topic"] == "drilled-drill"
        assert (found["state"], found["severity"]) == ("resolved", "critical")
        assert str(found["offset"]) in str(item["harmed"])
        assert "This is a drill" in found["summary"]
        assert canary.violations("duplicate") == []
        canary.until(lambda: canary.metric("canary_drill_page_seconds", cluster="t") > 0, 30, "the proof is shown")
        assert canary.metric("canary_drill_last_success_timestamp_seconds", cluster="t") > 0
        assert canary.metric("canary_violations_total", kind="duplicate") == 0
        until(lambda: pager.alerts("CanaryDrill", "resolved"), 120, "the page is resolved")
        told = {alert["labels"]["alertname"] for _, body in pager.told for alert in body["alerts"]}
        assert told == {"CanaryDrill"}
        (listed,) = canary.get("/api/v1/drills").json()["items"]
        assert listed["name"] == "duplicate"
        assert listed["error"] is None
        again = command("drill", "run", "fsync-loss", "--cluster", "t", "--config", str(canary.config))
        assert again.status == 2
        assert "throwaway" in again.err
