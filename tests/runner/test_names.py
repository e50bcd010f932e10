"""One live runner of a name in a cluster."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING

import pytest

from tests.support.process import START_S, Canary

if TYPE_CHECKING:
    from pathlib import Path

    from canary.lab import Lab

pytestmark = pytest.mark.kafka


def test_a_second_runner_of_one_name_ends_with_status_4_and_one_sentence(lab: Lab, tmp_path: Path) -> None:
    with Canary(tmp_path / "a", lab.bootstrap, "names") as first:
        first.until_probing()
        store = f"sqlite:///{tmp_path}/a/store.db"
        with Canary(tmp_path / "b", lab.bootstrap, "names", store=store, parts=("run",)) as second:
            assert second.processes[0].wait(START_S) == 4
            assert "another live runner is called c0" in second.output()
            assert "Traceback" not in second.output()
        shared = {"ledger": {"directory": str(tmp_path / "a" / "ledger")}}
        with Canary(tmp_path / "c", lab.bootstrap, "names", store=store, parts=("run",), settings=shared) as third:
            assert third.processes[0].wait(START_S) == 4
        first.until_probing()
        assert first.broken_promises() == []


def test_a_runner_whose_predecessor_died_elsewhere_succeeds_it_with_a_new_generation(lab: Lab, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/store.db"
    with Canary(tmp_path / "a", lab.bootstrap, "succeeded", store=store) as first:
        first.until_probing()
    with Canary(tmp_path / "b", lab.bootstrap, "succeeded", store=store) as second:
        second.until_probing(90)
        second.until_all_seen()
        (forgotten,) = second.broken_promises()
        assert "memory-lost" in forgotten, "its ledger stayed there"


def test_a_runner_that_loses_its_lease_stops_probing_and_ends(lab: Lab, tmp_path: Path) -> None:
    with Canary(tmp_path, lab.bootstrap, "lost-lease") as canary:
        canary.until_probing()
        with contextlib.closing(sqlite3.connect(tmp_path / "store.db", timeout=10)) as store, store:
            store.execute("update leases set holder = 'somebody else'")
        assert canary.processes[0].wait(START_S) == 4
