"""The rows of a window as a history."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from storage.probe_log.windows import WindowRows, as_history

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def probe(sequence: int, topic_id: str | None) -> dict[str, Any]:
    at = BEGAN + timedelta(seconds=sequence)
    who = {"topic": "t", "topic_id": topic_id, "partition": 0, "producer_id": 7, "generation": 1, "sequence": sequence}
    how = {"transaction_id": None, "sent_at": at, "outcome": "acked", "offset": sequence, "acked_at": at, "error": None}
    return who | how


def poll(sequence: int, topic_id: str | None) -> dict[str, Any]:
    how = {"consumer_id": "x", "isolation": "read_committed", "polled_at": BEGAN + timedelta(seconds=60 + sequence)}
    return probe(sequence, topic_id) | how


@pytest.mark.parametrize(
    ("before", "after", "keys"),
    [
        pytest.param(None, "A", {"t-0"}, id="brokers began to tell the id"),
        pytest.param("A", "A", {"t-0"}, id="one incarnation"),
        pytest.param("A", "B", {"t@A-0", "t@B-0"}, id="made anew"),
    ],
)
def test_a_key_is_an_incarnation_and_not_whether_its_id_was_told(
    before: str | None, after: str, keys: set[str]
) -> None:
    rows = WindowRows([probe(0, before), probe(1, after)], [], [poll(0, before), poll(1, after)])
    told = [one for one in as_history(rows) if one.f == "assign"]
    assert {key for one in told for key in one.value} == keys
