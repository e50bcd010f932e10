"""A heartbeat against a real receiver: it is called while all is well, and for each thing that is not it is not."""

from __future__ import annotations

import time
from typing import Any

import pytest
from sqlalchemy import update
from structlog.testing import capture_logs

from canary.processes.notifying import heartbeat, leader
from canary.processes.notifying.heartbeat import Heartbeat
from canary.processes.notifying.notifier import Notifier, notifiers
from canary.settings import load
from canary.settings.notify.receivers import ReceiverSettings
from storage.store import Store, StoreError
from storage.store.models import NOTIFICATIONS
from storage.store.receivers import UNTOLD_S
from storage.store.repositories.notifications.outbox import KEPT_NS
from tests.api.serving import view
from tests.processes.test_notifying import open_one
from tests.support.receiving import Answer, Receiving, receiving
from tests.support.waiting import in_time, until

pytestmark = pytest.mark.parametrize("store_url", ["sqlite"], indirect=True)
SECRET = "/ping/a-uuid-that-nobody-may-see"  # noqa: S105  # a test's
S = 10**9


@pytest.fixture(autouse=True)
def _judged(store: Store) -> None:
    judged(store)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "CALL_S", 0.0)
    monkeypatch.setattr(heartbeat, "RETRY_S", 0.0)
    monkeypatch.setattr(leader, "LOOK_S", 0.02)


def judged(store: Store, *clusters: str, at_ns: int | None = None) -> None:
    """Let a runner of each cluster have judged (by default prod, now)."""
    for cluster in clusters or ("prod",):
        store.views.save(cluster, "canary-0", at_ns or time.time_ns(), view())


def beats(store: Store, there: Receiving, *clusters: str, others: tuple[str, ...] = (), **more: Any) -> Heartbeat:
    given = {"name": "pulse", "kind": "heartbeat", "url": there.url + SECRET} | more
    receiver = ReceiverSettings.model_validate(given)
    return Heartbeat(store, receiver, clusters=clusters or ("prod",), others=others)


def calls(one: Heartbeat, there: Receiving) -> int:
    """Let it look once; return how often it has called."""
    before = len(there.requests)
    one.tick()
    return len(there.requests) - before


def changed(store: Store, **values: int) -> None:
    """Let the notifications that wait be older, or due."""
    with store.notifications._database.writing() as connection:
        connection.execute(update(NOTIFICATIONS).values(values))


def called_ns(store: Store) -> int | None:
    found = store.notifications.receivers(["pulse"])
    return found[0].looked_ns if found else None


def test_it_is_called_by_get_while_all_is_well_and_it_is_noted_when(store: Store, there: Receiving) -> None:
    one = beats(store, there)
    assert called_ns(store) is None
    assert calls(one, there) == 1
    before_ns = time.time_ns()
    assert calls(one, there) == 1
    assert {(request.method, request.path, request.body) for request in there.requests} == {("GET", SECRET, b"")}
    noted_ns = called_ns(store)
    assert noted_ns is not None
    assert before_ns < noted_ns <= time.time_ns()


def test_it_is_called_once_a_minute(store: Store, there: Receiving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "CALL_S", 60.0)
    now_s = [1000.0]
    monkeypatch.setattr("canary.threads.system.monotonic", lambda: now_s[0])
    one = beats(store, there)
    called = []
    for _ in range(130):
        called.append(calls(one, there))
        now_s[0] += 1
        judged(store)
    assert [second for second, number in enumerate(called) if number] == [0, 60, 120]


def test_a_cluster_that_no_runner_judges_stops_it_and_its_return_starts_it(store: Store, there: Receiving) -> None:
    one = beats(store, there, "prod", "new")
    with capture_logs() as logged:
        assert calls(one, there) == calls(one, there) == 0
        judged(store, "new")
        assert calls(one, there) == 1
        judged(store, "prod", at_ns=time.time_ns() - 60 * S)
        assert calls(one, there) == 0
        judged(store)
        assert calls(one, there) == 1
    stopped = [line["reason"] for line in logged if line["event"] == "heartbeat_stops"]
    assert ["new" in stopped[0], "prod" in stopped[1], len(stopped)] == [True, True, 2], "once each"


def test_a_runner_that_cannot_judge_stops_it(store: Store, there: Receiving) -> None:
    """Its process lives and publishes, as while partitions have no leader: the page says unknown, so does the pulse."""
    one = beats(store, there)
    store.views.save("prod", "canary-0", time.time_ns(), view(waiting_for="list_offsets: OFFSET_NOT_AVAILABLE"))
    with capture_logs() as logged:
        assert calls(one, there) == 0
    assert "OFFSET_NOT_AVAILABLE" in logged[-1]["reason"]
    judged(store)
    assert calls(one, there) == 1


def test_another_cluster_that_is_not_judged_does_not_stop_it(store: Store, there: Receiving) -> None:
    judged(store, "other", at_ns=time.time_ns() - 3600 * S)
    assert calls(beats(store, there), there) == 1


def test_a_runner_whose_clock_is_ahead_is_judged_by_the_second_look(store: Store, there: Receiving) -> None:
    """The first look cannot tell it from a runner that has stopped; see api/knowledge/heartbeats.py."""
    one = beats(store, there)
    judged(store, at_ns=time.time_ns() + 60 * S)
    assert calls(one, there) == 0
    judged(store, at_ns=time.time_ns() + 61 * S)
    assert calls(one, there) == 1


def test_a_receiver_that_is_not_told_stops_it_until_it_is(store: Store, there: Receiving) -> None:
    one = beats(store, there, others=("bus",))
    assert calls(one, there) == 0, "no process looks for what bus has to be told"
    with receiving() as bus:
        told = Notifier(store, ReceiverSettings.model_validate({"name": "bus", "kind": "webhook", "url": bus.url}))
        told.tick()
        assert calls(one, there) == 1
        bus.always = Answer(500)
        open_one(store)
        told.tick()
        assert calls(one, there) == 1, "it has waited for a moment only"
        changed(store, at_ns=time.time_ns() - int((UNTOLD_S + 1) * S))
        assert calls(one, there) == 0
        bus.always = Answer()

        def taken() -> bool:
            told._send_due = float("-inf")
            changed(store, due_ns=0)
            told.tick()
            return not store.notifications.receivers(["bus"])[0].waiting

        until(taken, 60, "bus takes it")
        assert calls(one, there) == 1


def test_what_was_given_up_stops_it_for_an_hour(
    store: Store, there: Receiving, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = beats(store, there, others=("bus",))
    bus = ReceiverSettings.model_validate({"name": "bus", "kind": "webhook", "url": "http://127.0.0.1:1/"})
    told = Notifier(store, bus)
    open_one(store)
    told.tick()
    given_up_ns = time.time_ns() + KEPT_NS
    assert store.notifications.drop("bus", given_up_ns) == 1
    for later_s, expected in {10: 0, 3590: 0, 3610: 1}.items():
        at_ns = given_up_ns + later_s * S
        monkeypatch.setattr("canary.threads.system.wall_ns", lambda at_ns=at_ns: at_ns)
        store.notifications.looked("bus", at_ns)
        judged(store, at_ns=at_ns)
        assert calls(one, there) == expected, later_s


def test_a_store_that_is_away_stops_it(store: Store, there: Receiving, monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> None:
        raise StoreError("away")

    one = beats(store, there)
    assert calls(one, there) == 1
    monkeypatch.setattr(type(store.views), "all", lambda _self: away())
    with pytest.raises(StoreError):
        one.tick()
    assert len(there.requests) == 1


def test_one_that_does_not_answer_is_called_again_and_no_secret_is_logged(store: Store, there: Receiving) -> None:
    there.answers = [Answer(500), Answer(does="die")]
    one = beats(store, there)
    with capture_logs() as logged:
        assert [calls(one, there), called_ns(store)] == [1, None]
        assert [calls(one, there), called_ns(store)] == [1, None]
        assert calls(one, there) == 1
    assert called_ns(store)
    assert [line["event"] for line in logged].count("heartbeat_stops") == 1
    assert SECRET not in str(logged)


def test_retry_after_is_heeded(store: Store, there: Receiving) -> None:
    there.answers = [Answer(429, {"Retry-After": "60"})]
    one = beats(store, there)
    assert (calls(one, there), calls(one, there)) == (1, 0)


def test_of_two_processes_one_calls_and_another_takes_over(store: Store, store_url: str, there: Receiving) -> None:
    with Store.connect(store_url, timeout=60) as second:
        first, heir = beats(store, there), beats(second, there)
        assert (calls(first, there), calls(heir, there)) == (1, 0)
        first.start()
        in_time(first.stop(60))

        def taken_over() -> int:
            judged(store)
            heir._leadership._due = float("-inf")
            return calls(heir, there)

        until(taken_over, 60, "the other one calls")


def test_a_heartbeat_has_no_notifications(store: Store, there: Receiving) -> None:
    """It is in the settings beside a receiver: only the other one has an outbox, and has to be told of incidents."""
    notify = (
        f"[{{name: pulse, kind: heartbeat, url: '{there.url}'}}, {{name: bus, kind: webhook, url: '{there.url}/bus'}}]"
    )
    prod = "[{name: prod, kafka: {bootstrap.servers: 'b:9092'}}]"
    settings = load(None, {"CANARY_NOTIFY": notify, "CANARY_CLUSTERS": prod})
    workers = {type(one): one for one in notifiers(settings, store)}
    open_one(store)
    for one in (workers[Notifier], workers[Heartbeat]):
        one.tick()
    assert [request.path for request in there.requests] == ["/bus", "/"]
    (incident,) = store.incidents.page().items
    assert [row.receiver for row in store.notifications.of_incident(incident.id)] == ["bus"]
