"""Splits a table of any layout by partition and range of offsets."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from spark_reconcile.tables.bounds import Place
from spark_reconcile.tables.parquet import codes, numbers

UNPLACED: Final = -1
"""The range of rows without an offset."""


def split(table: pa.Table, width: int | None, path: str) -> Iterator[tuple[Place, int, pa.Table]]:
    """Yield (partition, range, its rows in their order) for ranges of ``width`` offsets (None: one range, 0)."""
    if not len(table):
        return
    cluster, clusters = codes(table, "cluster", None, path)
    topic, topics = codes(table, "topic", None, path)
    partition = numbers(table, "partition")
    ranges = np.zeros(len(table), dtype=np.int64)
    if width is not None and "offset" in table.schema.names:
        offset = numbers(table, "offset", UNPLACED)
        ranges = np.where(offset < 0, UNPLACED, offset // width)
    key = _joined(cluster, topic, partition, ranges)
    rows = np.arange(len(table))
    step = np.flatnonzero(key[1:] != key[:-1]) + 1
    if len(step) > 256:  # the rows are not ordered by partition
        rows = np.argsort(key, kind="stable")  # in one pass a byte, since the key is short
        table, key = table.take(pa.array(rows)), key[rows]
        step = np.flatnonzero(key[1:] != key[:-1]) + 1
    for start, stop in pairwise([0, *step.tolist(), len(table)]):
        row = rows[start]
        place = Place(clusters[cluster[row]], topics[topic[row]], int(partition[row]))
        yield place, int(ranges[row]), table.slice(start, stop - start)


def _joined(*columns: NDArray[Any]) -> NDArray[Any]:
    """Return one number for each row, equal where the rows are equal, in 16 bits if these suffice."""
    joined, size = np.zeros(len(columns[0]), dtype=np.int64), 1
    for column in columns:
        low, high = int(column.min()), int(column.max())
        if size * (high - low + 1) > np.iinfo(np.int64).max:
            joined = np.unique(joined, return_inverse=True)[1]
            size = int(joined.max()) + 1
        joined = joined * (high - low + 1) + (column - low)
        size *= high - low + 1
    return joined.astype(np.uint16) if size <= 1 << 16 else joined
