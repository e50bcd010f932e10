from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

import canary.drills
from canary.anomalies.catalogue import CATALOGUE
from canary.drills.catalogue import UNDRILLED, Entry, drills
from canary.drills.steps.step import LiveStep
from spark_reconcile.nightly.drilling import LIVE

EACH = pytest.mark.parametrize("entry", drills().values(), ids=drills())


def test_every_file_with_a_drill_is_found_and_no_two_have_a_name() -> None:
    folder = Path(canary.drills.__file__).parent
    files = Counter(
        path.stem.replace("_", "-")
        for path in folder.rglob("*.py")
        if re.search(r"^DRILL\b", path.read_text("utf-8"), re.MULTILINE)
    )
    assert max(files.values()) == 1
    assert set(files) == set(drills())


@EACH
def test_a_drill_tells_its_story_and_where_it_comes_from(entry: Entry) -> None:
    assert len(entry.story.split("\n\n")) > 1
    assert entry.story.split("\n")[0].endswith((".", "?"))
    assert entry.drill.title[:1].isupper()
    assert entry.drill.source
    assert entry.drill.steps
    own_words = {"Mark", "UntilCounted"}  # they write their line once they know what to say
    assert all(str(step) or type(step).__name__ in own_words for step in entry.drill.steps)
    assert entry.drill.stage.version.count(".") == 2


@EACH
def test_a_drill_asks_for_kinds_of_the_catalogue_that_may_be_as_severe(entry: Entry) -> None:
    control = entry.drill.control.may_say if entry.drill.control else frozenset()
    assert entry.drill.allowed | control <= CATALOGUE.keys()
    for said in entry.drill.says:
        assert said.severity in {None, *CATALOGUE[said.kind].severities}
        assert said.within_s > 0


@EACH
def test_a_drill_that_says_something_has_a_control_or_says_why_not(entry: Entry) -> None:
    drill = entry.drill
    if drill.control is None:
        assert drill.uncontrolled.endswith(".") or not drill.says
        return
    assert drill.control.why.endswith(".")
    assert not drill.uncontrolled
    assert (drill.control.stage or drill.stage, drill.control.steps or drill.steps) != (drill.stage, drill.steps)
    assert not drill.control.may_say & {one.kind for one in drill.says if CATALOGUE[one.kind].shows == "loss"}


def test_some_drills_are_short() -> None:
    assert any(entry.drill.short for entry in drills().values())


def test_a_kind_has_a_drill_or_a_reason_and_not_both() -> None:
    said = {one.kind for entry in drills().values() for one in entry.drill.says}
    assert CATALOGUE.keys() - said - UNDRILLED.keys() == set(), "write a drill, or why there is none"
    assert said & UNDRILLED.keys() == set(), "take these out of UNDRILLED: they have a drill"
    assert set(UNDRILLED) <= set(CATALOGUE)
    assert all(reason.endswith(".") for reason in UNDRILLED.values())


def test_the_scheduler_performs_every_drill_that_a_live_cluster_bears() -> None:
    assert set(LIVE) == {name for name, entry in drills().items() if entry.drill.live}


@EACH
def test_a_drill_of_a_live_cluster_harms_only_by_steps_that_may_be_taken_there(entry: Entry) -> None:
    if entry.drill.live:
        others = [step for step in entry.drill.steps if not isinstance(step, LiveStep)]
        assert all(step.waits for step in others)
        assert all(said.at for said in entry.drill.says), "or what is found could be another's"
