"""Histories by hand: late acknowledgements, values that were sent twice, several values of one transaction."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import orjson

from canary.anomalies.offline import check, metrics
from canary.history.reading import load

if TYPE_CHECKING:
    from canary.anomalies.offline import Verdict


def verdict_on(*steps: tuple[int, str, str, Any]) -> Verdict:
    """Return the verdict on operations of (process, type, f, value), numbered and timed in their order."""
    history = [
        {"index": i, "time": i, "process": process, "type": kind, "f": f, "value": value}
        for i, (process, kind, f, value) in enumerate(steps)
    ]
    return check(load(io.BytesIO(b"".join(orjson.dumps(op) + b"\n" for op in history)), "history"))


def test_what_was_polled_before_its_acknowledgement_never_was_unseen() -> None:
    verdict = verdict_on(
        (0, "invoke", "send", [["send", "x", 1]]),
        (1, "invoke", "poll", [["poll"]]),
        (1, "ok", "poll", [["poll", {"x": [[0, 1]]}]]),
        (0, "ok", "send", [["send", "x", [0, 1]]]),
    )
    assert [point["unseen"].get("x", 0) for point in metrics.unseen_series(verdict.tables)] == [0, 0]


def test_who_polls_what_it_sent_itself_is_found_though_another_sent_the_same() -> None:
    verdict = verdict_on(
        (0, "invoke", "txn", [["send", "x", 1], ["poll"]]),
        (0, "ok", "txn", [["send", "x", [0, 1]], ["poll", {"x": [[0, 1]]}]]),
        (1, "invoke", "send", [["send", "x", 1]]),
        (1, "ok", "send", [["send", "x", [1, 1]]]),
    )
    assert [case["op"] for case in verdict.anomalies["precommitted-read"]] == [1]


def test_two_values_of_one_transaction_side_by_side_are_no_edge_of_a_cycle() -> None:
    """0 and 1 wrote x and y in opposite orders; 0 wrote twice in a row to x, which makes no circle of it."""
    verdict = verdict_on(
        (0, "invoke", "txn", [["send", "x", "a"], ["send", "x", "b"], ["send", "y", "d"]]),
        (0, "ok", "txn", [["send", "x", [0, "a"]], ["send", "x", [1, "b"]], ["send", "y", [1, "d"]]]),
        (1, "invoke", "txn", [["send", "x", "c"], ["send", "y", "e"]]),
        (1, "ok", "txn", [["send", "x", [2, "c"]], ["send", "y", [0, "e"]]]),
    )
    (cycle,) = verdict.anomalies["G0"]
    assert [(edge["from"], edge["to"]) for edge in cycle["edges"]] == [(1, 3), (3, 1)]
