"""A receipt is held against a log only if the log is shown to be the same: else a topic made anew is a false alarm."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from canary_receipts import Producer
from canary_receipts.files import METADATA, SCHEMA
from spark_reconcile.dump.kafka_bounds import Cluster, Span, Topic
from spark_reconcile.errors import BadInputError, UnreachableError
from spark_reconcile.receipts import check as checking
from spark_reconcile.receipts.check import Checked, check
from spark_reconcile.receipts.files import look
from spark_reconcile.receipts.findings import document, sentences
from spark_reconcile.tables.columns import ISOLATIONS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

BEGAN = datetime(2020, 5, 4, 3, tzinfo=UTC)
END = 10
DAYS_MS = 7 * 86_400_000


def at(second: int) -> datetime:
    """Return when something was acknowledged, in seconds of this file's time."""
    return BEGAN + timedelta(seconds=second)


def java_file(
    folder: Path,
    rows: Sequence[tuple[int, int, int | None]],
    topic_ids: Mapping[str, str] | None = None,
    cluster_id: str | None = None,
) -> Path:
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
    told |= {} if cluster_id is None else {"cluster_id": cluster_id}
    day = folder / BEGAN.date().isoformat()
    day.mkdir(exist_ok=True, parents=True)
    path = day / f"java--00000000deadbeef--{number:010d}.parquet"
    with pq.ParquetWriter(path, SCHEMA, compression="gzip", store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({METADATA: json.dumps(told).encode()})
    return path


class World:
    """A cluster with the topic t of one partition [0, 10), whose log holds some records: offset, second, digest."""

    def __init__(self, spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[tuple[int, int, int]] = []
        self.id = "this"
        self.compacted: bool | None = False
        self.retention: tuple[int | None, int | None] = (-1, -1)
        self.sized: dict[tuple[str, int], int] = {}
        self.ids: list[str | None] = ["before", "id"]
        """What is told of the topic each time, after the first; the last one for ever. So are the ends."""
        self.ends: list[int | None] = [0, END]
        self._spark = spark
        self._folder = folder
        monkeypatch.setattr(checking, "Cluster", lambda *_: self)
        monkeypatch.setattr(checking, "_records", self._records)

    def cluster_id(self) -> str:
        return self.id

    def topics(self, _: Sequence[str]) -> list[Topic]:
        self.ids = self.ids[1:] or self.ids
        return [Topic("t", self.ids[0], 1, *self.retention, self.compacted)]

    def spans(self, *_: Any) -> list[Span]:
        self.ends = self.ends[1:] or self.ends
        if self.ends[0] is None:
            raise UnreachableError("no partition answers")
        return [Span("t", 0, ISOLATIONS[1], 0, self.ends[0], 0)]

    def connected_anew(self) -> Self:
        return self

    def made_anew(self, topics: Sequence[Topic]) -> list[str]:
        """As the real one says it."""
        return Cluster.made_anew(self, topics)  # type: ignore[arg-type]

    def starts(self, _: Any) -> dict[tuple[str, int], int]:
        return {("t", 0): 0}

    def sizes(self, _: Any) -> dict[tuple[str, int], int]:
        return self.sized

    def _records(self, _: Any, __: Any, spans: Mapping[tuple[str, int], tuple[int, int]]) -> Any:
        low, high = spans.get(("t", 0), (0, 0))
        read = [one for one in self.log if low <= one[0] < high]
        rows = [{"offset": offset, "found": digest, "logged": at(second)} for offset, second, digest in read]
        rows = [{"topic": "t", "partition": 0, "seen": True} | one for one in rows]
        return self._spark.createDataFrame(pa.Table.from_pylist(rows, checking._NOTHING))

    def check(self, *topics: str) -> Checked:
        return check(self._spark, "c", {}, str(self._folder), topics)


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
    assert (found.exit_status, found.runs.total, found.unknown, dict(found.why)) == (3, 0, 3, {"made-anew": 3})
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
    world.id = ""
    found = world.check()
    assert {path.parent.parent for path in tmp_path.rglob("*.parquet")} == {tmp_path}
    assert len({path.parent for path in tmp_path.rglob("*.parquet")}) == 2  # of different days
    assert (found.coverage.files, found.total("present"), found.total("changed")) == (2, 2, 1)
    rows = spark.read.option("recursiveFileLookup", "true").parquet(str(tmp_path))
    assert rows.columns == SCHEMA.names
    assert {(row["offset"], row["outcome"]) for row in rows.collect()} == {(0, "promised"), (1, "promised")}
    assert rows.count() == 3


@pytest.mark.spark
def test_an_end_that_an_election_told_too_low_is_no_loss_and_one_that_is_not_told_again_is_unknown(
    world: World, tmp_path: Path
) -> None:
    java_file(tmp_path, [(0, 1, 100), (8, 2, 108), (12, 2, 112)])
    world.log = [(0, 1, 100), (8, 2, 108)]
    world.ends = [0, 5, END]
    assert world.check().counts == {("t", 0): {"present": 2, "lost": 1}}
    world.ends = [0, 5, None]
    assert world.check().counts == {("t", 0): {"unknown": 3}}


@pytest.mark.spark
def test_of_a_topic_that_is_made_anew_during_the_check_nothing_is_known(world: World, tmp_path: Path) -> None:
    java_file(tmp_path, [(0, 1, 100), (5, 2, 105)], {"t": "id"})
    world.log = [(0, 1, 100)]
    world.ids = ["before", "id", "new"]
    assert world.check().counts == {("t", 0): {"unknown": 2}}
    world.ids = ["before", "id", None]  # a broker of a former release tells none
    assert world.check().counts == {("t", 0): {"present": 1, "lost": 1}}


@pytest.mark.spark
def test_receipts_of_another_cluster_are_left_out(world: World, tmp_path: Path) -> None:
    java_file(tmp_path, [(0, 1, 100), (5, 2, 105)], cluster_id="other")
    with pytest.raises(BadInputError, match="no receipts of this cluster, and 1 files of others"):
        world.check()
    java_file(tmp_path, [(0, 1, 100)], cluster_id="this")
    world.log = [(0, 1, 100)]
    found = world.check()
    assert (found.counts, found.exit_status, found.coverage.elsewhere) == ({("t", 0): {"present": 1}}, 0, 1)
    assert "1 files are of other clusters, and were left out." in sentences(found)


@pytest.mark.spark
def test_a_file_that_is_damaged_hides_nothing_of_the_others_and_a_copy_counts_once(
    world: World, tmp_path: Path
) -> None:
    good = java_file(tmp_path, [(0, 1, 100), (5, 2, 105)])
    (tmp_path / "copied").mkdir()
    (tmp_path / "copied" / good.name).write_bytes(good.read_bytes())
    damaged = java_file(tmp_path, [(1, 1, 101)])
    content = bytearray(damaged.read_bytes())
    content[4:400] = bytes(396)
    damaged.write_bytes(content)
    absent = java_file(tmp_path, [(2, 1, 102)])
    table = pq.read_table(absent)
    pq.write_table(table.drop_columns(["offset"]).replace_schema_metadata(pq.read_schema(absent).metadata), absent)
    world.log = [(0, 1, 100)]
    found = world.check()
    assert found.counts == {("t", 0): {"present": 1, "lost": 1}}
    assert (found.coverage.files, found.unknown) == (3, 2)
    assert [one.split(":")[0] for one in sorted(found.coverage.unreadable)] == [str(damaged), str(absent)]
    assert "it has no column offset" in found.coverage.unreadable[1] + found.coverage.unreadable[0]


@pytest.mark.spark
def test_topics_without_receipts_and_a_check_that_judges_nothing_are_unknown(world: World, tmp_path: Path) -> None:
    java_file(tmp_path, [(0, 1, 100), (1, 2, 101)])
    world.log = [(0, 1, 100), (1, 2, 101)]
    found = world.check("t*", "typo")
    assert (found.unknown, found.exit_status, document(found)["unmatched"]) == (1, 3, ["typo"])
    assert "There are no receipts of typo: nothing is known of its records." in sentences(found)
    world.starts = lambda _: {("t", 0): 2}  # type: ignore[method-assign]
    world.log, world.retention = [], (1000, -1)
    found = world.check()
    assert (found.counts, found.exit_status) == ({("t", 0): {"expired": 2}}, 3)
    assert any("No receipt could be held against its record" in one for one in sentences(found))


@pytest.mark.spark
@pytest.mark.parametrize(
    ("retention", "size", "counts", "why"),
    [
        ((DAYS_MS, -1), None, {"expired": 1, "unknown": 1}, {"early-expiry": 1}),
        ((-1, -1), None, {"unknown": 2}, {"early-expiry": 2}),
        ((-1, 1000), 500, {"expired": 2}, {}),
        ((-1, 1000), 499, {"unknown": 2}, {"early-expiry": 2}),
        ((DAYS_MS, 1000), None, {"expired": 1, "unknown": 1}, {"unexplained-expiry": 1}),
        ((None, None), None, {"unknown": 2}, {"unexplained-expiry": 2}),
    ],
)
def test_what_is_below_the_start_is_expired_only_where_retention_explains_it(
    world: World,
    tmp_path: Path,
    retention: tuple[int | None, int | None],
    size: int | None,
    counts: dict[str, int],
    why: dict[str, int],
) -> None:
    young = round((datetime.now(UTC) - BEGAN).total_seconds()) - 60
    java_file(tmp_path, [(0, 1, 100), (1, young, 101), (2, young, 102)], {"t": "id"})
    world.starts = lambda _: {("t", 0): 2}  # type: ignore[method-assign]
    world.retention, world.sized = retention, {} if size is None else {("t", 0): size}
    world.log = [(2, young, 102)]
    found = world.check()
    assert found.counts == {("t", 0): {"present": 1} | counts}
    assert (found.why, found.exit_status) == (why, 3 if why else 0)
    assert any("below the log's start" in one for one in sentences(found)) == bool(why)


@pytest.mark.spark
def test_a_time_beyond_all_calendars_is_no_reason_not_to_look(world: World, tmp_path: Path) -> None:
    path = java_file(tmp_path, [(0, 1, 100)])
    kept = pq.read_schema(path).metadata
    table = pq.read_table(path)
    far = pa.array([1 << 62], pa.int64()).cast(SCHEMA.field("timestamp").type)
    table = table.set_column(table.schema.get_field_index("timestamp"), "timestamp", far)
    pq.write_table(table.replace_schema_metadata(kept), path)
    world.log = [(0, 1, 100)]
    assert world.check().counts == {("t", 0): {"present": 1}}


@pytest.mark.spark
def test_a_topic_with_many_ranges_leaves_room_for_the_others(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "MOST_RUNS", 2)
    java_file(tmp_path, [(0, 0, 100), *((number, 1, number) for number in (1, 3, 5, 12))])
    world.log = [(0, 0, 100), (1, 1, 777)]
    found = world.check()
    assert [(one.verdict, one.first) for one in found.runs] == [("changed", 1), ("lost", 3)]
    assert (found.runs.total, found.total("lost")) == (4, 3)


def test_a_folder_that_may_not_be_listed_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java_file(tmp_path, [(0, 1, 100)])
    closed = tmp_path / "2020-05-05"
    closed.mkdir()
    scan = os.scandir

    def refuse(path: Any) -> Any:
        if os.fspath(path) == str(closed):
            raise PermissionError(13, "Permission denied", str(closed))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert look(str(tmp_path)).coverage.unreadable == (f"{closed}: Permission denied",)
