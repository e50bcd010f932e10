"""A planned window covers what happened in it, and nothing that was only found in it."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import TYPE_CHECKING

import pytest

from storage.store.values import ViolationCount
from tests.storage.test_store_conditions import holds
from tests.storage.test_store_violations import MINUTE, T0, lost

if TYPE_CHECKING:
    from canary.anomalies.violation import Violation
    from storage.store import Store

HOUR = 60 * MINUTE
ENDS = T0 + 10 * MINUTE


def state_of(store: Store, violation: Violation) -> tuple[str, str | None]:
    store.violations.record("c", [violation])
    row = store.violations.get(violation.key("c"))
    assert row is not None
    incident = store.incidents.get(row.incident_id)
    assert incident is not None
    assert incident.state in {row.state, "open"}
    return row.state, row.reason


OPEN, PLANNED = ("open", None), ("acknowledged", "planned")


@pytest.mark.parametrize(
    ("after_ns", "before_ns", "expected"),
    [
        pytest.param(T0 + MINUTE, None, PLANNED, id="sent and found in it"),
        pytest.param(T0, ENDS - 1, PLANNED, id="within its bounds"),
        pytest.param(T0 - 12 * HOUR, None, OPEN, id="sent twelve hours before, and found by the scrubber in it"),
        pytest.param(T0 - 1, None, OPEN, id="it may have happened just before"),
        pytest.param(None, None, OPEN, id="nothing is known of when"),
        pytest.param(T0 + MINUTE, ENDS, OPEN, id="it may have happened after it"),
        pytest.param(T0 + MINUTE, ENDS - MINUTE, PLANNED, id="a night sights it at its claim, and read it later"),
    ],
)
def test_a_window_covers_what_happened_in_it(
    store: Store, after_ns: int | None, before_ns: int | None, expected: tuple[str, str | None]
) -> None:
    store.maintenance.plan("c", T0, ENDS, "upgrade", "ann")
    found = lost(1, T0 + 2 * MINUTE, happened_after_ns=after_ns, happened_before_ns=before_ns)
    store.violations.record("c", [lost(2, T0 + MINUTE, happened_after_ns=T0), found])
    assert state_of(store, found) == expected


@pytest.mark.parametrize(
    ("begins", "ends", "expected"), [(10, 20, PLANNED), (5, 20, PLANNED), (11, 20, OPEN), (10, 15, OPEN)]
)
def test_windows_that_adjoin_or_overlap_are_one(
    store: Store, begins: int, ends: int, expected: tuple[str, str | None]
) -> None:
    store.maintenance.plan("c", T0 + begins * MINUTE, T0 + ends * MINUTE, "second", "ann")
    store.maintenance.plan(None, T0, ENDS, "first", "ann")
    store.maintenance.plan("d", T0, T0 + HOUR, "of another cluster", "ann")
    found = lost(1, T0 + 16 * MINUTE, happened_after_ns=T0 + MINUTE)
    assert state_of(store, found) == expected


def test_a_condition_that_began_before_the_window_is_not_covered(store: Store) -> None:
    store.maintenance.plan("c", T0, ENDS, "upgrade", "ann")
    assert state_of(store, holds(T0 + MINUTE, T0 - MINUTE)) == OPEN
    other = dataclasses.replace(holds(T0 + MINUTE, T0 + 1), partition=1)
    assert state_of(store, other) == PLANNED


def test_an_unclean_election_of_which_nobody_knows_when_it_was_is_no_condition(store: Store) -> None:
    store.maintenance.plan("c", T0, ENDS, "upgrade", "ann")
    assert state_of(store, lost(1, T0 + MINUTE, kind="unclean-election", identity=None)) == OPEN


def test_what_finds_it_again_narrows_when_it_happened(store: Store) -> None:
    store.violations.record("c", [lost(1, T0, happened_after_ns=None)])
    store.violations.record("c", [lost(1, T0 + MINUTE, "reconcile", happened_after_ns=T0 - HOUR)])
    store.violations.record("c", [lost(1, T0 + 2 * MINUTE, happened_after_ns=T0 - 2 * HOUR)])
    (row,) = store.violations.page().items
    assert (row.happened_after_ns, row.happened_before_ns) == (T0 - HOUR, T0)


def test_what_happened_after_all_that_was_seen_at_its_place_is_another_event(store: Store) -> None:
    moved = partial(lost, 1, kind="committed-offset-regression", severity="warning", identity=None)
    first = moved(at_ns=T0, happened_after_ns=T0 - MINUTE)
    store.violations.record("c", [first])
    (row,) = store.violations.page().items
    store.incidents.resolve(row.incident_id, "false", T0 + MINUTE)
    assert state_of(store, first) == ("resolved", "false"), "a replay"
    assert state_of(store, moved(at_ns=T0 + HOUR, happened_after_ns=T0 - HOUR)) == ("resolved", "false")
    again = moved(at_ns=T0 + 30 * 24 * HOUR, happened_after_ns=T0 + 29 * 24 * HOUR)
    assert state_of(store, again) == OPEN
    assert store.violations.counts() == [ViolationCount("c", "committed-offset-regression", "warning", 2, 1)]


def test_a_probe_is_lost_once_however_late_it_is_found_again(store: Store) -> None:
    store.violations.record("c", [lost(1, T0)])
    store.incidents.resolve(store.violations.page().items[0].incident_id, "false", T0 + MINUTE)
    assert state_of(store, lost(1, T0 + HOUR, happened_after_ns=T0 + 2 * MINUTE)) == ("resolved", "false")


def test_what_only_a_window_acknowledged_is_told_with_its_reason(store: Store) -> None:
    store.maintenance.plan("c", T0, ENDS, "upgrade", "ann")
    store.violations.record("c", [lost(1, T0 + MINUTE, happened_after_ns=T0)])
    assert [row.note for row in store.violations.groups()] == ["In a planned window: upgrade"]
