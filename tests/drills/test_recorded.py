"""What two overlapping transactions that were recorded are judged to be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from canary.drills.rig.recorded import judged
from canary.history.operation import Operation

if TYPE_CHECKING:
    from pathlib import Path

FIRST = [["send", "0", [0, 0]], ["send", "1", [1, 0]]]
SECOND = [["send", "0", [1, 1]], ["send", "1", [0, 1]]]
ALL = [["poll", {"0": [[0, 0], [1, 1]], "1": [[0, 1], [1, 0]]}]]


@pytest.mark.parametrize(
    ("first_reads", "second_reads", "said"),
    [
        ({"0": [[1, 1]]}, {"1": [[1, 0]]}, {"G1c": "warning", "G0": "info"}),
        ({"0": [[1, 1]]}, {}, {"G0": "info", "G1c": "info"}),  # a circle only with the order of the writes
        ({}, {}, {"G0": "info"}),
    ],
)
def test_reads_of_each_other_are_a_circle_and_interleaved_writes_are_allowed(
    tmp_path: Path, first_reads: dict[str, Any], second_reads: dict[str, Any], said: dict[str, str]
) -> None:
    history = [
        Operation(0, 0, 0, "invoke", "txn", [["send", "0", 0], ["send", "1", 0], ["poll"]]),
        Operation(1, 1, 1, "invoke", "txn", [["send", "0", 1], ["send", "1", 1], ["poll"]]),
        Operation(2, 2, 0, "ok", "txn", [*FIRST, ["poll", first_reads]]),
        Operation(3, 3, 1, "ok", "txn", [*SECOND, ["poll", second_reads]]),
        Operation(4, 4, 2, "invoke", "poll", [["poll"]]),
        Operation(5, 5, 2, "ok", "poll", ALL),
    ]
    assert {one.kind: one.severity for one in judged(history, tmp_path / "history.jsonl")} == said
