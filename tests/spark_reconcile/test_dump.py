"""`canary dump` of a real topic: every record within bounds, once, at both isolation levels, decoded and in order."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from canary.probe.identity import Identity
from canary.probe.record import encode, tag
from simulation.nights.nights import arrow
from spark_reconcile.dump import dumping
from spark_reconcile.dump.dumping import Wanted, dump
from spark_reconcile.dump.java_properties import java_properties
from spark_reconcile.dump.kafka_bounds import Cluster
from spark_reconcile.errors import BadInputError, UnreachableError
from spark_reconcile.job.inputs import look
from spark_reconcile.job.ranges import plan
from tests.support.process import records
from tests.support.topics import as_known
from tests.support.waiting import in_time, until

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from canary.lab import Lab, PartitionState

INSTALLATION = "0" * 32
RC, RU = "read_committed", "read_uncommitted"
PATIENCE_S = 120.0
"""How long a client may take for anything on a machine that is busy; no part of what is tested."""


def made(lab: Lab, topic: str, **config: str) -> str | None:
    """Make a topic with two partitions and return its id."""
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    admin.create_topics([NewTopic(topic, 2, 3, config=config)])[topic].result(PATIENCE_S)
    until(lambda: all(map(led, as_known(lab, topic))), 60, f"all brokers know {topic}")
    (described,) = Cluster("c", {"bootstrap.servers": lab.bootstrap}, PATIENCE_S).topics([topic])
    return described.topic_id


def led(partitions: list[PartitionState] | None) -> bool:
    """Return whether both partitions are known, and their leaders."""
    return sum(one.leader is not None for one in partitions or ()) == 2


class Writer:
    """Writes probes and worse."""

    def __init__(
        self, lab: Lab, topic: str, topic_id: str | None, installation: str = INSTALLATION, **config: Any
    ) -> None:
        self.producer = Producer({"bootstrap.servers": lab.bootstrap, "linger.ms": 5} | config)
        self.topic = topic
        self.tag = tag(installation, lab.cluster_id, topic, topic_id)
        self.producer_id = 7
        self.sequences = [0, 0]

    def probes(self, partition: int, count: int, transaction: int | None = None, generation: int = 1) -> None:
        for _ in range(count):
            self.raw(partition, self.value(partition, transaction, generation))
            self.sequences[partition] += 1
        self.flush()

    def value(self, partition: int, transaction: int | None = None, generation: int = 1) -> bytes:
        identity = Identity(self.producer_id, generation, partition, self.sequences[partition])
        now = time.time_ns()
        return encode(identity, tag=self.tag, mode="idempotent", transaction_id=transaction, sent_at_ns=now)

    def raw(self, partition: int, value: bytes) -> None:
        self.producer.produce(self.topic, value, partition=partition)

    def flush(self) -> None:
        in_time(self.producer.flush(PATIENCE_S) == 0, "all acknowledgements")


def read_by_a_client(lab: Lab, topic: str, isolation: str) -> list[tuple[int, int]]:
    """Return (partition, offset) of everything a consumer is given up to the ends."""
    return sorted((partition, offset) for partition, offset, _ in records(lab.bootstrap, topic, isolation))


def committed(lab: Lab, topic: str, partition: int) -> int:
    """Return where a consumer of what is committed would come to the end."""
    place = TopicPartition(topic, partition)
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    asked = admin.list_offsets({place: OffsetSpec.latest()}, isolation_level=IsolationLevel.READ_COMMITTED)
    end: int = asked[place].result(PATIENCE_S).offset
    return end


@pytest.mark.kafka
@pytest.mark.spark
def test_a_dump_holds_what_a_client_reads(spark: SparkSession, lab: Lab, tmp_path: Path) -> None:
    topic_id = made(lab, "dumped", **{"retention.ms": "86400000"})
    plain = Writer(lab, "dumped", topic_id)
    plain.probes(0, 1000)
    plain.probes(1, 10)
    damaged = bytearray(plain.value(1))
    damaged[70] ^= 1
    plain.raw(1, bytes(damaged))  # 10: corrupt
    plain.raw(1, b"nothing of ours")  # 11: foreign
    plain.raw(1, plain.value(0))  # 12: intact, in a partition it was never sent to
    plain.flush()
    transactional = Writer(lab, "dumped", topic_id, **{"transactional.id": "dump-test"})
    transactional.producer.init_transactions(PATIENCE_S)
    for number in range(3):
        transactional.producer.begin_transaction()
        transactional.probes(1, 5, transaction=number, generation=2)
        if number == 1:
            transactional.producer.abort_transaction(PATIENCE_S)
        else:
            transactional.producer.commit_transaction(PATIENCE_S)
    until(lambda: committed(lab, "dumped", 1) == 31, 30, "the last transaction's marker is in the log")
    patient: dict[str, Any] = {
        "transactional.id": "dump-hanging",
        "transaction.timeout.ms": 900_000,
    }  # hangs until the dump is made
    hanging = Writer(lab, "dumped", topic_id, **patient)
    hanging.producer.init_transactions(PATIENCE_S)
    hanging.producer.begin_transaction()
    hanging.probes(1, 3, transaction=9, generation=3)
    wanted = Wanted("c", {"bootstrap.servers": lab.bootstrap}, ["dumped"], INSTALLATION)
    result = dump(spark, [wanted], str(tmp_path))
    hanging.producer.abort_transaction(PATIENCE_S)

    bounds = {(row["partition"], row["isolation"]): row for row in pq.read_table(tmp_path / "bounds").to_pylist()}
    assert bounds[0, RC]["end_offset"] == bounds[0, RU]["end_offset"] == 1000
    assert bounds[1, RC]["end_offset"] == 31  # 13 and 15, and three markers
    assert bounds[1, RU]["end_offset"] == 34
    assert {row["topic_id"] for row in bounds.values()} == {topic_id}
    assert {row["retention_ms"] for row in bounds.values()} == {86_400_000}
    rows = pq.read_table(tmp_path / "records").to_pylist()
    assert sum(result.rows.values()) == len(rows)
    for level in (RC, RU):
        mine = sorted((row["partition"], row["offset"]) for row in rows if row["isolation"] == level)
        assert mine == [
            one for one in read_by_a_client(lab, "dumped", level) if one[1] < bounds[one[0], level]["end_offset"]
        ]
    first = {row["offset"]: row for row in rows if row["partition"] == 1 and row["isolation"] == RU}
    assert (first[9]["producer_id"], first[9]["generation"], first[9]["sequence"]) == (7, 1, 9)
    assert (first[10]["valid"], first[10]["producer_id"]) == (False, None)
    assert (first[11]["valid"], first[11]["producer_id"]) == (True, None)
    assert (first[12]["valid"], first[12]["producer_id"]) == (False, None)
    assert (first[13]["transaction_id"], first[9]["transaction_id"]) == (0, None)
    assert abs(first[9]["timestamp"].timestamp() - time.time()) < 600


@pytest.mark.kafka
@pytest.mark.spark
def test_records_that_were_marked_before_the_topic_id_was_known_are_ours(
    spark: SparkSession, lab: Lab, tmp_path: Path
) -> None:
    topic_id = made(lab, "unmarked")
    assert topic_id is not None
    early = Writer(lab, "unmarked", None)
    early.probes(0, 3)
    damaged = bytearray(early.value(0))
    damaged[70] ^= 1
    early.raw(0, bytes(damaged))
    early.flush()
    late = Writer(lab, "unmarked", topic_id)
    late.sequences[0] = 3
    late.probes(0, 1)
    Writer(lab, "unmarked", None, "1" * 32).probes(0, 1)
    dump(spark, [Wanted("c", {"bootstrap.servers": lab.bootstrap}, ["unmarked"], INSTALLATION, [RU])], str(tmp_path))
    rows = sorted(pq.read_table(tmp_path / "records").to_pylist(), key=lambda row: row["offset"])
    assert [row["sequence"] for row in rows] == [0, 1, 2, None, 3, None]
    assert [row["valid"] for row in rows] == [True, True, True, False, True, True]


@pytest.mark.kafka
@pytest.mark.spark
def test_a_dump_has_the_layout_that_is_fast_to_reconcile(
    spark: SparkSession, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic_id = made(lab, "wide")
    Writer(lab, "wide", topic_id).probes(0, 4000)
    monkeypatch.setattr(dumping, "RANGE", 1000)
    wanted = Wanted("c", {"bootstrap.servers": lab.bootstrap}, ["wide"], INSTALLATION)
    dump(spark, [wanted], str(tmp_path / "dump"))
    files = sorted((tmp_path / "dump" / "records").iterdir())
    assert len(files) >= 8
    for file in files:
        offsets = pq.read_table(file).column("offset").to_pylist()
        assert offsets == sorted(offsets)
    for table in ("probes", "transactions", "polls"):
        (tmp_path / "log" / table).mkdir(parents=True)
        pq.write_table(arrow([], table), tmp_path / "log" / table / "none.parquet")
    assert plan(look(str(tmp_path / "log"), str(tmp_path / "dump")).files) is not None


@pytest.mark.kafka
@pytest.mark.spark
def test_what_retention_took_while_reading_is_below_the_bounds_whatever_start_is_listed(
    spark: SparkSession, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic_id = made(lab, "shrinking", **{"retention.bytes": str(1 << 40)})
    Writer(lab, "shrinking", topic_id).probes(0, 50)
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    truly, listed = Cluster.spans, Cluster._offsets

    def too_high(self: Cluster, topics: Any, spec: Any, level: str) -> dict[tuple[str, int], int]:
        more = {("shrinking", 0): 10} if spec is OffsetSpec.earliest else {}
        return {place: offset + more.get(place, 0) for place, offset in listed(self, topics, spec, level).items()}

    def spans(self: Cluster, *args: Any) -> Any:
        result = truly(self, *args)
        admin.delete_records([TopicPartition("shrinking", 0, 20)])[TopicPartition("shrinking", 0)].result(PATIENCE_S)
        return result

    monkeypatch.setattr(Cluster, "spans", spans)
    monkeypatch.setattr(Cluster, "_offsets", too_high)
    wanted = Wanted("c", {"bootstrap.servers": lab.bootstrap}, ["shrinking"], INSTALLATION)
    dump(spark, [wanted], str(tmp_path))
    bounds = pq.read_table(tmp_path / "bounds").to_pylist()
    assert {row["earliest_offset"] for row in bounds if row["partition"] == 0} == {20}
    sizes = {row["partition"]: row["size_bytes"] for row in bounds}
    assert sizes.pop(0) > 50 * 100, "which says what retention.bytes may have taken"
    assert set(sizes.values()) == {0}
    offsets = [row["offset"] for row in pq.read_table(tmp_path / "records").to_pylist() if row["isolation"] == RC]
    assert sorted(offsets) == list(range(20, 50))


@pytest.mark.spark
def test_a_cluster_that_does_not_answer_is_unreachable(spark: SparkSession, tmp_path: Path, free_port: int) -> None:
    wanted = Wanted("c", {"bootstrap.servers": f"127.0.0.1:{free_port}"}, ["t"], INSTALLATION)
    with pytest.raises(UnreachableError, match="cluster c does not answer") as refused:
        dump(spark, [wanted], str(tmp_path))
    assert refused.value.exit_status == 3
    assert not (tmp_path / "_work").exists()


def test_the_clients_security_is_told_to_java_in_its_own_words(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("authority")
    told = java_properties(
        {
            "bootstrap.servers": "b:9093",
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": "me",
            "sasl.password": 'a"b\\c',
            "ssl.ca.location": str(tmp_path / "ca.pem"),
            "ssl.certificate.pem": "chain",
            "ssl.key.pem": "key",
            "ssl.endpoint.identification.algorithm": "none",
            "linger.ms": 5,
        }
    )
    assert told == {
        "bootstrap.servers": "b:9093",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="me" password="a\\"b\\\\c";',
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "authority",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "chain",
        "ssl.keystore.key": "key",
        "ssl.endpoint.identification.algorithm": "",
    }


def test_what_java_cannot_do_is_named() -> None:
    with pytest.raises(BadInputError, match="verification"):
        java_properties({"security.protocol": "ssl", "enable.ssl.certificate.verification": "false"})
    with pytest.raises(BadInputError, match=r"ssl\.ca\.location: /nowhere/ca\.pem cannot be read"):
        java_properties({"security.protocol": "ssl", "ssl.ca.location": "/nowhere/ca.pem"})
