"""Dense numbers for pairs of (key, something), in linear time where the something is dense itself."""

from dataclasses import dataclass

import numpy as np

from canary.history.columns import Column

_INT32 = (1 << 31) - 1
_SPARE = 8
"""Direct addressing is used while its table has at most so many places for each pair."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Distinct pairs (``key``, ``x``), sorted; ``rank`` is the number among them of each pair that was given, int32."""

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
    lowest, highest = int(x.min()), int(x.max())
    most = _SPARE * len(key) + (1 << 16)
    if keys * (highest - lowest + 1) <= most:
        return _rank_by_place(key, x, np.full(keys, lowest), np.full(keys, highest - lowest + 1))
    low = np.full(keys, highest, np.int64)
    high = np.full(keys, lowest, np.int64)
    places = key.astype(np.intp, copy=False)
    np.minimum.at(low, places, x.astype(np.int64, copy=False))  # same types, else it takes ten times as long
    np.maximum.at(high, places, x.astype(np.int64, copy=False))
    low, high = np.minimum(low, high), np.maximum(low, high)
    if sum(h - lo + 1 for lo, h in zip(low.tolist(), high.tolist(), strict=True)) <= most:
        return _rank_by_place(key, x, low, high - low + 1)
    return _rank_by_sorting(key, x)


def _rank_by_place(key: Column, x: Column, low: Column, width: Column) -> Ranking:
    """Number the pairs with a table of ``width`` places for each key, the first of which is ``low``."""
    start = np.cumsum(width) - width
    shift = start - low
    size = int(width.sum())
    least, most = int(shift.min()), int(shift.max())
    if x.dtype == np.int32 and size <= _INT32 and least >= -_INT32 and most <= _INT32:
        place = shift.astype(np.int32)[key]  # a place fits, and so do both parts of the sum
        place += x
    else:
        place = x + shift[key]
    seen = np.zeros(size, np.bool_)
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
