"""What a direct reading holds against a probe log: gone, torn, shown, there twice, out of order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from canary.drills.rig import direct
from canary.drills.rig.direct import DISORDERED, GONE, SHOWN, TWICE, Place
from canary.probe.identity import Identity

if TYPE_CHECKING:
    from pathlib import Path


def readings(
    directory: Path,
    there: dict[int, int],
    probes: list[tuple[int, int | None, int | None]],
    transactions: dict[int, str],
    monkeypatch: pytest.MonkeyPatch,
    shown: dict[int, int] | None = None,
) -> dict[str, dict[int, int]]:
    """Return what the readings find, as offset to sequence.

    Args:
        directory: for the probe log.
        there: the sequences that the log holds, by offset.
        probes: sequence, offset (None: not acknowledged) and transaction of each that was sent.
        transactions: outcomes.
        monkeypatch: in place of a cluster.
        shown: what the log showed earlier, as ``there``.
    """
    rows: list[dict[str, Any]] = [
        {"topic": "t", "partition": 0, "producer_id": 7, "generation": 1, "sequence": sequence, "offset": offset,
         "outcome": "indeterminate" if offset is None else "acked", "transaction_id": transaction}
        for sequence, offset, transaction in probes
    ]  # fmt: skip
    outcomes = [
        {"producer_id": 7, "generation": 1, "transaction_id": t, "outcome": how} for t, how in transactions.items()
    ]
    for name, table in (("probes", rows), ("transactions", outcomes)):
        if table:
            (directory / name).mkdir()
            pq.write_table(pa.Table.from_pylist(table), directory / name / "part.parquet")
    log = {Place("t", 0, offset): Identity(7, 1, 0, sequence) for offset, sequence in there.items()}
    monkeypatch.setattr(direct, "standing", lambda _bootstrap, _topic: log)
    earlier = {Place("t", 0, offset): Identity(7, 1, 0, sequence) for offset, sequence in (shown or {}).items()}
    found = direct.readings(direct.look("", directory), earlier)
    return {
        name: {place.offset: identity.sequence for place, identity in places.items()}
        for name, places in found.items()
        if places
    }


@pytest.mark.parametrize(
    ("there", "probes", "transactions", "expected"),
    [
        ({0: 0, 1: 1}, [(0, 0, None), (1, 1, None)], {}, {}),
        ({0: 0, 1: 5}, [(0, 0, None), (1, 1, None), (2, None, None)], {}, {GONE: {1: 1}}),
        ({0: 0}, [(0, 0, 3), (1, 1, 3), (2, 2, 3)], {3: "committed"}, {GONE: {1: 1, 2: 2}}),
        ({}, [(0, 0, 3), (1, 1, 4), (2, 2, 5)], {3: "aborted", 4: "indeterminate"}, {}),
        ({0: 0, 4: 1}, [(0, 0, 3), (1, None, 3)], {3: "aborted"}, {SHOWN: {0: 0, 4: 1}}),
        ({0: 0, 1: 0, 2: 1, 3: 0}, [(0, 0, None), (1, 2, None)], {}, {TWICE: {1: 0, 3: 0}}),
        ({0: 0, 1: 2, 2: 1, 3: 3}, [(0, 0, None)], {}, {DISORDERED: {1: 2}}),
    ],
)
def test_a_direct_reading_finds_what_is_not_as_it_was_promised(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    there: dict[int, int],
    probes: list[tuple[int, int | None, int | None]],
    transactions: dict[int, str],
    expected: dict[str, dict[int, int]],
) -> None:
    assert readings(tmp_path, there, probes, transactions, monkeypatch) == expected


def test_an_aborted_record_that_was_shown_once_was_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    probes: list[tuple[int, int | None, int | None]] = [(0, 0, 3), (1, 1, 4)]
    outcomes = {3: "aborted", 4: "committed"}
    assert readings(tmp_path, {1: 1}, probes, outcomes, monkeypatch, shown={0: 0, 1: 1}) == {SHOWN: {0: 0}}
