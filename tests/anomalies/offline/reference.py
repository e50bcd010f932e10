"""The rules of ANOMALIES Part I once more, as plainly as they can be written: dicts, loops, no speed.

Written from the document and not from canary.anomalies.offline, to be compared with it.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any

Op = dict[str, Any]
Cases = dict[str, list[dict[str, Any]]]

DATA = ("send", "poll", "txn")


def completions(history: list[Op]) -> list[Op]:
    return [op for op in history if type(op["process"]) is int and op["type"] != "invoke"]


def writes(op: Op) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    if op["f"] in DATA:
        for micro in op["value"]:
            if micro[0] == "send":
                value = micro[2][1] if isinstance(micro[2], list) else micro[2]
                found.setdefault(str(micro[1]), []).append(value)
    return found


def reads(op: Op) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    if op["f"] in DATA:
        for micro in op["value"]:
            if micro[0] == "poll" and len(micro) > 1:
                for key, pairs in micro[1].items():
                    found.setdefault(str(key), []).extend(value for _, value in pairs)
    return found


def greatest(values: set[Any]) -> Any:
    return max(values, key=lambda v: (isinstance(v, str), v))


class Reference:
    def __init__(self, history: list[Op], *, ww_deps: bool = True) -> None:
        self.ops = completions(history)
        self.ww_deps = ww_deps
        self.ok_reads: defaultdict[str, set[Any]] = defaultdict(set)
        self.failed: defaultdict[str, set[Any]] = defaultdict(set)
        self.writer: dict[tuple[str, Any], Op] = {}
        self.failed_writer: dict[tuple[str, Any], Op] = {}
        self.readers: defaultdict[tuple[str, Any], list[Op]] = defaultdict(list)
        for op in self.ops:
            for key, values in reads(op).items():
                for value in values:
                    self.readers[key, value].append(op)
                    if op["type"] == "ok":
                        self.ok_reads[key].add(value)
            for key, values in writes(op).items():
                for value in values:
                    self.writer[key, value] = op
                    if op["type"] == "fail":
                        self.failed[key].add(value)
                        self.failed_writer[key, value] = op
        self.invoked = {
            (key, value)
            for op in history
            if type(op["process"]) is int
            for key, vs in writes(op).items()
            for value in vs
        }
        self.log: defaultdict[str, dict[int, set[Any]]] = defaultdict(dict)
        for op in self.ops:
            if op["f"] in DATA:
                self._place(op)
        self.order = {key: [greatest(log[offset]) for offset in sorted(log)] for key, log in self.log.items()}
        self.idx = {(key, value): i for key, order in self.order.items() for i, value in enumerate(order)}

    def _place(self, op: Op) -> None:
        for micro in op["value"]:
            if micro[0] == "poll" and len(micro) > 1:
                for key, pairs in micro[1].items():
                    for offset, value in pairs:
                        if offset is not None:
                            self.log[str(key)].setdefault(offset, set()).add(value)
            elif micro[0] == "send" and self.committed(op) and isinstance(micro[2], list) and micro[2][0] is not None:
                self.log[str(micro[1])].setdefault(micro[2][0], set()).add(micro[2][1])

    def committed(self, op: Op) -> bool:
        if op["type"] == "info":
            return any(v in self.ok_reads[k] for k, vs in writes(op).items() for v in vs)
        return bool(op["type"] == "ok")

    def delta(self, key: str, u: Any, v: Any) -> int:
        if (key, u) not in self.idx or (key, v) not in self.idx:
            return 1
        return self.idx[key, v] - self.idx[key, u]

    def check(self) -> Cases:
        found: Cases = {
            "inconsistent-offsets": self.inconsistent_offsets(),
            "duplicate": self.duplicates(),
            "G1a": self.g1a(),
            "precommitted-read": self.precommitted(),
            "lost-write": self.lost_writes(),
            "unseen": self.unseen(),
            "phantom": self.phantoms(),
        }
        found["int-poll-skip"], found["int-nonmonotonic-poll"] = self.internal(polls=True)
        found["int-send-skip"], found["int-nonmonotonic-send"] = self.internal(polls=False)
        found["poll-skip"], found["nonmonotonic-poll"] = self.external_polls()
        found["nonmonotonic-send"] = self.external_sends()
        return {name: cases for name, cases in found.items() if cases}

    def inconsistent_offsets(self) -> list[dict[str, Any]]:
        return [
            {"key": key, "offset": offset, "index": index, "values": log[offset]}
            for key, log in self.log.items()
            for index, offset in enumerate(sorted(log))
            if len(log[offset]) > 1
        ]

    def places(self, key: str) -> dict[Any, list[int]]:
        """Offsets of each value."""
        places: dict[Any, list[int]] = {}
        for offset in sorted(self.log[key]):
            for value in self.log[key][offset]:
                places.setdefault(value, []).append(offset)
        return places

    def duplicates(self) -> list[dict[str, Any]]:
        return [
            {"key": key, "value": value, "count": len(offsets), "offsets": offsets}
            for key in list(self.log)
            for value, offsets in self.places(key).items()
            if len(offsets) > 1
        ]

    def g1a(self) -> list[dict[str, Any]]:
        return [
            {"key": key, "value": v, "writer": self.failed_writer[key, v]["index"], "reader": op["index"]}
            for op in self.ops
            if op["type"] == "ok"
            for key, values in reads(op).items()
            for v in values
            if v in self.failed[key]
        ]

    def precommitted(self) -> list[dict[str, Any]]:
        return [
            {"op": op["index"]}
            for op in self.ops
            if any(set(values) & set(reads(op).get(key, [])) for key, values in writes(op).items())
        ]

    def lost_writes(self) -> list[dict[str, Any]]:
        lost = []
        for key in list(self.ok_reads):
            index = {offset: i for i, offset in enumerate(sorted(self.log[key]))}
            first = {v: index[offsets[0]] for v, offsets in self.places(key).items()}
            last = {v: index[offsets[-1]] for v, offsets in self.places(key).items()}
            bounds = [first[v] for v in self.ok_reads[key] if v in first]
            if not bounds:
                continue
            bound = max(bounds)
            readers = [op["index"] for v in last if last[v] == bound for op in self.readers[key, v]]
            for v, place in last.items():
                if place > bound or v in self.ok_reads[key]:
                    continue
                writer = self.writer.get((key, v))
                if writer is not None and self.committed(writer):
                    lost.append(
                        {
                            "key": key,
                            "value": v,
                            "index": first[v],
                            "max_read_index": bound,
                            "writer": writer["index"],
                            "max_read": min(readers, default=None),
                        }
                    )
        return lost

    def unseen(self) -> list[dict[str, Any]]:
        sent: defaultdict[str, set[Any]] = defaultdict(set)
        time = None
        for op in self.ops:
            if op["type"] == "ok" and op["f"] in DATA:
                time = op["time"]
                for key, values in writes(op).items():
                    sent[key] |= set(values)
        left = {key: values - self.ok_reads[key] for key, values in sent.items()}
        messages = {key: values for key, values in left.items() if values}
        return [{"time": time, "unseen": {k: len(v) for k, v in messages.items()}, "messages": messages}] * bool(
            messages
        )

    def phantoms(self) -> list[dict[str, Any]]:
        return [
            {"key": key, "value": value, "reader": ops[0]["index"]}
            for (key, value), ops in self.readers.items()
            if (key, value) not in self.invoked
        ]

    def pair(self, key: str, u: Any, v: Any, place: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
        delta = self.delta(key, u, v)
        if delta == 1:
            return None
        case = {"key": key, "values": [u, v], "delta": delta, **place}
        if delta > 1:
            case["skipped"] = self.order[key][self.idx[key, u] + 1 : self.idx[key, v]]
            return "skip", case
        return "back", case

    def internal(self, *, polls: bool) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = {"skip": [], "back": []}
        for op in self.ops:
            excused = {str(key) for entry in op.get("rebalance_log") or [] for key in entry["keys"]} if polls else set()
            for key, values in (reads(op) if polls else writes(op)).items():
                if key in excused:
                    continue
                for u, v in itertools.pairwise(values):
                    if wrong := self.pair(key, u, v, {"op": op["index"]}):
                        found[wrong[0]].append(wrong[1])
        return found["skip"], found["back"]

    def external_polls(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        found: dict[str, list[dict[str, Any]]] = {"skip": [], "back": []}
        last: defaultdict[int, dict[str, tuple[Op, list[Any]]]] = defaultdict(dict)
        for op in self.ops:
            mine = last[op["process"]]
            if op["f"] in ("assign", "subscribe"):
                if op["type"] in ("ok", "info"):
                    kept = set(map(str, op["value"]))
                    last[op["process"]] = {key: entry for key, entry in mine.items() if key in kept}
                continue
            for key, values in reads(op).items():
                if key in mine and mine[key][1] and values:
                    before, earlier = mine[key]
                    ops = [before["index"], op["index"]]
                    if wrong := self.pair(key, earlier[-1], values[0], {"ops": ops}):
                        found[wrong[0]].append(wrong[1])
            if op["type"] == "ok":
                mine.update({key: (op, values) for key, values in reads(op).items()})
        return found["skip"], found["back"]

    def external_sends(self) -> list[dict[str, Any]]:
        found = []
        last: defaultdict[int, dict[str, tuple[Op, list[Any]]]] = defaultdict(dict)
        for op in self.ops:
            if op["type"] == "fail":
                continue
            mine = last[op["process"]]
            if op["f"] in ("assign", "subscribe"):
                kept = set(map(str, op["value"]))
                last[op["process"]] = {key: entry for key, entry in mine.items() if key in kept}
                continue
            for key, values in writes(op).items():
                if key in mine:
                    before, earlier = mine[key]
                    wrong = self.pair(key, earlier[-1], values[0], {"ops": [before["index"], op["index"]]})
                    if wrong and wrong[0] == "back":
                        found.append(wrong[1])
            mine.update({key: (op, values) for key, values in writes(op).items()})
        return found

    def edges(self) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
        """Return (ww, wr) edges between indexes of operations."""
        ww = {
            (self.writer[key, u]["index"], self.writer[key, v]["index"])
            for key, order in self.order.items()
            for u, v in itertools.pairwise(order)
            if (key, u) in self.writer and (key, v) in self.writer
        }
        wr = {
            (self.writer[message]["index"], op["index"])
            for message, ops in self.readers.items()
            if message in self.writer
            for op in ops
        }
        return {e for e in ww if e[0] != e[1]} if self.ww_deps else set(), {e for e in wr if e[0] != e[1]}

    def cycles(self) -> dict[str, set[tuple[frozenset[int], int]]]:
        """Return for G0 and G1c each component's operations and the length of its shortest cycle."""
        ww, wr = self.edges()
        return {"G0": _shortest(ww, ww) if self.ww_deps else set(), "G1c": _shortest(ww | wr, wr)}


def _shortest(edges: set[tuple[int, int]], through: set[tuple[int, int]]) -> set[tuple[frozenset[int], int]]:
    nodes = {node for edge in edges for node in edge}
    steps = {node: {b for a, b in edges if a == node} for node in nodes}
    distance: dict[int, dict[int, int]] = {}
    for node in nodes:
        reached, frontier, far = {node: 0}, {node}, 0
        while frontier:
            far += 1
            frontier = {b for a in frontier for b in steps[a]} - set(reached)
            reached.update(dict.fromkeys(frontier, far))
        distance[node] = reached
    found: dict[frozenset[int], int] = {}
    for a, b in through:
        if a in distance[b]:
            component = frozenset(n for n in nodes if n in distance[a] and a in distance[n])
            found[component] = min(found.get(component, len(nodes) + 1), distance[b][a] + 1)
    return set(found.items())
