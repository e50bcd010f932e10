"""A store that takes no write is not taken for a runner that is dead: on the page, in /readyz and on /metrics."""

from __future__ import annotations

import asyncio
import html
import shutil
import sqlite3
import threading
import time
from contextlib import closing
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest
from sqlalchemy import event

from api import create_app
from api.knowledge import writing
from api.knowledge.writing import AGAIN_S, EVERY_S, PATIENCE_S, UNKNOWN, Writing, Written
from storage.store import Store, StoreError
from storage.store.errors import UnwritableError
from tests.api.serving import Client, ProbeLogFake, lost, scrape, settings, view
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

WARNING = lost(7, kind="under-replicated", severity="warning")
LOCKED = "The canary's store takes no writes"


def shown(store: Store, age_s: float) -> None:
    at_ns = time.time_ns() - int(age_s * 1e9)
    store.views.save("prod", "canary-0", at_ns, view(told_ns=at_ns))


def page(client: Client) -> str:
    return html.unescape(client.get("/", refresh="off").text)


def ready(client: Client) -> str:
    answer = client.get("/readyz")
    return "" if answer.status_code == 200 else str(answer.json()["detail"])


def written(client: Client) -> float | None:
    """What /metrics says of writes; None: nothing."""
    samples = scrape(client)
    assert samples["canary_api_store_up", ()] == 1
    return samples.get(("canary_api_store_writable", (("cluster", "prod"),)))


@pytest.fixture
def read_only(tmp_path: Path, migrated: Path) -> Iterator[Store]:
    """A store in which the runner of "prod" has reported just now, and that is read-only from then on."""
    shutil.copy(migrated, tmp_path / "store.db")
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=60) as opened:
        shown(opened, 0)
        opened.violations.record("prod", [WARNING])
        opened.close()
        event.listen(opened._database._engine, "connect", lambda one, _: one.execute("PRAGMA query_only=ON"))
        yield opened


def test_a_locked_store_is_said_and_no_dead_runner_until_it_takes_writes(
    client: Client, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown(store, 20)
    for name, value in {"WAIT_S": 0.0, "PATIENCE_S": 0.0, "AGAIN_S": 0.0}.items():
        monkeypatch.setattr(writing, name, value)
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        assert f"{LOCKED} (a write is not done within 0 s): what runners find in prod does not arrive." in page(client)
        assert ready(client).startswith(LOCKED)
        assert "runner lives" not in ready(client)
        assert written(client) == 0
        other.execute("ROLLBACK")
    monkeypatch.setattr(writing, "WAIT_S", 60.0)  # or each look would begin a trial and not wait for it
    until(lambda: written(client) == 1, 30, "the store takes writes", step_s=1.0)
    until(lambda: "and the store takes writes: its runner does not run" in ready(client), 30, "the runner is silent")


def test_a_runner_that_is_dead_is_said_while_the_store_takes_writes(client: Client, store: Store) -> None:
    shown(store, 20)
    assert "and the store takes writes: its runner does not run, or does not reach the store." in page(client)
    assert "See whether its runner lives" in ready(client)
    assert written(client) == 1


def test_a_store_that_takes_writes_of_runners_only_is_a_worry(read_only: Store) -> None:
    client = Client(create_app(settings("prod"), read_only, ProbeLogFake()))
    said = "prod has lost nothing, but the store takes no writes of the API (attempt to write a readonly database)"
    assert f"{said}; 1 warning is open." in page(client)
    assert ready(client) == ""
    assert written(client) == 0


def test_a_write_that_the_store_refuses_is_not_called_a_store_that_does_not_answer(read_only: Store) -> None:
    client = Client(create_app(settings("prod"), read_only, ProbeLogFake()))
    answer = client.post(f"/api/v1/violations/{WARNING.key('prod')}/acknowledge", {"note": "mine"})
    assert answer.status_code == 503
    assert "it takes no write: attempt to write a readonly database" in answer.json()["detail"]


def trying(attempt: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> Writing:
    """The trials of a store that does ``attempt`` where it is written to."""
    return Writing(cast("Store", SimpleNamespace(leases=SimpleNamespace(try_write=attempt))), clock)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_store_is_tried_once_a_minute_and_sooner_while_it_is_in_doubt() -> None:
    clock, tries = Clock(), []
    trials = trying(lambda: tries.append(clock.now), clock)
    assert trials.known == UNKNOWN
    for second in range(121):
        clock.now = 1000.0 + second
        assert asyncio.run(trials.look(suspected=False)) == Written(takes=True)
    assert tries == [1000.0, 1000.0 + EVERY_S, 1000.0 + 2 * EVERY_S]
    for second in range(21):
        clock.now = 1200.0 + second
        asyncio.run(trials.look(suspected=True))
    assert tries[3:] == [1200.0, 1200.0 + AGAIN_S, 1200.0 + 2 * AGAIN_S]


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (UnwritableError("x", "database is locked"), "database is locked"),
        (StoreError("the store postgresql://host does not answer: refused"), "it does not answer"),
    ],
)
def test_a_refused_write_is_known_with_its_reason_and_without_the_address(error: StoreError, why: str) -> None:
    def attempt() -> None:
        raise error

    assert asyncio.run(trying(attempt).look(suspected=False)) == Written(takes=False, why=why)


def test_a_write_that_hangs_delays_no_answer_and_is_a_write_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "WAIT_S", 0.0)
    clock, free, over = Clock(), threading.Event(), threading.Event()

    def attempt() -> None:
        free.wait(60)
        over.set()

    trials = trying(attempt, clock)
    assert asyncio.run(trials.look(suspected=True)) == UNKNOWN
    clock.now += PATIENCE_S
    hangs = Written(takes=False, why=f"a write is not done within {PATIENCE_S:g} s")
    assert [asyncio.run(trials.look(suspected=True)) for _ in range(2)] == [hangs, hangs]
    free.set()
    assert over.wait(60)
    until(lambda: trials.known == Written(takes=True), 60, "the trial has ended")
