"""Bad input: one line that names file, folder or column, exit status 2, no summary; mostly before Spark starts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from canary.cli import main
from simulation.nights.full import full_night
from simulation.nights.nights import bound
from simulation.nights.oracle import RU
from spark_reconcile.errors import BadInputError
from spark_reconcile.job import driver
from spark_reconcile.job.inputs import look

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def night(written: Callable[..., Path]) -> Path:
    return written(full_night(3))


def refusal(root: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Run the command, which must refuse, and return its only line."""
    out = root / "out"
    out.mkdir(exist_ok=True)
    (out / "summary.json").write_text("an earlier run's")
    arguments = ["--probe-log", str(root / "log"), "--dump", str(root / "dump"), "--out", str(out)]
    with pytest.raises(SystemExit) as ended:
        main(["reconcile", *arguments])
    assert ended.value.code == 2
    assert not (out / "summary.json").exists()
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("canary:")]
    assert len(lines) == 1
    return lines[0]


def rewrite(file: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    table = change(pq.read_table(file))
    pq.write_table(table, file)


COLUMNS = [
    *(("log/probes", name) for name in ("cluster", "sequence", "sent_at", "error", "leader_epoch", "offset")),
    *(("log/transactions", name) for name in ("transaction_id", "commit_at")),
    *(("log/polls", name) for name in ("isolation", "consumer_id")),
    *(("dump/records", name) for name in ("valid", "timestamp", "producer_id")),
    *(("dump/bounds", name) for name in ("end_offset", "dumped_at")),
]


@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_a_missing_column_is_named(night: Path, capsys: pytest.CaptureFixture[str], table: str, column: str) -> None:
    file = night / table / "part-0.parquet"
    rewrite(file, lambda rows: rows.drop_columns([column]))
    line = refusal(night, capsys)
    assert column in line
    assert str(file) in line


def test_a_column_missing_in_one_file_only_is_named(night: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = pq.read_table(night / "log/probes/part-0.parquet")
    pq.write_table(table.slice(0, 0).drop_columns(["mode"]), night / "log/probes/part-1.parquet")
    line = refusal(night, capsys)
    assert "mode" in line
    assert "part-1.parquet" in line


TYPES = [
    ("log/probes", "sequence", pa.string()),
    ("log/probes", "partition", pa.int64()),
    ("log/probes", "sent_at", pa.int64()),
    ("log/polls", "offset", pa.float64()),
    ("dump/records", "valid", pa.int8()),
    ("dump/bounds", "end_offset", pa.int32()),
]


@pytest.mark.parametrize(("table", "column", "kind"), TYPES)
def test_a_wrong_type_is_named(
    night: Path, capsys: pytest.CaptureFixture[str], table: str, column: str, kind: pa.DataType
) -> None:
    file = night / table / "part-0.parquet"

    def change(rows: pa.Table) -> pa.Table:
        return rows.set_column(rows.schema.get_field_index(column), column, rows.column(column).cast(kind))

    rewrite(file, change)
    line = refusal(night, capsys)
    assert column in line
    assert str(file) in line
    assert str(kind) in line


@pytest.mark.parametrize("table", ["log/probes", "log/transactions", "log/polls", "dump/records", "dump/bounds"])
@pytest.mark.parametrize("left", [0, 3, 200, -1])
def test_a_truncated_file_is_named(night: Path, capsys: pytest.CaptureFixture[str], table: str, left: int) -> None:
    file = night / table / "part-0.parquet"
    file.write_bytes(file.read_bytes()[:left])
    assert str(file) in refusal(night, capsys)


def test_a_file_that_is_not_parquet_is_named(night: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = night / "dump/records/notes.txt"
    file.write_text("not Parquet, though long enough to be taken for something")
    assert str(file) in refusal(night, capsys)


@pytest.mark.parametrize("table", ["log/probes", "log/transactions", "log/polls", "dump/records", "dump/bounds"])
@pytest.mark.parametrize("empty", [True, False])
def test_an_empty_or_missing_folder_is_named(
    night: Path, capsys: pytest.CaptureFixture[str], table: str, *, empty: bool
) -> None:
    (night / table / "part-0.parquet").unlink()
    if empty:
        (night / table / "_SUCCESS").touch()
    else:
        (night / table).rmdir()
    assert str(night / table) in refusal(night, capsys)


def test_two_bounds_for_one_partition_and_level_are_refused(written: Callable[..., Path]) -> None:
    night = full_night(3)
    night.bounds.append(bound(RU, 10, 111))
    root = written(night)
    with pytest.raises(BadInputError, match=r"two bounds for cluster c, topic t, partition 0, read_uncommitted"):
        look(str(root / "log"), str(root / "dump"))


def test_a_partition_without_read_committed_bounds_is_refused(written: Callable[..., Path]) -> None:
    night = full_night(3)
    night.bounds = [row for row in night.bounds if row["isolation"] == RU or row["cluster"] == "d"]
    root = written(night)
    with pytest.raises(BadInputError, match="no read_committed bounds for cluster c, topic t, partition 0"):
        look(str(root / "log"), str(root / "dump"))


def test_nulls_where_none_may_be_are_refused(written: Callable[..., Path]) -> None:
    night = full_night(3)
    night.probes[1]["sequence"] = None
    root = written(night)
    with pytest.raises(BadInputError, match="column sequence has nulls"):
        look(str(root / "log"), str(root / "dump"))


def change_outcome(row: dict[str, Any]) -> None:
    row["outcome"] = "perhaps"


def change_isolation(row: dict[str, Any]) -> None:
    row["isolation"] = "snapshot"


@pytest.mark.spark
@pytest.mark.parametrize(
    ("table", "change", "word"),
    [
        ("probes", change_outcome, "perhaps"),
        ("records", change_isolation, "snapshot"),
        ("polls", change_isolation, "snapshot"),
    ],
)
def test_a_value_that_is_none_of_the_known_is_named(
    spark: SparkSession, written: Callable[..., Path], table: str, change: Callable[[dict[str, Any]], None], word: str
) -> None:
    night = full_night(3)
    change(getattr(night, table)[2])
    root = written(night)
    with pytest.raises(BadInputError, match=word) as refused:
        driver.run(spark, look(str(root / "log"), str(root / "dump")), str(root / "out"))
    assert "part-0.parquet" in str(refused.value)
    assert not (root / "out" / "summary.json").exists()


def test_an_unknown_outcome_of_a_transaction_is_named(written: Callable[..., Path]) -> None:
    night = full_night(3)
    change_outcome(night.transactions[0])
    root = written(night)
    with pytest.raises(BadInputError, match="perhaps"):
        look(str(root / "log"), str(root / "dump"))


@pytest.mark.spark
def test_a_page_damaged_in_the_midst_is_named(spark: SparkSession, written: Callable[..., Path]) -> None:
    root = written(full_night(3))
    file = root / "log/probes/part-0.parquet"
    content = bytearray(file.read_bytes())
    content[4:400] = bytes(396)
    file.write_bytes(bytes(content))
    with pytest.raises(BadInputError, match=r"part-0\.parquet"):
        driver.run(spark, look(str(root / "log"), str(root / "dump")), str(root / "out"))
