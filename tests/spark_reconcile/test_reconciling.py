"""`canary reconcile` on Parquet that someone else wrote: the right answer in any layout."""

from __future__ import annotations

import dataclasses
import json
import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from simulation.nights import oracle
from simulation.nights.full import full_night
from simulation.nights.nights import bound, poll, probe, record
from spark_reconcile.job import driver, ranges, sources
from spark_reconcile.job.inputs import look
from spark_reconcile.match.rules import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def reconciled(spark: SparkSession, root: Path) -> dict[str, Any]:
    """Reconcile, and say what is in the result's folder in the oracle's words."""
    out = root / "out"
    report = driver.run(spark, look(str(root / "log"), str(root / "dump")), str(out))
    summary = json.loads((out / "summary.json").read_text())
    assert summary == json.loads(json.dumps(report.summary))
    rows = pq.read_table(out / "verdicts").to_pylist()
    keys = ("cluster", "topic", "partition", "producer_id", "generation", "sequence")
    verdicts = {tuple(row[name] for name in keys): (row["verdict"], row["offset"]) for row in rows}
    assert len(verdicts) == len(rows)
    counts: dict[str, int] = {}
    for row in pq.read_table(out / "partitions").to_pylist():
        counts[row["verdict"]] = counts.get(row["verdict"], 0) + row["n"]
    assert counts == summary["verdicts"]
    assert not (out / "_work").exists()
    return {
        "table": {name: value for name, value in summary["summary"].items() if not name.endswith(("rate", "_95"))},
        "anomalies": summary["anomalies"],
        "counts": dict(sorted(counts.items())),
        "verdicts": verdicts,
        "unverified": summary["unverified"],
        "voided": summary["voided"],
        "unjudged": [tuple(place.values()) for place in summary["unjudged"]],
    }


def test_every_verdict_and_its_row_come_out(spark: SparkSession, written: Callable[..., Path]) -> None:
    night = full_night()
    expected = oracle.verdicts(night)
    assert set(expected["counts"]) == set(VERDICTS) - {"unjudged"}
    assert reconciled(spark, written(night)) == expected


def one_row_a_file(table: pa.Table, folder: Path, _name: str) -> None:
    for number, row in enumerate(random.Random(3).sample(range(len(table)), len(table))):  # noqa: S311  # nothing secret
        pq.write_table(table.slice(row, 1), folder / f"{number}.parquet")


def hive(table: pa.Table, folder: Path, name: str) -> None:
    by = ["cluster"] if name == "transactions" else ["cluster", "topic", "partition"]
    ds.write_dataset(
        table, folder, format="parquet", partitioning=ds.partitioning(table.select(by).schema, flavor="hive")
    )


def by_others(table: pa.Table, folder: Path, _name: str) -> None:
    """Write deep folders, markers, large strings, times in ns and without zone, more columns, and empty files."""
    columns: dict[str, Any] = {}
    for name in table.schema.names:
        column = table.column(name)
        if column.type == pa.string():
            column = column.cast(pa.large_string())
        elif pa.types.is_timestamp(column.type):
            column = pc.local_timestamp(column.cast(pa.timestamp("ns", "UTC"))) if name != "dumped_at" else column
        columns[name] = column
    other = pa.table(columns | {"remark": pa.nulls(len(table), pa.string())})
    deep = folder / "2026" / "a=b"
    deep.mkdir(parents=True)
    pq.write_table(other.slice(0, len(other) // 2), deep / "first.parquet", compression="gzip", use_dictionary=False)
    pq.write_table(other.slice(len(other) // 2), folder / "second", write_statistics=False)
    pq.write_table(table.schema.empty_table(), folder / "none.parquet")
    (folder / "_SUCCESS").touch()
    (folder / ".second.crc").write_bytes(b"crc")
    (folder / "_temporary").mkdir()
    (folder / "_temporary" / "half").write_bytes(b"PAR1")


def int96(table: pa.Table, folder: Path, _name: str) -> None:
    pq.write_table(table, folder / "old.parquet", use_deprecated_int96_timestamps=True, row_group_size=7)


def sorted_ranges(table: pa.Table, folder: Path, name: str) -> None:
    """The canary's own layout: each file one partition, rows by offset, small row groups."""
    if "offset" not in table.schema.names:
        pq.write_table(table, folder / "all.parquet")
        return
    extra = ["isolation"] if name == "records" else []
    for number, keys in enumerate(table.group_by(["cluster", "topic", "partition", *extra]).aggregate([]).to_pylist()):
        mask: Any = True
        for column, value in keys.items():
            mask = pc.and_(mask, pc.equal(table.column(column), pa.scalar(value, table.schema.field(column).type)))
        part = table.filter(mask).sort_by("offset")
        pq.write_table(part, folder / f"{number:03d}.parquet", row_group_size=5)


@pytest.mark.parametrize(
    ("layout", "fast"),
    [(one_row_a_file, True), (hive, True), (by_others, False), (int96, False), (sorted_ranges, True)],
)
def test_the_answer_does_not_depend_on_the_layout(
    spark: SparkSession,
    written: Callable[..., Path],
    layout: Callable[..., None],
    fast: bool,  # noqa: FBT001  # a parameter of the test
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ranges, "TARGET_ROWS", 8)  # so that identities meet across ranges
    monkeypatch.setattr(sources, "WIDTH", 8)
    night = full_night(12)
    root = written(night, layout)
    assert (ranges.plan(look(str(root / "log"), str(root / "dump")).files) is not None) == fast
    assert reconciled(spark, root) == oracle.verdicts(night)
    if not fast:  # few rows, so they were looked into; of many it would not be worth it
        monkeypatch.setattr(ranges, "NO_MATTER", 0)
        monkeypatch.setattr(ranges, "MIXED", 0.0)
        assert reconciled(spark, root) == oracle.verdicts(night)


def test_footers_that_lie_cost_time_and_nothing_else(
    spark: SparkSession, written: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    night = full_night(12)
    root = written(night, sorted_ranges)
    truth = ranges.plan

    def lying(files: dict[str, Any], _outlines: Any) -> list[ranges.Range] | None:
        plan = truth(files)
        assert plan is not None
        share = plan[0].shares["probes"][0]
        moved = dataclasses.replace(share, low=(share.low or 0) + 1)
        first = dataclasses.replace(plan[0], shares={**plan[0].shares, "probes": (moved,)})
        return [first, *plan[1:]]

    monkeypatch.setattr(driver, "plan", lying)
    assert reconciled(spark, root) == oracle.verdicts(night)


def test_a_second_run_leaves_the_same_and_nothing_twice(spark: SparkSession, written: Callable[..., Path]) -> None:
    night = full_night(5)
    root = written(night)
    assert reconciled(spark, root) == reconciled(spark, root) == oracle.verdicts(night)


def test_an_empty_night_is_clean(spark: SparkSession, written: Callable[..., Path]) -> None:
    root = written(oracle.Night())
    report = driver.run(spark, look(str(root / "log"), str(root / "dump")), str(root / "out"))
    assert report.exit_status == 0
    assert report.summary["summary"]["loss_rate_upper_95"] is None


def test_a_promise_in_a_partition_that_was_not_dumped_is_inconclusive(
    spark: SparkSession, written: Callable[..., Path]
) -> None:
    root = written(oracle.Night(probes=[probe(0, 0)]))
    report = driver.run(spark, look(str(root / "log"), str(root / "dump")), str(root / "out"))
    assert report.exit_status == 3
    assert report.summary["unjudged"] == [{"cluster": "c", "topic": "t", "partition": 0}]


def test_a_promise_from_before_the_topic_id_was_known_is_void_once_the_topic_was_made_anew(
    spark: SparkSession, written: Callable[..., Path]
) -> None:
    """The log has probes without an id, then id A; the dump is of B, and has another identity at their offsets."""
    night = oracle.Night(
        probes=[probe(0, 0), probe(1, 1), probe(2, 2, topic_id="A"), probe(3, 0, topic_id="B")],
        polls=[poll(0, 0), poll(1, 1)],
        records=[record(0, 3, level, topic_id="B") for level in (oracle.RC, oracle.RU)],
        bounds=[bound(level, 0, 9, topic_id="B") for level in (oracle.RC, oracle.RU)],
    )
    root = written(night)
    report = driver.run(spark, look(str(root / "log"), str(root / "dump")), str(root / "out"))
    assert report.summary["verdicts"] == {"other-incarnation": 3, "survived": 1}
    assert (report.exit_status, report.summary["voided"], report.summary["anomalies"]) == (0, 3, {})


def test_a_log_shorter_than_the_topic_is_no_violation(spark: SparkSession, written: Callable[..., Path]) -> None:
    night = full_night(0)
    night.probes = [probe(5, 15), probe(6, 16)]
    night.transactions = night.polls = []
    night.records = [record(10 + sequence, sequence) for sequence in range(9)]
    root = written(night)
    report = driver.run(spark, look(str(root / "log"), str(root / "dump")), str(root / "out"))
    assert report.exit_status == 0
    assert report.summary["verdicts"] == {"survived": 2, "pending": 2}


def test_the_day_table_adds_up_to_the_summary(spark: SparkSession, written: Callable[..., Path]) -> None:
    root = written(full_night())
    report = driver.run(spark, look(str(root / "log"), str(root / "dump")), str(root / "out"))
    table = pq.read_table(root / "out" / "table")
    for name in ("attempted", "acked", "survivors", "acked_lost", "unacked_found"):
        assert pc.sum(table.column(name)).as_py() == report.summary["summary"][name]
    lost = report.summary["summary"]
    assert lost["survivors"] == lost["acked"] - lost["acked_lost"] + lost["unacked_found"]


def test_every_anomaly_has_its_place(spark: SparkSession, written: Callable[..., Path]) -> None:
    root = written(full_night())
    report = driver.run(spark, look(str(root / "log"), str(root / "dump")), str(root / "out"))
    cases = pq.read_table(root / "out" / "anomalies").to_pylist()
    counts: dict[str, int] = {}
    for case in cases:
        counts[case["kind"]] = counts.get(case["kind"], 0) + 1
    assert counts == report.summary["anomalies"]
    lost = pq.read_table(root / "out" / "lost").to_pylist()
    assert len(lost) == counts["lost-write"] + counts["early-expiry"]
    assert {row["sequence"] for row in lost} >= {case["sequence"] for case in cases if case["kind"] == "lost-write"}
    duplicate = next(case for case in cases if case["kind"] == "duplicate")
    assert (duplicate["sequence"], duplicate["offset"]) == (42, 72)  # the copy, not the first
