"""In which order transactions wrote, and where that order may go round in a circle: G0 (ANOMALIES Part I, rule 11).

Two transactions depend on each other where one's write stands just before the other's among the transactional writes
that a partition of the read_committed dump holds. Nearly all such edges lead from an earlier transaction to a later
one, by began_at; a circle has to come back, so all of it lies within a stretch of time that edges leading back cover.
A range therefore tells no more than its ends and those stretches (`of`), and once all are known, the few edges within
them (`edges`): whatever is on no circle is peeled away where it lies. There are no wr edges: neither table tells what
a transaction read, so G1c is for recorded histories (``canary check``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from canary.anomalies.offline.cycles import Edges, shortest_cycles
from spark_reconcile.columns import COMMITTED, NEVER, OPEN, Columns, union

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from spark_reconcile.bounding import Place
    from spark_reconcile.columns import I32, I64, Bool, Probes

MOST_EDGES: Final = 500_000
"""Edges that the driver looks for circles among."""


@dataclass(frozen=True, slots=True)
class Writes(Columns):
    """Writes of transactions by offset, the first of each transaction in a row. ``began``: us since the epoch."""

    producer: I64
    generation: I32
    transaction: I64
    began: I64
    sequence: I64
    offset: I64

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.offset)

    def changes(self) -> Bool:
        """Return for each but the first whether it is another transaction's than the one before."""
        result: Bool = (
            (self.transaction[1:] != self.transaction[:-1])
            | (self.producer[1:] != self.producer[:-1])
            | (self.generation[1:] != self.generation[:-1])
        )
        return result

    @classmethod
    def none(cls) -> Writes:
        """Return no writes."""
        empty = np.empty(0, np.int64)
        return cls(empty, np.empty(0, np.int32), empty, empty, empty, empty)


@dataclass(frozen=True, slots=True)
class Order:
    """What a range says of the order: its first and last write (or none), and the stretches edges back cover.

    ``edges``: how many it has, at most.
    """

    ends: Writes
    since: I64
    until: I64
    edges: int = 0

    @classmethod
    def none(cls) -> Order:
        """Return the order of a range without transactions."""
        return cls(Writes.none(), np.empty(0, np.int64), np.empty(0, np.int64))


class Step(NamedTuple):
    """An edge of a circle: the later transaction's write, which stands right behind one of the earlier one's."""

    place: Place
    producer_id: int
    generation: int
    transaction_id: int
    sequence: int
    offset: int


def writes(placed: Probes, found: Bool) -> Writes:
    """Return the writes of committed or open transactions that were ``found`` where they were acked, in order.

    When their transactions began is left open (NEVER); see `dated`.
    """
    use = found & ((placed.transaction_state == COMMITTED) | (placed.transaction_state == OPEN)) & ~placed.other
    if not use.any():
        return Writes.none()
    rows = placed.take(use)
    never = np.full(len(rows), NEVER)
    all_ = Writes(rows.producer, rows.generation, rows.transaction, never, rows.sequence, rows.offset)
    fresh = np.ones(len(all_), dtype=np.bool_)
    fresh[1:] = all_.changes()
    return all_.take(fresh)


def dated(some: Writes, began: I64) -> Writes:
    """Return writes with when their transactions began, without those of which nobody knows (NEVER)."""
    return replace(some, began=began).take(began != NEVER)


def of(some: Writes) -> Order:
    """Return what a range's writes say of the order."""
    if not len(some):
        return Order.none()
    since, until = _back(some)
    return Order(some.take(np.array([0, -1])), *union(since, until), edges=len(some) - 1)


def stretches(partitions: Iterable[Sequence[Order]]) -> tuple[I64, I64]:
    """Return the stretches of time (first, last) in which circles may lie.

    Args:
        partitions: for each the orders of its ranges, ascending.
    """
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
    ends = Writes.concat([Writes.none(), *(order.ends for order in orders)])  # two of each range that has any
    tail, head = ends.take(slice(1, -1, 2)), ends.take(slice(2, None, 2))
    differ = Writes.concat([tail, head]).take(np.arange(2 * len(tail)).reshape(2, -1).T.ravel()).changes()[::2]
    return tail.take(differ), head.take(differ)


def edges(some: Writes, within: tuple[I64, I64]) -> tuple[Writes, Writes]:
    """Return the edges (from, to) of which both ends lie in the same one of some stretches, each pair once."""
    if len(some) < 2 or not len(within[0]):
        return Writes.none(), Writes.none()
    inside = _stretch(some.began, within)
    near = np.flatnonzero((inside[1:] == inside[:-1]) & (inside[1:] >= 0))
    tail, head = some.take(near), some.take(near + 1)
    key = np.stack([tail.producer, tail.generation, tail.transaction, head.producer, head.generation, head.transaction])
    once = np.sort(np.unique(key, axis=1, return_index=True)[1])
    return tail.take(once), head.take(once)


def cycles(found: Mapping[Place, tuple[Writes, Writes]]) -> list[list[Step]]:
    """Return a smallest circle of each strongly connected component, by the edges of every partition of a cluster."""
    places = sorted(found)
    tail = Writes.concat([Writes.none(), *(found[place][0] for place in places)])
    head = Writes.concat([Writes.none(), *(found[place][1] for place in places)])
    of_place = np.repeat(np.arange(len(places)), [len(found[place][0]) for place in places])
    both = Writes.concat([tail, head])
    order = np.lexsort((both.transaction, both.generation, both.producer, both.began))
    ranked = both.take(order)
    number = np.empty(len(both), dtype=np.int64)
    number[order] = np.cumsum(np.concatenate([[0], ranked.changes()])) if len(both) else 0
    rows = np.arange(len(tail))
    graph = Edges(number[: len(tail)], number[len(tail) :], np.zeros(len(tail), np.bool_), rows)
    return [
        [
            Step(
                places[of_place[row]],
                int(head.producer[row]),
                int(head.generation[row]),
                int(head.transaction[row]),
                int(head.sequence[row]),
                int(head.offset[row]),
            )
            for row in cycle.why.tolist()
        ]
        for cycle in shortest_cycles(graph, len(both), need_wr=False)
    ]


def _back(some: Writes) -> tuple[I64, I64]:
    """Return the stretches of time that edges leading back cover."""
    back = _leads_back(some.take(slice(None, -1)), some.take(slice(1, None)))
    return some.began[1:][back], some.began[:-1][back]


def _leads_back(tail: Writes, head: Writes) -> Bool:
    """Return which edges do not lead to a transaction that began later, or, at the same time, has a higher number."""
    result = head.began < tail.began
    even = np.flatnonzero(head.began == tail.began)
    if len(even):
        order = [
            (getattr(head, name)[even], getattr(tail, name)[even]) for name in ("producer", "generation", "transaction")
        ]
        lower, same = np.zeros(len(even), dtype=np.bool_), np.ones(len(even), dtype=np.bool_)
        for after, before in order:
            lower |= same & (after < before)
            same &= after == before
        result[even] = lower
    return result


def _stretch(began: I64, within: tuple[I64, I64]) -> I64:
    """Return for each time the number of the stretch it lies in, -1 = none."""
    at = np.searchsorted(within[0], began, side="right") - 1
    inside = (at >= 0) & (began <= within[1][np.maximum(at, 0)])
    return np.where(inside, at, -1)
