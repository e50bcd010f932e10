"""Dependency cycles between operations: G0 and G1c (ANOMALIES Part I, rule 11; Adya, Liskov, O'Neil).

Completions are nodes. **ww**: one sent the value just before the other's in a key's version order. **wr**: one sent
what the other polled, whatever the outcome of either. A cycle of ww is G0, one of ww and wr with at least one wr is
G1c. There are no rw edges: a consumer that has not seen something yet is merely behind.

For each strongly connected component one shortest cycle is the witness: enough to convince, short enough to read.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from canary.anomalies.offline.cases import Case, Cases
from canary.anomalies.offline.components import components, core, shortest_cycle
from canary.anomalies.offline.tables import NONE

if TYPE_CHECKING:
    from canary.anomalies.offline.tables import Tables

Column = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Edges:
    """Dependencies: from row to row; ``why`` is the slot of the earlier value for ww, the read for wr."""

    tail: Column
    head: Column
    wr: Column
    why: Column

    def __getitem__(self, rows: Column) -> Edges:
        """Return some of them."""
        return Edges(self.tail[rows], self.head[rows], self.wr[rows], self.why[rows])


def write_cycles(tables: Tables) -> Cases:
    """Return the cases of G0: ops, and for each edge from, to, type, key, the values and a sentence."""
    edges = _ww(tables)
    return _witnesses(tables, edges[core(edges.tail, edges.head, len(tables.history))], need_wr=False)


def circular_information_flow(tables: Tables, *, ww_deps: bool) -> Cases:
    """Return the cases of G1c; fields as for G0. Without ``ww_deps`` only wr counts."""
    wr = _wr(tables)
    parts = (_ww(tables), wr) if ww_deps else (wr,)
    edges = Edges(*(np.concatenate([getattr(p, name) for p in parts]) for name in ("tail", "head", "wr", "why")))
    return _witnesses(tables, edges[core(edges.tail, edges.head, len(tables.history))], need_wr=True)


def _ww(tables: Tables) -> Edges:
    writer = tables.message_writer[tables.slot_message] if len(tables.slot_message) else np.zeros(0, np.int32)
    slot = np.flatnonzero(
        (tables.slot_key[1:] == tables.slot_key[:-1])
        & (writer[1:] != writer[:-1])
        & (writer[1:] != NONE)
        & (writer[:-1] != NONE)
    )
    return Edges(writer[slot], writer[slot + 1], np.zeros(len(slot), np.bool_), slot)


def _wr(tables: Tables) -> Edges:
    sends = np.zeros(len(tables.history) + 1, np.bool_)
    sends[tables.message_writer] = True  # who sends nothing leads nowhere
    sends[NONE] = False
    read = np.flatnonzero(sends[tables.read_op])
    writer = tables.message_writer[tables.read_message[read]]
    read = read[(writer != NONE) & (writer != tables.read_op[read])]
    writer = tables.message_writer[tables.read_message[read]]
    return Edges(writer, tables.read_op[read], np.ones(len(read), np.bool_), read)


def _witnesses(tables: Tables, edges: Edges, *, need_wr: bool) -> Cases:
    """Return a shortest cycle for each component of ``edges`` (with a wr edge, if need be)."""
    node, component = components(edges.tail, edges.head)
    of = np.full(len(tables.history) + 1, NONE)
    of[node] = component
    edges = edges[np.flatnonzero((of[edges.tail] != NONE) & (of[edges.tail] == of[edges.head]))]
    order = np.lexsort((edges.why, edges.wr, edges.head, edges.tail, of[edges.tail]))
    edges = edges[order]
    group = of[edges.tail]
    starts = np.flatnonzero(np.diff(group, prepend=NONE - 1))
    cycles: list[Edges] = []
    ends = np.append(starts[1:], len(group))[: len(starts)]
    for start, end in zip(starts, ends, strict=True):
        inner = edges[np.arange(start, end)]
        through = np.flatnonzero(inner.wr) if need_wr else np.arange(end - start)
        if len(through):
            found = shortest_cycle(inner.tail.tolist(), inner.head.tolist(), through.tolist())
            cycles.append(inner[np.asarray(found)])
    cycles.sort(key=lambda cycle: (len(cycle.tail), int(cycle.tail.min())))
    return Cases(len(cycles), lambda number: _explain(tables, cycles[number]))


def _explain(tables: Tables, cycle: Edges) -> Case:
    steps = []
    for tail, head, wr, why in zip(cycle.tail, cycle.head, cycle.wr, cycle.why, strict=True):
        a, b = tables.op(tail), tables.op(head)
        step: dict[str, Any] = {"from": a, "to": b, "type": "wr" if wr else "ww"}
        if wr:
            message = int(tables.read_message[why])
            step |= {"key": tables.key(message), "value": tables.value(message)}
            step["why"] = f"{b} polled {step['value']!r} from {step['key']}, which {a} sent"
        else:
            message, following = int(tables.slot_message[why]), int(tables.slot_message[why + 1])
            step |= {"key": tables.key(message), "value": tables.value(message), "next": tables.value(following)}
            step["why"] = f"{a} sent {step['value']!r} to {step['key']} just before {b} sent {step['next']!r}"
        steps.append(step)
    return {"ops": [step["from"] for step in steps], "edges": steps}
