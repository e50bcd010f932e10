"""Which old leaves are read again: those that were not read for longest, as far as there is room."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Final

import numpy as np

from spark_reconcile.digests.keeping import Kept, Tree
from spark_reconcile.digests.reading import Place, Range
from spark_reconcile.digests.tree import BITS, Leaves, Run, merged

BLOCK: Final = 1 << 10
"""Leaves that are read again together: 65,536 offsets."""


def oldest(kept: Kept, known: Iterable[tuple[Tree, int]], room: float) -> list[Range]:
    """Return ranges that have ``room`` known records, or a block more: those that were not read for longest.

    ``known`` are trees, each with the first offset of the log now. A chunk is opened once no older one is left.
    """
    trees = {tree.place: (tree, first) for tree, first in known}
    waiting: list[tuple[int, Place, int, Run | None, int]] = [
        (chunk.read_at_ns, place, -1 - number, None, 0)
        for place, (tree, _) in trees.items()
        for number, chunk in tree.chunks.items()
    ]
    heapify(waiting)
    chosen: dict[Place, list[Run]] = {}
    while waiting and room > 0:
        _, place, key, run, count = heappop(waiting)
        if run is not None:
            chosen.setdefault(place, []).append(run)
            room -= count
            continue
        tree, first = trees[place]
        for age, block, records in _blocks(kept.chunk(tree.chunks[-1 - key]), first, tree.end):
            heappush(waiting, (age, place, block.offset, block, records))
    return [Range(place, run.offset, run.end) for place, runs in sorted(chosen.items()) for run in merged(sorted(runs))]


def _blocks(leaves: Leaves, first: int, end: int) -> Iterator[tuple[int, Run, int]]:
    """Yield the blocks of a chunk within [first, end): when each was read, its offsets, its records."""
    blocks = leaves.leaf // BLOCK
    starts = np.flatnonzero(np.diff(blocks, prepend=-1))
    ages = np.minimum.reduceat(leaves.read_at, starts)
    for start, age in zip(starts.tolist(), ages.tolist(), strict=True):
        block = int(blocks[start]) * BLOCK << BITS
        low, high = max(block, first), min(block + (BLOCK << BITS), end)
        if low < high:
            yield age, Run(low, high - low), leaves.between(low, high).count
