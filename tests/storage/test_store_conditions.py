"""Conditions: when one that ended, or that a person resolved, is open again, and when it is not."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Literal

import pytest

from spark_reconcile.digests import findings
from spark_reconcile.digests.result import Digested, Finding
from spark_reconcile.digests.tree import Run
from storage.store.values import IncidentFilter, ViolationFilter
from tests.storage.test_store_violations import MINUTE, T0, lost

if TYPE_CHECKING:
    from collections.abc import Iterator

    from canary.anomalies.violation import Violation
    from storage.store import Store
    from storage.store.values import StoredViolation

Reason = Literal["lost", "planned", "false"]
LATER = T0 + 500 * 24 * 60 * MINUTE


def holds(at_ns: int = T0, since_ns: int = T0, severity: Literal["critical", "warning"] = "critical") -> Violation:
    """Return what is said at ``at_ns`` of a condition that began at ``since_ns``."""
    evidence = {"since_ns": since_ns}
    found = lost(0, at_ns, "watch", kind="isr-of-one", identity=None, mode=None, evidence=evidence)
    return dataclasses.replace(found, offset=None, summary=f"so since {since_ns}", severity=severity)


KEY = holds().key("c")


def kept(store: Store) -> StoredViolation:
    row = store.violations.get(KEY)
    assert row is not None
    return row


def opened(store: Store) -> bool:
    """Return whether it pages: the violation, what alerts count, and its incident are all open, or none of them is."""
    row = kept(store)
    incident = store.incidents.get(row.incident_id)
    assert incident is not None
    (count,) = store.violations.counts()
    assert (row.state == "open") == (incident.state == "open") == (count.open == 1)
    return row.state == "open"


def resolved(store: Store, reason: Reason, at_ns: int = T0 + MINUTE) -> None:
    store.incidents.resolve(kept(store).incident_id, reason, at_ns)


@pytest.mark.parametrize("reason", ["lost", "planned", "false"])
def test_a_condition_that_a_person_resolved_pages_again_when_it_ended_and_came_back(
    store: Store, reason: Reason
) -> None:
    store.violations.record("c", [holds()])
    resolved(store, reason)
    store.violations.record("c", [holds(T0 + 5 * MINUTE)])
    assert not opened(store), "it goes on: a person's word stands"
    assert store.violations.end([KEY], T0 + 6 * MINUTE) == 0
    assert kept(store).reason == reason
    store.violations.record("c", [holds()])
    assert not opened(store), "what was said before it ended, once more"
    store.violations.record("c", [holds(T0 + 7 * MINUTE)])
    assert opened(store)
    assert store.violations.end([KEY], T0 + 8 * MINUTE) == 1
    store.violations.record("c", [holds(T0 + 9 * MINUTE)])
    assert opened(store)
    assert [row.total for row in store.violations.counts()] == [1]


def test_a_condition_that_a_person_resolved_after_it_had_ended_pages_again_when_it_comes_back(store: Store) -> None:
    store.violations.record("c", [holds()])
    store.violations.end([KEY], T0 + 1)
    resolved(store, "false")
    store.violations.record("c", [holds(T0 + 5 * MINUTE)])
    assert opened(store)


def test_a_condition_of_which_nobody_told_that_it_ended_pages_when_it_began_after_it_was_resolved(store: Store) -> None:
    store.violations.record("c", [holds()])
    resolved(store, "false")
    store.violations.record("c", [holds(T0 + 9 * MINUTE, since_ns=T0 + MINUTE)])
    assert not opened(store)
    store.violations.record("c", [holds(T0 + 9 * MINUTE, since_ns=T0 + 2 * MINUTE)])
    assert opened(store)


def test_what_is_no_condition_stays_resolved_whoever_sees_it_again(store: Store) -> None:
    store.violations.record("c", [lost(1)])
    store.incidents.resolve(store.incidents.page().items[0].id, "false", T0 + 1)
    store.violations.record("c", [lost(1, T0 + MINUTE, "reconcile")])
    assert [row.state for row in store.violations.page().items] == ["resolved"]


def test_another_time_that_is_worse_is_counted(store: Store) -> None:
    store.violations.record("c", [holds(severity="warning")])
    store.violations.end([KEY], T0 + 1)
    store.violations.record("c", [holds(T0 + MINUTE)])
    assert kept(store).severity == "critical"
    assert [(row.severity, row.total, row.open) for row in store.violations.counts()] == [
        ("critical", 1, 1),
        ("warning", 1, 0),
    ]
    assert [incident.severity for incident in store.incidents.page().items] == ["critical"]


def test_another_time_is_told_as_it_is_and_weighs_what_it_weighs(store: Store) -> None:
    store.violations.record("c", [holds()])
    store.violations.end([KEY], T0 + 1)
    store.violations.record("c", [holds(T0 + MINUTE, since_ns=T0 + 2, severity="warning")])
    row = kept(store)
    assert (row.severity, row.summary, row.evidence["since_ns"]) == ("warning", f"so since {T0 + 2}", T0 + 2)
    assert [sighting.at_ns for sighting in row.sightings] == [T0, T0 + MINUTE]
    counts = {row.severity: (row.total, row.open) for row in store.violations.counts()}
    assert counts == {"critical": (1, 0), "warning": (0, 1)}


def test_that_data_was_lost_in_it_is_known_for_ever_however_often_it_holds_again(store: Store) -> None:
    store.violations.record("c", [holds()])
    resolved(store, "lost")
    for again in range(3):
        store.violations.end([KEY], T0 + (10 * again + 5) * MINUTE)
        assert [(row.state, row.reason) for row in store.violations.groups()] == [("resolved", "lost")]
        store.violations.record("c", [holds(T0 + (10 * again + 9) * MINUTE)])
        assert [(row.state, row.reason) for row in store.violations.groups()] == [("open", "lost")]


def test_a_condition_that_comes_back_in_a_planned_window_pages_when_it_outlasts_that(store: Store) -> None:
    store.violations.record("c", [holds()])
    resolved(store, "false")
    store.violations.end([KEY], T0 + 2 * MINUTE)
    store.maintenance.plan("c", T0 + 3 * MINUTE, T0 + 9 * MINUTE, "upgrade", "ann")
    store.violations.record("c", [holds(T0 + 4 * MINUTE, T0 + 3 * MINUTE)])
    assert (kept(store).state, kept(store).reason) == ("acknowledged", "planned")
    assert [row.state for row in store.incidents.page(IncidentFilter(state="acknowledged")).items] == ["acknowledged"]
    store.violations.record("c", [holds(T0 + 8 * MINUTE, T0 + 3 * MINUTE)])
    store.violations.record("c", [holds(T0)])
    assert not opened(store), "what was said before the window, once more"
    store.violations.record("c", [holds(T0 + 9 * MINUTE)])
    assert opened(store)
    store.violations.acknowledge(KEY)
    store.violations.record("c", [holds(T0 + 14 * MINUTE)])
    assert kept(store).state == "acknowledged", "somebody is on it"


def test_what_a_planned_window_broke_for_good_is_no_news_when_it_is_seen_again(store: Store) -> None:
    store.maintenance.plan("c", T0, T0 + MINUTE, "upgrade", "ann")
    store.violations.record("c", [lost(1, happened_after_ns=T0)])
    store.violations.record("c", [lost(1, T0 + 2 * MINUTE, "reconcile")])
    assert [row.state for row in store.violations.page().items] == ["acknowledged"]


def test_a_condition_that_a_person_resolved_rings_again_after_retention_forgot_it(store: Store) -> None:
    store.violations.record("c", [holds()])
    resolved(store, "false")
    store.violations.record("c", [holds(LATER)])
    assert store.retention.purge("c", LATER).violations == 0, "it goes on"
    store.violations.end([KEY], LATER + 1)
    assert store.retention.purge("c", LATER + 2).violations == 1
    assert store.violations.record("c", [holds(LATER + 3)]) == 1
    assert opened(store)


def test_more_conditions_than_one_statement_takes_end_with_their_incidents(store: Store) -> None:
    many = [dataclasses.replace(holds(), partition=number) for number in range(501)]
    store.violations.record("c", many)
    assert store.violations.end([one.key("c") for one in many], T0 + 1) == 501
    assert store.incidents.page(IncidentFilter(state="open")).items == []
    assert store.violations.page(ViolationFilter(state="open")).items == []


def test_a_store_of_before_knows_which_conditions_had_ended(store: Store) -> None:
    """A row that ended before the column was there is open again when it holds again."""
    store.violations.record("c", [holds()])
    store.violations.end([KEY], T0 + 1)
    store.downgrade("0007")
    store.upgrade()
    store.violations.record("c", [holds()])
    assert not opened(store)
    store.violations.record("c", [holds(T0 + MINUTE)])
    assert opened(store)


def test_records_that_are_lost_again_at_the_same_offsets_page_again(store: Store) -> None:
    def gone(there_ns: int, at_ns: int) -> Iterator[Violation]:
        finding = Finding("orders", "A", 0, "lost", (Run(100, 21),), there_ns)
        return findings.violations(Digested(findings=[finding]), at_ns)

    def recorded(there_ns: int, at_ns: int) -> bool:
        store.violations.record("c", list(gone(there_ns, at_ns)))
        (row,) = store.violations.page().items
        return row.state == "open"

    assert recorded(T0 - MINUTE, T0)
    (row,) = store.violations.page().items
    store.incidents.resolve(row.incident_id, "lost", T0 + MINUTE)
    assert not recorded(T0 - MINUTE, T0 + 2 * MINUTE), "a night that was killed, done again"
    assert recorded(T0 + 2 * MINUTE, T0 + 5 * MINUTE), "the offsets were filled again, and these records are lost, too"
