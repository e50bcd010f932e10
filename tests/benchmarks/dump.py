"""What a dump costs, against the bare Spark Kafka source writing the same columns from the same topic.

    python -m tests.benchmarks.dump [--records 3_000_000]

Three brokers of the lab hold the records. Each side runs in a process of its own, in turns, at both isolation levels;
CPU is that of the driver, the JVM and the Python workers, without the brokers', and without what starting Spark takes
(which is measured apart). Fails if the dump takes more than 1/0.9 of the CPU of the bare source.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

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
from tests.benchmarks.measuring import Usage, run

RATIO = 0.9
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


def ours(bootstrap: str, out: str) -> int:
    """Dump as `canary dump` does; return the rows."""
    with session("dump", kafka=True) as spark:
        wanted = dumping.Wanted("c", {"bootstrap.servers": bootstrap}, [TOPIC], INSTALLATION)
        return sum(dumping.dump(spark, [wanted], out).rows.values())


def bare(bootstrap: str, out: str) -> int:
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
        return 0


def nothing(_bootstrap: str, _out: str) -> int:
    """Start Spark and a worker, and end."""
    with session("nothing", kafka=True) as spark:
        spark.sparkContext.parallelize([1, 2], 2).map(str).collect()
        return 0


SIDES = {"ours": ours, "bare": bare, "nothing": nothing}


def main() -> int:
    """Fill a topic, measure both sides in turns, compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=3_000_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--bootstrap", help=argparse.SUPPRESS)
    parser.add_argument("--out", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        sys.stdout.write(json.dumps({"rows": SIDES[options.side](options.bootstrap, options.out)}) + "\n")
        return 0
    folder = Path(tempfile.mkdtemp(prefix="dump-"))
    used: dict[str, list[Usage]] = {side: [] for side in SIDES}
    try:
        with Lab(folder / "lab", brokers=3, die_with_parent=True) as lab:
            fill(lab, options.records)
            for _ in range(options.rounds):
                for side in SIDES:
                    out = folder / side
                    shutil.rmtree(out, ignore_errors=True)
                    command = ["-m", "tests.benchmarks.dump", "--side", side]
                    _, usage = run([*command, "--bootstrap", lab.bootstrap, "--out", str(out)])
                    used[side].append(usage)
        rows = {
            side: pq.read_table(folder / side / "records", columns=["offset"]).num_rows for side in ("ours", "bare")
        }
    finally:
        shutil.rmtree(folder)
    idle = statistics.median(usage.cpu for usage in used["nothing"])
    each = {}
    for side in ("ours", "bare"):
        cpu = statistics.median(usage.cpu for usage in used[side]) - idle
        each[side] = rows[side] / cpu
        peak = max(usage.peak for usage in used[side]) / 2**30
        sys.stdout.write(
            f"{side}: {rows[side]:,} records, {cpu:.1f} CPU-s ({each[side]:,.0f} a CPU-second), peak {peak:.2f} GiB\n"
        )
    ratio = each["ours"] / each["bare"]
    sys.stdout.write(f"session: {idle:.1f} CPU-s; ours is {ratio:.2f} of the bare source (at least {RATIO})\n")
    return 0 if ratio >= RATIO and rows["ours"] == rows["bare"] else 1


if __name__ == "__main__":
    sys.exit(main())
