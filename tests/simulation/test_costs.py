"""That what costs too much is noticed, part by part."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from canary.anomalies.online import incarnations
from canary.anomalies.online.rules import sends
from canary.anomalies.online.sets.runs import RunMap
from canary.probing.base import Writer
from canary.runner.publishing import shipper
from canary.runner.publishing.judge import Judge
from simulation.life.life import Life, live
from simulation.machine.schedule import Schedule
from simulation.world.plan import Plan, Strike

if TYPE_CHECKING:
    from simulation.world.outcome import Outcome

pytestmark = pytest.mark.simulator

CALM = Plan(seed=3, hours=0.1, grain=5.0, partitions=1)


def calm() -> Outcome:
    """Live without harm for as long as segments come and go."""
    life = Life(CALM)
    life.settle_beats = 90
    return life.live()


def costly(outcome: Outcome) -> str:
    return " ".join(one.about for one in outcome.wrong if one.what == "COSTLY")


def test_a_calm_life_costs_little() -> None:
    assert calm().wrong == []


def test_questions_that_are_never_forgotten_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incarnations, "ASKS_KEPT", 1_000_000)
    assert "asks" in costly(calm())


def test_a_run_for_each_probe_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def apart(runs: RunMap, key: int, count: int, value: int, tag: int = 0) -> None:
        runs.remove(key, key + count)
        at = sum(one < key for one in runs.keys)
        for column, one in ((runs.keys, key), (runs.counts, count), (runs.values, value), (runs.tags, tag)):
            column.insert(at, one)

    monkeypatch.setattr(RunMap, "set", apart)
    assert "places" in costly(calm())


def test_sending_times_that_are_kept_for_ever_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sends, "forget_sent_times", lambda _: None)
    monkeypatch.setattr("simulation.verdicts.costs.SENT_KEPT", 30)
    assert "sending times" in costly(calm())


def test_segments_that_are_never_dropped_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Judge, "drop", lambda *_: None)
    assert "segments are kept" in costly(calm())


def test_a_part_that_hardly_waits_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipper, "_LOOK_S", 0.002)
    assert "turns of tasks" in costly(live(Plan(seed=3, hours=0.02, grain=0.0, partitions=1)))


def test_a_life_of_clients_that_die_without_a_pause_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Writer, "_renew_after_death", Writer._renew)
    refused = Strike(200.0, "refuse-producers", 500.0, 1)
    assert "generations" in costly(live(Plan(seed=6, hours=0.3, grain=5.0, partitions=1, strikes=(refused,))))


def test_a_rounding_error_is_not_waited_for_in_thousands_of_turns() -> None:
    """In this life 1.1e-13 s were left of an interval, and the clock has nanoseconds."""
    schedule = Schedule()
    schedule.now = 520.6504467335
    assert schedule.deadline(1.1368683772161603e-13) - schedule.now > 1e-7
