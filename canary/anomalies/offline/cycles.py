"""Dependency cycles between operations: G0 and G1c (ANOMALIES Part I, rule 11; Adya, Liskov, O'Neil).

Completions are nodes. **ww**: one sent the value just before the other's in a key's version order. **wr**: one sent
what the other polled, whatever the outcome of either. A cycle of ww is G0, one of ww and wr with at least one wr is
G1c. There are no rw edges: a consumer that has not seen something yet is merely behind.

For each strongly connected component one shortest cycle is the witness: enough to convince, short enough to read.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np

from canary.anomalies.offline.cases import Case, Cases
from canary.anomalies.offline.components import components, core, shortest_cycle
from canary.anomalies.offline.tables import NONE, Tables
from canary.history.columns import INVOKE, Column


@dataclass(frozen=True, slots=True)
class Edges:
    """Dependencies: from row to row; ``why`` is the slot of the earlier value for ww, the read for wr."""

    tail: Column
    head: Column
    wr: Column
    why: Column

    def __getitem__(self, rows: Column) -> Self:
        """Return some of them."""
        return type(self)(self.tail[rows], self.head[rows], self.wr[rows], self.why[rows])


def write_cycles(tables: Tables) -> Cases:
    """Return the cases of G0: ops, and for each edge from, to, type, key, the values and a sentence."""
    cycles = shortest_cycles(write_dependencies(tables), len(tables.history), need_wr=False)
    return cases_of(cycles, tables.op, partial(_evidence, tables))


def circular_information_flow(tables: Tables, *, ww_deps: bool) -> Cases:
    """Return the cases of G1c; fields as for G0. Without ``ww_deps`` only wr counts."""
    edges = read_dependencies(tables, tables.history.send_op[tables.history.type[tables.history.send_op] != INVOKE])
    if ww_deps:
        edges = joined((write_dependencies(tables), edges))
    cycles = shortest_cycles(edges, len(tables.history), need_wr=True)
    return cases_of(cycles, tables.op, partial(_evidence, tables))


def write_dependencies(tables: Tables) -> Edges:
    """Return the ww edges between rows; ``why`` is the slot of the earlier value."""
    writer = tables.message_writer[tables.slot_message] if len(tables.slot_message) else np.zeros(0, np.int32)
    slot = np.flatnonzero(
        (tables.slot_key[1:] == tables.slot_key[:-1])
        & (writer[1:] != writer[:-1])
        & (writer[1:] != NONE)
        & (writer[:-1] != NONE)
    )
    return Edges(writer[slot], writer[slot + 1], np.zeros(len(slot), np.bool_), slot)


def read_dependencies(tables: Tables, senders: Column) -> Edges:
    """Return the wr edges between rows; ``why`` is the read. Those to rows that are no ``senders`` lead nowhere."""
    sends = np.zeros(len(tables.history), np.bool_)
    sends[senders] = True
    read = np.flatnonzero(sends[tables.read_op])
    writer = tables.message_writer[tables.read_message[read]]
    read = read[(writer != NONE) & (writer != tables.read_op[read])]
    writer = tables.message_writer[tables.read_message[read]]
    return Edges(writer, tables.read_op[read], np.ones(len(read), np.bool_), read)


def joined(parts: Sequence[Edges]) -> Edges:
    """Return the edges of all ``parts``."""
    return Edges(*(np.concatenate([getattr(part, name) for part in parts]) for name in ("tail", "head", "wr", "why")))


def shortest_cycles(edges: Edges, nodes: int, *, need_wr: bool) -> list[Edges]:
    """Return a shortest cycle (with a wr edge, if need be) for each component of ``edges``, the shortest first.

    Tails and heads are smaller than ``nodes``.
    """
    edges = edges[core(edges.tail, edges.head, nodes)]
    node, component = components(edges.tail, edges.head)
    of = np.full(nodes + 1, NONE)
    of[node] = component
    edges = edges[np.flatnonzero((of[edges.tail] != NONE) & (of[edges.tail] == of[edges.head]))]
    edges = edges[np.lexsort((edges.why, edges.wr, edges.head, edges.tail, of[edges.tail]))]
    group = of[edges.tail]
    starts = np.flatnonzero(np.diff(group, prepend=NONE - 1))
    ends = np.append(starts[1:], len(group))[: len(starts)]
    cycles: list[Edges] = []
    for start, end in zip(starts, ends, strict=True):
        inner = edges[np.arange(start, end)]
        through = np.flatnonzero(inner.wr) if need_wr else np.arange(end - start)
        if len(through):
            found = shortest_cycle(inner.tail.tolist(), inner.head.tolist(), through.tolist())
            cycles.append(inner[np.asarray(found)])
    cycles.sort(key=lambda cycle: (len(cycle.tail), int(cycle.tail.min())))
    return cycles


def _evidence(tables: Tables, edges: Edges, number: int) -> dict[str, Any]:
    """Return key and value of an edge, and for ww the value that follows."""
    why = edges.why[number]
    if edges.wr[number]:
        return tables.named(int(tables.read_message[why]))
    message, following = int(tables.slot_message[why]), int(tables.slot_message[why + 1])
    return {**tables.named(message), "next": tables.value(following)}


def _explained(steps: Iterable[tuple[int, int, dict[str, Any]]]) -> Case:
    """Return the case of a cycle of (index of operation, index of operation, evidence)."""
    edges = []
    for a, b, known in steps:
        step: dict[str, Any] = {"from": a, "to": b, "type": "ww" if "next" in known else "wr", **known}
        if "next" in known:
            step["why"] = f"{a} sent {step['value']!r} to {step['key']} just before {b} sent {step['next']!r}"
        else:
            step["why"] = f"{b} polled {step['value']!r} from {step['key']}, which {a} sent"
        edges.append(step)
    return {"ops": [step["from"] for step in edges], "edges": edges}


def cases_of(
    cycles: Sequence[Edges], op: Callable[[Any], int], evidence: Callable[[Edges, int], dict[str, Any]]
) -> Cases:
    """Return the cases of cycles; ``op``: a row's operation, ``evidence``: key and values of the edge with a number."""

    def case(number: int) -> Case:
        cycle = cycles[number]
        steps = zip(map(op, cycle.tail), map(op, cycle.head), strict=True)
        return _explained((a, b, evidence(cycle, n)) for n, (a, b) in enumerate(steps))

    return Cases(len(cycles), case)
