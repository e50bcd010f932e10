"""Performances of drills that nobody performed: what was done, gone and said is written down by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from canary.drills.catalogue import Entry
from canary.drills.drill import Control, Drill, Said
from canary.drills.rig.direct import Place
from canary.drills.rig.performance import Played
from canary.drills.rig.result import Result
from canary.drills.rig.rig import Finding, Line
from canary.drills.rig.tally import Reading, Tally
from canary.drills.rig.verdict import judge, judge_control
from canary.drills.stage import KNOWABLE
from canary.probe.identity import Identity

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

BEGAN = 1_700_000_000.0
KNOWN = BEGAN + 20
DRILL = Drill(
    title="A record goes",
    source="a seed",
    steps=(),
    says=(Said("lost-write", at="gone"),),
    control=Control(why="Nothing goes."),
)


def place(offset: int) -> Place:
    return Place("probes", 0, offset)


def who(sequence: int, generation: int = 1) -> Identity:
    return Identity(7, generation, 0, sequence)


def found(
    kind: str, offsets: Sequence[int] = (), *, after_s: float = 1.0, severity: str = "critical", shift: int = 0
) -> Finding:
    """A violation of records whose sequences are their offsets, or ``shift`` more."""
    records = {place(one): who(one + shift) for one in offsets}
    return Finding(kind, severity, KNOWN + after_s, f"{kind} <of> these", records)


def played(
    *findings: Finding,
    gone: Sequence[int] = (),
    places: Mapping[str, set[Place]] | None = None,
    timeline: Sequence[Line] = (Line(BEGAN, "broker 1 is killed (-9)", done=True),),
    reading: Reading | None = None,
) -> Played:
    """A performance after which these offsets are gone; the identities there had the offsets as sequences."""
    return Played(
        findings=tuple(findings),
        gone={place(one): who(one) for one in gone},
        places=places or {},
        marks={KNOWABLE: KNOWN},
        timeline=tuple(timeline),
        began=BEGAN,
        ended=KNOWN + 30,
        reading=reading or read(gone),
    )


def read(gone: Sequence[int] = (), records: int = 10) -> Reading:
    """A log of so many promised probes, of which some gave way to others of a next generation."""
    there = {place(one): who(one, 2 if one in gone else 1) for one in range(records)}
    promised = {place(one): (who(one), *((who(one, 2),) if one in gone else ())) for one in range(records)}
    return Reading(Tally(records + 1, records, records - len(gone), len(gone), 0), promised, there)


def result(performance: Played | None, drill: Drill = DRILL, control: Played | None = None, **more: Any) -> Result:
    """The result of a drill called a-drill."""
    return Result(
        Entry("a-drill", "a room", "A record goes.\n\nAnd nobody <notices>.", drill),
        12.3,
        performance,
        judge(drill, performance) if performance else None,
        judge_control(control, frozenset()) if control else None,
        **more,
    )
