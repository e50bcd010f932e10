"""``canary dump``: what the topics really hold, as Parquet, by Spark's Kafka source.

Bounds first, then exactly what lies within them, at each isolation level. A task reads a range of one partition in
order, decodes it with NumPy and writes its own file, sorted by offset; the driver publishes what finished tasks name.
So a task that fails and runs again leaves nothing twice. An offset that vanishes while we read is no error
(failOnDataLoss=false): the first offset is asked again afterwards and the higher one kept (RECONCILIATION 4), and what
is missing above it is for the reconciliation to judge.

``dumped_at`` of read_uncommitted is when the ends were fixed; of read_committed, when the starts were asked again. So
the earlier one bounds what could be in the ends, and the later one what retention could have removed by then.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import orjson
import pyarrow as pa
import structlog

from canary.probe.batch import CORRUPT, INTACT, BinaryBuffers, decode_batch
from canary.probe.record import tag
from spark_reconcile.columns import ISOLATIONS
from spark_reconcile.errors import UnreachableError
from spark_reconcile.kafka_bounds import Cluster, Topic
from spark_reconcile.kafka_java import java_properties
from spark_reconcile.output import Folder, PartWriter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession

    from spark_reconcile.kafka_bounds import Span

log = structlog.get_logger(__name__)

_TIME: Final = pa.timestamp("us", "UTC")
_PLACE: Final = [("cluster", pa.string()), ("topic", pa.string()), ("topic_id", pa.string()), ("partition", pa.int32())]
RECORDS: Final = pa.schema(
    [
        *_PLACE,
        ("isolation", pa.string()),
        ("offset", pa.int64()),
        ("timestamp", _TIME),
        ("producer_id", pa.int64()),
        ("generation", pa.int32()),
        ("sequence", pa.int64()),
        ("transaction_id", pa.int64()),
        ("valid", pa.bool_()),
    ]
)
BOUNDS: Final = pa.schema(
    [
        *_PLACE,
        ("isolation", pa.string()),
        ("earliest_offset", pa.int64()),
        ("end_offset", pa.int64()),
        ("dumped_at", _TIME),
        ("retention_ms", pa.int64()),
        ("retention_bytes", pa.int64()),
    ]
)
RANGE: Final = 4_000_000
"""Offsets of a partition that one task reads."""
_BATCH: Final = 65_536


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to dump: ``topics`` of one cluster, reached by librdkafka ``config``.

    ``installation``: whose probes are ours.
    ``since``: where reading begins if the log begins earlier, by (topic, partition, isolation): an incremental dump,
    whose bounds are those of the log all the same.
    """

    cluster: str
    config: Mapping[str, Any]
    topics: Sequence[str]
    installation: str
    levels: Sequence[str] = ISOLATIONS
    since: Mapping[tuple[str, int, str], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Dumped:
    """What was dumped: rows by (topic, isolation), and the bounds as rows of bounds/."""

    rows: Mapping[tuple[str, str], int]
    bounds: Sequence[Mapping[str, Any]]
    silent: int
    seconds: float


def dump(spark: SparkSession, wanted: Sequence[Wanted], out: str) -> Dumped:
    """Dump topics to ``out``/records and ``out``/bounds, replacing what was there.

    Raises:
        UnreachableError: a cluster does not answer, has none of the topics, or stopped answering.
    """
    began = time.monotonic()
    folder = Folder(out)
    folder.begin()
    try:
        names: list[str] = []
        bounds: list[dict[str, Any]] = []
        rows: dict[tuple[str, str], int] = {}
        silent = 0
        for one in wanted:
            parts, some_bounds, topics = _dump_cluster(spark, one, folder.work)
            for part in parts:
                names += [part.name] if part.name else []
                rows[part.topic, part.isolation] = rows.get((part.topic, part.isolation), 0) + part.rows
            bounds += some_bounds
            silent += sum(topic.partitions for topic in topics) - len(some_bounds) // len(one.levels)
        writer = PartWriter(folder.work)
        written = writer.write(pa.Table.from_pylist(bounds, BOUNDS))
        folder.publish("records", names, RECORDS)
        folder.publish("bounds", [written] if written else [], BOUNDS)
    finally:
        folder.clean()
    return Dumped(rows, bounds, silent, time.monotonic() - began)


@dataclass(frozen=True, slots=True)
class _Part:
    name: str | None
    topic: str
    isolation: str
    rows: int


def _dump_cluster(
    spark: SparkSession, wanted: Wanted, work: str
) -> tuple[list[_Part], list[dict[str, Any]], list[Topic]]:
    cluster = Cluster(wanted.cluster, wanted.config)
    cluster_id = cluster.cluster_id()
    topics = cluster.topics(wanted.topics)
    if not topics:
        raise UnreachableError(f"cluster {wanted.cluster} has no topic {' or '.join(wanted.topics)}")
    spans = cluster.spans(topics, wanted.levels)
    tags = {
        topic.name: (tag(wanted.installation, cluster_id, topic.name, topic.topic_id), topic.topic_id)
        for topic in topics
    }
    parts: list[_Part] = []
    for level in wanted.levels:
        mine = [
            replace(span, start=max(span.start, wanted.since.get((span.topic, span.partition, level), 0)))
            for span in spans
            if span.isolation == level
        ]
        parts += _read(spark, wanted, mine, level, (tags, work))
    after = cluster.starts(topics)
    ended = time.time_ns() // 1000
    again = {topic.name: topic.topic_id for topic in cluster.topics([topic.name for topic in topics])}
    for topic in topics:
        if again.get(topic.name) != topic.topic_id:
            raise UnreachableError(f"topic {topic.name} of cluster {wanted.cluster} was made anew while it was dumped")
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
        }
        for span in spans
    ]
    return parts, bounds, topics


def _read(
    spark: SparkSession,
    wanted: Wanted,
    spans: Sequence[Span],
    level: str,
    known: tuple[Mapping[str, tuple[bytes, str | None]], str],
) -> list[_Part]:
    from pyspark.errors import PySparkException  # noqa: PLC0415  # slow, and not everyone needs it

    full = [span for span in spans if span.end > span.start]
    if not full:
        return []
    starts: dict[str, dict[str, int]] = {}
    ends: dict[str, dict[str, int]] = {}
    for span in full:
        starts.setdefault(span.topic, {})[str(span.partition)] = span.start
        ends.setdefault(span.topic, {})[str(span.partition)] = span.end
    rows = sum(span.end - span.start for span in full)
    options = {f"kafka.{name}": value for name, value in java_properties(wanted.config).items()} | {
        "assign": orjson.dumps({topic: [int(one) for one in parts] for topic, parts in starts.items()}).decode(),
        "startingOffsets": orjson.dumps(starts).decode(),
        "endingOffsets": orjson.dumps(ends).decode(),
        "kafka.isolation.level": level,
        "failOnDataLoss": "false",
        "includeHeaders": "false",
        "minPartitions": str(max(len(full), rows // RANGE)),
        "kafkaConsumer.pollTimeoutMs": "60000",
    }
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(_BATCH))
    frame = (
        spark.read.format("kafka")
        .options(**options)
        .load()
        .select("topic", "partition", "offset", "timestamp", "value")
    )
    work = _Decoder(wanted.cluster, level, *known)
    try:
        found = frame.mapInArrow(work, "name string, topic string, isolation string, rows long").collect()
    except PySparkException as error:
        raise UnreachableError(f"cluster {wanted.cluster} could not be read to its end: {_reason(error)}") from error
    return [_Part(row["name"], row["topic"], row["isolation"], row["rows"]) for row in found]


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if "Exception" in line]
    return (lines[-1] if lines else str(error).splitlines()[0])[:300]


class _Decoder:
    """The work of one task: Arrow batches of a partition's records in, a Parquet file out, and its name."""

    def __init__(self, cluster: str, isolation: str, tags: Mapping[str, tuple[bytes, str | None]], work: str) -> None:
        self._cluster = cluster
        self._isolation = isolation
        self._tags = dict(tags)
        self._work = work

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        place: tuple[str, int] | None = None
        stream = None
        for batch in batches:
            for part in _by_place(batch):
                here = part.column("topic")[0].as_py(), part.column("partition")[0].as_py()
                if here != place:
                    if stream is not None and place is not None:
                        yield self._told(place[0], *stream.close())
                    place, stream = here, PartWriter(self._work).stream(RECORDS)
                assert stream is not None  # noqa: S101  # just made
                stream.write(self._decoded(part, *here))
        if stream is not None and place is not None:
            yield self._told(place[0], *stream.close())

    def _told(self, topic: str, name: str, rows: int) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict(
            {"name": [name], "topic": [topic], "isolation": [self._isolation], "rows": [rows]},
            pa.schema(
                [("name", pa.string()), ("topic", pa.string()), ("isolation", pa.string()), ("rows", pa.int64())]
            ),
        )

    def _decoded(self, batch: pa.RecordBatch, topic: str, partition: int) -> pa.Table:
        own_tag, topic_id = self._tags[topic]
        decoded = decode_batch(buffers(batch.column("value")), own_tag)
        ours = decoded.status == INTACT
        misplaced = ours & (decoded.partition != partition)  # intact, and in a partition it was never sent to
        ours &= ~misplaced
        rows = len(batch)
        foreign = ~ours
        return pa.table(
            [
                pa.repeat(self._cluster, rows),
                pa.repeat(topic, rows),
                pa.nulls(rows, pa.string()) if topic_id is None else pa.repeat(topic_id, rows),
                pa.repeat(pa.scalar(partition, pa.int32()), rows),
                pa.repeat(self._isolation, rows),
                batch.column("offset"),
                batch.column("timestamp").cast(_TIME),
                pa.array(decoded.producer_id, mask=foreign),
                pa.array(decoded.generation, mask=foreign),
                pa.array(decoded.sequence, mask=foreign),
                pa.array(decoded.transaction_id, mask=foreign | (decoded.transaction_id < 0)),
                pa.array((decoded.status != CORRUPT) & ~misplaced),
            ],
            schema=RECORDS,
        )


def buffers(column: Any) -> BinaryBuffers:
    """Return the buffers of an Arrow binary array."""
    large = pa.types.is_large_binary(column.type)
    validity, offsets, data = column.buffers()
    kind: Any = np.int64 if large else np.int32
    starts = np.frombuffer(offsets, dtype=kind)[column.offset : column.offset + len(column) + 1]
    valid = None
    if column.null_count and validity is not None:
        valid = column.is_valid().to_numpy(zero_copy_only=False)
    return BinaryBuffers(np.frombuffer(data or b"", dtype=np.uint8), starts, valid)


def _by_place(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield runs of one partition: Spark gives a task one, but does not promise to."""
    if not len(batch):
        return
    topic = batch.column("topic").dictionary_encode().indices.to_numpy()
    partition = batch.column("partition").to_numpy()
    edges = np.flatnonzero((np.diff(topic) != 0) | (np.diff(partition) != 0)) + 1
    start = 0
    for stop in [*edges.tolist(), len(batch)]:
        yield batch.slice(start, stop - start)
        start = stop
