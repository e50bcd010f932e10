"""``canary dump``: the records of the topics, as Parquet, by Spark's Kafka source.

Bounds are asked first; then exactly the records within them are read, at each isolation level. A task reads a range of
one partition in order and writes its own file, sorted by offset (`decoding`). The driver publishes the files that
finished tasks name, so a task that fails and runs again leaves nothing twice. An offset that vanishes during the dump
is no error (failOnDataLoss=false): the first offset is asked again afterwards and the higher one kept (RECONCILIATION
rule 4); records missing above it are judged by the reconciliation.

``dumped_at`` of read_uncommitted is when the ends were fixed; of read_committed, when the starts were asked again. So
the earlier one bounds what the ends can contain, and the later one what retention can have removed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import orjson
import pyarrow as pa

from canary.probe.record import tag
from spark_reconcile.dump.decoding import RESULT, Decoder, Marks
from spark_reconcile.dump.java_properties import java_properties
from spark_reconcile.dump.kafka_bounds import Cluster, Span, Topic
from spark_reconcile.errors import UnreachableError
from spark_reconcile.tables.columns import ISOLATIONS
from spark_reconcile.tables.schema import arrow_schema
from spark_reconcile.tables.writing import Folder, write_part

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


RECORDS: Final = arrow_schema("records")
BOUNDS: Final = arrow_schema("bounds")
RANGE: Final = 4_000_000
"""Offsets of a partition that one task reads."""
_BATCH: Final = 65_536
_CONSUMER: Final = {
    "max.poll.records": "20000",
    "max.partition.fetch.bytes": "4194304",
    "receive.buffer.bytes": "1048576",
}
"""The Java client's defaults fetch less at a time than a task can take."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to dump: ``topics`` of one cluster, reached by librdkafka ``config``.

    ``installation``: the id in the records of our own probes. ``cluster_id``: of the known cluster, None if it is not
    known. ``since``: the first offset to read, by (topic, partition, isolation); the bounds of such an incremental dump
    are nevertheless those of the whole log.
    """

    cluster: str
    config: Mapping[str, Any]
    topics: Sequence[str]
    installation: str
    levels: Sequence[str] = ISOLATIONS
    cluster_id: str | None = None
    since: Mapping[tuple[str, int, str], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Part:
    """A file of records/, of one partition at one level; first and last record as (offset, content), see `End`."""

    file: str
    topic: str
    partition: int
    isolation: str
    rows: int
    first: tuple[int, str]
    last: tuple[int, str]


@dataclass(frozen=True, slots=True)
class Dumped:
    """The result: rows by (topic, isolation), bounds/, partitions without a leader (``silent``), files of records/."""

    rows: Mapping[tuple[str, str], int]
    bounds: Sequence[Mapping[str, Any]]
    silent: int
    seconds: float
    parts: Sequence[Part] = ()


def dump(spark: SparkSession, wanted: Sequence[Wanted], out: str) -> Dumped:
    """Dump topics to ``out``/records and ``out``/bounds, replacing what was there.

    Raises:
        UnreachableError: a cluster does not answer, has none of the topics, or stopped answering.
    """
    began = time.monotonic()
    folder = Folder(out)
    folder.begin()
    try:
        parts: list[Part] = []
        bounds: list[dict[str, Any]] = []
        rows: dict[tuple[str, str], int] = {}
        silent = 0
        for one in wanted:
            some_parts, some_bounds, topics = _dump_cluster(spark, one, folder.work)
            for part in some_parts:
                rows[part.topic, part.isolation] = rows.get((part.topic, part.isolation), 0) + part.rows
            parts += some_parts
            bounds += some_bounds
            silent += sum(topic.partitions for topic in topics) - len(some_bounds) // len(one.levels)
        written = write_part(folder.work, pa.Table.from_pylist(bounds, BOUNDS))
        names = folder.publish("records", [part.file for part in parts], RECORDS)
        folder.publish("bounds", [written], BOUNDS)
    finally:
        folder.clean()
    published = [replace(part, file=name) for part, name in zip(parts, names, strict=True)]
    return Dumped(rows, bounds, silent, time.monotonic() - began, published)


def _dump_cluster(
    spark: SparkSession, wanted: Wanted, work: str
) -> tuple[list[Part], list[dict[str, Any]], list[Topic]]:
    cluster = Cluster(wanted.cluster, wanted.config)
    cluster_id = cluster.cluster_id()
    if wanted.cluster_id not in {None, cluster_id}:
        where = f"leads to cluster {cluster_id}, not to the known one, {wanted.cluster_id}"
        raise UnreachableError(f"cluster {wanted.cluster}: its address {where}")
    topics = cluster.topics(wanted.topics)
    if not topics:
        raise UnreachableError(f"cluster {wanted.cluster} has no topic {' or '.join(wanted.topics)}")
    spans = cluster.spans(topics, wanted.levels)
    tags = {
        topic.name: (
            # records sent before the brokers told the topic's id have the tag of an unknown one
            tuple(tag(wanted.installation, cluster_id, topic.name, known) for known in {topic.topic_id, None}),
            topic.topic_id,
        )
        for topic in topics
    }
    parts: list[Part] = []
    for level in wanted.levels:
        mine = [
            replace(span, start=max(span.start, wanted.since.get((span.topic, span.partition, level), 0)))
            for span in spans
            if span.isolation == level
        ]
        parts += _read(spark, wanted, mine, level, (tags, work))
    after, sizes = cluster.starts(topics), cluster.sizes(topics)
    ended = time.time_ns() // 1000
    cluster.unchanged(topics, "dumped")
    known = {topic.name: topic for topic in topics}
    bounds = [
        {
            "cluster": wanted.cluster,
            "topic": span.topic,
            "topic_id": known[span.topic].topic_id,
            "partition": span.partition,
            "isolation": span.isolation,
            "earliest_offset": max(span.start, after.get((span.topic, span.partition), span.start)),
            "end_offset": span.end,
            "dumped_at": ended if span.isolation == ISOLATIONS[0] else span.at,
            "retention_ms": known[span.topic].retention_ms,
            "retention_bytes": known[span.topic].retention_bytes,
            "size_bytes": sizes.get((span.topic, span.partition)),
        }
        for span in spans
    ]
    return parts, bounds, topics


def _read(
    spark: SparkSession,
    wanted: Wanted,
    spans: Sequence[Span],
    level: str,
    known: tuple[Mapping[str, Marks], str],
) -> list[Part]:
    from pyspark.sql.functions import lit  # noqa: PLC0415

    full = [span for span in spans if span.end > span.start]
    if not full:
        return []
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(_BATCH))
    frame: Any = None
    for number, topic in enumerate(known[0]):
        mine = [span for span in full if span.topic == topic]
        if mine:
            within = {(span.topic, span.partition): (span.start, span.end) for span in mine}
            records = source(spark, wanted.config, ranges(within, level, RANGE, headers=False))
            part = records.select(lit(number).alias("topic"), "partition", "offset", "timestamp", "value")
            frame = part if frame is None else frame.union(part)
    work = Decoder(wanted.cluster, level, *known)
    spark.sparkContext.setJobGroup("dump", f"dump: read {', '.join(known[0])} of {wanted.cluster}, {level}")
    try:
        found = frame.mapInArrow(work, RESULT).collect()
    except read_errors() as error:
        raise read_error(wanted.cluster, error) from error
    topics = list(known[0])
    return [
        Part(
            row["file"],
            topics[row["topic"]],
            row["partition"],
            level,
            row["rows"],
            *zip(row["offsets"], row["contents"], strict=True),
        )
        for row in found
    ]


def ranges(spans: Mapping[tuple[str, int], tuple[int, int]], level: str, task: int, *, headers: bool) -> dict[str, str]:
    """Return the options by which `source` reads offsets [start, end) of each (topic, partition).

    ``level``: the isolation level; ``task``: how many offsets one task reads.
    """
    partitions: dict[str, list[int]] = {}
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for (topic, partition), (start, end) in spans.items():
        partitions.setdefault(topic, []).append(partition)
        starts.setdefault(topic, {})[str(partition)] = start
        ends.setdefault(topic, {})[str(partition)] = end
    offsets = sum(end - start for start, end in spans.values())
    return {
        "assign": orjson.dumps(partitions).decode(),
        "startingOffsets": orjson.dumps(starts).decode(),
        "endingOffsets": orjson.dumps(ends).decode(),
        "kafka.isolation.level": level,
        "includeHeaders": str(headers).lower(),
        "minPartitions": str(max(len(spans), offsets // task)),
    }


def source(spark: SparkSession, config: Mapping[str, Any], options: Mapping[str, str]) -> Any:
    """Return the records of a cluster, reached by librdkafka ``config``, as Spark's Kafka source gives them.

    An offset that vanishes meanwhile is no error; a broker that does not answer for a minute is one.
    """
    java = {f"kafka.{name}": value for name, value in (_CONSUMER | java_properties(config)).items()}
    patience = {"failOnDataLoss": "false", "kafkaConsumer.pollTimeoutMs": "60000"}
    return spark.read.format("kafka").options(**java, **patience, **options).load()


def read_errors() -> tuple[type[Exception], ...]:
    """Return what Spark raises where it cannot read: its own errors, and those that it passes on as they are."""
    from py4j.protocol import Py4JError  # noqa: PLC0415  # slow, and only used here
    from pyspark.errors import PySparkException  # noqa: PLC0415

    return PySparkException, Py4JError


def read_error(cluster: str, error: Exception, topics: Sequence[str] = ()) -> UnreachableError:
    """Return the error that says that Spark could not read a cluster, or ``topics`` of it, to its end."""
    of = f" ({', '.join(topics[:3])}{', …' if len(topics) > 3 else ''})" if topics else ""
    reason = _reason(error)
    if "long overflow" in reason:
        reason += "; a record's timestamp may be beyond what Spark can hold (in ns instead of ms?)"
    return UnreachableError(f"cluster {cluster}{of} could not be read to its end: {reason}")


def _reason(error: Exception) -> str:
    """Return the innermost cause that Java names."""
    lines = [line.strip() for line in str(error).splitlines()]
    causes = [line.removeprefix("Caused by: ") for line in lines if line.startswith("Caused by: ")]
    named = causes or [line for line in lines if "Exception" in line and not line.startswith("at ")] or lines
    return named[-1][:300] if named else type(error).__name__
