"""A night of real brokers with all that happens: transactions, aborts, retention, and a truncation.

What Spark finds is what was found online, and what only a re-read can know; every difference has its reason.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import httpx
import pyarrow.dataset as ds
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from spark_reconcile.report.comparison import KINDS, UNEXPLAINED
from tests.support.harm import destroy
from tests.support.process import Canary
from tests.support.topics import alter

if TYPE_CHECKING:
    from pathlib import Path

    from canary.lab import Lab

TOPIC = "night"
CUT = 25
RETENTION_MS = 20_000
"""In the short form, which stops retention before the cut: what has expired by the dump cannot be compared."""
LONG_RETENTION_MS = 240_000
"""In the long form: longer than what is cut takes to be dumped."""


def first_offset(lab: Lab, topic: str) -> int:
    place = TopicPartition(topic, 0)
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})  # kept: without its client nobody completes the answer
    return int(admin.list_offsets({place: OffsetSpec.earliest()})[place].result(30).offset)


def stop_retention(lab: Lab, topic: str) -> None:
    """Let nothing more be removed: not what has been closed, nor the open segment, once brokers stand for a while."""
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    alter(admin, topic, segment_ms="3600000", retention_ms="3600000")


def reconciled(canary: Canary) -> dict[str, Any]:
    """Ask for a reconciliation as an operator does, and return its row when it is done."""
    asked = httpx.post(f"{canary.base}/api/v1/reconciliations", json={"cluster": "t"}, timeout=10)
    assert asked.status_code < 300, asked.text
    rows: list[dict[str, Any]] = []

    def ended() -> bool:
        rows[:] = [one for one in canary.get("/api/v1/reconciliations").json()["items"] if one["cluster"] == "t"]
        return rows[0]["state"] in {"succeeded", "failed"}

    canary.until(ended, 600, "the reconciliation ends")
    assert rows[0]["state"] == "succeeded", rows[0]
    whole: dict[str, Any] = canary.get(f"/api/v1/reconciliations/{rows[0]['id']}").json()
    return whole


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.quick
@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_spark_finds_what_was_found_online_and_explains_the_rest(lab: Lab, tmp_path: Path, *, long: bool) -> None:
    retention_ms = LONG_RETENTION_MS if long else RETENTION_MS
    settings = {
        "clusters": [
            {
                "name": "t",
                "kafka": {"bootstrap.servers": lab.bootstrap},
                "topic": {
                    "name": TOPIC,
                    "partitions": 2,
                    "config": {"min.insync.replicas": "2", "retention.ms": str(retention_ms), "segment.ms": "5000"},
                },
                "modes": {"idempotent": {"interval": "100ms"}, "transactional": {"interval": "500ms"}},
            }
        ],
    }
    parts = ("run", "serve", "schedule")
    with Canary(tmp_path / "c", lab.bootstrap, TOPIC, settings=settings, parts=parts) as canary:
        canary.until_probing()
        canary.until(lambda: first_offset(lab, TOPIC) > 100, 500, "retention has taken something")
        if not long:
            stop_retention(lab, TOPIC)
        destroy(lab, TOPIC, 1, CUT)
        canary.until(lambda: canary.violations("truncation"), 90, "the cut is flagged")
        canary.until_probing()
        canary.until_all_seen()
        canary.until_no_doubt()
        row = reconciled(canary)
        found = [one for one in canary.violations() if one["kind"] in KINDS]
        log = tmp_path / "c" / "probe-log"
        outcomes = Counter(ds.dataset(log / "transactions", format="parquet").to_table()["outcome"].to_pylist())
    by = [
        ({sighting["by"] for sighting in one["sightings"] if sighting["at"] <= row["ended_at"]}, one["count"])
        for one in found  # as it was then: a slow consumer may meet a loss later
    ]
    both = sum(count for one, count in by if "reconcile" in one and one - {"reconcile"})
    assert both > CUT // 2
    assert outcomes["committed"] > 10
    assert outcomes["aborted"] > 0
    assert row["verdicts"]["expired"] > 50
    told = row["summary"]["compared"]
    only_here = sum(count for one, count in by if one == {"reconcile"})
    assert both == sum(int(line.split()[0]) for line in told if "found online, too" in line)
    assert only_here == sum(int(line.split()[0]) for line in told if "only a re-read" in line)
    assert not [line for line in told if UNEXPLAINED in line], told
    report = canary_report(tmp_path, row["id"])
    assert all(line.split(":")[0].split(" ", 1)[1] in report for line in told)


def canary_report(directory: Path, which: str) -> str:
    (page,) = directory.glob(f"c/reconciliations/t/{which}/out/report.html")
    return page.read_text()
