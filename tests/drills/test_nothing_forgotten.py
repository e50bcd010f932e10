"""What the canary has forgotten, or given out twice, is found by holding its log against the topic."""

from __future__ import annotations

from threading import Event
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from canary.drills.rig import direct
from canary.drills.rig.direct import Place
from canary.drills.rig.rig import Rig
from canary.drills.stage import PROBES, Stage
from canary.drills.steps.saying import NothingForgotten
from canary.probe.identity import Identity

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

WRITTEN = {Place(PROBES, 0, 100 + n): Identity(7, 1, 0, n) for n in range(5)}
"""The topic; the last one was killed with the process, before it was logged."""
LOGGED = {n: 100 + n for n in range(4)}
"""The probe log: sequence to the offset of its acknowledgement."""


def complaints(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    topic: Mapping[Place, Identity] = WRITTEN,
    logged: Mapping[int, int] = LOGGED,
    shown: float = 4,
) -> list[str]:
    """Return what is wrong when the topic, the probe log and the counters are such."""
    (tmp_path / "probes").mkdir()
    rows = [
        {"producer_id": 7, "generation": 1, "partition": 0, "sequence": n, "outcome": "acked", "offset": offset}
        for n, offset in logged.items()
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "probes" / "1.parquet")
    monkeypatch.setattr(Rig, "__post_init__", lambda _: None)
    monkeypatch.setattr(direct, "found", lambda *_: topic)
    ground: Any = {"kafka": {}, "stopping": Event(), "tell": lambda _: None}
    lab: Any = SimpleNamespace(bootstrap="")
    rig = Rig(**ground, lab=lab, stage=Stage(), directory=tmp_path, counted={0: shown})
    rig.canary = SimpleNamespace(probe_log=tmp_path)  # type: ignore[assignment]  # no more of it is asked
    NothingForgotten()._check(rig)
    return rig.complaints


def test_all_is_there_and_what_was_written_last_before_a_kill_need_not_be_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert complaints(tmp_path, monkeypatch) == []


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"topic": {**WRITTEN, Place(PROBES, 0, 105): Identity(7, 1, 0, 0)}}, "1 identities are at two places"),
        ({"topic": {place: who for place, who in WRITTEN.items() if place.offset != 102}}, "1 acknowledged probes are"),
        ({"logged": {**LOGGED, 2: 103}}, "1 acknowledged probes are not where they were acknowledged"),
        ({"logged": {n: offset for n, offset in LOGGED.items() if n < 3}}, "has 3 acknowledged probes of partition 0"),
        (
            {"logged": {n: offset for n, offset in LOGGED.items() if n != 1}, "shown": 3},
            "1 probes are in the topic and",
        ),
    ],
)
def test_what_is_forgotten_or_there_twice_is_said(
    wrong: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (found,) = complaints(tmp_path, monkeypatch, **wrong)
    assert said in found
