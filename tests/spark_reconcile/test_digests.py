"""Digests of business topics: what a night says of records that were lost, changed, expired or compacted."""

from __future__ import annotations

import datetime as dt
import time
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from canary.facts.digests import digest, place
from spark_reconcile.digests import night, reading
from spark_reconcile.digests.findings import sentences
from spark_reconcile.digests.keeping import Kept, Tree, Trees
from spark_reconcile.digests.night import Wanted
from spark_reconcile.digests.result import Digested
from spark_reconcile.digests.tree import LEAF, Run
from spark_reconcile.errors import UnreachableError
from spark_reconcile.nightly import digesting
from spark_reconcile.tables.digests import DIGEST, FAST_DIGEST, PERHAPS_NULL, PLACE
from tests.support.topics import as_known
from tests.support.waiting import in_time, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from canary.anomalies.violation import Violation
    from canary.lab import Lab, PartitionState

PATIENCE_S = 120.0
BYTES = st.none() | st.binary(max_size=70)
RECORDS = st.lists(
    st.tuples(BYTES, BYTES, st.lists(st.tuples(st.text(max_size=9), BYTES), max_size=5)), min_size=100, max_size=200
)


@pytest.mark.spark
@settings(max_examples=1, deadline=None, suppress_health_check=list(HealthCheck))
@given(records=RECORDS)
def test_spark_computes_the_digest_that_python_computes(
    spark: SparkSession, records: list[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]]
) -> None:
    at = dt.datetime(2026, 1, 1, 0, 0, 0, 123000, tzinfo=dt.UTC)
    rows = [(number, at, key, value, headers or None) for number, (key, value, headers) in enumerate(records)]
    frame = spark.createDataFrame(
        rows,
        "offset long, timestamp timestamp, key binary, value binary, headers array<struct<key: string, value: binary>>",
    )
    columns = f"{DIGEST} AS digest", f"{PLACE} AS place", f"{FAST_DIGEST} AS fast", f"{PERHAPS_NULL} AS perhaps_null"
    found = frame.selectExpr("offset", *columns).collect()
    ms = int(at.timestamp() * 1000)
    for row in found:
        wanted = digest(*records[row["offset"]])
        assert row["digest"] == wanted
        assert row["place"] == place(row["offset"], ms, wanted)
        assert row["perhaps_null"] == any(content is None for _, content in records[row["offset"]][2])
        assert row["perhaps_null"] or row["fast"] == wanted


@pytest.mark.spark
def test_what_spark_cannot_read_is_one_line_that_names_cluster_topic_and_cause(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = "'t' topic, 0 partition, id offset, now() timestamp, X'00' key, X'00' value"
    headers = "cast(null AS array<struct<key: string, value: binary>>) AS headers"
    spark.range(100_000).selectExpr(*columns.split(", "), headers).coalesce(1).write.parquet(str(tmp_path / "log"))
    (file,) = (tmp_path / "log").glob("*.parquet")
    whole = file.read_bytes()
    file.write_bytes(whole[:100] + bytes(len(whole) // 2) + whole[100 + len(whole) // 2 :])
    monkeypatch.setattr(reading, "source", lambda *_: spark.read.parquet(str(tmp_path / "log")))
    with pytest.raises(UnreachableError, match=r"^cluster c \(t\) could not be read to its end: .") as error:
        list(reading.Reader(spark, "c", {}).read([reading.Range(("t", 0), 0, 64)]))
    assert "\n" not in str(error.value)
    assert "org.apache.spark.util.SparkThreadUtils" not in str(error.value)


def led(partitions: list[PartitionState] | None) -> bool:
    """Return whether both partitions are known, and their leaders."""
    return sum(one.leader is not None for one in partitions or ()) == 2


def recorder(said: list[Violation]) -> Callable[[Iterator[Violation]], tuple[int, int]]:
    """Return what puts violations on record: a list."""

    def record(some: Iterator[Violation]) -> tuple[int, int]:
        before = len(said)
        said.extend(some)
        return sum(one.count for one in said[before:]), len(said) - before

    return record


class Business:
    """A topic of an application, and the digests that are kept of it."""

    def __init__(self, lab: Lab, spark: SparkSession, folder: Path) -> None:
        self.lab = lab
        self.spark = spark
        self.folder = folder
        self.admin = AdminClient({"bootstrap.servers": lab.bootstrap})

    def make(self, **config: str) -> None:
        self.admin.create_topics([NewTopic("orders", 2, 3, config=config)])["orders"].result(PATIENCE_S)
        until(lambda: all(map(led, as_known(self.lab, "orders"))), 60, "all brokers know the topic")

    def write(self, partition: int, count: int, batch: int = 5, **config: Any) -> None:
        """Write records in batches of a few, half of them with headers."""
        producer = Producer({"bootstrap.servers": self.lab.bootstrap, "linger.ms": 1000} | config)
        for number in range(count):
            headers = [("trace", b"%d" % number), ("empty", None)] if number % 2 else []
            value = b"%d at %d" % (number, time.time_ns())
            producer.produce("orders", value, key=b"k%d" % number, partition=partition, headers=headers)
            if number % batch == batch - 1:
                producer.flush(PATIENCE_S)
        in_time(producer.flush(PATIENCE_S) == 0, "all acknowledgements")

    def transactions(self, partition: int) -> None:
        """Write three records that are aborted and three that are committed."""
        config = {"bootstrap.servers": self.lab.bootstrap, "transactional.id": "application"}
        producer = Producer(config)
        producer.init_transactions(PATIENCE_S)
        for end in (producer.abort_transaction, producer.commit_transaction):
            producer.begin_transaction()
            for _ in range(3):
                producer.produce("orders", b"in a transaction", partition=partition)
            producer.flush(PATIENCE_S)
            end(PATIENCE_S)

    def wanted(self, **how: Any) -> Wanted:
        return Wanted("c", {"bootstrap.servers": self.lab.bootstrap}, ["ord*"], **how)

    def night(self, *, keep: bool = True, **how: Any) -> Digested:
        """Digest, and keep the trees."""
        kept = Kept(str(self.folder))
        found, trees = night.digest(self.spark, self.wanted(**how), kept)
        if keep:
            kept.save(trees)
        return found


def test_digests_that_fail_leave_what_is_kept_and_everything_is_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = {("t", p): Tree("t", None, p, 0, 9) for p in range(3)}
    Kept(str(tmp_path)).save(Trees(5, 5, known))
    monkeypatch.setattr(digesting, "digest", Mock(side_effect=UnreachableError("cluster c does not answer")))
    summary, *numbers = digesting.night(Mock(), Wanted("c", {}, ["t"]), str(tmp_path), recorder([]), (7, "night"))
    assert summary == {"error": "cluster c does not answer", "succeeded_ns": 5, "unknown_partitions": 3}
    assert numbers == [0, 0]
    assert Kept(str(tmp_path)).trees == Trees(5, 5, known)
    assert "nothing is known: cluster c does not answer" in sentences(summary)[0]


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.quick
def test_what_a_cut_took_is_named_by_offset_and_retention_is_silent(
    spark: SparkSession, lab: Lab, tmp_path: Path
) -> None:
    business = Business(lab, spark, tmp_path)
    business.make()
    business.write(0, 300)
    business.transactions(0)  # offsets 300 to 307: three aborted, a marker, three committed, a marker
    business.write(1, 200)
    first = business.night()
    assert (first.findings, first.read, first.records) == ([], 503, 503)

    second = business.night()
    assert (second.findings, second.differences.uncompared) == ([], 0)
    assert second.read == second.differences.compared <= 2 * LEAF
    assert second.taken_over == 503 - second.read

    place = TopicPartition("orders", 1, 70)
    business.admin.delete_records([place])[place].result(PATIENCE_S)
    business.write(1, 10)
    third = business.night(everything=True)
    assert third.findings == []
    assert third.read == 303 + 130 + 10
    assert (third.expired, third.taken_over) == (64, 0)  # of whole leaves
    assert third.differences.uncompared == 2 * LEAF - 70  # the leaf that is partly expired

    # all replicas lose offsets 180 to 209 of partition 1, and 240 to 307 of partition 0, which is filled again beyond
    for broker in lab.brokers:
        lab.kill(broker)
    for broker in lab.brokers:
        lab.truncate(broker, "orders", 0, to_offset=240)
        lab.truncate(broker, "orders", 1, to_offset=180)
    for broker in lab.brokers:
        lab.start_broker(broker, timeout=0)
    lab.wait_ready(including=lab.brokers)
    business.write(0, 100)
    business.write(1, 10)
    looked = business.night(keep=False)
    assert {(one.partition, one.kind): one.runs for one in looked.findings} == {
        (0, "replaced"): (Run(240, 60), Run(304, 3)),
        (1, "replaced"): (Run(180, 10),),
        (1, "lost"): (Run(190, 20),),
    }
    said: list[Violation] = []
    summary, *numbers = digesting.night(spark, business.wanted(), str(tmp_path), recorder(said), (7, "night"))
    assert (summary["lost"], summary["replaced"], summary["changed"], summary["unknown_partitions"]) == (20, 73, 0, 0)
    assert numbers == [93, 3]
    assert {(one.kind, one.partition): [(run.offset, run.size) for run in one.runs] for one in said} == {
        ("record-changed", 0): [(240, 60), (304, 3)],
        ("record-changed", 1): [(180, 10)],
        ("record-lost", 1): [(190, 20)],
    }
    assert {(one.topic, one.severity, bool(one.topic_id), one.at_ns) for one in said} == {
        ("orders", "critical", True, 7)
    }
    assert business.night().findings == [], "it is said once"

    business.admin.delete_topics(["orders"])["orders"].result(PATIENCE_S)
    until(lambda: not any(as_known(lab, "orders")), 60, "no broker knows the topic any more")
    business.make()
    business.write(0, 5)
    anew = business.night()
    assert (anew.findings, anew.records) == ([], 5)
    assert anew.notes == ["topic orders was deleted and made anew: what was known of the one before is forgotten"]
