"""Notifications against a real receiver: at least once and in order, whatever it answers and whoever dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from canary.processes.notifying import leader, notifier, sending
from canary.processes.notifying.notifier import Notifier
from canary.settings.notify.receivers import ReceiverSettings
from storage.store import Store
from tests.storage.test_store_conditions import KEY, holds
from tests.storage.test_store_violations import lost
from tests.support.receiving import Answer, Receiving, receiving
from tests.support.stalls import python_path
from tests.support.waiting import in_time, until

if TYPE_CHECKING:
    from collections.abc import Callable

ON_SQLITE = pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
"""What does not hang on the database."""
SECRET = "a-key-that-nobody-may-see"  # noqa: S105  # a test's


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notifier, "FIRST_S", 0.05)
    monkeypatch.setattr(leader, "LOOK_S", 0.05)


def told_by(store: Store, there: Receiving, **more: Any) -> Notifier:
    given = {"name": "bus", "kind": "webhook", "url": f"{there.url}/hook", "key": SECRET} | more
    return Notifier(store, ReceiverSettings.model_validate(given), address="https://canary")


def turned(one: Notifier, reached: Callable[[], object], what: str) -> None:
    """Let a notifier turn until something is reached."""

    def turn() -> object:
        one.tick()
        return reached()

    until(turn, 60, what, step_s=0.02)


def ticks(one: Notifier, there: Receiving, requests: int) -> list[Any]:
    """Let a notifier turn until so many requests have come; return their bodies."""
    turned(one, lambda: len(there.requests) >= requests, f"{requests} requests")
    return [request.json for request in there.requests]


def waiting(store: Store, name: str = "bus") -> int:
    return store.notifications.receivers([name])[0].waiting


def failing(store: Store, name: str = "bus") -> int:
    return store.notifications.receivers([name])[0].failed


def open_one(store: Store, partition: int = 1) -> None:
    store.violations.record("c", [lost(7, time.time_ns(), partition=partition)])


@ON_SQLITE
def test_a_cloud_event_tells_of_an_incident_and_of_its_end(store: Store, there: Receiving) -> None:
    one = told_by(store, there)
    one.tick()
    open_one(store)
    (event,) = ticks(one, there, 1)
    (known,) = store.incidents.page().items
    assert {event["specversion"], event["source"], event["subject"]} == {"1.0", "https://canary", known.id}
    assert event["type"] == "kafka-durability-canary.incident.opened"
    assert event["data"]["incident"]["summary"] == known.summary
    assert event["data"]["links"]["incident"] == f"https://canary/incidents/{known.id}"
    headers = there.requests[0].headers
    assert headers["Content-Type"] == "application/cloudevents+json"
    assert headers["Authorization"] == f"Bearer {SECRET}"
    store.incidents.resolve(known.id, "lost", time.time_ns())
    _, over = ticks(one, there, 2)
    assert over["type"].endswith(".resolved")
    assert over["id"] != event["id"]
    assert waiting(store) == 0


@ON_SQLITE
@pytest.mark.parametrize("bad", [Answer(500), Answer(does="die"), Answer(307, {"Location": "/elsewhere"})])
def test_what_is_not_taken_is_sent_again_as_the_same(store: Store, there: Receiving, bad: Answer) -> None:
    there.answers = [bad, bad]
    one = told_by(store, there)
    open_one(store)
    first, second, third = ticks(one, there, 3)
    assert first == second == third
    assert {request.path for request in there.requests} == {"/hook"}, "no redirect is followed"
    assert waiting(store) == 0
    assert failing(store) == 2


@ON_SQLITE
def test_a_receiver_that_hangs_is_left_and_asked_again(
    store: Store, there: Receiving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "TIMEOUT_S", 0.3)
    there.answers = [Answer(does="hang")]
    one = told_by(store, there)
    open_one(store)
    ticks(one, there, 2)
    turned(one, lambda: not waiting(store), "it is taken")
    assert len({request.json["id"] for request in there.requests}) == 1


@ON_SQLITE
def test_one_that_is_not_there_is_told_when_it_is(store: Store, there: Receiving) -> None:
    with receiving() as gone:
        url = gone.url
    one = told_by(store, there, url=url)
    open_one(store)
    turned(one, lambda: failing(store) >= 2, "two attempts")
    with receiving(int(url.rpartition(":")[2])) as back:
        ticks(one, back, 1)
    assert waiting(store) == 0


@ON_SQLITE
def test_retry_after_is_heeded_for_all_that_it_is_sent(store: Store, there: Receiving) -> None:
    there.answers = [Answer(429, {"Retry-After": "3600"})]
    one = told_by(store, there)
    open_one(store)
    open_one(store, 2)
    ticks(one, there, 1)
    for _ in range(20):
        one.tick()
    assert len(there.requests) == 1
    assert waiting(store) == 2
    (refused,) = [row for row in store.notifications.due("bus", time.time_ns() + 2 * 3600 * 10**9) if row.attempts]
    assert 3590e9 < refused.due_ns - time.time_ns() <= 3600e9


@ON_SQLITE
def test_a_message_that_it_refuses_holds_back_no_other_incident(store: Store, there: Receiving) -> None:
    there.answers = [Answer(400)]
    one = told_by(store, there)
    open_one(store)
    open_one(store, 2)
    bodies = ticks(one, there, 3)
    assert bodies[0]["subject"] != bodies[1]["subject"]
    assert bodies[2] == bodies[0]
    assert waiting(store) == 0


def test_the_beginning_of_an_incident_comes_before_its_end(store: Store, there: Receiving) -> None:
    there.answers = [Answer(400)] * 3
    one = told_by(store, there)
    one.tick()
    store.violations.record("c", [holds(time.time_ns(), time.time_ns())])
    one.tick()
    store.violations.end([KEY], time.time_ns())
    changes = [body["data"]["change"] for body in ticks(one, there, 5)]
    assert changes == ["opened"] * 4 + ["resolved"]


@ON_SQLITE
def test_no_secret_is_logged_or_kept(store: Store, there: Receiving) -> None:
    path = "/services/T0/B0/a-secret-in-the-path"
    there.answers = [Answer(500, body=SECRET.encode()), Answer(403), Answer(does="die")]
    one = told_by(store, there, kind="slack", url=there.url + path, key=None)
    open_one(store)
    with capture_logs() as logged:
        ticks(one, there, 4)
    assert [line["event"] for line in logged].count("not_notified") == 3
    kept = [row.error for row in store.notifications.of_incident(store.incidents.page().items[0].id)]
    assert "a-secret" not in f"{logged} {kept}"
    assert SECRET not in f"{logged} {kept}"


@ON_SQLITE
def test_a_certificate_that_nobody_vouches_for_is_not_trusted(store: Store, there: Receiving) -> None:
    one = told_by(store, there, url=there.url.replace("http:", "https:"))
    open_one(store)
    with capture_logs() as logged:
        turned(one, lambda: failing(store), "an attempt")
    assert there.requests == []
    assert "no connection" in next(line["reason"] for line in logged if line["event"] == "not_notified")


def test_two_notifiers_tell_everything_once(store: Store, store_url: str, there: Receiving) -> None:
    with Store.connect(store_url, timeout=60) as second:
        both = [told_by(store, there), told_by(second, there)]
        for one in both:
            one.start()
        for partition in range(12):
            open_one(store, partition)
        until(lambda: len(there.requests) >= 12 and not waiting(store), 60, "all are told")
        assert all(one.stop(60) for one in both)
    assert len({request.json["id"] for request in there.requests}) == len(there.requests) == 12


def test_another_takes_over_from_one_that_stops(store: Store, store_url: str, there: Receiving) -> None:
    with Store.connect(store_url, timeout=60) as second:
        first, heir = told_by(store, there), told_by(second, there)
        first.start()
        open_one(store)
        until(lambda: there.requests, 60, "the first tells")
        in_time(first.stop(60))
        open_one(store, 2)
        ticks(heir, there, 2)
    assert not waiting(store)


KILLED = """
import sys, threading
from canary.processes.notifying.notifier import Notifier
from canary.settings.notify.receivers import ReceiverSettings
from storage.store import Store
url, there = sys.argv[1:]
with Store.connect(url, timeout=60) as store:
    receiver = ReceiverSettings.model_validate({"name": "bus", "kind": "webhook", "url": there})
    Notifier(store, receiver).run()
"""


@pytest.mark.dear("starts a program, and kills it")
def test_what_was_sent_by_one_that_was_killed_before_it_noted_that_is_sent_again_as_the_same(
    store: Store, store_url: str, there: Receiving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader, "DEAD_AFTER_S", 0.5)
    monkeypatch.setattr("storage.store.repositories.leases.RENEW_S", 0.1)
    there.answers = [Answer(does="hang")]
    open_one(store)
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, store_url, there.url], env={**os.environ, "PYTHONPATH": python_path(Path.cwd())}
    )
    try:
        until(lambda: there.requests, 60, "it was sent")
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(60)
    first, again = ticks(told_by(store, there, key=None), there, 2)
    assert first["id"] == again["id"]
    assert waiting(store) == 0


@ON_SQLITE
def test_a_notifier_waits_for_the_store(store_url: str, there: Receiving) -> None:
    with Store.connect(store_url, timeout=60) as empty, capture_logs() as logged:
        one = told_by(empty, there)
        one.start()
        until(lambda: logged, 60, "it says that there are no tables")
        empty.upgrade()
        open_one(empty)
        until(lambda: there.requests, 60, "it tells")
        in_time(one.stop(60))
    assert [line["event"] for line in logged].count("notifier_without_store") == 1
