"""Compares receipts with their topics: each record that was promised has to be at its offset, with its digest.

Receipts are read first, then ends are asked, so that each promise is older than the end it is judged by. Of the log
only the offsets between the first and the last receipt of a partition are read; starts are asked again afterwards, and
what retention explains by age or size, as of a night's dump, is expired; the rest below a start is unknown, for who may
delete the records of an application is not known here. What is not there is read a second time before it is said to be
lost, up to an end that is asked again, too: just after an election a leader may tell a former one, and the higher
counts. At last topics are asked again: of one that was made anew meanwhile nothing is known.

A record between two others may be missing from a compacted log: it is not judged. Where it is not known whether a log
is compacted, it is unknown.

A topic that was deleted and made anew has lost nothing that was promised: a receipt is held against a log only if it is
shown to be the one that the receipt is about, by the topic's id, or by a record that was acknowledged before, and is
there as its receipt says.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from canary.anomalies.policy import explains_by_size, least_age_ms
from canary.watching.selection import Selection
from spark_reconcile.dump.dumping import RANGE, ranges, read_error, read_errors, source
from spark_reconcile.dump.kafka_bounds import Cluster, Topic
from spark_reconcile.errors import UnreachableError
from spark_reconcile.receipts.files import Coverage, look, receipts_of
from spark_reconcile.tables.columns import ISOLATIONS
from spark_reconcile.tables.digests import DIGEST
from storage.store.cursors import Excerpt

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VERDICTS: Final = ("present", "lost", "changed", "expired", "compacted", "recreated", "in-doubt", "unknown")
BAD: Final = ("lost", "changed")
JUDGED: Final = ("present", *BAD)
UNKNOWN: Final = {
    "no-answer": "their partition has no leader, or their topic is gone, or was made anew during the check",
    "made-anew": "the topic may have been made anew: neither its id nor an earlier record shows that it is the same",
    "early-expiry": "they are below the log's start and too young for retention: deleted by DeleteRecords, or early",
    "unexplained-expiry": "they are below the log's start and too young for retention.ms, and whether retention.bytes "
    "explains that is not known, or the settings are not",
    "settings": "they are missing within the log, and whether the topic is compacted is not known (DescribeConfigs)",
}
"""Why the verdict is unknown, in words."""
MOST_RUNS: Final = 1_000_000
"""At most so many ranges of one check become violations; the counts are whole nevertheless."""
_BOUNDS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("compacted", pa.bool_()),
        ("same_from", pa.int64()),
        ("aged_until", pa.int64()),
        ("unsure", pa.bool_()),
    ]
)
_IDS: Final = pa.schema([("topic", pa.string()), ("topic_id", pa.string())])
_NOTHING: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("found", pa.int64()),
        ("logged", pa.timestamp("us", tz="UTC")),
        ("seen", pa.bool_()),
    ]
)
_RUNS: Final = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("verdict", pa.string()),
        *((name, pa.int64()) for name in ("first", "last", "acked_from", "acked_to")),
    ]
)
_BATCH: Final = 10_000
_ALL: Final = 1 << 62
_VERDICT: Final = """CASE
    WHEN made <> '' AND topic_id <> '' AND made <> topic_id THEN 'recreated'
    WHEN end IS NULL THEN 'no-answer'
    WHEN seen AND (found = digest OR digest IS NULL) THEN 'present'
    WHEN outcome <> 'promised' THEN 'in-doubt'
    WHEN offset < start AND coalesce(unix_micros(least(acked_at, timestamp)) <= aged_until, false) THEN 'expired'
    WHEN NOT seen AND offset BETWEEN start AND end - 1 AND compacted THEN 'compacted'
    WHEN NOT coalesce(made <> '' AND made = topic_id OR same_from <= unix_micros(acked_at), false) THEN 'made-anew'
    WHEN seen THEN 'changed'
    WHEN offset < start THEN if(unsure, 'unexplained-expiry', 'early-expiry')
    WHEN offset >= end THEN 'lost'
    WHEN compacted IS NULL THEN 'settings'
    ELSE 'lost' END"""
_SHOWS: Final = """seen AND found = digest AND timestamp = logged
    AND (made = '' OR topic_id = '' OR made = topic_id)"""
"""Whether a record shows that the log is the one that its receipt is about, so that later receipts are, too."""


@dataclass(frozen=True, slots=True)
class Run:
    """Receipts of consecutive offsets [first, last] with one verdict, acknowledged between two times (us)."""

    topic: str
    partition: int
    verdict: str
    first: int
    last: int
    acked_from: int
    acked_to: int


@dataclass(frozen=True, slots=True)
class Runs:
    """Ranges in the order of topic, partition, verdict and offset, as a table: there may be a million.

    ``total``: how many there are. Of more than MOST_RUNS the last ones of each partition are not in the table.
    """

    table: pa.Table
    total: int

    def __iter__(self) -> Iterator[Run]:
        """Yield the ranges."""
        for batch in self.table.to_batches(max_chunksize=_BATCH):
            yield from itertools.starmap(Run, zip(*(column.to_pylist() for column in batch.columns), strict=True))

    def largest(self, most: int) -> Excerpt[Run]:
        """Return at most so many ranges, those of the most receipts first."""
        return Excerpt(heapq.nlargest(most, self, key=lambda run: run.last - run.first), self.total)


@dataclass(frozen=True, slots=True)
class Checked:
    """The result: receipts by topic, partition and verdict; ranges of those that are lost or changed."""

    cluster: str
    counts: Mapping[tuple[str, int], Mapping[str, int]]
    runs: Runs
    coverage: Coverage
    topic_ids: Mapping[str, str | None]
    seconds: float
    why: Mapping[str, int] = field(default_factory=dict)
    """How many are unknown, by the reason (`UNKNOWN`)."""
    unmatched: Sequence[str] = ()
    """Names and patterns of topics of which there is no receipt."""

    def total(self, verdict: str) -> int:
        """Return how many receipts have a verdict."""
        return sum(one.get(verdict, 0) for one in self.counts.values())

    @property
    def unknown(self) -> int:
        """Return how many receipts could not be judged, files not be read, and patterns have no receipts.

        It is 1 if there is nothing to judge.
        """
        some = self.total("unknown") + len(self.coverage.unreadable) + len(self.unmatched)
        return some or int(not self.judged)

    @property
    def judged(self) -> int:
        """Return how many receipts were held against a record or its absence."""
        return sum(map(self.total, JUDGED))

    @property
    def exit_status(self) -> int:
        """Return 1 if a record is lost or changed, 3 if one could not be judged or a file not be read, else 0."""
        if any(self.total(one) for one in BAD):
            return 1
        return 3 if self.unknown else 0


NO_RUNS: Final = Runs(_RUNS.empty_table(), 0)


def check(
    spark: SparkSession, cluster: str, config: Mapping[str, Any], url: str, topics: Sequence[str] = ()
) -> Checked:
    """Check the receipts at a URL of the topics that match one of some patterns, all if there are none.

    ``config``: librdkafka properties that reach the cluster; ``spark`` has the Kafka source.

    Raises:
        BadInputError: there is no file of receipts.
        UnreachableError: the cluster does not answer.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415

    began = time.monotonic()
    asked = _Asked(cluster, config)
    files = look(url, asked.cluster.cluster_id)
    spark.sparkContext.setJobGroup("receipts", f"receipts: read {len(files.paths)} files")
    try:
        every = receipts_of(spark, url, files, topics).cache()
        broken = [f"{row['topic']}: {row['outcome']}" for row in every.where("partition IS NULL").collect()]
        coverage = replace(files.coverage, unreadable=(*files.coverage.unreadable, *broken))
        receipts = every.where("partition IS NOT NULL")
        spans = receipts.groupBy("topic", "partition").agg(f.min("offset").alias("low"), f.max("offset").alias("high"))
        wanted = {(row["topic"], row["partition"]): (row["low"], row["high"] + 1) for row in spans.collect()}
        asked.ask({topic for topic, _ in wanted})
        judged = _judged(spark, receipts, config, asked, wanted)
        counts: dict[tuple[str, int], Counter[str]] = {}
        why: Counter[str] = Counter()
        for row in judged.groupBy("topic", "partition", "verdict").count().collect():
            verdict, number = row["verdict"], row["count"]
            why.update({verdict: number} if verdict in UNKNOWN else {})
            verdict = "unknown" if verdict in UNKNOWN else verdict
            counts.setdefault((row["topic"], row["partition"]), Counter())[verdict] += number
        bad = any(one.get(verdict) for one in counts.values() for verdict in BAD)
        runs = _runs(judged) if bad else NO_RUNS
        judged.unpersist()
        every.unpersist()
    except read_errors() as error:
        raise read_error(cluster, error) from error
    ids = {name: topic.topic_id for name, topic in asked.topics.items()}
    there = {topic for topic, _ in counts}
    unmatched = [one for one in topics if not any(map(Selection([one]).topic, there))]
    return Checked(cluster, counts, runs, coverage, ids, time.monotonic() - began, why, unmatched)


class _Asked:
    """A cluster's topics, with bounds that were asked after the receipts were read."""

    def __init__(self, name: str, config: Mapping[str, Any]) -> None:
        self.cluster = Cluster(name, config)
        self.topics: dict[str, Topic] = {}
        self.ends: dict[tuple[str, int], int] = {}
        self.starts: dict[tuple[str, int], int] = {}

    def ask(self, topics: Collection[str]) -> None:
        """Ask for topics and their bounds."""
        found = self.cluster.topics(sorted(topics)) if topics else []
        self.topics = {one.name: one for one in found}
        spans = self.cluster.spans(found, [ISOLATIONS[1]]) if found else []
        self.ends = {(one.topic, one.partition): one.end for one in spans}
        self.starts = {(one.topic, one.partition): one.start for one in spans}

    def ends_again(self, places: Collection[tuple[str, int]]) -> None:
        """Ask again for the ends of partitions, of which the higher ones count; without an answer none is known."""
        names = {topic for topic, _ in places}
        try:
            spans = self.cluster.spans([one for name, one in self.topics.items() if name in names], [ISOLATIONS[1]])
        except UnreachableError:  # of all of these; others may be judged
            spans = []
        now = {(one.topic, one.partition): one.end for one in spans}
        for place in self.ends.keys() & set(places):
            end = self.ends.pop(place)
            if place in now:
                self.ends[place] = max(end, now[place])

    def ids(self) -> pa.Table:
        """Return the ids of topics."""
        return pa.Table.from_pylist(
            [{"topic": name, "topic_id": topic.topic_id or ""} for name, topic in self.topics.items()], _IDS
        )

    def bounds(self, same_from: Mapping[tuple[str, int], int]) -> pa.Table:
        """Return the bounds, with starts of now, and from when on (us) a partition is shown to be the same.

        A topic that is another one now has none.
        """
        topics = list(self.topics.values())
        starts, sizes = self.cluster.starts(topics), self.cluster.sizes(topics)
        now_us = time.time_ns() // 1000
        others = self.cluster.made_anew(topics)
        bounds = [
            {
                "topic": topic,
                "partition": partition,
                "start": max(self.starts[topic, partition], starts.get((topic, partition), 0)),
                "end": end,
                "compacted": self.topics[topic].compacted,
                "same_from": same_from.get((topic, partition)),
            }
            | _expiry(self.topics[topic], sizes.get((topic, partition)), now_us)
            for (topic, partition), end in self.ends.items()
            if topic not in others
        ]
        return pa.Table.from_pylist(bounds, _BOUNDS)


def _expiry(topic: Topic, size: int | None, now_us: int) -> dict[str, Any]:
    """Return up to when (us) what was written may have expired by retention, and whether more may have, unknown to us.

    As RECONCILIATION rule 4: by age, or because the log has a size of which brokers delete.
    """
    age_ms, kept_bytes = topic.retention_ms, topic.retention_bytes
    limited = kept_bytes is not None and kept_bytes >= 0
    unsure = age_ms is None or kept_bytes is None or (limited and size is None)
    if kept_bytes is not None and limited and size is not None and explains_by_size(kept_bytes, size):
        return {"aged_until": _ALL, "unsure": unsure}
    aged = now_us - round(least_age_ms(age_ms) * 1000) if age_ms is not None and age_ms >= 0 else None
    return {"aged_until": aged, "unsure": unsure}


def _judged(
    spark: SparkSession,
    receipts: Any,
    config: Mapping[str, Any],
    asked: _Asked,
    wanted: Mapping[tuple[str, int], tuple[int, int]],
) -> Any:
    """Return the receipts with their verdicts; what is lost or changed was read twice."""
    from pyspark.sql import functions as f  # noqa: PLC0415  # slow, and only used here

    place = ["topic", "partition", "offset"]
    first = {one: _within(one, wanted[one], asked) for one in wanted}
    records = _records(spark, config, {one: span for one, span in first.items() if span[0] < span[1]})
    ids = f.broadcast(spark.createDataFrame(asked.ids()))
    matched = receipts.join(records, place, "left").join(ids, "topic", "left").cache()
    doubtful = "FILTER (WHERE seen IS NULL OR found <> digest)"
    told = matched.groupBy("topic", "partition").agg(
        f.expr(f"min(offset) {doubtful} AS low"),
        f.expr(f"max(offset) {doubtful} AS high"),
        f.expr(f"unix_micros(min(acked_at) FILTER (WHERE {_SHOWS})) AS same_from"),
    )
    partitions = {(row["topic"], row["partition"]): row for row in told.collect()}
    doubts = {one: (row["low"], row["high"] + 1) for one, row in partitions.items() if row["low"] is not None}
    if doubts.keys() & asked.ends.keys():
        asked.ends_again(doubts)
    again = {one: _within(one, span, asked) for one, span in doubts.items()}
    second = _records(spark, config, {one: span for one, span in again.items() if span[0] < span[1]})
    right = "seen AND found <=> digest"
    both = matched.join(second.selectExpr(*place, "found AS again", "seen AS seen_again"), place, "left").selectExpr(
        *place,
        "acked_at",
        "timestamp",
        "digest",
        "outcome",
        "made",
        "topic_id",
        "coalesce(seen, seen_again, false) AS seen",
        f"CASE WHEN {right} THEN found WHEN seen_again THEN again ELSE found END AS found",
    )
    bounds = asked.bounds({one: row["same_from"] for one, row in partitions.items()})
    judged = both.join(f.broadcast(spark.createDataFrame(bounds)), ["topic", "partition"], "left")
    return judged.selectExpr(*place, "acked_at", f"{_VERDICT} AS verdict").cache()


def _within(place: tuple[str, int], span: tuple[int, int], asked: _Asked) -> tuple[int, int]:
    if place not in asked.ends:
        return 0, 0
    return max(span[0], asked.starts[place]), min(span[1], asked.ends[place])


def _records(spark: SparkSession, config: Mapping[str, Any], spans: Mapping[tuple[str, int], tuple[int, int]]) -> Any:
    """Return place and digest of the records in some ranges [start, end)."""
    if not spans:
        return spark.createDataFrame(_NOTHING.empty_table())
    options = ranges(spans, ISOLATIONS[1], RANGE, headers=True)
    records = source(spark, config, options)
    place = ("topic", "partition", "offset")
    wanted = records.selectExpr(*place, f"{DIGEST} AS found", "timestamp AS logged", "true AS seen")
    return wanted.dropDuplicates(place)


def _runs(judged: Any) -> Runs:
    """Return the ranges of receipts that are lost or changed."""
    from pyspark.sql import Window  # noqa: PLC0415  # slow, and only used here
    from pyspark.sql import functions as f  # noqa: PLC0415

    by = ["topic", "partition", "verdict"]
    bad = (
        judged.where(f.col("verdict").isin(*BAD))
        .groupBy(*by, "offset")
        .agg(f.expr("unix_micros(min(acked_at)) AS low"), f.expr("unix_micros(max(acked_at)) AS high"))
    )
    number = f.row_number().over(Window.partitionBy(*by).orderBy("offset"))
    turn = f.row_number().over(Window.partitionBy(*by).orderBy("first"))
    rows = (
        bad.withColumn("island", f.col("offset") - number)
        .groupBy(*by, "island")
        .agg(
            f.min("offset").alias("first"),
            f.max("offset").alias("last"),
            f.min("low").alias("acked_from"),
            f.max("high").alias("acked_to"),
        )
        .withColumn("turn", turn)
    )
    turns = rows.orderBy("turn", *by)  # the first of each partition before the second of any: none is left out
    table = turns.select(*_RUNS.names).limit(MOST_RUNS).toArrow().cast(_RUNS)
    total = table.num_rows if table.num_rows < MOST_RUNS else rows.count()
    return Runs(table.sort_by([(name, "ascending") for name in (*by, "first")]), total)
