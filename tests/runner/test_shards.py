"""Two runners share a topic: each probes and judges its own partitions, and together they see all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.process import Canary

if TYPE_CHECKING:
    from pathlib import Path

    from canary.lab import Lab

pytestmark = pytest.mark.kafka

TOPIC = "shards"


def sharing(lab: Lab, directory: Path, index: int, *parts: str) -> Canary:
    cluster = {
        "name": "t",
        "kafka": {"bootstrap.servers": lab.bootstrap},
        "topic": {"name": TOPIC, "partitions": 4},
        "shard": f"{index}/2",
    }
    settings: dict[str, Any] = {"clusters": [cluster]}
    store = f"sqlite:///{directory}/store.db"
    name = f"c{index}"
    return Canary(directory / name, lab.bootstrap, TOPIC, name=name, store=store, settings=settings, parts=parts)


def test_each_runner_probes_its_share_and_a_missing_one_is_counted(lab: Lab, tmp_path: Path) -> None:
    first, second = sharing(lab, tmp_path, 0, "run", "serve"), sharing(lab, tmp_path, 1, "run")
    with first, second:
        first.until(lambda: _acked(first) == {"0", "1", "2", "3"}, 60, "all four partitions are probed")
        for partition in range(4):
            owner = first.metric("canary_probes_sent_total", partition=str(partition))
            assert owner > 0
        rows = first.get("/api/v1/clusters/t/partitions").json()["items"]
        assert [row["partition"] for row in rows] == [0, 1, 2, 3]
        assert all(row["acked"] > 0 for row in rows)
        first.until(lambda: first.metric("canary_shards_missing") == 0, 15, "both shares have a runner")
        assert first.metric("canary_brokers_without_probe") == 0
        first.until_all_seen()
        second.kill()
        first.until(lambda: first.metric("canary_shards_missing") == 1, 40, "a share without a runner is counted")
        before = {partition: first.metric("canary_probes_acked_total", partition=partition) for partition in "0123"}
        first.until(
            lambda: first.metric("canary_probes_acked_total", partition="0") > before["0"], 20, "the first goes on"
        )
        assert first.metric("canary_probes_acked_total", partition="1") == before["1"]
        second.start()
        first.until(lambda: first.metric("canary_probes_acked_total", partition="1") > before["1"], 40, "it is back")
        first.until(lambda: first.metric("canary_shards_missing") == 0, 20, "and counted")
        first.until_all_seen()
        assert first.broken_promises() == []


def _acked(canary: Canary) -> set[str]:
    return {number for number in "0123" if canary.metric("canary_probes_acked_total", partition=number) > 0}
