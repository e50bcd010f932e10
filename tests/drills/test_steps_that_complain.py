"""What a step finds wrong, and what it measures, is in the outcome."""

from __future__ import annotations

from threading import Event
from typing import TYPE_CHECKING, Any

import pytest

from canary.drills.catalogue import Entry, drills
from canary.drills.drill import Drill
from canary.drills.report import document
from canary.drills.rig.performance import Played
from canary.drills.rig.result import Result
from canary.drills.rig.rig import Rig
from canary.drills.rig.verdict import judge, judge_control
from canary.drills.stage import Stage

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def rig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Rig:
    """One without brokers, and without patience."""
    monkeypatch.setattr(Rig, "__post_init__", lambda _: None)
    nothing: Any = None
    return Rig(
        kafka={},
        stopping=Event(),
        tell=lambda _: None,
        patience=0.3,
        lab=nothing,
        stage=Stage(),
        directory=tmp_path,
    )


def test_what_does_not_come_is_a_complaint_and_what_comes_in_time_is_none(rig: Rig) -> None:
    rig.expect(lambda: True, 1.0, "it is there")
    assert not rig.complaints
    assert not rig.timeline
    rig.expect(lambda: False, 1.0, "it is there")
    assert rig.complaints == ["not in 0.3 s: it is there"]
    assert [line.what for line in rig.timeline] == ["WRONG: not in 0.3 s: it is there"]


def test_complaints_fail_a_drill_and_its_control_and_a_table_is_shown() -> None:
    table = (("group", "never"), ("static", "0"))
    played = Played((), {}, {}, {}, (), 0.0, 1.0, complaints=("it is wrong",), table=table)
    drill = Drill(title="", source="", steps=(), says=())
    verdict, control = judge(drill, played), judge_control(played, frozenset())
    assert verdict.complaints == control.complaints == ("it is wrong",)
    result = Result(Entry("a-drill", "", "", drill), 1.0, played, verdict, control)
    assert document.text(result).splitlines() == [
        "a-drill: FAILED (1 s)",
        "  group   never",
        "  static  0",
        "  it is wrong",
        "  in the control, it is wrong",
    ]
    assert document.document(result)["table"] == [["group", "never"], ["static", "0"]]


def test_a_drill_without_a_control_says_why() -> None:
    for entry in drills().values():
        assert (entry.drill.control is None) == bool(entry.drill.uncontrolled), entry.name
