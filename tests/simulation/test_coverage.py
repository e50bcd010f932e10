"""Which states of the tracker a strike meets."""

from __future__ import annotations

from collections import Counter

import pytest

from canary.anomalies.online.log import Log
from canary.anomalies.online.losses.questions import Missing
from canary.anomalies.online.state import Stall, State, Topic
from canary.anomalies.violation import Violation
from simulation.harms.catalogue import HARMS
from simulation.life.coverage import STATES, of_tracker, table
from simulation.life.life import live
from simulation.world.plan import Plan, Strike

pytestmark = pytest.mark.simulator


def test_a_tracker_that_knows_nothing_is_in_no_state() -> None:
    assert list(of_tracker(State())) == []


def test_what_a_tracker_waits_for_is_a_state_each() -> None:
    log = Log(0, missing=[Missing(7, 1, 7, 0, "end", 0, 0, state="beyond")], listed_ordinal=5, epoch=2, stable=7, end=9)
    log.promised.add(0, 8)
    state = State(topics={"t": Topic("t", "id", logs={0: log})})
    said = Violation(kind="stalled", severity="warning", at_ns=0, by="online", summary="it stands")
    state.stalls["at/t/0/7"] = Stall(0, 0, said)
    found = set(of_tracker(state))
    assert found == {
        "a loss is beyond the log's end",
        "the epoch is new",
        "a transaction is open below the end",
        "open: stalled",
    }
    assert found <= set(STATES)


def test_a_strike_counts_in_each_state_that_it_meets() -> None:
    strikes = (Strike(90.0, "kill-canary", 1.0, 1), Strike(90.0, "store-away", 2.0, 1), Strike(300.0, "elect", 1.0, 1))
    outcome = live(Plan(seed=3, hours=0.1, grain=5.0, partitions=1, strikes=strikes))
    assert outcome.pairs["kill-canary", "calm"] == 1
    assert outcome.pairs["store-away", "dead"] == 1
    assert outcome.pairs["elect", "a write's outcome is never known"] <= 1
    assert {state for _, state in outcome.pairs} <= set(STATES)


def test_the_table_says_how_many_pairs_were_met_of_how_many() -> None:
    text = table(Counter({("kill", "dead"): 2345, ("kill", "calm"): 2}), HARMS)
    assert text.splitlines()[-1] == f"2 of {len(HARMS) * len(STATES)} pairs of a harm and a state were met"
    assert "  2k" in text
