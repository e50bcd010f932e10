"""Who reconciles when: the table decides, one leads, a child does it, nothing is left behind."""

from __future__ import annotations

import os
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow.parquet as pq
import pytest

from canary.settings import load
from simulation.nights.nights import arrow, probe
from spark_reconcile.nightly import children, compaction
from spark_reconcile.nightly import scheduler as schedule
from spark_reconcile.nightly.run import _next_ns
from spark_reconcile.nightly.scheduler import Scheduler, due, leadership
from storage.store import Store, StoreError
from storage.store.repositories.leases import scheduler_lease
from storage.store.repositories.reconciliations import TRIES
from storage.store.values import Held, Lease
from tests.support import stores, waiting
from tests.support.scheduling import light_child

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from canary.settings import Settings

HOUR = 3600
FINISHES = """
import sys, time
sys.path.insert(0, {root!r})
from storage.store import Store
named = dict(zip(sys.argv[1::2], sys.argv[2::2]))
with Store.connect({url!r}, timeout=5) as store:
    ours = named["--reconciliation"], named["--holder"]
    store.reconciliations.finish(*ours, time.time_ns(), verdicts={{"survived": 1}})
"""
HANGS = "import signal, subprocess, sys, time; signal.signal(15, signal.SIG_IGN)\n"
HANGS += "subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"
LEAVES = HANGS.replace("signal.SIG_IGN", "signal.SIG_DFL")
"""Ends at once, and what it started goes on."""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "canary.yaml").write_text(
        f"store: {{url: 'sqlite:///{tmp_path}/store.db'}}\nclusters: [{{name: c}}]\n"
        "schedule: {reconcile: '0 3 * * *'}\n"
    )
    return load(tmp_path / "canary.yaml", {})


@pytest.fixture
def store(settings: Settings) -> Iterator[Store]:
    with Store.connect(settings.store.url.get_secret_value(), timeout=5) as connected:
        stores.upgrade(connected)
        yield connected


@pytest.fixture
def running(settings: Settings, store: Store) -> Iterator[Callable[..., threading.Event]]:
    """Start schedulers in threads; each is stopped at the end."""
    began: list[tuple[threading.Event, threading.Thread]] = []

    def start(program: str, compacts: str = "raise SystemExit('not yet')") -> threading.Event:
        stopping = threading.Event()
        commands = ([sys.executable, "-c", one] for one in (program, compacts))
        scheduler = Scheduler(settings, store, (), *commands)
        thread = threading.Thread(target=scheduler.run, args=(stopping,))
        thread.start()
        began.append((stopping, thread))
        return stopping

    yield start
    for stopping, thread in began:
        stopping.set()
        waiting.joined(thread)


def until(true: Callable[[], Any]) -> Any:
    return waiting.until(true, 15, "what was asked for", step_s=0.05)


def ended(child: psutil.Process) -> bool:
    """Return whether a process has ended: nobody may have waited for it yet."""
    try:
        return not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # waited for just now
        return True


def two_besides(others: list[psutil.Process]) -> list[psutil.Process]:
    """Return the child and what it started, once both are there; Spark of the tests before may run as well."""
    found = [one for one in psutil.Process().children(recursive=True) if one not in others]
    return found if len(found) >= 2 else []


def turns(store: Store) -> int:
    """Return how often the leader has held on to the lease; 0 if nobody leads."""
    answer = store.leases.acquire(scheduler_lease("c"), "another")
    if isinstance(answer, Held):
        return answer.counter
    store.leases.release(scheduler_lease("c"), "another")
    return 0


@pytest.fixture
def finishes(store: Store) -> Iterator[str]:
    """A child that finishes what it is given."""

    def finish(named: Mapping[str, str]) -> None:
        ours = named["--reconciliation"], named["--holder"]
        store.reconciliations.finish(*ours, time.time_ns(), verdicts={"survived": 1})

    with light_child(finish) as program:
        yield program


def test_a_request_is_done_within_seconds(
    settings: Settings, store: Store, running: Callable[..., threading.Event]
) -> None:
    running(FINISHES.format(url=settings.store.url.get_secret_value(), root=os.getcwd()))  # noqa: PTH109  # a string
    store.reconciliations.request("c", "api", time.time_ns())
    row = until(lambda: next(iter(store.reconciliations.page("c", "succeeded").items), None))
    assert row.verdicts == {"survived": 1}


def test_a_child_that_dies_without_a_word_is_a_failure(store: Store, running: Callable[..., threading.Event]) -> None:
    running("import os; os._exit(9)")
    store.reconciliations.request("c", "api", time.time_ns())
    row = until(lambda: next(iter(store.reconciliations.page("c", "failed").items), None))
    assert "status 9" in (row.error or "")


@pytest.mark.parametrize("program", [HANGS, LEAVES], ids=["a child that will not", "what a child leaves"])
def test_stopping_ends_a_child_and_all_it_started(
    store: Store, running: Callable[..., threading.Event], monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(children, "GRACE_S", 1.0)
    others = psutil.Process().children(recursive=True)
    stopping = running(program)
    store.reconciliations.request("c", "api", time.time_ns())
    until(lambda: store.reconciliations.page("c", "running").items)
    started = until(lambda: two_besides(others))
    stopping.set()
    row = until(lambda: next(iter(store.reconciliations.page("c", "requested").items), None))
    assert (row.interrupted, row.holder, row.error) == (1, None, None), "who leads next does it"
    until(lambda: all(map(ended, started)))


def test_what_a_dead_scheduler_left_running_is_done_by_who_leads_next(
    store: Store, finishes: str, running: Callable[..., threading.Event]
) -> None:
    asked = store.reconciliations.request("c", "api", time.time_ns())
    store.reconciliations.claim("dead", time.time_ns())
    running(finishes)
    row = until(lambda: next(iter(store.reconciliations.page("c", "succeeded").items), None))
    assert (row.id, row.interrupted) == (asked.id, 1)
    assert len(store.reconciliations.page("c").items) == 1


def test_what_ends_every_process_that_runs_it_has_failed_in_the_end(
    store: Store, finishes: str, running: Callable[..., threading.Event]
) -> None:
    asked = store.reconciliations.request("c", "api", time.time_ns())
    for turn in range(TRIES - 1):
        store.reconciliations.claim(f"dead {turn}", time.time_ns())
        assert store.reconciliations.abandon("heir", time.time_ns()) == 1
    store.reconciliations.claim("dead", time.time_ns())
    running(finishes)
    row = until(lambda: next(iter(store.reconciliations.page("c", "failed").items), None))
    assert row.id == asked.id
    assert row.error == f"it was begun {TRIES} times, and at last: the process that ran it ended"


def refuses_once(call: Callable[..., Any], failed: list[object], *, after: bool) -> Callable[..., Any]:
    """Return a call of the store that is not answered once, before or after the store has done it."""

    def ask(*asked: Any, **named: Any) -> Any:
        answer = call(*asked, **named) if after or failed else None
        if (answer or not after) and not failed:
            failed.append(answer)
            raise StoreError("no answer")
        return answer

    return ask


def test_a_claim_whose_answer_was_lost_is_done_all_the_same(
    store: Store, finishes: str, running: Callable[..., threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    lost: list[object] = []
    monkeypatch.setattr(store.reconciliations, "claim", refuses_once(store.reconciliations.claim, lost, after=True))
    store.reconciliations.request("c", "schedule", time.time_ns())
    running(finishes)
    until(lambda: store.reconciliations.page("c", "succeeded").items)
    assert lost


def test_what_cannot_be_deleted_keeps_no_night_from_being_done(
    store: Store, finishes: str, running: Callable[..., threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StoreError("a lock is held")

    monkeypatch.setattr(store.retention, "purge", refuse)
    store.reconciliations.request("c", "schedule", time.time_ns())
    running(finishes)
    until(lambda: store.reconciliations.page("c", "succeeded").items)


def test_the_first_hour_of_a_cluster_is_not_missed_because_the_store_did_not_answer_then(
    settings: Settings, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = Scheduler(settings, store, (), [sys.executable, "-c", ""])
    scheduler._strike()
    failed: list[object] = []
    monkeypatch.setattr(store.reconciliations, "page", refuses_once(store.reconciliations.page, failed, after=False))
    with pytest.raises(StoreError):
        scheduler._tick()
    assert not store.reconciliations.page("c").items
    scheduler._tick()
    assert len(store.reconciliations.page("c").items) == 1
    scheduler._stop()


def test_a_missed_night_is_made_up_for_at_the_start(
    store: Store, finishes: str, running: Callable[..., threading.Event]
) -> None:
    before = time.time_ns() - 25 * HOUR * 10**9
    made = store.reconciliations.request("c", "schedule", before)
    store.reconciliations.claim("x", before)
    store.reconciliations.finish(made.id, "x", before)
    running(finishes)
    until(lambda: len(store.reconciliations.page("c", "succeeded").items) == 2)


def test_a_new_canary_does_not_reconcile_before_its_hour(
    store: Store, finishes: str, running: Callable[..., threading.Event]
) -> None:
    running(finishes)
    first = until(lambda: turns(store))
    until(lambda: turns(store) >= first + 3)  # two whole ticks in which nothing must happen
    assert not store.reconciliations.page("c").items


WAITS = """
import os, pathlib, sys, time
mine, other, done = map(pathlib.Path, {paths!r})
assert not other.exists(), "both at once"
with mine.open("x"):
    for _ in range(200):
        time.sleep(0.01)
        assert not other.exists(), "both at once"
mine.unlink()
done.touch()
"""


def test_small_files_are_merged_again_and_again_but_never_while_a_reconciliation_reads(
    store: Store,
    finishes: str,
    running: Callable[..., threading.Event],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(schedule, "COMPACT_S", 0.2)
    reads, merges, read, merged = (tmp_path / name for name in ("reads", "merges", "read", "merged"))
    reconciles = WAITS.format(paths=[str(reads), str(merges), str(read)]) + finishes
    running(reconciles, WAITS.format(paths=[str(merges), str(reads), str(merged)]))
    until(merges.exists)
    store.reconciliations.request("c", "api", time.time_ns())
    until(lambda: next(iter(store.reconciliations.page("c", "succeeded").items), None))
    assert read.exists()
    assert merged.exists()
    merged.unlink()
    until(merged.exists)


def test_what_is_beyond_the_stores_retention_is_deleted_at_the_start_and_again(
    store: Store, finishes: str, running: Callable[..., threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule, "PURGE_S", 0.2)
    long_ago, lately = (datetime.now(UTC) - timedelta(days=days) for days in (401, 399))
    for when in (lately, long_ago):
        done(store, when, "no broker")
    running(finishes)
    until(lambda: len(store.reconciliations.page("c", "failed").items) == 1)
    done(store, long_ago, "no broker")
    until(lambda: len(store.reconciliations.page("c", "failed").items) == 1)


def test_a_compaction_at_work_ends_with_the_scheduler(
    running: Callable[..., threading.Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "GRACE_S", 0.5)
    monkeypatch.setattr(schedule, "COMPACT_S", 0.2)
    others = psutil.Process().children(recursive=True)
    stopping = running("", HANGS)
    started = until(lambda: two_besides(others))
    stopping.set()
    until(lambda: all(map(ended, started)))


@pytest.mark.usefixtures("settings")
def test_the_child_merges_what_the_settings_name(tmp_path: Path) -> None:
    folder = tmp_path / "log" / "probes" / "2026-11-03"
    folder.mkdir(parents=True)
    for number in range(100):
        pq.write_table(arrow([probe(number, number)], "probes"), folder / f"c--r--ab-{number:010d}.parquet")
    config = tmp_path / "canary.yaml"
    config.write_text(config.read_text() + f"probe_log: {{url: '{tmp_path}/log'}}\n")
    assert compaction.main(["--config", str(config)]) == 0
    assert len(list(folder.iterdir())) == 61
    assert pq.read_table(folder).num_rows == 100
    config.write_text(config.read_text().replace(f"'{tmp_path}/log'", "'nowhere://x'"))
    assert compaction.main(["--config", str(config)]) == 1


def at(hour: int, day: int = 10) -> datetime:
    return datetime(2026, 11, day, hour, tzinfo=UTC)


def nightly(after: datetime) -> datetime:
    """At three."""
    three = after.replace(hour=3, minute=0, second=0, microsecond=0)
    return three if three > after else three + timedelta(days=1)


def done(store: Store, when: datetime, error: str | None = None, by: str = "schedule") -> None:
    at_ns = int(when.timestamp()) * 10**9
    made = store.reconciliations.request("c", by, at_ns)
    store.reconciliations.claim("x", at_ns)
    store.reconciliations.finish(made.id, "x", at_ns, error=error)


def test_a_night_that_was_done_is_not_due_again(store: Store) -> None:
    done(store, at(3))
    assert not due(store, "c", nightly, at(23))
    assert due(store, "c", nightly, at(4, day=11))


def test_one_asked_for_by_hand_does_not_stand_for_the_night(store: Store) -> None:
    done(store, at(1), by="api")
    assert due(store, "c", nightly, at(4))


def test_a_night_that_failed_is_tried_again_a_few_times(store: Store) -> None:
    done(store, at(3), "no broker")
    assert not due(store, "c", nightly, at(3) + timedelta(minutes=10))
    for turn in range(1, TRIES):
        assert due(store, "c", nightly, at(3 + turn))
        done(store, at(3 + turn), "no broker")
    assert not due(store, "c", nightly, at(23))
    assert due(store, "c", nightly, at(4, day=11))
    done(store, at(4, day=11), "no broker")
    assert due(store, "c", nightly, at(5, day=11)), "the night before has had its own tries"


def test_a_night_that_a_clock_dated_ahead_stands_for_none(store: Store) -> None:
    done(store, at(3))
    for day in (25, 26, 27):
        done(store, at(3, day=day))
    assert due(store, "c", nightly, at(4, day=11))
    done(store, at(4, day=11))
    assert not due(store, "c", nightly, at(5, day=11))


def test_one_at_work_is_not_asked_for_again(store: Store) -> None:
    store.reconciliations.request("c", "schedule", int(at(3).timestamp()) * 10**9)
    assert not due(store, "c", nightly, at(4, day=12))


def test_of_two_schedulers_one_leads_and_the_other_follows_when_it_dies(store: Store) -> None:
    now = [0.0]
    first, second = (leadership(store, name, ["c"], lambda: now[0]) for name in ("one", "two"))
    assert first.renew()
    for _ in range(40):  # a living leader is not replaced, however long
        now[0] += 1
        assert first.renew()
        assert not second.renew()
    led = [second.renew() for _ in range(20) if (now.__setitem__(0, now[0] + 1) is None)]
    assert led.index(frozenset("c")) in range(14, 17)
    assert not first.renew()
    second.release()
    assert isinstance(store.leases.acquire(scheduler_lease("c"), "three"), Lease)


def test_a_night_knows_when_the_next_one_is(settings: Settings, tmp_path: Path) -> None:
    now = datetime(2026, 11, 22, 2, 59).astimezone()
    at_three = _next_ns(settings, int(now.timestamp()) * 10**9)
    assert at_three == int(now.timestamp() + 60) * 10**9
    assert _next_ns(settings, at_three + 10**9) == at_three + 24 * HOUR * 10**9
    (tmp_path / "canary.yaml").write_text("clusters: [{name: c}]\nschedule: {reconcile: never}\n")
    assert _next_ns(load(tmp_path / "canary.yaml", {}), at_three) == at_three
