"""What is forgotten, by itself or by a person; and what nothing may forget."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import pytest

from canary.anomalies.topology_change import TopologyChange
from storage.store.repositories.leases import runner_lease
from storage.store.repositories.retention import StillProbedError
from storage.store.values import Purged, TopologyFilter, ViolationCount, ViolationFilter
from tests.storage.test_store_violations import T0, lost

if TYPE_CHECKING:
    from canary.anomalies.violation import Violation
    from storage.store import Store


LATER = T0 + 10**18
NOTHING = Purged(0, 0, 0, 0)


def warned(offset: int, at_ns: int = T0) -> Violation:
    return lost(offset, at_ns, kind="phantom", severity="warning", partition=offset)


def condition(at_ns: int = T0) -> Violation:
    return lost(1, at_ns, kind="isr-of-one", identity=None)


def reconciled(store: Store, at_ns: int, cluster: str = "c", error: str | None = None) -> str:
    made = store.reconciliations.request(cluster, "test", at_ns)
    store.reconciliations.claim("one", at_ns, [cluster])
    store.reconciliations.finish(made.id, "one", at_ns, error=error)
    return made.id


def resolved(
    store: Store, cluster: str, *violations: Violation, reason: Literal["lost", "planned", "false"] = "false"
) -> None:
    store.violations.record(cluster, violations)
    for violation in violations:
        row = store.violations.get(violation.key(cluster))
        assert row is not None
        store.incidents.resolve(row.incident_id, reason, T0 + 1)


def test_what_was_resolved_long_ago_goes_but_not_that_it_was_counted(store: Store) -> None:
    resolved(store, "c", warned(1), warned(2))
    resolved(store, "d", warned(1))
    store.violations.record("c", [warned(3)])
    assert store.retention.purge("c", T0 + 1) == NOTHING
    assert store.retention.purge("c", T0 + 2) == Purged(2, 2, 0, 0)
    assert store.retention.purge("c", T0 + 2) == NOTHING
    assert [row.offset for row in store.violations.page(ViolationFilter(cluster="c")).items] == [3]
    assert len(store.violations.page(ViolationFilter(cluster="d")).items) == 1, "another cluster is another's business"
    assert store.violations.record("c", [warned(1, T0 + 5)]) == 0
    assert store.violations.counts()[0] == ViolationCount("c", "phantom", "warning", 3, 1)


def test_a_loss_that_a_person_resolved_stays_for_ever(store: Store) -> None:
    resolved(store, "c", lost(1), reason="lost")
    resolved(store, "c", lost(2))
    store.retention.purge("c", LATER)
    assert [row.reason for row in store.violations.page().items] == ["lost"], "a false alarm does not"


def test_a_condition_that_ended_long_ago_rings_when_it_holds_again(store: Store) -> None:
    store.violations.record("c", [condition()])
    store.violations.end([condition().key("c")], T0 + 1)
    assert store.retention.purge("c", LATER) == Purged(1, 1, 0, 0)
    assert store.violations.record("c", [condition(LATER)]) == 1
    assert [row.state for row in store.violations.page().items] == ["open"]


def test_a_condition_that_a_person_resolved_and_nobody_ended_rings_when_it_holds_again(store: Store) -> None:
    held = lost(1, kind="stalled", severity="warning", identity=None, evidence={"since_ns": T0})
    resolved(store, "c", held)
    assert store.retention.purge("c", LATER) == Purged(1, 1, 0, 0)
    assert store.violations.record("c", [replace(held, at_ns=LATER + 1, evidence={"since_ns": LATER})]) == 1
    assert [row.state for row in store.violations.page().items] == ["open"]


def test_a_broken_promise_that_was_planned_counts_for_ever(store: Store) -> None:
    resolved(store, "c", lost(1, kind="phantom"), reason="planned")
    resolved(store, "c", lost(2, kind="phantom"))
    store.retention.purge("c", LATER)
    assert [(row.reason, row.records) for row in store.violations.groups()] == [("planned", 1)]


def test_the_last_good_night_stays_however_old_and_what_waits_or_runs_does(store: Store) -> None:
    old = [reconciled(store, at_ns) for at_ns in (10, 20)]
    reconciled(store, 30, error="no broker")
    other = reconciled(store, 5, "d")
    waiting = store.reconciliations.request("c", "test", 40)
    assert store.retention.purge("c", 100) == Purged(0, 0, 2, 0)
    assert {row.id for row in store.reconciliations.page().items} == {old[1], other, waiting.id}
    assert {row.cluster: row.id for row in store.reconciliations.last_successes(100)} == {"c": old[1], "d": other}


def test_the_timeline_keeps_what_is_so_and_counters_keep_all_their_views(store: Store) -> None:
    for at_ns, detail in ((1, "a:9092"), (2, ""), (3, "a:9092")):
        store.topology.record("c", [TopologyChange(at_ns, "broker", "", 1, detail=detail)])
    store.views.save("c", "gone", 1, b"")
    store.views.save("c", "here", 99, b"")
    assert store.retention.purge("c", 100) == Purged(0, 0, 0, 2)
    assert [span.until_ns for span in store.topology.page(TopologyFilter("c")).items] == [None]
    assert [view.runner for view in store.views.all()] == ["gone", "here"]


def test_a_little_at_a_time_until_there_is_no_more(store: Store) -> None:
    resolved(store, "c", *(warned(n) for n in range(25)))
    for n in range(7):
        reconciled(store, n + 1)
    purged = []
    while (one := store.retention.purge("c", LATER, most=10)) != NOTHING:
        purged.append(one)
        assert len(purged) < 10
    assert [one.violations for one in purged] == [10, 10, 5]
    assert sum(one.reconciliations for one in purged) == 6


def filled(store: Store, cluster: str) -> None:
    store.identities.remember_cluster(cluster, f"id of {cluster}")
    store.views.save(cluster, "r", T0, b"")
    store.violations.record(cluster, [lost(1), warned(2)])
    reconciled(store, 1, cluster)
    store.topology.record(cluster, [TopologyChange(1, "broker", "", 1, detail="a:9092")])
    store.maintenance.plan(cluster, 1, 2, "upgrade", "ann")


def test_a_forgotten_cluster_is_nowhere_and_what_was_written_there_is_still_known_for_ours(store: Store) -> None:
    for cluster in ("c", "d"):
        filled(store, cluster)
    producer = store.identities.producer("c", "r", "t", "idempotent")
    generation = store.identities.next_generation(producer.first, 1, "c")
    assert store.retention.clusters() == ["c", "d"]
    assert store.retention.forget("nobody", T0) is None
    assert store.retention.forget("c", T0) == Purged(2, 2, 1, 1)
    assert store.retention.forget("c", T0) is None
    assert store.retention.clusters() == ["d"]
    assert {view.cluster for view in store.views.all()} == {"d"}
    assert {row.cluster for row in store.violations.counts()} == {"d"}
    assert {row.cluster for row in store.violations.page().items} == {"d"}
    assert {row.cluster for row in store.incidents.page().items} == {"d"}
    assert {row.cluster for row in store.reconciliations.page().items} == {"d"}
    assert {span.cluster for span in store.topology.page(TopologyFilter()).items} == {"d"}
    assert {window.cluster for window in store.maintenance.page().items} == {"d"}
    assert store.identities.remember_cluster("c", "another one of that name") == "another one of that name"
    assert store.identities.generations("c") == {producer.first: generation}
    again = store.identities.producer("c", "r", "t", "idempotent")
    assert again.first == producer.first
    assert again.producer_id != producer.producer_id
    assert store.identities.next_generation(again.first, 1, "c") > generation
    assert store.violations.record("c", [lost(1)]) == 1, "found again it is said again"


def test_a_cluster_that_a_runner_probes_is_not_forgotten(store: Store) -> None:
    filled(store, "c")
    store.leases.acquire(runner_lease("c", "r"), "process")
    with pytest.raises(StillProbedError, match="runner r probes c"):
        store.retention.forget("c", T0 + 14 * 10**9)
    assert len(store.views.all()) == 1
    store.leases.release(runner_lease("c", "r"), "process")
    assert store.retention.forget("c", T0 + 14 * 10**9) is not None
    filled(store, "c")
    store.leases.acquire(runner_lease("c", "r"), "killed")
    assert store.retention.forget("c", T0 + 15 * 10**9) is not None
