"""Drills of live clusters: which one explains a finding, and which one proved the alarm."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from storage.store import Store
    from storage.store.values import DrillRun

S = 10**9
T0 = 1_700_000_000 * S


def begun(store: Store, at_ns: int = T0, cluster: str = "c") -> DrillRun:
    return store.drills.begin(cluster, "duplicate", "t-drill", at_ns, at_ns + 900 * S, "ann")


def proven(store: Store, at_ns: int) -> DrillRun:
    run = begun(store, at_ns)
    store.drills.note(run.id, knowable_ns=at_ns + S, detected_ns=at_ns + 2 * S)
    assert store.drills.paged("c", at_ns + 30 * S) == 1
    store.drills.note(run.id, ended_ns=at_ns + 40 * S)
    return run


def test_a_page_proves_the_drill_that_runs_once(store: Store) -> None:
    run = begun(store)
    other = begun(store, cluster="d")
    assert store.drills.paged("c", T0 - 1) == 0, "before it began"
    assert store.drills.paged("c", T0 + 900 * S) == 0, "it is over by then"
    assert store.drills.paged("c", T0 + 5 * S) == 1
    assert store.drills.paged("c", T0 + 6 * S) == 0, "Alertmanager repeats itself"
    found = store.drills.get(run.id)
    assert found is not None
    assert found.paged_ns == T0 + 5 * S
    untouched = store.drills.get(other.id)
    assert untouched is not None
    assert untouched.paged_ns is None


def test_a_page_that_comes_after_the_end_proves_nothing(store: Store) -> None:
    run = begun(store)
    store.drills.note(run.id, ended_ns=T0 + 3 * S, error="not in 300 s")
    assert store.drills.paged("c", T0 + 5 * S) == 0


def test_the_last_proof_is_the_last_one_that_was_found_and_paged_without_error(store: Store) -> None:
    assert store.drills.last_proofs() == []
    proven(store, T0)
    second = proven(store, T0 + 1000 * S)
    failed = begun(store, T0 + 2000 * S)
    store.drills.note(failed.id, detected_ns=T0 + 2001 * S, ended_ns=T0 + 2300 * S, error="not paged")
    unpaged = begun(store, T0 + 3000 * S)
    store.drills.note(unpaged.id, detected_ns=T0 + 3001 * S, ended_ns=T0 + 3002 * S)
    begun(store, T0 + 4000 * S)
    assert [run.id for run in store.drills.last_proofs()] == [second.id]
    last = store.drills.last("c")
    assert last is not None
    assert last.began_ns == T0 + 4000 * S
    assert [run.began_ns for run in store.drills.page(limit=2).items] == [T0 + 4000 * S, T0 + 3000 * S]


def test_a_drill_explains_what_is_found_while_it_runs_and_what_it_harmed_for_ever(store: Store) -> None:
    run = begun(store)
    store.drills.note(run.id, harmed={"0": [77]}, ended_ns=T0 + 60 * S)
    known = store.drills.get(run.id)
    assert known is not None
    assert known.explains("t-drill", 0, 5, T0 + S)
    assert known.explains("t-drill", None, None, T0 + S), "a cut has no record"
    assert not known.explains("t", 0, 5, T0 + S), "another topic: a real loss"
    assert not known.explains("t-drill", 0, 5, T0 - 1)
    assert not known.explains("t-drill", 0, 78, T0 + 60 * S), "found after its end, and not of its doing"
    assert known.explains("t-drill", 0, 77, T0 + 90 * 86_400 * S), "a scrub finds the forged record again"
    assert not known.explains("t-drill", 1, 77, T0 + 90 * 86_400 * S)


def test_a_forgotten_cluster_has_no_drills(store: Store) -> None:
    proven(store, T0)
    store.retention.forget("c", T0 + 3600 * S)
    assert store.drills.page().items == []
