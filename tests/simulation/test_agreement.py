"""That lives end in agreement, and that each kind of disagreement is noticed."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from canary.anomalies.offline import read_rules
from canary.anomalies.online.state import Topic
from canary.facts import FACT_KINDS, Acked
from canary.runner.publishing.flusher import Flusher
from simulation.life.life import Life, live
from simulation.search.shrinking import told
from simulation.world.plan import Plan, Strike
from simulation.world.truth import Truth
from spark_reconcile.match import kernel
from storage.ledger.codec import KIND_COLUMN
from storage.probe_log.converting import _Conversion
from tests.simulation.test_lives import ISR_OF_ONE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from simulation.world.outcome import Outcome

pytestmark = [pytest.mark.simulator, pytest.mark.dear("whole lives of the canary, in which any part may fail")]

LOSING = ISR_OF_ONE
"""That all three witnesses say the same of it is tested with the canary's lives: nothing goes wrong in it there."""


def broken(mode: str, bug: str, lasts: float) -> Plan:
    """Return a life in which the cluster has a bug from second 200 on."""
    strikes = (Strike(200.0, bug, lasts, 4),)
    return Plan(6, 0.15, 5.0, partitions=1, modes=(mode,), retention_s=4000.0, strikes=strikes)


ABORTING = broken("transactional", "bug-aborted-read", 300.0)
LETTING_IN = broken("fencing", "bug-zombie-let-in", 300.0)
DOUBLING = broken("idempotent", "bug-duplicated", 100.0)
CALM = Plan(seed=3, hours=0.05, grain=5.0, modes=("idempotent", "transactional"))


def calm() -> Outcome:
    """Live a short life without harm."""
    life = Life(CALM)
    life.settle_beats = 30
    return life.live()


def disagreed(outcome: Outcome) -> Sequence[str]:
    return [one.about.partition(":")[0] for one in outcome.wrong if one.what == "DISAGREE"]


def showing_aborted() -> Life:
    """Return a life in which each aborted transaction is shown."""
    world = Life(ABORTING)
    world.schedule.at(201.0, lambda: world.cluster.chance.update({"aborted-read": 1.0}))  # the bug began with its own
    return world


def showing_zombies() -> Life:
    """Return a life in which each fenced producer is let in."""
    world = Life(LETTING_IN)
    world.schedule.at(201.0, lambda: world.cluster.chance.update({"zombie-let-in": 1.0}))
    return world


def test_what_is_written_where_a_log_was_cut_and_nobody_may_read_yet_is_lost_to_none() -> None:
    """A history has no word for the cut, and its reader had read further before."""
    strikes = (Strike(200.0, "wipe-all-brokers", 2.0, 4), Strike(320.0, "hang-transaction", 3000.0, 4))
    outcome = live(Plan(7, 0.1, 5.0, partitions=1, modes=("transactional",), retention_s=4000.0, strikes=strikes))
    assert outcome.wrong == [], told(outcome)


def test_an_order_that_is_wrong_in_a_transaction_that_is_not_committed_is_in_no_history() -> None:
    """A coordinator that forgot an epoch gave it again, and a leader took a write of it for one of the former epoch."""
    strikes = (Strike(1573.88, "power-all", 4.0, 4),)
    world = Life(
        Plan(6, 1.0, 120.0, partitions=1, modes=("transactional",), retention_s=12000.0, unclean=True, strikes=strikes)
    )
    outcome = world.live()
    assert outcome.wrong == [], told(outcome)
    assert "nonmonotonic-send" in {one.kind for _, one in world.truth.violations}


def test_a_copy_in_a_transaction_that_is_not_committed_is_in_no_history() -> None:
    strikes = (Strike(150.0, "bug-duplicated", 300.0, 4),)
    world = Life(Plan(3, 0.15, 5.0, partitions=1, modes=("transactional",), retention_s=4000.0, strikes=strikes))
    world.schedule.at(151.0, lambda: world.cluster.chance.update({"duplicated": 0.2}))  # the bug began with its own
    outcome = world.live()
    assert outcome.wrong == [], told(outcome)
    assert "duplicate" in {one.kind for _, one in world.truth.violations}


@pytest.mark.parametrize("forgets", [False, True])
def test_a_copy_of_what_has_expired_is_to_be_said(monkeypatch: pytest.MonkeyPatch, *, forgets: bool) -> None:
    """Of the process that wrote it and ended nothing is kept but a row."""
    if forgets:
        monkeypatch.setattr(Topic, "reduce", Topic.drop)
    strikes = (Strike(60.0, "kill-canary", 1.0, 4), Strike(150.0, "bug-copied-late", 100.0, 4))
    world = Life(Plan(7, 0.1, 5.0, partitions=1, retention_s=4000.0, strikes=strikes))
    world.schedule.at(151.0, lambda: world.cluster.chance.update({"copied-late": 0.3}))  # the bug began with its own
    world.settle_beats = 80
    outcome = world.live()
    assert disagreed(outcome) == ["a copy of what expired is not said"] * forgets, told(outcome)


def test_a_promise_that_is_shipped_as_indeterminate_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    take = _Conversion.take

    def forgetting(conversion: _Conversion, block: pa.Table) -> None:
        kinds, sequences = (block.column(name).fill_null(-1).to_numpy() for name in (KIND_COLUMN, "sequence"))
        take(conversion, block.filter(pa.array((kinds != FACT_KINDS.index(Acked)) | (sequences % 20 != 7))))

    monkeypatch.setattr(_Conversion, "take", forgetting)
    assert "promised and not shipped" in disagreed(calm())


def test_a_night_that_overlooks_losses_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    sightings = kernel._sightings

    def trusting(aligned: Any, bounds: Any) -> Any:
        seen = sightings(aligned, bounds)
        everything = np.ones(len(seen.committed), dtype=np.bool_)
        return dataclasses.replace(seen, committed=everything, committed_here=everything)

    monkeypatch.setattr(kernel, "_sightings", trusting)
    assert "broken and not lost at night" in disagreed(live(LOSING))


def test_a_night_that_calls_lost_what_is_there_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    sightings = kernel._sightings

    def blind(aligned: Any, bounds: Any) -> Any:
        seen = sightings(aligned, bounds)
        nothing = np.zeros(len(seen.committed), dtype=np.bool_)
        return dataclasses.replace(seen, committed=nothing, committed_here=nothing)

    monkeypatch.setattr(kernel, "_sightings", blind)
    assert "lost at night and not gone" in disagreed(calm())


def test_what_the_night_alone_says_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Flusher, "violations", lambda *_: None)
    assert "lost at night and not said" in disagreed(live(LOSING))


@pytest.mark.parametrize(
    ("kind", "life", "words"),
    [
        ("duplicate", lambda: Life(DOUBLING), "two copies stand and are not said"),
        ("G1a", showing_aborted, "an aborted read that is not said"),
        ("zombie-write", showing_zombies, "aborted reads differ"),
    ],
)
def test_silence_about_what_is_not_lost_is_noticed(
    monkeypatch: pytest.MonkeyPatch, kind: str, life: Callable[[], Life], words: str
) -> None:
    whole = life()
    outcome = whole.live()
    assert outcome.wrong == [], told(outcome)
    assert kind in {one.kind for _, one in whole.truth.violations}
    told_of = Truth.told
    monkeypatch.setattr(Truth, "told", lambda truth, found: told_of(truth, [one for one in found if one.kind != kind]))
    assert words in disagreed(life().live())


def test_a_checker_that_says_less_than_the_canary_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_rules, "aborted_read", lambda _: [])
    assert "canary check and online differ" in disagreed(showing_aborted().live())


def test_a_canary_that_says_what_no_reader_was_given_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The export leaves out every poll, so that nothing was ever read above a loss."""
    columns = _Conversion._poll_columns

    def unread(conversion: _Conversion, polls: pa.Table, contexts: Any, later: Any) -> Any:
        return columns(conversion, polls.slice(0, 0), contexts[:0], later)

    monkeypatch.setattr(_Conversion, "_poll_columns", unread)
    assert "canary check and online differ" in disagreed(calm())
