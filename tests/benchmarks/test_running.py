"""All benchmarks in one run: which there are, what is written, and how it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import typer

from tests.benchmarks import __main__ as running

if TYPE_CHECKING:
    from pathlib import Path


def test_every_module_with_a_measure_is_found() -> None:
    assert {"probing", "throughput", "reconcile", "dump", "check_spark", "footprint"} <= set(running.found())
    assert "measuring" not in running.found()


def test_what_ran_is_written_beside_what_did_not_and_a_miss_is_the_exit_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"check": (["| check | s | a |"], True), "dump": (["| dump | s | b |"], False)}
    monkeypatch.setattr(running, "COSTS", tmp_path / "costs.md")
    monkeypatch.setattr(running, "ran", lambda name, _: said[name])
    for name, status in (("dump", 1), ("check", 0)):
        with pytest.raises(typer.Exit) as ended:
            running.main([name], write=True)
        assert ended.value.exit_code == status
    text = running.COSTS.read_text()
    assert text.endswith("| check | s | a |\n| dump | s | b |\n")
    monkeypatch.setattr(running, "machine", lambda: "Machine: another.")
    assert running.kept("", "Machine: another.") == {}


def test_a_benchmark_that_cannot_run_is_a_miss(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "found", lambda: ["nothing"])
    rows, well = running.ran("nothing", 0)
    assert not well
    assert "missed" in rows[0]
