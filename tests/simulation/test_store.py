"""The store that lies: each of its faults, on the product's own tables and statements."""

from __future__ import annotations

import random
import sqlite3
from typing import TYPE_CHECKING, Literal

import pytest

from canary.anomalies.violation import Violation
from simulation.machine.schedule import Killed, Process, Schedule
from simulation.machine.store import LyingStore, migrated
from storage.store import Store, StoreError
from storage.store.repositories.views import Views
from storage.store.values import Held, Lease

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


pytestmark = pytest.mark.simulator


@pytest.fixture
def lying() -> Iterator[LyingStore]:
    lying = LyingStore()
    yield lying
    lying.close()


def reborn(lying: LyingStore) -> None:
    lying.owner = Process("the next")


def generation(lying: LyingStore) -> int:
    """Return the next generation of a producer."""
    return lying.store.identities.next_generation(7, 1, "c")


def lost_write(offset: int) -> Violation:
    place = {"topic": "t", "topic_id": "id", "partition": 0, "offset": offset}
    return Violation(kind="lost-write", severity="critical", at_ns=10**18, by="online", summary="lost", **place)  # type: ignore[arg-type]


def test_its_tables_are_those_of_the_product(lying: LyingStore, tmp_path: Path) -> None:
    def tables(connection: sqlite3.Connection) -> list[str]:
        return sorted(row[0] for row in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"))

    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=1) as store:
        store.upgrade()
        assert lying.store.current() == store.current()
    with sqlite3.connect(tmp_path / "store.db") as product:
        assert tables(lying._database.raw) == tables(product)


def test_a_view_is_saved_as_the_product_saves_it(lying: LyingStore) -> None:
    for repository in (lying.store.views, Views(lying._database)):
        repository.save("c", "r", 1, b"old")
        repository.save("c", "r", 2, b"new")
        repository.save("c", "other", 3, b"other")
        found = [(view.cluster, view.runner, view.at_ns, view.view) for view in lying.store.views.all()]
        assert found == [("c", "other", 3, b"other"), ("c", "r", 2, b"new")]
        lying.wipe()


def test_while_it_is_away_every_call_fails_and_does_nothing(lying: LyingStore) -> None:
    lying.away = True
    calls: list[Callable[[], object]] = [
        lying.store.ping,
        lambda: lying.store.views.save("c", "r", 1, b""),
        lambda: lying.store.violations.record("c", [lost_write(1)]),
    ]
    for call in calls:
        with pytest.raises(StoreError, match="does not answer"):
            call()
    lying.away = False
    assert (lying.store.views.all(), lying.store.violations.page().items) == ([], [])
    assert lying.seen == {"calls": 5, "refused": 3}


def test_a_call_may_fail_by_chance(lying: LyingStore) -> None:
    lying.refused = 0.5
    failures = 0
    for number in range(100):
        try:
            lying.store.views.save("c", str(number), 1, b"")
        except StoreError:
            failures += 1
    lying.refused = 0.0
    assert 20 < failures < 80
    assert len(lying.store.views.all()) == 100 - failures


def test_what_fails_may_have_been_done(lying: LyingStore) -> None:
    lying.unanswered = 1.0
    with pytest.raises(StoreError, match="does not answer"):
        lying.store.violations.record("c", [lost_write(1)])
    with pytest.raises(StoreError):
        generation(lying)
    lying.unanswered = 0.0
    assert lying.store.violations.record("c", [lost_write(1)]) == 0, "it has it already"
    assert generation(lying) == 2
    assert lying.seen["unanswered"] == 2


@pytest.mark.parametrize(
    ("step", "when", "done"),
    [("statement", "before", False), ("commit", "before", False), ("commit", "after", True)],
)
def test_a_process_that_dies_in_a_transaction_did_all_of_it_or_nothing(
    lying: LyingStore, step: str, when: str, *, done: bool
) -> None:
    left = 2 if step == "statement" else 1

    def die(name: str, at: Literal["before", "after"]) -> None:
        nonlocal left
        left -= (name, at) == (step, when)
        lying.owner.dead = not left

    lying.on_step = die
    with pytest.raises(Killed):
        lying.store.violations.record("c", [lost_write(1)])
    lying.on_step = None
    with pytest.raises(Killed):
        lying.store.ping()
    reborn(lying)
    page = lying.store.violations.page().items
    assert (len(page), len(lying.store.violations.counts())) == ((1, 1) if done else (0, 0))
    assert lying.store.violations.record("c", [lost_write(1)]) == int(not done)


def test_a_transaction_that_fails_is_rolled_back(lying: LyingStore) -> None:
    database = lying._database

    def fail(*statements: str) -> None:
        with database.writing() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)
            raise ZeroDivisionError

    insert = "INSERT INTO clusters VALUES ('c', 'id')"
    with pytest.raises(ZeroDivisionError):
        fail(insert)
    with pytest.raises(StoreError, match="UNIQUE"):
        fail(insert, insert)
    with database.reading() as connection:
        assert connection.exec_driver_sql("SELECT * FROM clusters").all() == []


def test_a_lease_is_lost_to_another_holder(lying: LyingStore) -> None:
    leases = lying.store.leases
    assert isinstance(leases.acquire("runner/c/r", "me"), Lease)
    assert leases.renew("runner/c/r", "me")
    assert lying.take_leases() == ["runner/c/r"]
    assert not leases.renew("runner/c/r", "me")
    held = leases.acquire("runner/c/r", "me")
    assert isinstance(held, Held)
    assert held.holder == "another"


def test_it_is_put_back_wiped_or_loses_its_tables(lying: LyingStore) -> None:
    assert generation(lying) == 1
    backup = lying.backup()
    assert generation(lying) == 2
    lying.store.violations.record("c", [lost_write(1)])
    lying.restore(backup)
    assert lying.store.violations.page().items == []
    assert generation(lying) == 2, "given twice"
    lying.wipe()
    assert lying.backup() == migrated()
    assert generation(lying) == 1
    lying.drop_tables()
    with pytest.raises(StoreError, match="has no tables"):
        lying.store.violations.page()
    lying.store.upgrade()
    assert lying.store.violations.page().items == []


def test_closing_it_takes_nothing_from_other_processes(lying: LyingStore) -> None:
    lying.store.views.save("c", "r", 1, b"")
    lying.store.close()
    assert len(lying.store.views.all()) == 1


def test_a_slow_one_answers_in_virtual_time_and_others_are_served_meanwhile() -> None:
    schedule = Schedule()
    lying = LyingStore(schedule, random.Random(3))
    took: dict[str, float] = {}
    seen_before: list[bool] = []

    def run(name: str) -> None:
        began = schedule.now
        lying.store.views.save("c", name, 1, b"")
        took[name] = schedule.now - began

    names = [f"{number}" for number in range(20)]
    for name in names:
        schedule.spawn(Process(name), lambda name=name: run(name), name)  # type: ignore[misc]
    lying.delay_s = 10.0
    schedule.at(0.001, lambda: seen_before.append(len(lying.store.views.all()) > 0))
    schedule.run(20)
    assert seen_before == [True], "some are late with the answer, some with the work"
    assert len(took) == 20
    assert 5 < max(took.values()) <= 10
    assert len(set(took.values())) == 20
    assert len(lying.store.views.all()) == 20
    lying.close()


def test_a_process_that_is_killed_while_it_waits_has_asked_or_not() -> None:
    schedule = Schedule()
    lying = LyingStore(schedule, random.Random(3))
    lying.delay_s = 10.0
    killed = Process("killed")
    ended: list[str] = []

    def run(name: str) -> None:
        lying.store.views.save("c", name, 1, b"")
        ended.append(name)

    for number in range(20):
        schedule.spawn(killed, lambda number=number: run(str(number)), str(number))  # type: ignore[misc]
    schedule.at(0.001, lambda: schedule.kill(killed))
    schedule.run(20)
    assert ended == []
    assert 0 < len(lying.store.views.all()) < 20
    lying.away = True
    assert len(lying.store.views.all()) > 0, "whoever looks from outside is answered"
    lying.close()
