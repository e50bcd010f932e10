"""What became of each transaction, small enough to be sent to every task."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from spark_reconcile.columns import ABORTED, COMMITTED, NEVER, NO_TRANSACTION, OPEN, PLAIN, Identities, by_producer
from spark_reconcile.reading import batches, codes, numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from spark_reconcile.columns import I32, I64, U8, Bool
    from spark_reconcile.tables import File

_RANK = np.array([9, 0, 1, 2], dtype=np.uint8)  # of two rows for one transaction a definite outcome wins


_NOBODY = 255
_DENSE = 2
"""Ids that are so many times as far apart as they are many need no list of their own."""


@dataclass(frozen=True, slots=True)
class Outcomes:
    """A producer's generation's transactions, 5 bytes each where ids are dense.

    ``ids``: ascending; None: place n is that of ``first`` + n. ``states``: _NOBODY where there is no row. ``began``: ms
    since ``origin`` (us), and not before any with a lower id: one begins after the other, whatever clocks say.
    """

    first: int
    ids: I64 | None
    states: U8
    began: NDArray[Any]
    origin: int

    @classmethod
    def of(cls, ids: I64, states: U8, began: I64) -> Self:
        """Return the outcomes of n rows in any order; told twice counts once, and a definite outcome wins."""
        if len(ids) > 1 and not (ids[1:] > ids[:-1]).all():
            order = np.lexsort((_RANK[states], ids))
            ids, states, began = ids[order], states[order], began[order]
            fresh = np.ones(len(ids), dtype=np.bool_)
            fresh[1:] = ids[1:] != ids[:-1]
            ids, states, began = ids[fresh], states[fresh], began[fresh]
        began = np.maximum.accumulate(began)
        first, origin = int(ids[0]), int(began[0])
        since = (began - origin) // 1000
        if since.max() <= np.iinfo(np.uint32).max:
            since = since.astype(np.uint32)
        size = int(ids[-1]) - first + 1
        if size > _DENSE * len(ids):
            return cls(first, ids, states, since, origin)
        all_states, all_since = np.full(size, _NOBODY, dtype=np.uint8), np.zeros(size, dtype=since.dtype)
        all_states[ids - first], all_since[ids - first] = states, since
        return cls(first, None, all_states, all_since, origin)

    def find(self, wanted: I64) -> tuple[I64, Bool]:
        """Return for each id its place, and whether there is a row of it (if not, the place is any)."""
        last = len(self.states) - 1
        if self.ids is None:
            at = wanted - self.first
            near = (at >= 0) & (at <= last)
            at = np.where(near, at, 0)
            return at, near & (self.states[at] != _NOBODY)
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
        for who, which, mine in by_producer(rows):
            entry = self.known.get((cluster, who, which))
            if entry is not None:
                at, has = entry.find(rows.sequence[mine])
                result[within[mine]] = np.where(has, entry.states[at], OPEN)
        return result

    def began(self, cluster: str, producer: I64, generation: I32, transaction: I64) -> I64:
        """Return for each row of a transaction when that began (us, to the ms), NEVER if it has no row."""
        result = np.full(len(transaction), NEVER, dtype=np.int64)
        for who, which, mine in by_producer(Identities(producer, generation, transaction)):
            entry = self.known.get((cluster, who, which))
            if entry is not None:
                at, has = entry.find(transaction[mine])
                result[mine] = np.where(has, entry.origin + entry.began[at].astype(np.int64) * 1000, NEVER)
        return result


STATES: Final = np.array([COMMITTED, ABORTED, OPEN], dtype=np.uint8)
"""By the number of the outcome in OUTCOMES."""
OUTCOMES: Final = ("committed", "aborted", "indeterminate")


def read_transactions(files: Sequence[File]) -> Transactions:
    """Return what became of every transaction.

    Raises:
        BadInputError: an outcome is none of the three, or a file is damaged.
    """
    return transactions_of((file.path, table) for file in files for table in batches(file))


def transactions_of(tables: Iterable[tuple[str, pa.Table]]) -> Transactions:
    """Return what these tables (path, rows) say; raises as read_transactions does."""
    parts: dict[tuple[str, int, int], list[tuple[I64, U8, I64]]] = {}
    for path, table in tables:
        outcome, _ = codes(table, "outcome", OUTCOMES, path)
        number, clusters = codes(table, "cluster", None, path)
        who = Identities(*(numbers(table, name) for name in ("producer_id", "generation", "transaction_id")))
        began = numbers(table, "began_at")
        for code, cluster in enumerate(clusters):
            rows = np.flatnonzero(number == code)
            for producer, generation, mine in by_producer(who.take(rows)):
                chosen = rows[mine]
                told = (who.sequence[chosen], STATES[outcome[chosen]], began[chosen])
                parts.setdefault((cluster, producer, generation), []).append(told)
    result = Transactions()
    while parts:
        key, told_of = parts.popitem()
        ids, states, begins = (np.concatenate(column) for column in zip(*told_of, strict=True))
        result.known[key] = Outcomes.of(ids, states, begins)
    return result
