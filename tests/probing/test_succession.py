"""A producer whose clients die at once takes its generations more and more rarely, whatever its mode."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from canary.kafka import opening
from canary.probing import fencing, idempotent, relay, transactional
from canary.probing.base import LIVED_S, Renewal
from canary.probing.idempotent import IdempotentProducer
from canary.probing.transactional import TransactionalProducer
from canary.threads import system
from canary.threads.backoff import Pause
from tests.support.recording import Recording
from tests.support.unmet import Unmet
from tests.support.wiring import TAG, wired

UNDER = Renewal(1, TAG, [0])
PAUSES = [1, 2, 4, 8, 16, 32, 60, 60]
"""From one generation to the next, in s; the one after the first death begins at once."""


class Time:
    """Passes only while the part waits; ends with the part's last generation."""

    def __init__(self) -> None:
        self.now = 0.0
        self.part: Any = None
        self.renewals: list[float] = []

    def govern(self, part: Any) -> Any:
        self.part = part
        part.stopping.wait = self.wait
        part.pause = Pause(lambda: self.now, steady_s=LIVED_S)
        return part

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        return bool(self.part.stopping.is_set())

    def renew(self, _reason: str) -> Renewal:
        self.renewals.append(self.now)
        if len(self.renewals) > len(PAUSES):
            self.part.stopping.set()
        return Renewal(len(self.renewals) + 1, TAG, [0])

    @property
    def pauses(self) -> list[int]:
        """From one renewal to the next, in whole s."""
        return [int(later - sooner) for sooner, later in itertools.pairwise(self.renewals)]


class DeadClient(Unmet):
    """Takes nothing: its first answer is fatal."""

    def produce(self, *_: object, **__: object) -> None:
        raise KafkaException(KafkaError(KafkaError._FATAL, "not authorised", True))

    def poll(self, _timeout: float) -> None:
        """Say nothing."""

    def purge(self) -> None:
        """Have nothing."""


class DeadSession:
    """Is ready, and closed by the first transaction that it begins."""

    def __init__(self, *_: object, **__: object) -> None:
        self.open = None
        self.client: object = self
        self.due = 0.0
        self.name = "dead"
        self.settling = False

    @property
    def ready(self) -> bool:
        self.client = self
        return True

    def begin(self) -> bool:
        self.client = None
        return False

    def prepare(self, _timeout: float) -> bool:
        return True

    def serve(self, _timeout: float) -> None:
        """Say nothing."""

    def give_up(self, _why: str) -> None:
        """Have nothing."""


def idempotent_producer(time: Time) -> IdempotentProducer:
    return IdempotentProducer({}, wired(Recording(), under=UNDER, renew=time.renew))


@pytest.fixture
def time() -> Time:
    return Time()


def test_a_producer_whose_clients_die_at_once_begins_few_generations(
    time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "producer", lambda *_, **__: DeadClient())
    monkeypatch.setattr(idempotent, "require", lambda *_: None)  # a fake has no properties to tell
    time.govern(idempotent_producer(time)).run()
    assert time.pauses == PAUSES


def test_a_producer_that_is_stopped_while_it_waits_for_its_next_generation_ends_well(
    time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "producer", lambda *_, **__: DeadClient())
    monkeypatch.setattr(idempotent, "require", lambda *_: None)
    part = time.govern(idempotent_producer(time))

    def stop(_seconds: float) -> bool:
        part.stopping.set()
        return True

    part.stopping.wait = stop
    part.run()
    assert time.renewals == []


def test_a_fencing_probe_whose_clients_are_closed_at_once_begins_few_generations(
    time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fencing, "Session", DeadSession)
    wiring = wired(Recording(), "fencing", interval=0.001, under=UNDER, renew=time.renew)
    time.govern(fencing.FencingProbe({}, wiring)).run()
    assert len(time.pauses) == len(PAUSES)
    assert all(waited >= pause for waited, pause in zip(time.pauses, PAUSES, strict=True))


def test_a_relay_whose_clients_are_closed_at_once_begins_more_and_more_rarely_under_its_generation(
    time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "Session", DeadSession)
    part = time.govern(relay.Relay({}, {}, "s", wired(Recording(), "relay", under=UNDER)))
    while not part.stopping.is_set():
        time.renew("")
        part._session.begin()
        part._after()
    assert time.pauses == [0, *PAUSES[:-1]]


class Unanswered(DeadSession):
    """Begins transactions, of which nothing is reported for ``lasts_s``; the client is closed with each of them."""

    time: Time
    lasts_s = 9.0
    comes_back = True

    @property
    def ready(self) -> bool:
        self.client = self
        return self.comes_back

    def prepare(self, _timeout: float) -> bool:
        return False

    def begin(self) -> bool:
        self.time.renew("")
        return True

    def send(self, *_: object) -> None:
        """Take them."""

    def deliver(self, *_: object) -> bool:
        self.time.now += self.lasts_s
        return False

    def abort(self, _why: str) -> None:
        self.client = None


def transactions(time: Time, monkeypatch: pytest.MonkeyPatch, lasts_s: float) -> TransactionalProducer:
    """Let transactions be given up one after the other; ``time.renewals`` is when each of them begins."""
    monkeypatch.setattr(Unanswered, "time", time, raising=False)
    monkeypatch.setattr(Unanswered, "lasts_s", lasts_s)
    monkeypatch.setattr(transactional, "Session", Unanswered)
    wiring = wired(Recording(), "transactional", interval=0.001, under=UNDER)  # nobody may ask for a generation
    part: TransactionalProducer = time.govern(TransactionalProducer(lambda _: {}, wiring))
    part.run()
    return part


def test_what_a_broker_does_not_answer_is_tried_again_without_a_pause_and_under_its_generation(
    time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a partition that answers again is met at once, and a long outage leaves no generation behind."""
    transactions(time, monkeypatch, 9.0)
    assert [pause - 9 for pause in time.pauses] == [0] * len(PAUSES)


def test_transactions_that_are_refused_at_once_are_tried_more_and_more_rarely(
    time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    transactions(time, monkeypatch, 0.0)
    pauses = [later - sooner for sooner, later in itertools.pairwise(time.renewals)]
    assert pauses == pytest.approx([0, *PAUSES[:-1]], abs=1)


def test_a_closed_client_whose_successor_is_not_ready_in_time_ends_the_generation(
    time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactional, "Session", Unanswered)
    monkeypatch.setattr(Unanswered, "comes_back", False)
    monkeypatch.setattr(system, "monotonic", lambda: time.now)
    part = time.govern(TransactionalProducer(lambda _: {}, wired(Recording(), "transactional", renew=time.renew)))
    session = part._session("one")
    session.client = None
    part._after(session)
    for _ in range(49):
        part._go_on()
        time.now += 0.1
    assert time.renewals == []
    time.now += 0.2
    part._go_on()
    assert (len(time.renewals), part._closed, part._book.under.generation) == (1, [], 2)


def test_an_order_of_an_earlier_generation_than_the_writers_own_came_too_late(
    time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sequences of that generation were used already."""
    monkeypatch.setattr(opening, "producer", lambda *_, **__: DeadClient())
    monkeypatch.setattr(idempotent, "require", lambda *_: None)
    part = idempotent_producer(time)
    for generation, expected in ((3, 3), (2, 3), (3, 3), (4, 4)):
        part.retarget(generation, TAG, [0, 1])
        part._obey()
        assert part._under.generation == expected
