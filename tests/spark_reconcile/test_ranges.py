"""Row groups of several partitions, as a probe log's newest segments have them: read for each, none twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from simulation.nights import oracle
from simulation.nights.full import full_night
from spark_reconcile.errors import BadInputError
from spark_reconcile.job import driver, ranges, sources, tasks
from spark_reconcile.job.inputs import look, outlined
from storage.probe_log import shipping
from tests.benchmarks import reconcile_data
from tests.spark_reconcile.test_history_engine import Inline
from tests.spark_reconcile.test_ordering import interleaved, small_groups

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SORTED = {"probes": ["topic", "partition", "offset"], "polls": ["topic", "partition", "offset"]}


def half_mixed(table: pa.Table, folder: Path, name: str) -> None:
    """Write the dump partition by partition, and the log as segments are: sorted, small groups of many partitions."""
    if name not in SORTED or not len(table):
        small_groups(table, folder, name)
        return
    half = len(table) // 2
    for number, part in enumerate((table.slice(0, half), table.slice(half))):
        keys = [(key, "ascending") for key in SORTED[name]]
        pq.write_table(part.sort_by(keys), folder / f"{number}.parquet", row_group_size=7)


@pytest.mark.dear("writes large files in many layouts")
@pytest.mark.parametrize("night", [full_night(9), *(interleaved(seed)[0] for seed in range(12))])
@pytest.mark.parametrize("layout", [half_mixed, small_groups])
def test_mixed_row_groups_are_read_for_each_partition(
    night: oracle.Night, layout: Any, written: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "TARGET_ROWS", 8)
    root = written(night, layout)
    inputs = look(str(root / "log"), str(root / "dump"))
    spark: Any = Inline()
    parts = ranges.mixed(inputs.files)
    assert ranges.plan(inputs.files, outlined(spark, parts)) is not None
    assert bool(parts) == (ranges.plan(inputs.files) is None)
    summary = driver.run(spark, inputs, str(root / "out")).summary
    expected = oracle.verdicts(night)
    assert {name: n for name, n in summary["anomalies"].items() if name != "G0"} == expected["anomalies"]
    assert summary["verdicts"] == expected["counts"]
    assert summary["unverified"] == expected["unverified"]


def test_too_many_are_not_looked_into(written: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    root = written(full_night(9), half_mixed)
    files = look(str(root / "log"), str(root / "dump")).files
    assert ranges.mixed(files)
    monkeypatch.setattr(ranges, "NO_MATTER", 0)
    monkeypatch.setattr(ranges, "MIXED", 0.01)
    assert ranges.mixed(files) == []


def test_a_large_file_of_the_probe_log_has_row_groups_of_one_partition_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "ROW_GROUP_ROWS", 2000)
    partitions = [partition for partition in range(3) for _ in range(3000)]
    table = pa.table({"topic": ["t"] * 6000 + ["u"] * 3000, "partition": pa.array(partitions, pa.int32())})
    table = table.append_column("offset", pa.array(range(9000)))
    for name, few in (("large", 2048), ("small", 4096)):
        monkeypatch.setattr(shipping, "PARTITION_ROWS", few)
        shipping.write_table(shipping.open_url(str(tmp_path))[0], str(tmp_path / name), table, ("topic", "partition"))
    large, small = (pq.ParquetFile(tmp_path / name) for name in ("large", "small"))
    assert [large.metadata.row_group(n).num_rows for n in range(6)] == [2000, 1000] * 3
    assert small.metadata.num_row_groups == 5
    assert large.read() == small.read() == table


@pytest.mark.dear("writes 36,000 rows in many row groups")
def test_a_second_look_reads_the_row_groups_it_needs_and_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconcile_data, "EACH", 3)
    monkeypatch.setattr(reconcile_data, "GROUP_ROWS", 256)
    monkeypatch.setattr(reconcile_data, "FILE_ROWS", 2048)
    monkeypatch.setattr(ranges, "TARGET_ROWS", 2048)
    planted = reconcile_data.generate(tmp_path, 36_000, levels=2, polls=True)
    read = [0, 0]

    def counted(part: ranges.Range, *more: Any) -> ranges.Range:
        narrow = ranges.narrowed(part, *more)
        for number, one in enumerate((part, narrow)):
            read[number] += sum(share.rows for shares in one.shares.values() for share in shares)
        return narrow

    monkeypatch.setattr(sources, "narrowed", counted)
    spark: Any = Inline()
    inputs = look(str(tmp_path / "log"), str(tmp_path / "dump"))
    summary = driver.run(spark, inputs, str(tmp_path / "out")).summary
    assert summary["verdicts"] == planted["verdicts"]
    assert summary["anomalies"] == planted["anomalies"]
    assert 0 < read[1] < 0.8 * read[0]


def scattered(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, dict[str, Any]]:
    """Write a night in no order at all, over several files, of which every row is to be spread first."""
    for name in ("MIXED", "NO_MATTER"):
        monkeypatch.setattr(ranges, name, 0)
    monkeypatch.setattr(reconcile_data, "EACH", 3)
    monkeypatch.setattr(reconcile_data, "FILE_ROWS", 15_000)
    monkeypatch.setattr(tasks, "TARGET_ROWS", 11_000)
    monkeypatch.setattr(sources, "WIDTH", 2048)
    planted = reconcile_data.generate(folder / "sorted", 36_000, levels=2, polls=True)
    reconcile_data.scatter(folder / "sorted", folder / "any")
    return folder / "any", planted


@pytest.mark.dear("writes 36,000 rows in no order")
def test_rows_in_no_order_are_spread_and_all_faults_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, planted = scattered(tmp_path, monkeypatch)
    spark: Any = Inline()
    inputs = look(str(root / "log"), str(root / "dump"))
    assert ranges.plan(inputs.files) is None
    summary = driver.run(spark, inputs, str(root / "out")).summary
    assert summary["verdicts"] == planted["verdicts"]
    assert summary["anomalies"] == planted["anomalies"]
    assert not (root / "out/_work").exists()


def test_a_bad_word_among_rows_in_no_order_is_named_with_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, _ = scattered(tmp_path, monkeypatch)
    file = root / "dump/records/0002.parquet"
    table = pq.read_table(file)
    words = table.column("isolation").to_pylist()
    words[7] = "read_anything"
    place = table.schema.get_field_index("isolation")
    pq.write_table(table.set_column(place, table.schema.field(place), pa.array(words)), file)
    spark: Any = Inline()
    with pytest.raises(BadInputError, match=r"records/0002.parquet.*read_anything"):
        driver.run(spark, look(str(root / "log"), str(root / "dump")), str(root / "out"))
