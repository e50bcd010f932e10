"""What digests of a topic cost, against a bare Spark read of the same records; and what the night after costs.

One broker of the lab holds the records, some with headers, none with keys that are null. Both sides run in one Spark,
in turns, after a turn that warms it up and does not count; the bare read asks for every column and throws it away. The
broker's CPU is not separated, as it works for both alike.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson
import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from canary.lab import Lab
from spark_reconcile.digests.keeping import Kept
from spark_reconcile.digests.night import Wanted, digest
from spark_reconcile.digests.result import Digested
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
        key = b"customer-%d" % (number % 5_000)
        while True:
            try:
                producer.produce(topic, value, key, partition=number % PARTITIONS, headers=list(headers))
                break
            except BufferError:
                producer.poll(0.1)
        if number % 10_000 == 0:
            producer.poll(0)
    producer.flush(60)


@dataclass
class Spent:
    """What a side took: seconds, and CPU-seconds of this process and the JVM."""

    seconds: float = 0.0
    cpu: float = 0.0


@contextmanager
def spending() -> Iterator[Spent]:
    """Yield what the block will have taken."""
    spent, began, before = Spent(), time.monotonic(), _cpu()
    yield spent
    spent.seconds, spent.cpu = time.monotonic() - began, _cpu() - before


def _cpu() -> float:
    """Return the CPU-seconds of this process and of the JVM, which is one of its children, but no broker's."""
    own = psutil.Process()
    mine = [own, *filter(_is_spark, own.children(recursive=True))]
    return sum(sum(one.cpu_times()[:2]) for one in mine)


def _is_spark(process: psutil.Process) -> bool:
    try:
        return "SparkSubmit" in " ".join(process.cmdline())
    except psutil.Error:  # it has ended
        return False


def bare(spark: SparkSession, bootstrap: str, topic: str, end: int) -> None:
    """Read every column of every record and throw it away."""
    options = {
        "assign": orjson.dumps({topic: list(range(PARTITIONS))}).decode(),
        "startingOffsets": orjson.dumps({topic: {str(p): 0 for p in range(PARTITIONS)}}).decode(),
        "endingOffsets": orjson.dumps({topic: {str(p): end for p in range(PARTITIONS)}}).decode(),
        "includeHeaders": "true",
        "kafka.isolation.level": "read_committed",
    }
    frame: Any = source(spark, {"bootstrap.servers": bootstrap}, options)
    frame.write.format("noop").mode("overwrite").save()


def ours(spark: SparkSession, bootstrap: str, topic: str, folder: Path) -> Digested:
    """Digest, and keep the trees."""
    kept = Kept(str(folder))
    found, trees = digest(spark, Wanted("c", {"bootstrap.servers": bootstrap}, [topic]), kept)
    kept.save(trees)
    return found


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
    sides: dict[str, list[Spent]] = {"bare Spark read": [], "digests": [], "the night after": []}
    for turn in range(rounds + 1):
        folder = directory / f"{topic}-{turn}"
        with spending() as reading:
            bare(spark, bootstrap, topic, records // PARTITIONS)
        with spending() as digesting:
            found = ours(spark, bootstrap, topic, folder)
        with spending() as after:
            again = ours(spark, bootstrap, topic, folder)
        if turn:
            for some, one in zip(sides.values(), (reading, digesting, after), strict=True):
                some.append(one)
    size_on_disk = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    yield same(subject, "records", records // PARTITIONS * PARTITIONS, found.records, again.records)
    reads, digests, _ = sides.values()
    for name, some in sides.items():
        yield Figure.of(subject, name, (one.seconds for one in some), "s")
        yield Figure.of(subject, f"{name}: CPU", (one.cpu for one in some), "CPU-s")
    speeds = (one.seconds / other.seconds for one, other in zip(reads, digests, strict=True))
    yield Figure.of(subject, "speed over the bare read's", speeds)
    work = (one.cpu / other.cpu for one, other in zip(reads, digests, strict=True))
    yield Figure.of(subject, "speed over the bare read's, by CPU", work, least=LEAST)
    yield Figure.of(subject, "the night after: records read", [float(again.read)], most=64.0 * PARTITIONS)
    yield Figure.of(subject, "kept of a record", [size_on_disk / records], "bytes")


def _name(headers: Headers) -> str:
    return f"{TOPIC}-with-headers" if headers else TOPIC


if __name__ == "__main__":
    command(measure)
