"""What a drill of a live cluster did to its topic is filed as the drill's; nothing else is."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from canary.anomalies.violation import Violation
from canary.runner.publishing.flusher import Flusher
from storage.store import Store
from storage.store.values import ViolationFilter
from tests.support import stores
from tests.support.contexts import context

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

S = 10**9
T0 = 1_700_000_000 * S
TOPIC = "durability-canary-drill"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=60) as opened:
        stores.upgrade(opened)
        yield opened


def found(kind: str = "duplicate", topic: str = TOPIC, offset: int | None = 5, at_ns: int = T0 + S) -> Violation:
    return Violation(
        kind=kind,
        severity="critical",
        topic=topic,
        partition=0,
        offset=offset,
        at_ns=at_ns,
        by="online",
        summary="found",
        evidence={"copy": True},
    )


def kinds(store: Store, *violations: Violation) -> list[str]:
    flusher = Flusher(context(store, "prod", "canary-1", modes={"idempotent": {}, "drill": {}}))
    flusher.violations(violations)
    assert flusher.flush()
    return sorted(one.kind for one in store.violations.page().items)


def test_while_a_drill_runs_what_is_found_in_its_topic_is_the_drill_s(store: Store) -> None:
    run = store.drills.begin("prod", "duplicate", TOPIC, T0, T0 + 900 * S, "ann")
    assert kinds(store, found()) == ["drill"]
    (listed,) = store.violations.page(ViolationFilter(kind="drill")).items
    whole = store.violations.get(listed.id)
    assert whole is not None
    assert whole.evidence == {"drill": run.id, "found": "duplicate", "copy": True}
    assert whole.summary == "This is a drill, nothing is wrong. Found: duplicate: found"
    assert {count.kind for count in store.violations.counts() if count.total} == {"drill"}


def test_a_loss_elsewhere_is_a_loss_though_a_drill_runs(store: Store) -> None:
    store.drills.begin("prod", "duplicate", TOPIC, T0, T0 + 900 * S, "ann")
    assert kinds(store, found("lost-write", "durability-canary")) == ["lost-write"]


def test_in_the_drill_topic_too_a_loss_is_a_loss_when_no_drill_runs(store: Store) -> None:
    run = store.drills.begin("prod", "duplicate", TOPIC, T0, T0 + 900 * S, "ann")
    store.drills.note(run.id, ended_ns=T0 + 60 * S, harmed={"0": [5]})
    assert kinds(store, found(offset=6, at_ns=T0 + 3600 * S)) == ["duplicate"]


def test_what_a_drill_did_that_is_over_pages_nobody_whoever_finds_it_again(store: Store) -> None:
    run = store.drills.begin("prod", "duplicate", TOPIC, T0, T0 + 900 * S, "ann")
    store.drills.note(run.id, ended_ns=T0 + 60 * S, harmed={"0": [5]})
    assert kinds(store, found(offset=5, at_ns=T0 + 3600 * S)) == []


def test_a_drill_whose_process_died_pages_no_longer_than_its_time(store: Store) -> None:
    store.drills.begin("prod", "duplicate", TOPIC, T0, T0 + 900 * S, "ann")
    assert kinds(store, found()) == ["drill"]
    store.end_abandoned_drills("prod", T0 + 899 * S)
    assert [one.state for one in store.violations.page().items] == ["open"]
    store.end_abandoned_drills("prod", T0 + 900 * S)
    assert [one.state for one in store.violations.page().items] == ["resolved"]
    last = store.drills.last("prod")
    assert last is not None
    assert last.error == "its process did not end it"


def test_a_condition_of_the_drill_topic_is_what_it_is(store: Store) -> None:
    store.drills.begin("prod", "duplicate", TOPIC, T0, T0 + 900 * S, "ann")
    assert kinds(store, found("isr-of-one", offset=None)) == ["isr-of-one"]


def test_a_drill_pages_in_a_planned_window_too(store: Store) -> None:
    store.maintenance.plan("prod", T0, T0 + 900 * S, "upgrade", "ann")
    store.drills.begin("prod", "duplicate", TOPIC, T0, T0 + 900 * S, "ann")
    kinds(store, found(), replace(found("lost-write", "durability-canary", 9), happened_after_ns=T0))
    states = {one.kind: one.state for one in store.violations.page().items}
    assert states == {"drill": "open", "lost-write": "acknowledged"}
