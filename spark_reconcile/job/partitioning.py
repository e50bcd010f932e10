"""Splits a table of any layout by partition and range of offsets."""

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from spark_reconcile.tables.bounds import Place
from spark_reconcile.tables.columns import changes
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
    key = np.stack([cluster.astype(np.int64), topic.astype(np.int64), partition.astype(np.int64), ranges])
    step = np.flatnonzero(changes(*key)) + 1
    if len(step) > 256:  # the rows are not ordered by partition
        order = np.lexsort(key[::-1])
        table, key = table.take(pa.array(order)), key[:, order]
        step = np.flatnonzero(changes(*key)) + 1
    edges = [0, *step.tolist(), len(table)]
    for start, stop in pairwise(edges):
        place = Place(clusters[key[0, start]], topics[key[1, start]], int(key[2, start]))
        yield place, int(key[3, start]), table.slice(start, stop - start)
