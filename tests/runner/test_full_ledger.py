"""A disk without room for the ledger, under the canary as its users run it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from canary.errors import FAILED
from tests.support.disk import SmallDisk, small_disk
from tests.support.process import Canary, records

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from canary.lab import Lab

pytestmark = pytest.mark.kafka


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "small") as mounted:
        yield mounted


def written(canary: Canary) -> int:
    """How many records the cluster has."""
    return sum(1 for _ in records(canary.bootstrap, canary.topic))


def test_a_full_disk_is_said_and_nothing_is_sent_until_there_is_room(lab: Lab, tmp_path: Path, disk: SmallDisk) -> None:
    ledger = {"directory": str(disk.path / "ledger")}
    part = f"ledger {disk.path}/ledger/t/c0"

    def said() -> bool:
        """All that has to be said is said."""
        (cluster,) = canary.get("/api/v1/clusters").json()["items"]
        return (
            canary.metric("canary_part_failing", part=part) == 1
            and canary.metric("canary_violations_open", kind="blind") == 1
            and f"the ledger {disk.path}/ledger/t/c0 cannot be written: No space left on device" in cluster["sentence"]
            and canary.get("/readyz").status_code == 503
        )

    def over() -> bool:
        return canary.metric("canary_part_failing") == 0 == canary.metric("canary_violations_open", kind="blind")

    with Canary(tmp_path, lab.bootstrap, "full", settings={"ledger": ledger}) as canary:
        canary.until_probing()
        assert canary.metric("canary_part_failing", part=part) == 0
        disk.fill()
        canary.until(said, 5, "the ledger cannot be written")
        before, beat = written(canary), canary.metric("canary_runner_heartbeat_timestamp_seconds")
        time.sleep(3)  # the outage itself
        assert written(canary) == before, "nothing is sent"
        assert canary.metric("canary_runner_heartbeat_timestamp_seconds") < beat + 1, "nothing is judged"
        assert canary.metric("canary_ledger_pending_rows") > 0
        disk.empty()
        canary.until(over, 10, "it goes on by itself")
        canary.until_probing()
        canary.until_all_seen()
        disk.fill()
        canary.until(said, 5, "the ledger cannot be written")
        assert canary.stop() == [FAILED, 0]
        last = canary.output()
        assert f"facts were never made durable: the ledger {disk.path}/ledger/t/c0 cannot be written" in last
        disk.empty()
        canary.start()
        canary.until_probing()
        canary.until(over, 10, "what the process before could not take back is over")
        canary.until_all_seen()
        assert {one["kind"] for one in canary.violations() if one["severity"] != "info"} == {"blind"}
        assert canary.stop() == [0, 0]
