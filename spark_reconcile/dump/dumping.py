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
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import orjson
import pyarrow as pa
import structlog

from canary.probe.batch import CORRUPT, INTACT, BinaryBuffers, decode_batch
from canary.probe.record import tag
from spark_reconcile.columns import ISOLATIONS
from spark_reconcile.ends import content
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
_WRITTEN: Final = pa.schema(
    [
        field.with_type(pa.dictionary(pa.int32(), field.type)) if field.type == pa.string() else field
        for field in RECORDS
    ]
)
"""How tasks hold rows: text, the same in all of them, once."""
_RISING: Final = ("offset", "timestamp", "sequence", "transaction_id")
_TOLD: Final = "file string, topic int, partition int, rows long, offsets array<long>, contents array<string>"
_TOLD_SCHEMA: Final = pa.schema(
    [
        ("file", pa.string()),
        ("topic", pa.int32()),
        ("partition", pa.int32()),
        ("rows", pa.int64()),
        ("offsets", pa.list_(pa.int64())),
        ("contents", pa.list_(pa.string())),
    ]
)
"""What a task tells of the file it wrote: of its first and last record, offsets and `ends.content`."""
Marks: TypeAlias = tuple[tuple[bytes, ...], str | None]
"""The tags by which records of a topic are ours, and its id."""
RANGE: Final = 4_000_000
"""Offsets of a partition that one task reads."""
_BATCH: Final = 65_536
_CONSUMER: Final = {
    "max.poll.records": "20000",
    "max.partition.fetch.bytes": "4194304",
    "receive.buffer.bytes": "1048576",
}
"""Java's consumer asks for less at a time than this job can take."""


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
class Part:
    """One file of records/, of one partition at one level; first and last record as (offset, `ends.content`)."""

    file: str
    topic: str
    partition: int
    isolation: str
    rows: int
    first: tuple[int, str]
    last: tuple[int, str]


@dataclass(frozen=True, slots=True)
class Dumped:
    """What was dumped: rows by (topic, isolation), the bounds as rows of bounds/, and the files of records/."""

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
        writer = PartWriter(folder.work)
        written = writer.write(pa.Table.from_pylist(bounds, BOUNDS))
        names = folder.publish("records", [part.file for part in parts], RECORDS)
        folder.publish("bounds", [written] if written else [], BOUNDS)
    finally:
        folder.clean()
    published = [replace(part, file=name) for part, name in zip(parts, names, strict=True)]
    return Dumped(rows, bounds, silent, time.monotonic() - began, published)


def _dump_cluster(
    spark: SparkSession, wanted: Wanted, work: str
) -> tuple[list[Part], list[dict[str, Any]], list[Topic]]:
    cluster = Cluster(wanted.cluster, wanted.config)
    cluster_id = cluster.cluster_id()
    topics = cluster.topics(wanted.topics)
    if not topics:
        raise UnreachableError(f"cluster {wanted.cluster} has no topic {' or '.join(wanted.topics)}")
    spans = cluster.spans(topics, wanted.levels)
    tags = {
        topic.name: (
            # where brokers told the topic's id only later, its records stay marked as those of an unknown one
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
    after = cluster.starts(topics)
    ended = time.time_ns() // 1000
    again = {topic.name: topic.topic_id for topic in cluster.topics([topic.name for topic in topics])}
    for topic in topics:
        ids = {topic.topic_id, again.get(topic.name)} - {None}  # while brokers are upgraded only some of them tell it
        if topic.name not in again or len(ids) > 1:
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
    known: tuple[Mapping[str, Marks], str],
) -> list[Part]:
    from pyspark.errors import PySparkException  # noqa: PLC0415  # slow, and not everyone needs it
    from pyspark.sql.functions import lit  # noqa: PLC0415

    full = [span for span in spans if span.end > span.start]
    if not full:
        return []
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(_BATCH))
    java = {f"kafka.{name}": value for name, value in (_CONSUMER | java_properties(wanted.config)).items()}
    frame: Any = None
    for number, topic in enumerate(known[0]):
        mine = [span for span in full if span.topic == topic]
        if mine:
            source = spark.read.format("kafka").options(**java, **_options(mine, level)).load()
            part = source.select(lit(number).alias("topic"), "partition", "offset", "timestamp", "value")
            frame = part if frame is None else frame.union(part)
    work = _Decoder(wanted.cluster, level, *known)
    try:
        found = frame.mapInArrow(work, _TOLD).collect()
    except PySparkException as error:
        raise UnreachableError(f"cluster {wanted.cluster} could not be read to its end: {_reason(error)}") from error
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


def _options(spans: Sequence[Span], level: str) -> dict[str, str]:
    """Return how Spark reads some partitions of one topic."""
    (topic,) = {span.topic for span in spans}
    rows = sum(span.end - span.start for span in spans)
    return {
        "assign": orjson.dumps({topic: [span.partition for span in spans]}).decode(),
        "startingOffsets": orjson.dumps({topic: {str(span.partition): span.start for span in spans}}).decode(),
        "endingOffsets": orjson.dumps({topic: {str(span.partition): span.end for span in spans}}).decode(),
        "kafka.isolation.level": level,
        "failOnDataLoss": "false",
        "includeHeaders": "false",
        "minPartitions": str(max(len(spans), rows // RANGE)),
        "kafkaConsumer.pollTimeoutMs": "60000",
    }


def _reason(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if "Exception" in line]
    return (lines[-1] if lines else str(error).splitlines()[0])[:300]


class _Decoder:
    """The work of one task: Arrow batches of a partition's records in, a Parquet file out, and what is in it.

    The column topic has the topic's number in ``tags``: a name in every row would be carried for nothing.
    """

    def __init__(self, cluster: str, isolation: str, tags: Mapping[str, Marks], work: str) -> None:
        self._cluster = cluster
        self._isolation = isolation
        self._topics = list(tags.items())
        self._work = work

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        place: tuple[int, int] | None = None
        stream = None
        ends: list[tuple[int, str]] = []
        for batch in batches:
            for part in _by_place(batch):
                here = part.column("topic")[0].as_py(), part.column("partition")[0].as_py()
                if here != place:
                    if stream is not None and place is not None:
                        yield _told(place, *stream.close(), ends)
                    place, stream = here, PartWriter(self._work).stream(_WRITTEN, rising=_RISING)
                    ends = [_end(part, 0)] * 2
                assert stream is not None  # noqa: S101  # just made
                stream.write(self._decoded(part, *here))
                ends[1] = _end(part, len(part) - 1)
        if stream is not None and place is not None:
            yield _told(place, *stream.close(), ends)

    def _decoded(self, batch: pa.RecordBatch, number: int, partition: int) -> pa.Table:
        topic, (tags, topic_id) = self._topics[number]
        decoded = decode_batch(buffers(batch.column("value")), None)
        marked = np.isin(decoded.tag, [int.from_bytes(one, "little") for one in tags])
        ours = marked & (decoded.status == INTACT)
        misplaced = ours & (decoded.partition != partition)  # intact, and in a partition it was never sent to
        ours &= ~misplaced
        rows = len(batch)
        foreign = ~ours
        return pa.table(
            [
                _text(self._cluster, rows),
                _text(topic, rows),
                _text(topic_id, rows),
                pa.repeat(pa.scalar(partition, pa.int32()), rows),
                _text(self._isolation, rows),
                batch.column("offset"),
                batch.column("timestamp").cast(_TIME),
                pa.array(decoded.producer_id, mask=foreign),
                pa.array(decoded.generation, mask=foreign),
                pa.array(decoded.sequence, mask=foreign),
                pa.array(decoded.transaction_id, mask=foreign | (decoded.transaction_id < 0)),
                pa.array(~(marked & (decoded.status == CORRUPT)) & ~misplaced),
            ],
            schema=_WRITTEN,
        )


def _end(batch: pa.RecordBatch, row: int) -> tuple[int, str]:
    timestamp = batch.column("timestamp")[row].cast(_TIME).value
    return batch.column("offset")[row].as_py(), content(timestamp // 1000, batch.column("value")[row].as_py())


def _told(place: tuple[int, int], file: str, rows: int, ends: Sequence[tuple[int, str]]) -> pa.RecordBatch:
    """Return what the driver is told of a file, as _TOLD has it."""
    offsets, contents = zip(*ends, strict=True)
    told = {"file": [file], "topic": [place[0]], "partition": [place[1]], "rows": [rows]}
    return pa.RecordBatch.from_pydict(told | {"offsets": [list(offsets)], "contents": [list(contents)]}, _TOLD_SCHEMA)


def _text(value: str | None, rows: int) -> pa.DictionaryArray:
    """Return a column of one text (or of nulls)."""
    places = pa.nulls(rows, pa.int32()) if value is None else pa.array(np.zeros(rows, dtype=np.int32))
    return pa.DictionaryArray.from_arrays(places, pa.array([] if value is None else [value], pa.string()))


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
    topic, partition = batch.column("topic").to_numpy(), batch.column("partition").to_numpy()
    edges = np.flatnonzero((np.diff(topic) != 0) | (np.diff(partition) != 0)) + 1
    start = 0
    for stop in [*edges.tolist(), len(batch)]:
        yield batch.slice(start, stop - start)
        start = stop
