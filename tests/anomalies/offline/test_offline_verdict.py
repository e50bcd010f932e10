"""When a history is valid: what was confirmed, and what the protocol allows."""

from __future__ import annotations

import io
from typing import Any

import orjson
import pytest

from canary.anomalies.offline import Options, check
from canary.history.reading import load

ALWAYS = {"int-send-skip", "G0"}
SUBSCRIBED = {"poll-skip", "nonmonotonic-poll"}


def valid(*ops: tuple[str, str, Any]) -> bool:
    """Say whether the operations (type, f, value) of one process are a valid history."""
    told = (
        {"index": n, "time": n, "process": 0, "type": type_, "f": f, "value": value}
        for n, (type_, f, value) in enumerate(ops)
    )
    return check(load(io.BytesIO(b"".join(orjson.dumps(op) + b"\n" for op in told)), "h")).valid


@pytest.mark.parametrize(
    ("sub_via", "ww_deps", "allowed"),
    [
        ({"assign"}, False, ALWAYS),
        ({"assign"}, True, ALWAYS | {"G1c"}),
        ({"subscribe"}, False, ALWAYS | SUBSCRIBED),
        ({"assign", "subscribe"}, True, ALWAYS | SUBSCRIBED | {"G1c"}),
    ],
)
def test_what_the_protocol_allows_depends_on_how_keys_and_dependencies_come(
    sub_via: set[str],
    ww_deps: bool,  # noqa: FBT001  # a parameter of the test
    allowed: set[str],
) -> None:
    assert Options(sub_via=frozenset(sub_via), ww_deps=ww_deps).allowed == allowed


def test_a_history_is_valid_if_something_was_confirmed_and_nothing_is_wrong_but_what_is_allowed() -> None:
    sent = ("invoke", "send", [["send", "x", 1]]), ("ok", "send", [["send", "x", [0, 1]]])
    read = ("invoke", "poll", [["poll"]]), ("ok", "poll", [["poll", {"x": [[0, 1]]}]])
    phantom = ("invoke", "poll", [["poll"]]), ("ok", "poll", [["poll", {"x": [[0, 1], [1, 7]]}]])
    assert valid(*sent, *read)
    assert not valid(*sent, *phantom)
    assert not valid(("invoke", "send", [["send", "x", 1]]), ("info", "send", [["send", "x", 1]]))


@pytest.mark.parametrize("f", ["assign", "subscribe"])
def test_taking_keys_proves_nothing(f: str) -> None:
    taken = ("invoke", f, ["x"]), ("ok", f, ["x"])
    assert not valid(*taken)
    assert not valid(*taken, ("invoke", "crash", None), ("ok", "crash", None))
    assert valid(*taken, ("invoke", "txn", [["poll"]]), ("ok", "txn", [["poll", {}]]))
    assert valid(*taken, ("invoke", "poll", [["poll"]]), ("ok", "poll", [["poll", {}]]))
