"""What digests of a topic cost, against a bare Spark read of the same records; and what the night after costs.

One broker of the lab holds the records, some with headers, none with keys that are null. Both sides run in one Spark,
in turns, after a turn that warms it up and does not count; the bare read asks for every column and throws it away. The
broker's CPU is not separated, as it works for both alike.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from canary.lab import Lab
from spark_reconcile.digests.keeping import Kept
from spark_reconcile.digests.night import Digested, Wanted, digest
from spark_reconcile.dump.dumping import source
from spark_reconcile.job.session import session
from tests.benchmarks.measuring import Figure, command, same
from tests.support.topics import as_known
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

LEAST = 0.8
PARTITIONS = 4
TOPIC = "business"
LENGTH = 100
Headers: TypeAlias = tuple[tuple[str, bytes], ...]
HEADERS: Headers = (("trace", b"0123456789abcdef"), ("source", b"shop"))


def fill(lab: Lab, records: int, headers: Headers) -> None:
    """Make the topic and write records with keys and values like an application's."""
    topic = _name(headers)
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    until(lambda: all(len(one or ()) == PARTITIONS for one in as_known(lab, topic)), 60, "the broker knows the topic")
    producer = Producer(
        {
            "bootstrap.servers": lab.bootstrap,
            "linger.ms": 50,
            "queue.buffering.max.messages": 1_000_000,
            "compression.type": "lz4",
        }
    )
    padding = os.urandom(1 << 16)
    for number in range(records):
        value = b'{"order": %d, "' % number + padding[number % 60_000 :][: LENGTH - 20]
        while True:
            try:
                producer.produce(
                    topic,
                    value,
                    key=b"customer-%d" % (number % 5_000),
                    partition=number % PARTITIONS,
                    headers=list(headers),
                )
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush(60)


def bare(spark: SparkSession, bootstrap: str, topic: str, end: int) -> float:
    """Read every column of every record and throw it away; return the seconds."""
    began = time.monotonic()
    options = {
        "assign": orjson.dumps({topic: list(range(PARTITIONS))}).decode(),
        "startingOffsets": orjson.dumps({topic: {str(p): 0 for p in range(PARTITIONS)}}).decode(),
        "endingOffsets": orjson.dumps({topic: {str(p): end for p in range(PARTITIONS)}}).decode(),
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
    }
    frame: Any = source(spark, {"bootstrap.servers": bootstrap}, options)
    frame.write.format("noop").mode("overwrite").save()
    return time.monotonic() - began


def ours(spark: SparkSession, bootstrap: str, topic: str, folder: Path) -> tuple[Digested, float]:
    """Digest, and keep the trees; return the result and the seconds, everything included."""
    began = time.monotonic()
    kept = Kept(str(folder))
    found, trees = digest(spark, Wanted("c", {"bootstrap.servers": bootstrap}, [topic]), kept)
    kept.save(trees)
    return found, time.monotonic() - began


def measure(records: int = 3_000_000, rounds: int = 3) -> Iterator[Figure]:
    """Fill a topic without headers and one with them, measure both sides in turns, compare."""
    with (
        tempfile.TemporaryDirectory(prefix="digests-") as directory,
        Lab(Path(directory) / "lab", brokers=1, die_with_parent=True) as lab,
        session("digests", kafka=True) as spark,
    ):
        for headers in ((), HEADERS):
            fill(lab, records, headers)
            yield from _measured(spark, lab.bootstrap, headers, (records, rounds), Path(directory))


def _measured(
    spark: SparkSession,
    bootstrap: str,
    headers: Headers,
    size: tuple[int, int],
    directory: Path,
) -> Iterator[Figure]:
    records, rounds = size
    topic = _name(headers)
    subject = f"{records:,} records of {LENGTH} bytes, {len(headers)} headers"
    bares, first, second = [], [], []
    for turn in range(rounds + 1):
        folder = directory / f"{topic}-{turn}"
        spent = bare(spark, bootstrap, topic, records // PARTITIONS)
        found, digesting = ours(spark, bootstrap, topic, folder)
        again, after = ours(spark, bootstrap, topic, folder)
        if turn:
            bares.append(spent)
            first.append(digesting)
            second.append(after)
    size_on_disk = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    yield same(subject, "records", records // PARTITIONS * PARTITIONS, found.records, again.records)
    yield Figure.of(subject, "bare Spark read", (records / one for one in bares), "/s")
    yield Figure.of(subject, "digests", (records / one for one in first), "/s")
    yield Figure.of(
        subject, "speed over the bare read's", (a / b for a, b in zip(bares, first, strict=True)), least=LEAST
    )
    yield Figure.of(subject, "the night after: records read", [float(again.read)], most=64.0 * PARTITIONS)
    yield Figure.of(subject, "the night after", second, "s")
    yield Figure.of(subject, "kept of a record", [size_on_disk / records], "bytes")


def _name(headers: Headers) -> str:
    return f"{TOPIC}-with-headers" if headers else TOPIC


if __name__ == "__main__":
    command(measure)
