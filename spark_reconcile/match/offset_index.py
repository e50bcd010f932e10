"""From an offset to a place in an array, in one step: Kafka's offsets are nearly dense."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from spark_reconcile.tables.columns import I64


@dataclass(frozen=True, slots=True)
class Index:
    """Numbers offsets from 0 to ``size`` - 1: by distance from ``base``, or, where sparse, by rank in ``known``."""

    base: int
    size: int
    known: I64 | None = None

    @classmethod
    def over(cls, columns: Sequence[I64]) -> Self:
        """Return an index of every offset that occurs in ``columns``."""
        filled = [column for column in columns if len(column)]
        if not filled:
            return cls(0, 0)
        low = min(int(column.min()) for column in filled)
        span = max(int(column.max()) for column in filled) - low + 1
        if span <= 8 * sum(map(len, filled)) + 4096:
            return cls(low, span)
        known = np.unique(np.concatenate(filled))
        return cls(low, len(known), known)

    def of(self, offsets: I64) -> I64:
        """Return the place of each offset, all of which the index was made over."""
        if self.known is None:
            return offsets - self.base
        return np.searchsorted(self.known, offsets).astype(np.int64)
