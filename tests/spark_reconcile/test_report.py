"""The page of a run: loss over time, and the log around what is wrong."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from simulation.nights.full import full_night
from simulation.nights.nights import MINUTE, NOW
from spark_reconcile.job.inputs import look
from spark_reconcile.report import page, pictures
from spark_reconcile.report.lost_writes import LOST_SCHEMA
from spark_reconcile.report.output import CASE_SCHEMA
from spark_reconcile.report.pictures import Loss, around
from spark_reconcile.tables.bounds import Place

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

HOUR = 60 * MINUTE
CASE: dict[str, Any] = {"kind": "duplicate", "cluster": "c", "topic": "t", "partition": 0, "offset": 72}


def test_the_log_around_a_case_shows_who_claims_each_offset(written: Callable[..., Path]) -> None:
    root = written(full_night())
    files = look(str(root / "log"), str(root / "dump")).files
    picture = around(files, CASE)
    rows = {row[0]: row[1:] for row in picture.rows}
    assert sorted(rows) == list(range(68, 77))
    assert rows[72] == ("", "7/1/42", "7/1/42", "")
    rows = {row[0]: row[1:] for row in around(files, CASE | {"offset": 51}).rows}
    assert rows[50] == ("7/1/40", "", "", "7/1/40")
    assert rows[51] == ("7/1/41", "7/1/70", "7/1/70", "")
    assert rows[53] == ("7/1/43", "damaged", "", "")


def test_no_picture_is_worth_reading_everything(written: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    root = written(full_night())
    monkeypatch.setattr(pictures, "MOST_ROWS", 3)
    picture = around(look(str(root / "log"), str(root / "dump")).files, CASE)
    assert [row[1:] for row in picture.rows] == [("", "", "", "")] * 9


def test_loss_over_time_adds_up_by_partition(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = [("t", 0, NOW), ("t", 0, NOW + HOUR), ("<u>", 3, NOW + 5 * HOUR), ("t", 0, None)]
    rows = [
        {"kind": "lost-write", "cluster": "c", "topic": topic, "partition": partition, "sequence": 1}
        | {"sent_at": None if sent is None else sent}
        for topic, partition, sent in lost
    ]
    (tmp_path / "lost").mkdir()
    pq.write_table(pa.Table.from_pylist(rows, LOST_SCHEMA), tmp_path / "lost" / "a.parquet")
    loss = Loss.of(str(tmp_path))
    assert loss is not None
    sums = {place: int(row.sum()) for place, row in loss.counts.items()}
    assert sums == {Place("c", "t", 0): 2, Place("c", "<u>", 3): 1}
    assert loss.begin <= NOW
    assert loss.end > NOW + 5 * HOUR
    svg = loss.svg()
    assert len(re.findall('class="lost"', svg)) == 3
    assert "&lt;u&gt;-3: 1" in svg
    monkeypatch.setattr(pictures, "MOST_PARTITIONS", 1)
    cut = Loss.of(str(tmp_path))
    assert cut is not None
    assert ([*cut.counts], cut.partitions) == ([Place("c", "t", 0)], 2)


def test_the_worst_cases_are_those_of_all_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mild = [CASE | {"kind": "stalled", "mode": None, "offset": None}] * 20
    bad = [CASE | {"mode": mode, "offset": offset} for mode in ("plain", "idempotent") for offset in (9, None, 3)]
    (tmp_path / "anomalies").mkdir()
    for name, rows in (("a", mild), ("b", bad[:4]), ("c", bad[4:]), ("d", mild)):
        pq.write_table(pa.Table.from_pylist(rows, CASE_SCHEMA), tmp_path / "anomalies" / f"{name}.parquet")
    monkeypatch.setattr(page, "WORST", 4)
    monkeypatch.setattr(page, "_BATCH", 3)
    worst = page._worst(str(tmp_path))
    assert [(case["mode"], case["offset"]) for case in worst.items] == [
        ("idempotent", None),
        ("idempotent", 3),
        ("idempotent", 9),
        ("plain", None),
    ]
    summary: dict[str, Any] = {"summary": dict.fromkeys(page._TABLE, 0), "anomalies": {"duplicate": 6}}
    summary |= {"unjudged": [], "notes": [], "verdicts": {}}
    files: dict[str, list[Any]] = {"probes": [], "records": [], "polls": []}
    assert "The worst 4 of 46 cases; all are in anomalies/." in page.render(summary, {}, str(tmp_path), files)


def test_where_nothing_is_lost_there_is_no_picture_of_it(tmp_path: Path) -> None:
    (tmp_path / "lost").mkdir()
    pq.write_table(LOST_SCHEMA.empty_table(), tmp_path / "lost" / "a.parquet")
    assert Loss.of(str(tmp_path)) is None
