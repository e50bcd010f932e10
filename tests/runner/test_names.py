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


def test_one_runner_of_a_name_lives_and_its_successor_elsewhere_says_what_it_does_not_know(
    lab: Lab, tmp_path: Path
) -> None:
    store = f"sqlite:///{tmp_path}/store.db"
    with Canary(tmp_path / "a", lab.bootstrap, "names", store=store) as first:
        first.until_probing()
        shared = {"ledger": {"directory": str(tmp_path / "a" / "ledger")}}
        with (
            Canary(tmp_path / "b", lab.bootstrap, "names", store=store, parts=("run",)) as second,
            Canary(tmp_path / "c", lab.bootstrap, "names", store=store, parts=("run",), settings=shared) as third,
        ):
            assert second.processes[0].wait(START_S) == 4
            assert "another live runner is called c0" in second.output()
            assert "Traceback" not in second.output()
            assert third.processes[0].wait(START_S) == 4
        first.until_probing()
        assert first.broken_promises() == []
    with Canary(tmp_path / "d", lab.bootstrap, "names", store=store) as successor:
        successor.until_probing(90)
        successor.until_all_seen()
        (forgotten,) = successor.broken_promises()
        assert "memory-lost" in forgotten, "its predecessor's ledger stayed there"
        with contextlib.closing(sqlite3.connect(tmp_path / "store.db", timeout=10)) as opened, opened:
            opened.execute("update leases set holder = 'somebody else'")
        assert successor.processes[0].wait(START_S) == 4, "who loses the lease stops probing, and ends"
