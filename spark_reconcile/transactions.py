"""What became of each transaction, small enough to be sent to every task."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from spark_reconcile.columns import ABORTED, COMMITTED, NEVER, NO_TRANSACTION, OPEN, PLAIN, Identities, by_producer
from spark_reconcile.reading import batches, codes, numbers

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from spark_reconcile.columns import I32, I64, U8
    from spark_reconcile.tables import File

_RANK = np.array([9, 0, 1, 2], dtype=np.uint8)  # of two rows for one transaction a definite outcome wins


@dataclass(slots=True)
class Transactions:
    """By (cluster, producer_id, generation): transaction ids ascending, of each its state and when it began (us)."""

    known: dict[tuple[str, int, int], tuple[I64, U8, I64]] = field(default_factory=dict)

    def add(self, cluster: str, producer: I64, generation: I32, transaction: I64, state: U8, began: I64) -> None:
        """Add n rows of transactions/ of one cluster; a transaction told twice counts once, a definite outcome wins."""
        rows = Identities(producer, generation, transaction)
        for who, which, mine in by_producer(rows):
            ids, states, begins = transaction[mine], state[mine], began[mine]
            key = (cluster, who, which)
            if key in self.known:
                ids = np.concatenate([self.known[key][0], ids])
                states = np.concatenate([self.known[key][1], states])
                begins = np.concatenate([self.known[key][2], begins])
            order = np.lexsort((_RANK[states], ids))
            ids, states, begins = ids[order], states[order], begins[order]
            first = np.ones(len(ids), dtype=np.bool_)
            first[1:] = ids[1:] != ids[:-1]
            self.known[key] = ids[first], states[first], begins[first]

    def states(self, cluster: str, producer: I64, generation: I32, transaction: I64) -> U8:
        """Return for each row PLAIN (no transaction), COMMITTED, ABORTED or OPEN (a transaction without a row, too)."""
        result = np.where(transaction == NO_TRANSACTION, PLAIN, OPEN).astype(np.uint8)
        within = np.flatnonzero(result == OPEN)
        if not len(within):
            return result
        rows = Identities(producer[within], generation[within], transaction[within])
        for who, which, mine in by_producer(rows):
            entry = self.known.get((cluster, who, which))
            if entry is None:
                continue
            ids, states, _ = entry
            wanted = rows.sequence[mine]
            at = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
            result[within[mine]] = np.where(ids[at] == wanted, states[at], OPEN)
        return result

    def began(self, cluster: str, producer: I64, generation: I32, transaction: I64) -> I64:
        """Return for each row of a transaction when that began, NEVER if it has no row."""
        result = np.full(len(transaction), NEVER, dtype=np.int64)
        for who, which, mine in by_producer(Identities(producer, generation, transaction)):
            entry = self.known.get((cluster, who, which))
            if entry is not None:
                ids, _, begins = entry
                at = np.minimum(np.searchsorted(ids, transaction[mine]), len(ids) - 1)
                result[mine] = np.where(ids[at] == transaction[mine], begins[at], NEVER)
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
    parts: dict[str, list[tuple[I64, I32, I64, U8, I64]]] = {}
    for path, table in tables:
        outcome, _ = codes(table, "outcome", OUTCOMES, path)
        number, clusters = codes(table, "cluster", None, path)
        columns = (
            numbers(table, "producer_id"),
            numbers(table, "generation"),
            numbers(table, "transaction_id"),
            STATES[outcome],
            numbers(table, "began_at"),
        )
        for code, cluster in enumerate(clusters):
            mine = number == code
            parts.setdefault(cluster, []).append(
                (columns[0][mine], columns[1][mine], columns[2][mine], columns[3][mine], columns[4][mine])
            )
    result = Transactions()
    for cluster, rows in parts.items():
        result.add(cluster, *(np.concatenate(column) for column in zip(*rows, strict=True)))
    return result
