"""What producers have receipts for is compared with real topics: exactly what is lost is named, and nothing else."""

from __future__ import annotations

from dataclasses import astuple
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from canary_receipts import Producer
from spark_reconcile.errors import BadInputError
from spark_reconcile.nightly import receipting
from spark_reconcile.receipts.check import NO_RUNS, Checked, Run, Runs, check
from spark_reconcile.receipts.files import Coverage, look
from spark_reconcile.receipts.findings import document, sentences, violations
from tests.support.topics import as_known
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from canary.anomalies.violation import Violation
    from canary.lab import Lab

PATIENCE_S = 120.0
AFTER_AN_ELECTION = {KafkaError.OFFSET_OUT_OF_RANGE, KafkaError.NOT_LEADER_FOR_PARTITION}


class Application:
    """Writes to a topic with two partitions, with receipts."""

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.folder = folder
        self.admin = AdminClient({"bootstrap.servers": lab.bootstrap})

    def make(self, topic: str, **config: str) -> None:
        self.admin.create_topics([NewTopic(topic, 2, 3, config=config)])[topic].result(PATIENCE_S)
        until(
            lambda: all(one and all(p.leader is not None for p in one) for one in as_known(self.lab, topic)), 60, topic
        )

    def expire(self, topic: str, partition: int, before: int) -> None:
        place = TopicPartition(topic, partition, before)

        def deleted() -> bool:
            try:
                self.admin.delete_records([place])[place].result(PATIENCE_S)
            except KafkaException as error:
                if error.args[0].code() not in AFTER_AN_ELECTION:
                    raise
                return False
            return True

        until(deleted, 60, "the leader knows its high watermark, and the client who leads")

    def producer(self, *, topic_ids: bool = True, **config: Any) -> Producer:
        receipts = {"directory": self.folder, "per_second": None, "name": "orders/api", "topic_ids": topic_ids}
        return Producer({"bootstrap.servers": self.lab.bootstrap, "linger.ms": 1000} | config, receipts=receipts)

    def write(
        self,
        topic: str,
        counts: tuple[int, int],
        *,
        topic_ids: bool = True,
    ) -> None:
        with self.producer(topic_ids=topic_ids) as producer:
            for partition, count in enumerate(counts):
                for number in range(count):
                    headers = {"trace": str(number), "none": None} if number % 2 else None
                    key = b"k%d" % number
                    producer.produce(topic, b"%d" % number, key, partition, headers=headers)
                    if number % 10 == 9:
                        producer.flush(PATIENCE_S)  # a batch: a log is cut between batches
                producer.flush(PATIENCE_S)

    def transactions(self, topic: str) -> None:
        """Write three records that are aborted, three that are committed, and leave three open."""
        producer = self.producer(topic_ids=True, **{"transactional.id": "application"})
        producer.init_transactions(PATIENCE_S)
        for end in (producer.abort_transaction, producer.commit_transaction):
            producer.begin_transaction()
            for _ in range(3):
                producer.produce(topic, b"in a transaction", partition=0)
            producer.flush(PATIENCE_S)
            end(PATIENCE_S)
        producer.begin_transaction()
        for _ in range(3):
            producer.produce(topic, b"left open", partition=0)
        producer.flush(PATIENCE_S)
        producer.close_receipts()

    def check(self, spark: SparkSession, *topics: str) -> Checked:
        return check(spark, "c", {"bootstrap.servers": self.lab.bootstrap}, str(self.folder), topics)


def verdicts(found: Checked) -> dict[tuple[str, int], dict[str, int]]:
    return {place: dict(counts) for place, counts in found.counts.items()}


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.quick
def test_exactly_the_records_that_a_cut_took_are_lost_and_what_is_well_is_silent(
    spark: SparkSession, lab: Lab, tmp_path: Path
) -> None:
    application = Application(lab, tmp_path)
    application.make("orders")
    application.make("other", **{"cleanup.policy": "compact"})
    application.write("orders", (300, 200))
    application.transactions("orders")  # offsets 300 to 310: three aborted, a marker, three committed, a marker, open
    application.write("other", (20, 0), topic_ids=False)  # that it is the same topic is shown by the records before
    well = application.check(spark, "ord*")
    assert verdicts(well) == {("orders", 0): {"present": 306}, ("orders", 1): {"present": 200}}
    assert (well.exit_status, well.runs.total, list(violations(well, 7))) == (0, 0, [])
    assert well.coverage == Coverage(files=3, aborted=3)

    for broker in lab.brokers:
        lab.kill(broker)
    for broker in lab.brokers:
        lab.truncate(broker, "orders", 0, to_offset=240)
        lab.truncate(broker, "orders", 1, to_offset=180)
        lab.truncate(broker, "other", 0, to_offset=10)
    for broker in lab.brokers:
        lab.start_broker(broker, timeout=0)
    lab.wait_ready(including=lab.brokers)
    application.expire("orders", 1, 70)
    application.write("orders", (40, 0))  # 240 to 279 are filled again, with other records
    found = application.check(spark)
    assert verdicts(found) == {
        ("orders", 0): {"present": 240 + 40, "changed": 40, "lost": 20 + 3, "in-doubt": 3},
        ("orders", 1): {"unknown": 70, "present": 110, "lost": 20},
        ("other", 0): {"present": 10, "lost": 10},
    }
    assert found.why == {"early-expiry": 70}, "retention does not explain what a user deleted"
    assert [(run.topic, run.partition, run.verdict, run.first, run.last) for run in found.runs] == [
        ("orders", 0, "changed", 240, 279),
        ("orders", 0, "lost", 280, 299),
        ("orders", 0, "lost", 304, 306),
        ("orders", 1, "lost", 180, 199),
        ("other", 0, "lost", 10, 19),
    ]
    assert all(0 < run.acked_from <= run.acked_to for run in found.runs)
    assert found.exit_status == 1
    said = {(one.kind, one.topic, one.partition): one for one in violations(found, 7, "night")}
    assert {place: one.count for place, one in said.items()} == {
        ("record-changed", "orders", 0): 40,
        ("record-lost", "orders", 0): 23,
        ("record-lost", "orders", 1): 20,
        ("record-lost", "other", 0): 10,
    }
    assert document(found)["verdicts"]["lost"] == 53
    assert "53 records are lost." in sentences(found)

    application.admin.delete_topics(["orders", "other"])["orders"].result(PATIENCE_S)
    until(lambda: not any(as_known(lab, "orders")), 60, "no broker knows the topic any more")
    gone = application.check(spark, "orders")
    assert {verdict for counts in gone.counts.values() for verdict in counts} == {"unknown"}
    assert (gone.exit_status, gone.runs.total) == (3, 0)
    application.make("orders")
    application.write("orders", (5, 0))
    anew = application.check(spark, "orders")
    assert (anew.total("present"), anew.total("lost"), anew.total("changed"), anew.exit_status) == (5, 0, 0, 0)
    assert anew.total("recreated") == sum(map(sum, (one.values() for one in verdicts(gone).values())))
    application.make("other")
    application.write("other", (5, 0), topic_ids=False)  # the same records as before, at the same offsets
    assert verdicts(application.check(spark, "other")) == {("other", 0): {"present": 5 + 5, "unknown": 15}}


def test_what_files_do_not_cover_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="no receipts"):
        look(str(tmp_path))
    for _ in range(2):
        producer = Producer(
            {"test.mock.num.brokers": 1, "log_level": 0},
            receipts={"directory": tmp_path, "topic_ids": False, "every_s": 3600},
        )
        assert producer._recorder is not None
        for number in range(3):
            producer.produce("t", str(number))
            producer.flush()
            producer._recorder._tick()
            producer._recorder._publish()
        producer._recorder.close(whole=_ == 0)
    victim = min(tmp_path.rglob("*0000000001.parquet"))
    victim.unlink()
    (victim.parent / "foreign.parquet").write_bytes(b"PAR1")
    found = look(str(tmp_path)).coverage
    assert (found.missing, found.open, len(found.unreadable)) == (1, 1, 1)
    text = sentences(Checked("c", {("t", 0): {"present": 1}}, NO_RUNS, found, {}, 1.0))
    assert "1 files are missing between others." in text
    assert Checked("c", {("t", 0): {"present": 1}}, NO_RUNS, found, {}, 1.0).exit_status == 3


def test_a_receipt_is_a_violation_with_the_time_of_its_acknowledgement() -> None:
    found = runs(Run("t", 0, "lost", 5, 7, 1_000_000, 3_000_000), Run("t", 0, "lost", 9, 9, 4_000_000, 4_000_000))
    (one,) = violations(Checked("c", {("t", 0): {"lost": 4}}, found, Coverage(), {"t": "id"}, 1.0), 7)
    assert (one.kind, one.count, one.offset, one.topic_id) == ("record-lost", 4, 5, "id")
    assert one.evidence["acked_to"] == "1970-01-01T00:00:04.000+00:00"


def runs(*some: Run, more: int = 0) -> Runs:
    columns = zip(*map(astuple, some), strict=True)
    return Runs(pa.table(dict(zip(NO_RUNS.table.column_names, columns, strict=True))), len(some) + more)


def test_every_range_is_recorded_and_a_list_of_them_says_of_how_many() -> None:
    every = runs(*(Run("t", 0, "lost", n * 30, n * 30 + 19 + n // 12_344, 1, 2) for n in range(12_345)))
    found = Checked("c", {("t", 0): {"lost": 246_901}}, every, Coverage(), {}, 1.0)
    assert sum(one.count for one in violations(found, 7)) == 246_901
    said = sentences(found)
    largest = said.index("The largest 20 of 12,345 ranges (246,901 records):")
    assert "offsets 370320 to 370340" in said[largest + 1]
    assert len(said) == largest + 21
    listed = document(found)
    assert (len(listed["ranges"]), listed["ranges_total"], listed["ranges_truncated"]) == (10_000, 12_345, True)


def test_ranges_that_are_not_recorded_are_said() -> None:
    found = Checked("c", {("t", 0): {"lost": 9}}, runs(Run("t", 0, "lost", 1, 1, 1, 2), more=8), Coverage(), {}, 1.0)
    said = sentences(found)
    assert "The largest 1 of 9 ranges (9 records):" in said
    assert said[-1] == "8 ranges are counted above, and not recorded as violations."


@pytest.mark.parametrize(("unknown", "succeeded_ns"), [(0, 7), (2, 5)])
def test_a_check_with_something_unknown_is_none_that_succeeded(
    unknown: int, succeeded_ns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = {("t", 0): {"present": 3} | ({"unknown": unknown} if unknown else {})}
    monkeypatch.setattr(receipting, "check", lambda *_: Checked("c", counts, NO_RUNS, Coverage(), {}, 1.0))
    record = Mock(return_value=(0, 0))
    summary, *_ = receipting.night(Mock(), ("c", {}, "d", []), record, (7, "night"), {"succeeded_ns": 5})
    assert (summary["succeeded_ns"], summary["unknown"], summary["records"]) == (succeeded_ns, unknown, 3)


def test_a_check_that_fails_is_no_failure_of_the_night_and_says_that_nothing_is_known(
    tmp_path: Path,
) -> None:
    recorded: list[Any] = []

    def record(some: Iterator[Violation]) -> tuple[int, int]:
        recorded.extend(some)
        return 0, 0

    before = {"succeeded_ns": 5}
    summary, said, *numbers = receipting.night(Mock(), ("c", {}, str(tmp_path), ["*"]), record, (7, "night"), before)
    assert "there are no receipts" in summary["error"]
    assert (summary["unknown"], summary["succeeded_ns"]) == (1, 5)
    assert "nothing is known" in said[0]
    assert (numbers, recorded) == ([0, 0], [])
