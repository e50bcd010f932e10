"""A life is the same for the same seed, and what goes wrong in it is noticed and made short."""

from __future__ import annotations

import dataclasses
import runpy
from collections.abc import Sequence
from pathlib import Path

import pytest

from canary.runner.publishing.flusher import Flusher
from simulation.cluster.groups import Groups, Place
from simulation.harms.catalogue import WEIGHTS
from simulation.life.life import Life, live
from simulation.search.shrinking import regression, shrunk, told
from simulation.world.plan import Plan, Strike, plan_of
from tests.simulation.test_lives import ISR_OF_ONE

pytestmark = [pytest.mark.simulator, pytest.mark.dear("whole lives of the canary, in which any part may fail")]


def test_the_same_seed_is_the_same_life() -> None:
    plan = plan_of(11, WEIGHTS, hours=0.08, grain=1.0, pace=10.0, partitions=1, modes=("idempotent",))
    first, again = live(plan), live(plan)
    assert first.story == again.story
    assert first.story
    assert (first.steps, first.promises, first.broken) == (again.steps, again.promises, again.broken)


def test_a_committed_offset_that_goes_back_without_a_loss_is_noticed_and_false(monkeypatch: pytest.MonkeyPatch) -> None:
    committed = Groups.committed

    def lower(groups: Groups, broker: int, group: str, places: Sequence[Place]) -> tuple[int, dict[Place, int]]:
        error, found = committed(groups, broker, group, places)
        return error, {place: offset - 5 if offset > 5 else offset for place, offset in found.items()}

    monkeypatch.setattr(Groups, "committed", lower)
    world = Life(Plan(seed=3, hours=0.03, grain=1.0, partitions=1, modes=("idempotent", "group")))
    world.settle_beats = 30
    assert {(one.what, one.about.split()[1]) for one in world.live().wrong} == {
        ("FALSE", "committed-offset-regression")
    }


def test_silence_about_a_loss_is_noticed_and_shrunk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(Flusher, "violations", lambda *_: None)
    harmless = Strike(60.0, "elect", 1.0, 1)
    outcome = live(dataclasses.replace(ISR_OF_ONE, strikes=(harmless, *ISR_OF_ONE.strikes)))
    assert "MISSED" in {one.what for one in outcome.wrong}
    shortest = shrunk(outcome, tries=2)
    assert [one.harm for one in shortest.plan.strikes] == ["isr-of-one-then-power"]
    assert "MISSED" in told(shortest)
    assert regression([shortest]) in told(shortest)
    file = tmp_path / "test_it_again.py"
    file.write_text(regression([shortest]))
    tests = {name: one for name, one in runpy.run_path(str(file)).items() if name.startswith("test_")}
    with pytest.raises(AssertionError, match="MISSED"):
        tests["test_seed_5_is_not_missed_nor_disagree"]()
    monkeypatch.undo()
    tests["test_seed_5_is_not_missed_nor_disagree"]()
