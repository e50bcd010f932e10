"""What became of each transaction, small enough to be sent to every task."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from spark_reconcile.tables.columns import (
    I32,
    I64,
    NEVER,
    NO_TRANSACTION,
    OPEN,
    PLAIN,
    U8,
    Bool,
    Identities,
    Index,
    by_producer,
)

_NO_ROW = 255
_DENSE = 2
"""Ids that span at most so many times their number are not listed: their place follows from the first."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """A producer's generation's transactions, 5 bytes each where ids are dense.

    ``ids``: ascending; None: place n is that of ``first`` + n. ``states``: _NO_ROW where there is no row. ``began``: ms
    since ``origin`` (us), never less than that of a lower id: a producer's transactions follow one another, whatever
    its clock says.
    """

    first: int
    ids: I64 | None
    states: U8
    began: NDArray[Any]
    origin: int

    @classmethod
    def of(cls, ids: I64, states: U8, began: I64) -> Self:
        """Return the outcomes of n rows in any order; of two rows with one id the definite outcome wins."""
        if len(ids) > 1 and not (ids[1:] > ids[:-1]).all():
            order = np.argsort(states, kind="stable")  # COMMITTED before ABORTED before OPEN
            ids, first_rows = np.unique(ids[order], return_index=True)
            states, began = states[order][first_rows], began[order][first_rows]
        began = np.maximum.accumulate(began)
        first, origin = int(ids[0]), int(began[0])
        since = (began - origin) // 1000
        if since.max() <= np.iinfo(np.uint32).max:
            since = since.astype(np.uint32)
        size = int(ids[-1]) - first + 1
        if size > _DENSE * len(ids):
            return cls(first, ids, states, since, origin)
        all_states, all_since = np.full(size, _NO_ROW, dtype=np.uint8), np.zeros(size, dtype=since.dtype)
        all_states[ids - first], all_since[ids - first] = states, since
        return cls(first, None, all_states, all_since, origin)

    def find(self, wanted: I64) -> tuple[I64, Bool]:
        """Return for each id its place, and whether there is a row of it (if not, the place is any)."""
        last = len(self.states) - 1
        if self.ids is None:
            at = wanted - self.first
            near = (at >= 0) & (at <= last)
            at = np.where(near, at, 0)
            return at, near & (self.states[at] != _NO_ROW)
        at = np.minimum(np.searchsorted(self.ids, wanted), last)
        return at, self.ids[at] == wanted


@dataclass(slots=True)
class Transactions:
    """What became of transactions, and when they began, by (cluster, producer_id, generation)."""

    known: dict[tuple[str, int, int], Outcomes] = field(default_factory=dict)

    def states(self, cluster: str, producer: I64, generation: I32, transaction: I64) -> U8:
        """Return for each row PLAIN (no transaction), COMMITTED, ABORTED or OPEN (a transaction without a row, too)."""
        result = np.where(transaction == NO_TRANSACTION, PLAIN, OPEN).astype(np.uint8)
        within = np.flatnonzero(result == OPEN)
        if not len(within):
            return result
        rows = Identities(producer[within], generation[within], transaction[within])
        for mine, entry, at, has in self._find(cluster, rows):
            result[within[mine]] = np.where(has, entry.states[at], OPEN)
        return result

    def began(self, cluster: str, producer: I64, generation: I32, transaction: I64) -> I64:
        """Return for each row of a transaction when that began (us, to the ms), NEVER if it has no row."""
        result = np.full(len(transaction), NEVER, dtype=np.int64)
        for mine, entry, at, has in self._find(cluster, Identities(producer, generation, transaction)):
            result[mine] = np.where(has, entry.origin + entry.began[at].astype(np.int64) * 1000, NEVER)
        return result

    def _find(self, cluster: str, rows: Identities) -> Iterator[tuple[Index, Outcomes, I64, Bool]]:
        """Yield (rows, their producer's outcomes, place of each, whether it has one); ``sequence`` is the id."""
        for producer, generation, mine in by_producer(rows):
            entry = self.known.get((cluster, producer, generation))
            if entry is not None:
                yield mine, entry, *entry.find(rows.sequence[mine])
