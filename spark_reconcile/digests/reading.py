"""Has Spark read ranges of offsets and reduce them to leaves, inside the JVM: Python gets a row for 64 offsets."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_reconcile.digests.tree import BITS, LEAF, Leaves
from spark_reconcile.dump.dumping import ranges, read_error, read_errors, source
from spark_reconcile.tables.columns import ISOLATIONS
from spark_reconcile.tables.digests import FAST_PLACE, PERHAPS_NULL, PLACE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Place: TypeAlias = tuple[str, int]
"""Topic, partition."""
LEVEL: Final = ISOLATIONS[0]
TASK: Final = 1 << 22
"""Offsets that one task reads."""
_EACH_CORE: Final = 2 * TASK
_PERHAPS: Final = 1 << 32
"""What a record that may have a header of null adds to the number of keys."""


class Range(NamedTuple):
    """Offsets [start, end) of a partition."""

    place: Place
    start: int
    end: int


class Read(NamedTuple):
    """What the log has of a range."""

    range: Range
    leaves: Leaves


def batches(wanted: Sequence[Range], most: int) -> Iterator[list[Range]]:
    """Yield the ranges in batches of at most ``most`` offsets, none with two ranges of one partition.

    A range that is longer is cut, between leaves.
    """
    waiting = [one for one in wanted if one.end > one.start]
    while waiting:
        batch: dict[Place, Range] = {}
        later: list[Range] = []
        room = most
        for one in waiting:
            if one.place in batch or room < LEAF:
                later.append(one)
                continue
            cut = min(one.end, max((one.start + room) >> BITS << BITS, (one.start >> BITS) + 1 << BITS))
            batch[one.place] = one._replace(end=cut)
            room -= cut - one.start
            if cut < one.end:
                later.append(one._replace(start=cut))
        yield list(batch.values())
        waiting = later


class Reader:
    """Reads one cluster, reached by librdkafka ``config``; counts the records that it read."""

    def __init__(self, spark: SparkSession, cluster: str, config: Mapping[str, Any]) -> None:
        self._spark = spark
        self._cluster = cluster
        self._config = config
        self.records = 0

    @property
    def most(self) -> int:
        """How many offsets are read at once: the driver gets a row for 64 of them."""
        return int(self._spark.sparkContext.defaultParallelism) * _EACH_CORE

    def read(self, wanted: Sequence[Range]) -> Iterator[list[Read]]:
        """Yield what the log has of ranges, in pieces, and as many of them as one job of Spark reads.

        Raises:
            UnreachableError: the cluster stopped answering.
        """
        for batch in batches(wanted, self.most):
            found = self._leaves(batch)
            self.records += sum(leaves.count for leaves in found.values())
            yield [Read(one, found[one.place]) for one in batch]

    def _leaves(self, batch: Sequence[Range]) -> dict[Place, Leaves]:
        now_ns = time.time_ns()
        rows = self._rows(batch, FAST_PLACE)
        if len(rows) and pc.max(rows.column("keys")).as_py() >= _PERHAPS:
            rows = self._rows(batch, PLACE)
            keys = pc.bit_wise_and(rows.column("keys"), _PERHAPS - 1)
            rows = rows.set_column(rows.schema.get_field_index("keys"), "keys", keys)
        rows = rows.sort_by([(name, "ascending") for name in ("topic", "partition", "leaf")])
        leaf, mask, content, keys, size, partition = (
            rows.column(name).to_numpy().astype(np.int64)
            for name in ("leaf", "mask", "hash", "keys", "bytes", "partition")
        )
        every = Leaves(leaf, mask.view(np.uint64), content, keys, size, np.full(len(leaf), now_ns, dtype=np.int64))
        topic = rows.column("topic").combine_chunks().dictionary_encode()
        codes = topic.indices.to_numpy()
        starts = np.flatnonzero(np.diff(codes, prepend=-1) | np.diff(partition, prepend=-1)).tolist()
        found = dict.fromkeys((one.place for one in batch), Leaves.none())
        for start, end in pairwise([*starts, len(leaf)]):
            found[topic.dictionary[int(codes[start])].as_py(), int(partition[start])] = every.taken(slice(start, end))
        return found

    def _rows(self, batch: Sequence[Range], place: str) -> pa.Table:
        from pyspark.sql import functions as f  # noqa: PLC0415

        self._spark.sparkContext.setJobGroup("digest", f"digest: read {len(batch)} partitions of {self._cluster}")
        options = ranges({one.place: one[1:] for one in batch}, LEVEL, TASK, headers=True)
        records = source(self._spark, self._config, options).selectExpr(
            "topic",
            "partition",
            f"shiftright(offset, {BITS}) AS leaf",
            f"shiftleft(1L, int(offset & {LEAF - 1})) AS bit",
            f"{place} AS place",
            f"IF(key IS NULL, 0L, 1L) + IF({PERHAPS_NULL}, {_PERHAPS}L, 0L) AS keyed",
            "coalesce(octet_length(key), 0) + coalesce(octet_length(value), 0) AS length",
        )
        leaves = records.groupBy("topic", "partition", "leaf").agg(
            f.expr("bit_or(bit) AS mask"),
            f.expr("bit_xor(place) AS hash"),
            f.expr("sum(keyed) AS keys"),
            f.expr("sum(length) AS bytes"),
        )
        try:
            return leaves.toArrow()
        except read_errors() as error:
            raise read_error(self._cluster, error, sorted({one.place[0] for one in batch})) from error
