"""Dense numbers for pairs of (key, something), in linear time where the something is dense itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Column = NDArray[Any]

_SPARE = 8
"""Direct addressing is used while its table has at most so many places for each pair."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Distinct pairs (key, x), sorted.

    Attributes:
        rank: For each pair that was given, its number among the distinct ones, int32.
        key: Key of each distinct pair.
        x: The other half of each distinct pair.
    """

    rank: Column
    key: Column
    x: Column


def rank(key: Column, x: Column, keys: int) -> Ranking:
    """Number the distinct pairs of ``key`` (0 to ``keys`` - 1) and ``x`` in ascending order.

    Offsets and values are numbered through by nature, so a table with a place for everything between the lowest and
    the highest of each key costs less than a sort, and its cost is linear. Where they are not, they are sorted.
    """
    if len(key) == 0:
        nothing = np.zeros(0, np.int32)
        return Ranking(nothing, nothing, np.zeros(0, np.int64))
    low = np.full(keys, np.iinfo(np.int64).max)
    high = np.full(keys, np.iinfo(np.int64).min)
    np.minimum.at(low, key, x)
    np.maximum.at(high, key, x)
    present = low <= high
    width = [int(h) - int(lo) + 1 if p else 0 for lo, h, p in zip(low, high, present, strict=True)]
    if sum(width) > _SPARE * len(key) + (1 << 16):
        return _rank_by_sorting(key, x)
    start = np.cumsum(width) - width
    shift = np.where(present, start - np.where(present, low, 0), 0)
    place = x + shift[key]
    seen = np.zeros(sum(width), np.bool_)
    seen[place] = True
    distinct = np.flatnonzero(seen)
    number = np.cumsum(seen, dtype=np.int32)
    number -= 1
    distinct_key = (np.searchsorted(start, distinct, side="right") - 1).astype(np.int32)
    return Ranking(number[place], distinct_key, distinct - shift[distinct_key])


def _rank_by_sorting(key: Column, x: Column) -> Ranking:
    order = np.lexsort((x, key))
    sorted_key, sorted_x = key[order], x[order]
    new = np.ones(len(order), np.bool_)
    new[1:] = (sorted_key[1:] != sorted_key[:-1]) | (sorted_x[1:] != sorted_x[:-1])
    number = np.cumsum(new, dtype=np.int32)
    number -= 1
    ranks = np.empty(len(order), np.int32)
    ranks[order] = number
    return Ranking(ranks, sorted_key[new].astype(np.int32), sorted_x[new].astype(np.int64))
