"""Numbers that are no errors, against what they are defined to be."""

from __future__ import annotations

import io
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import orjson

from canary.anomalies.offline import check, metrics
from canary.history.reading import load
from simulation.histories.simulator import simulate
from simulation.histories.wild import seeded, wild_history
from tests.anomalies.offline.reference import Reference, completions, reads, writes
from tests.support.seeds import cases

if TYPE_CHECKING:
    from canary.anomalies.offline.tables import Tables

    History = list[dict[str, Any]]


def tables_of(history: list[dict[str, Any]]) -> Tables:
    return check(load(io.BytesIO(b"".join(orjson.dumps(op) + b"\n" for op in history)), "h")).tables


def op(index: int, time: int, process: int, kind: str, f: str, value: Any) -> dict[str, Any]:
    return {"index": index, "time": time, "process": process, "type": kind, "f": f, "value": value}


def offsets_of(op: dict[str, Any]) -> dict[str, int]:
    """Return the highest offset sent or polled by key."""
    found: dict[str, int] = {}
    if op["f"] not in ("send", "poll", "txn") or op["type"] not in ("ok", "info"):
        return found
    for micro in op["value"]:
        pairs: list[tuple[str, Any]] = []
        if micro[0] == "send" and isinstance(micro[2], list):
            pairs = [(str(micro[1]), micro[2][0])]
        elif micro[0] == "poll" and len(micro) > 1:
            pairs = [(str(key), offset) for key, some in micro[1].items() for offset, _ in some]
        for key, offset in pairs:
            if offset is not None:
                found[key] = max(offset, found.get(key, -1))
    return found


def lag_by_definition(history: list[dict[str, Any]]) -> list[tuple[int, int, str, int]]:  # noqa: C901  # as plain as the definition
    ops = completions(history)
    invoked: dict[int, int] = {}
    began: dict[int, int] = {}
    for entry in history:
        if entry["type"] == "invoke":
            invoked[entry["process"]] = entry["time"]
        elif entry["process"] in invoked:
            began[entry["index"]] = invoked[entry["process"]]
    positions: defaultdict[int, dict[str, int]] = defaultdict(dict)
    points = []
    for entry in ops:
        mine = positions[entry["process"]]
        if entry["type"] != "ok":
            continue
        if entry["f"] == "assign":
            positions[entry["process"]] = {str(key): mine.get(str(key), -1) for key in entry["value"]}
        elif entry["f"] == "subscribe":
            positions[entry["process"]] = {}
        elif entry["f"] in ("poll", "txn"):
            for key, offset in offsets_of(entry).items():
                mine[key] = max(offset, mine.get(key, -1))
            for key, position in mine.items():
                expired = [o["time"] for o in ops if offsets_of(o).get(key, -1) > position]
                time = began[entry["index"]]
                points.append((time, entry["process"], key, max(0, time - expired[0]) if expired else 0))
    return points


def test_numbers_are_what_they_are_defined_to_be_on_arbitrary_histories() -> None:
    for seed in cases("numbers of arbitrary histories", 150):
        history = wild_history(seeded(seed))
        tables = tables_of(history)
        the_lag_is_how_long_the_position_was_outdated_at_least(history, tables)
        unseen_over_time_is_what_was_acknowledged_and_not_polled_by_then(history, tables)
        consumption_counts_what_subscribed_processes_polled(history, tables)
        assert metrics.version_orders(tables) == {k: v for k, v in Reference(history).order.items() if v}


def test_consumption_counts_what_a_group_in_a_simulated_life_polled() -> None:
    for seed in cases("consumption in simulated lives", 10):
        history = simulate(seed).history()
        consumption_counts_what_subscribed_processes_polled(history, tables_of(history))


def the_lag_is_how_long_the_position_was_outdated_at_least(history: History, tables: Tables) -> None:
    points = metrics.realtime_lag(tables.history)
    assert sorted((p["time"], p["process"], p["key"], p["lag"]) for p in points) == sorted(lag_by_definition(history))
    assert metrics.worst_realtime_lag(points)["lag"] == max((p["lag"] for p in points), default=0)


def test_the_example_of_jepsen() -> None:
    history = [
        op(0, 0, 0, "invoke", "send", [["send", "x", "a"]]),
        op(1, 1, 0, "ok", "send", [["send", "x", [0, "a"]]]),
        op(2, 2, 1, "invoke", "poll", [["poll"]]),
        op(3, 2, 1, "ok", "poll", [["poll", {"x": [[0, "a"]]}]]),
        op(4, 3, 0, "invoke", "send", [["send", "x", "b"]]),
        op(5, 3, 0, "ok", "send", [["send", "x", [1, "b"]]]),
        op(6, 4, 1, "invoke", "poll", [["poll"]]),
        op(7, 5, 1, "ok", "poll", [["poll", {"x": []}]]),
    ]
    assert [p["lag"] for p in metrics.realtime_lag(tables_of(history).history)] == [0, 1]


def unseen_over_time_is_what_was_acknowledged_and_not_polled_by_then(history: History, tables: Tables) -> None:
    sent: defaultdict[str, set[Any]] = defaultdict(set)
    polled: defaultdict[str, set[Any]] = defaultdict(set)
    expected = []
    for entry in completions(history):
        if entry["type"] == "ok" and entry["f"] in ("send", "poll", "txn"):
            for key, values in writes(entry).items():
                sent[key] |= set(values)
            for key, values in reads(entry).items():
                polled[key] |= set(values)
            expected.append({"time": entry["time"], "unseen": {k: len(v - polled[k]) for k, v in sent.items()}})
    assert list(metrics.unseen_series(tables)) == expected


def consumption_counts_what_subscribed_processes_polled(history: History, tables: Tables) -> None:
    subscribed: set[int] = set()
    counts: Counter[tuple[int, str, Any]] = Counter()
    for entry in completions(history):
        if entry["type"] == "ok" and entry["f"] == "subscribe":
            subscribed.add(entry["process"])
        elif entry["type"] == "ok" and entry["process"] in subscribed:
            counts.update((entry["process"], key, v) for key, values in reads(entry).items() for v in values)
    found = metrics.consume_counts(tables)
    assert found["distribution"] == {str(times): n for times, n in Counter(counts.values()).items()}
    twice = {(key, str(value)) for (_, key, value), count in counts.items() if count > 1}
    assert {(key, value) for key, values in found["dup_counts"].items() for value in values} == twice
