"""A receipt is held against a log only if the log is shown to be the same: else a topic made anew is a false alarm."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from canary_receipts import Producer
from canary_receipts.files import METADATA, SCHEMA
from spark_reconcile.dump.kafka_bounds import Span, Topic
from spark_reconcile.receipts import check as checking
from spark_reconcile.receipts.check import Checked, check
from spark_reconcile.receipts.findings import document, sentences
from spark_reconcile.tables.columns import ISOLATIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

BEGAN = datetime(2020, 5, 4, 3, tzinfo=UTC)
END = 10


def at(second: int) -> datetime:
    """Return when something was acknowledged, in seconds of this file's time."""
    return BEGAN + timedelta(seconds=second)


def java_file(
    folder: Path, rows: Sequence[tuple[int, int, int | None]], topic_ids: Mapping[str, str] | None = None
) -> None:
    """Write a file as the Java interceptor does, of rows (offset, second of the acknowledgement, digest)."""
    number = len(list(folder.rglob("*.parquet")))
    table = pa.Table.from_pylist(
        [
            {
                "topic": "t",
                "partition": 0,
                "offset": offset,
                "timestamp": at(second),
                "acked_at": at(second),
                "digest": digest,
                "transactional": False,
                "outcome": "promised",
            }
            for offset, second, digest in rows
        ],
        SCHEMA,
    )
    told = {"version": 1, "incarnation": "00000000deadbeef", "sequence": number, "closed": True}
    told |= {} if topic_ids is None else {"topic_ids": topic_ids}
    day = folder / BEGAN.date().isoformat()
    day.mkdir(exist_ok=True, parents=True)
    path = day / f"java--00000000deadbeef--{number:010d}.parquet"
    with pq.ParquetWriter(path, SCHEMA, compression="gzip", store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({METADATA: json.dumps(told).encode()})


class World:
    """A cluster with the topic t of one partition [0, 10), whose log holds some records: offset, second, digest."""

    def __init__(self, spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[tuple[int, int, int]] = []
        self.compacted: bool | None = False
        self._spark = spark
        self._folder = folder
        monkeypatch.setattr(checking, "Cluster", lambda *_: self)
        monkeypatch.setattr(checking, "_records", self._records)

    def topics(self, _: Sequence[str]) -> list[Topic]:
        return [Topic("t", "id", 1, None, None, self.compacted)]

    def spans(self, *_: Any) -> list[Span]:
        return [Span("t", 0, ISOLATIONS[1], 0, END, 0)]

    def starts(self, _: Any) -> dict[tuple[str, int], int]:
        return {("t", 0): 0}

    def _records(self, *_: Any) -> Any:
        rows = [{"offset": offset, "found": digest, "logged": at(second)} for offset, second, digest in self.log]
        rows = [{"topic": "t", "partition": 0, "seen": True} | one for one in rows]
        return self._spark.createDataFrame(pa.Table.from_pylist(rows, checking._NOTHING))

    def check(self) -> Checked:
        return check(self._spark, "c", {}, str(self._folder))


@pytest.fixture
def world(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A cluster whose receipts are in tmp_path."""
    return World(spark, tmp_path, monkeypatch)


@pytest.mark.spark
def test_receipts_without_a_topic_id_of_a_topic_made_anew_are_no_loss(world: World, tmp_path: Path) -> None:
    java_file(tmp_path, [(0, 1, 100), (1, 2, 101), (12, 3, 112), (2, 4, None)])
    world.log = [(0, 50, 500), (1, 51, 501), (2, 52, 502)]  # of the new topic
    java_file(tmp_path, [(0, 50, 500), (1, 51, 501)])  # present, but acknowledged later than those of the old one
    found = world.check()
    assert found.counts == {("t", 0): {"present": 3, "unknown": 3}}
    assert (found.exit_status, found.runs, found.unknown, dict(found.why)) == (3, [], 3, {"made-anew": 3})
    assert document(found)["reasons"] == {"made-anew": 3}
    assert any("the topic may have been made anew" in one for one in sentences(found))


@pytest.mark.spark
@pytest.mark.parametrize(
    ("earlier", "shows"),
    [
        ((0, 0, 100), True),
        ((0, 4, 100), False),  # acknowledged later than what is missing
        ((0, 0, None), False),  # present, but what it was is not known
        ((0, -9, 100), False),  # the same content, written at another time: an application that begins again
    ],
)
def test_an_earlier_record_that_is_as_its_receipt_says_shows_that_the_log_is_the_same(
    earlier: tuple[int, int, int | None], *, shows: bool, world: World, tmp_path: Path
) -> None:
    java_file(tmp_path, [earlier, (1, 2, 101), (5, 2, 105), (12, 3, 112)])
    world.log = [(0, max(earlier[1], 0), 100), (1, 60, 777)]
    found = world.check()
    verdicts = {"present": 1} | ({"changed": 1, "lost": 2} if shows else {"unknown": 3})
    assert (found.counts, found.exit_status) == ({("t", 0): verdicts}, 1 if shows else 3)
    assert [(one.verdict, one.first) for one in found.runs] == (
        [("changed", 1), ("lost", 5), ("lost", 12)] if shows else []
    )


@pytest.mark.spark
def test_the_topics_id_shows_it_too_and_a_receipt_of_another_topic_does_not(world: World, tmp_path: Path) -> None:
    java_file(tmp_path, [(12, 3, 112)], {"t": "id"})
    java_file(tmp_path, [(0, 1, 100)], {"t": "former"})
    java_file(tmp_path, [(13, 3, 113)])
    world.log = [(0, 1, 100)]
    found = world.check()
    assert found.counts == {("t", 0): {"lost": 1, "recreated": 1, "unknown": 1}}


@pytest.mark.spark
@pytest.mark.parametrize(
    ("compacted", "verdict", "status"), [(True, "compacted", 0), (None, "unknown", 3), (False, "lost", 1)]
)
def test_what_is_missing_within_a_log_is_compacted_only_where_that_is_known(
    *, compacted: bool | None, verdict: str, status: int, world: World, tmp_path: Path
) -> None:
    java_file(tmp_path, [(0, 1, 100), (5, 2, 105)])
    world.log = [(0, 1, 100)]
    world.compacted = compacted
    found = world.check()
    assert (found.counts, found.exit_status) == ({("t", 0): {"present": 1, verdict: 1}}, status)
    said = [one for one in sentences(found) if "whether the topic is compacted is not known" in one]
    assert len(said) == (verdict == "unknown")
    java_file(tmp_path, [(12, 3, 112)])
    assert world.check().total("lost") == 1 + (verdict == "lost")  # beyond the end compaction removes nothing


@pytest.mark.spark
def test_files_of_java_and_python_in_one_directory_are_read_together(
    world: World, spark: SparkSession, tmp_path: Path
) -> None:
    with Producer(
        {"test.mock.num.brokers": 1, "log_level": 0},
        receipts={"directory": tmp_path, "topic_ids": False, "name": "_orders"},
    ) as producer:
        producer.produce("t", b"value", b"key", 0)
        producer.flush()
    java_file(tmp_path, [(0, 1, 100), (1, 2, None)])
    world.log = [(0, 1, 100), (1, 2, 101)]
    found = world.check()
    assert {path.parent.parent for path in tmp_path.rglob("*.parquet")} == {tmp_path}
    assert len({path.parent for path in tmp_path.rglob("*.parquet")}) == 2  # of different days
    assert (found.coverage.files, found.total("present"), found.total("changed")) == (2, 2, 1)
    rows = spark.read.option("recursiveFileLookup", "true").parquet(str(tmp_path))
    assert rows.columns == SCHEMA.names
    assert {(row["offset"], row["outcome"]) for row in rows.collect()} == {(0, "promised"), (1, "promised")}
    assert rows.count() == 3
