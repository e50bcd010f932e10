"""Records that are destroyed on every replica: each one flagged, and nothing else."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest

from canary.probe.identity import Identity
from spark_reconcile.job import session
from tests.support.command import canary as command
from tests.support.harm import destroy
from tests.support.process import Canary, acknowledged, identities

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from canary.lab import Lab

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.quick]

_CUT = 25


def lost_online(canary: Canary) -> dict[object, int]:
    """Return identity to offset of every lost-write."""
    return {
        Identity(who[0], who[1], who[2], who[3] + i): offset + i
        for violation in canary.violations("lost-write")
        for offset, size, who in canary.runs_of(violation)
        for i in range(size)
    }


def reconciled(canary: Canary, directory: Path) -> tuple[dict[str, Any], dict[Identity, str]]:
    """Dump and reconcile as an operator would; return the summary and each identity's verdict but survived."""
    dumped = command("dump", "--config", canary.config, "--out", directory / "dump")
    assert dumped.status == 0, dumped.err
    out = directory / "reconciled"
    done = command(
        "reconcile", "--probe-log", directory / "probe-log", "--dump", directory / "dump", "--out", out, "--json"
    )
    assert done.status == 1, done.err
    rows = ds.dataset(out / "verdicts", format="parquet").to_table().to_pylist()
    verdicts = {Identity(r["producer_id"], r["generation"], r["partition"], r["sequence"]): r["verdict"] for r in rows}
    return json.loads(done.out), verdicts


def test_each_acked_record_destroyed_on_all_replicas_is_flagged_and_nothing_else(
    lab: Lab, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shows (c): identity and offset of each, in REST and on /metrics, and by the commands of a night."""
    monkeypatch.setattr(session, "session", lambda *_, **__: nullcontext(spark))  # a start of each command's own costs
    with Canary(tmp_path, lab.bootstrap, "destroyed") as canary:
        canary.until_probing()
        canary.until(lambda: canary.metric("canary_probes_acked_total") > 3 * 60, 60, "enough is acknowledged")
        cut = destroy(lab, "destroyed", 1, _CUT)
        canary.until(lambda: canary.violations("truncation"), 90, "the cut is flagged")
        canary.until_probing()
        # of what was destroyed at or above the end of a log, a night says for five minutes that it is pending
        canary.until(
            lambda: canary.metric("canary_log_end_offset", topic="destroyed", partition="1") > cut + _CUT,
            60,
            "every place of a destroyed record is taken again",
        )
        canary.until_all_seen()
        canary.until_no_doubt()
        found = lost_online(canary)
        assert canary.metric("canary_violations_total", kind="lost-write") == len(found)
        kinds = {(v["kind"], v["partition"]) for v in canary.unexplained()}
        truncations = canary.violations("truncation")
        assert canary.stop() == [0, 0]
        summary, verdicts = reconciled(canary, tmp_path)
    held = identities(lab.bootstrap, "destroyed")
    truth = {identity: offset for identity, offset in acknowledged(tmp_path).items() if identity not in held}
    assert len(truth) > _CUT // 2  # the last ones may not have been acknowledged yet
    assert min(truth.values()) >= cut
    assert found == truth
    assert [v["offset"] for v in truncations] == [cut]
    assert {identity for identity, verdict in verdicts.items() if verdict in ("lost", "moved")} == set(truth)
    assert summary["summary"]["acked_lost"] == len(truth) == summary["anomalies"]["lost-write"]
    assert summary["summary"]["acked"] == len(acknowledged(tmp_path))
    assert kinds <= {("lost-write", 1), ("truncation", 1), ("inconsistent-offsets", 1)}
