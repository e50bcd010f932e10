"""What a dump costs, against the bare Spark Kafka source writing the same columns from the same topic.

Three brokers of the lab hold the records. Each side runs in a process of its own, in turns, at both isolation levels;
CPU is that of the driver, the JVM and the Python workers, without the brokers', and without what starting Spark takes
(which is measured apart).
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from canary.lab import Lab
from canary.probe.batch import as_bytes, encode_batch
from canary.probe.record import DEFAULT_LENGTH, tag
from spark_reconcile.dump import dumping
from spark_reconcile.dump.kafka_bounds import Cluster
from spark_reconcile.job.session import session
from spark_reconcile.tables.columns import ISOLATIONS
from tests.benchmarks.measuring import MIB, Figure, Usage, command, output, same

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST = 1.1
PARTITIONS = 6
TOPIC = "benchmark"
INSTALLATION = "0" * 32
_BATCH = 20_000


def fill(lab: Lab, records: int) -> None:
    """Make the topic and write probes of one producer into every partition."""
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(30)
    topic_id = _topic_id(lab)
    own = tag(INSTALLATION, lab.cluster_id, TOPIC, topic_id)
    producer = Producer(
        {"bootstrap.servers": lab.bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 1_000_000}
    )
    each = records // PARTITIONS
    for partition in range(PARTITIONS):
        for start in range(0, each, _BATCH):
            sequence = np.arange(start, min(start + _BATCH, each), dtype=np.int64)
            rows = encode_batch(
                producer_id=7,
                generation=1,
                partition=partition,
                sequence=sequence,
                tag=own,
                mode="idempotent",
                sent_at_ns=time.time_ns(),
            )
            for value in as_bytes(rows):
                producer.produce(TOPIC, value, partition=partition)
            producer.flush(60)


def _topic_id(lab: Lab) -> str | None:
    for _ in range(100):
        found = Cluster("c", {"bootstrap.servers": lab.bootstrap}).topics([TOPIC])
        if found and found[0].partitions == PARTITIONS:
            return found[0].topic_id
    raise SystemExit("the topic did not appear")


def ours(bootstrap: str, out: str) -> None:
    """Dump as `canary dump` does."""
    with session("dump", kafka=True) as spark:
        wanted = dumping.Wanted("c", {"bootstrap.servers": bootstrap}, [TOPIC], INSTALLATION)
        dumping.dump(spark, [wanted], out)


def bare(bootstrap: str, out: str) -> None:
    """Write the same columns with nothing but Spark: of the value only the length is looked at, nothing is decoded."""
    from pyspark.sql import functions as f  # noqa: PLC0415  # slow, and not every side needs it

    with session("bare", kafka=True) as spark:
        for level in ISOLATIONS:
            source = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
            rows = source.option("subscribe", TOPIC).option("kafka.isolation.level", level).load()
            rows.select(
                f.lit("c").alias("cluster"),
                "topic",
                f.lit("A").alias("topic_id"),
                "partition",
                f.lit(level).alias("isolation"),
                "offset",
                "timestamp",
                f.lit(7).cast("long").alias("producer_id"),
                f.lit(1).alias("generation"),
                f.col("offset").alias("sequence"),
                f.lit(None).cast("long").alias("transaction_id"),
                (f.length("value") == DEFAULT_LENGTH).alias("valid"),
            ).write.mode("append").parquet(f"{out}/records")


def nothing(_bootstrap: str, _out: str) -> None:
    """Start Spark and a worker, and end."""
    with session("nothing", kafka=True) as spark:
        spark.sparkContext.parallelize([1, 2], 2).map(str).collect()


SIDES = {"ours": ours, "bare": bare, "nothing": nothing}


def measure(records: int = 3_000_000, rounds: int = 2) -> Iterator[Figure]:
    """Fill a topic, measure both sides in turns, compare."""
    used: dict[str, list[Usage]] = {side: [] for side in SIDES}
    rows = {}
    with tempfile.TemporaryDirectory(prefix="dump-") as directory:
        with Lab(Path(directory) / "lab", brokers=3, die_with_parent=True) as lab:
            fill(lab, records)
            for _ in range(rounds):
                for side in SIDES:
                    out = Path(directory) / side
                    shutil.rmtree(out, ignore_errors=True)
                    used[side].append(output(["-m", "tests.benchmarks.dump", "--side", side, lab.bootstrap, out])[1])
        for side in ("bare", "ours"):
            rows[side] = pq.read_table(Path(directory) / side / "records", columns=["offset"]).num_rows
    idle = statistics.median(usage.cpu for usage in used["nothing"])
    subject = f"{records:,} records, both levels"
    yield same(subject, "rows", *rows.values())
    yield Figure.of(subject, "Spark's start", (usage.cpu for usage in used["nothing"]), "CPU-s")
    for side in rows:
        yield Figure.of(subject, f"{side}: CPU", (usage.cpu - idle for usage in used[side]), "CPU-s")
        yield Figure.of(subject, f"{side}: PSS", (usage.peak / MIB for usage in used[side]), "MiB")
    ratios = ((ours.cpu - idle) / (bare.cpu - idle) for ours, bare in zip(used["ours"], used["bare"], strict=True))
    yield Figure.of(subject, "CPU over the bare source's", ratios, most=MOST)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--side"]:
        SIDES[sys.argv[2]](*sys.argv[3:])
    else:
        command(measure)
