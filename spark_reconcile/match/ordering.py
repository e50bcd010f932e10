"""In which order transactions wrote, and where that order may be a cycle: G0 (ANOMALIES Part I, rule 11).

Example: partition 0 holds a write of T1, then one of T2; partition 1 holds T2, then T1. Each wrote before the other.

An edge leads from one transaction to the other whose write comes next among the transactional writes that a partition
of the read_committed dump holds. Nearly all edges lead from an earlier transaction to a later one, by began_at; a cycle
has to come back, so all of it lies within a stretch of time that edges leading back cover. A range therefore reports no
more than its ends and those stretches (`order_of`), and once all are known, the few edges within them (`edges`). There
are no wr edges, because neither table says what a transaction read: G1c is for recorded histories (``canary check``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from canary.anomalies.offline.cycles import Edges, shortest_cycles
from spark_reconcile.tables.bounds import Place
from spark_reconcile.tables.columns import COMMITTED, I32, I64, NEVER, OPEN, Bool, Columns, Probes, changes, union

MOST_EDGES: Final = 500_000
"""Edges among which the driver looks for cycles."""


@dataclass(frozen=True, slots=True)
class Writes(Columns):
    """Writes of transactions by offset, the first of each transaction in a row. ``began``: us since the epoch."""

    producer: I64
    generation: I32
    transaction: I64
    began: I64
    sequence: I64
    offset: I64

    def changes(self) -> Bool:
        """Return for each write but the first whether its transaction is another than that of the one before."""
        return changes(self.transaction, self.producer, self.generation)


@dataclass(frozen=True, slots=True)
class Order:
    """The order in a range: its first and last write (if any), and the stretches that edges leading back cover.

    ``edges``: how many it has, at most.
    """

    ends: Writes
    since: I64
    until: I64
    edges: int = 0


class Step(NamedTuple):
    """An edge of a cycle: the later transaction's write, which comes next after one of the earlier one's."""

    place: Place
    producer_id: int
    generation: int
    transaction_id: int
    sequence: int
    offset: int


def writes(placed: Probes, found: Bool) -> Writes:
    """Return the writes of committed or open transactions that were ``found`` where they were acked, in order.

    They have no time yet (NEVER).
    """
    use = found & ((placed.transaction_state == COMMITTED) | (placed.transaction_state == OPEN)) & ~placed.other
    if not use.any():
        return Writes.zeros()
    rows = placed.take(use)
    never = np.full(len(rows), NEVER)
    every = Writes(rows.producer, rows.generation, rows.transaction, never, rows.sequence, rows.offset)
    return every.take(np.concatenate([[True], every.changes()]))


def order_of(some: Writes) -> Order:
    """Return the order of a range's writes."""
    if not len(some):
        return Order(some, np.empty(0, np.int64), np.empty(0, np.int64))
    back = _leads_back(some.take(slice(None, -1)), some.take(slice(1, None)))
    since, until = union(some.began[1:][back], some.began[:-1][back])
    return Order(some.take(np.array([0, -1])), since, until, edges=len(some) - 1)


def stretches(partitions: Iterable[Sequence[Order]]) -> tuple[I64, I64]:
    """Return the stretches of time (first, last) in which cycles may lie, from each partition's ranges, ascending."""
    since, until = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for orders in partitions:
        tail, head = _seams(orders)
        back = _leads_back(tail, head)
        since += [head.began[back], *(order.since for order in orders)]
        until += [tail.began[back], *(order.until for order in orders)]
    return union(np.concatenate(since), np.concatenate(until))


def seams(orders: Sequence[Order], within: tuple[I64, I64]) -> tuple[Writes, Writes]:
    """Return the edges within some stretches where a partition's ranges, ascending, meet."""
    tail, head = _seams(orders)
    inside = _stretch(tail.began, within)
    near = (inside == _stretch(head.began, within)) & (inside >= 0)
    return tail.take(near), head.take(near)


def _seams(orders: Sequence[Order]) -> tuple[Writes, Writes]:
    ends = Writes.concat([order.ends for order in orders])  # two of each range that has any
    tail, head = ends.take(slice(1, -1, 2)), ends.take(slice(2, None, 2))
    differ = Writes.concat([tail, head]).take(np.arange(2 * len(tail)).reshape(2, -1).T.ravel()).changes()[::2]
    return tail.take(differ), head.take(differ)


def edges(some: Writes, within: tuple[I64, I64]) -> tuple[Writes, Writes]:
    """Return the edges (from, to) of which both ends lie in the same one of some stretches, each pair once."""
    if len(some) < 2 or not len(within[0]):
        return Writes.zeros(), Writes.zeros()
    inside = _stretch(some.began, within)
    near = np.flatnonzero((inside[1:] == inside[:-1]) & (inside[1:] >= 0))
    tail, head = some.take(near), some.take(near + 1)
    key = np.stack([tail.producer, tail.generation, tail.transaction, head.producer, head.generation, head.transaction])
    once = np.sort(np.unique(key, axis=1, return_index=True)[1])
    return tail.take(once), head.take(once)


def cycles(found: Mapping[Place, tuple[Writes, Writes]]) -> list[list[Step]]:
    """Return a smallest cycle of each strongly connected component, by the edges of every partition of a cluster."""
    places = sorted(found)
    tail = Writes.concat([found[place][0] for place in places])
    head = Writes.concat([found[place][1] for place in places])
    of_place = np.repeat(np.arange(len(places)), [len(found[place][0]) for place in places])
    both = Writes.concat([tail, head])
    order = np.lexsort((both.transaction, both.generation, both.producer, both.began))
    ranked = both.take(order)
    number = np.empty(len(both), dtype=np.int64)
    number[order] = np.cumsum(np.concatenate([[0], ranked.changes()])) if len(both) else 0
    rows = np.arange(len(tail))
    graph = Edges(number[: len(tail)], number[len(tail) :], np.zeros(len(tail), np.bool_), rows)
    columns = (head.producer, head.generation, head.transaction, head.sequence, head.offset)
    return [
        [Step(places[of_place[row]], *(int(column[row]) for column in columns)) for row in cycle.why.tolist()]
        for cycle in shortest_cycles(graph, len(both), need_wr=False)
    ]


def _leads_back(tail: Writes, head: Writes) -> Bool:
    """Return which edges lead to a transaction that began earlier, or at the same time and has a lower number."""
    lower, same = np.zeros(len(tail), dtype=np.bool_), np.ones(len(tail), dtype=np.bool_)
    for name in ("began", "producer", "generation", "transaction"):
        after, before = getattr(head, name), getattr(tail, name)
        lower |= same & (after < before)
        same &= after == before
    return lower


def _stretch(began: I64, within: tuple[I64, I64]) -> I64:
    """Return for each time the number of the stretch it lies in, -1 = none."""
    at = np.searchsorted(within[0], began, side="right") - 1
    inside = (at >= 0) & (began <= within[1][np.maximum(at, 0)])
    return np.where(inside, at, -1)
