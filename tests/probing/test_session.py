"""One transactional client that misbehaves: its transaction ends as one fact all the same, and nobody is stuck."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from canary.facts import Aborted, ClientError, TransactionBegan
from canary.kafka import opening
from canary.probe.identity import Identity
from canary.probing import session as sessions
from canary.probing.base import Renewal
from canary.probing.book import Book
from canary.probing.readers import tail as tails
from canary.probing.readers.tail import Start, TailConsumer
from canary.probing.session import Session
from canary.threads.ports import SteadyClock
from tests.support.recording import Recording
from tests.support.unmet import Unmet
from tests.support.waiting import in_time
from tests.support.wiring import wired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from canary.probing.book import Open


class FakeClient(Unmet):
    def __init__(self, sending: Callable[[], object]) -> None:
        self.calls: list[str] = []
        self.on_its_way = 0
        self._sending = sending

    def __len__(self) -> int:
        return self.on_its_way

    def begin_transaction(self) -> None:
        self.calls.append("begin")

    def send_offsets_to_transaction(self, *_: Any) -> None:
        self.calls.append("offsets")
        self._sending()

    def abort_transaction(self, _timeout_s: float) -> None:
        self.calls.append("abort")

    def poll(self, _timeout_s: float) -> int:
        if self.on_its_way:
            self.on_its_way -= 1
            self.calls.append("poll")
        return 0

    def purge(self) -> None:
        self.calls.append("purge")


@pytest.fixture
def inbox() -> Recording:
    return Recording()


@pytest.fixture
def book(inbox: Recording) -> Book:
    under = Renewal(1, b"tagg", (0,))
    return Book(wired(inbox, "relay", under=under), under)


@pytest.fixture
def open_with(book: Book) -> Callable[[FakeClient], Session]:
    """Return a session with this client, in a transaction."""

    def opened(client: FakeClient) -> Session:
        session = Session({}, book, "relay")
        session.client = client  # instead of librdkafka's
        assert session.begin()
        return session

    return opened


@pytest.fixture
def released() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_a_client_that_never_comes_back_is_left_and_its_transaction_is_aborted(
    inbox: Recording,
    open_with: Callable[[FakeClient], Session],
    released: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions, "GRACE_S", 0.1)
    client = FakeClient(lambda: released.wait(60))
    session = open_with(client)
    began = time.monotonic()
    assert not session.send_offsets([], None, 0.1)
    assert time.monotonic() - began < 30  # the call comes back after 60
    assert session.client is None
    session.abort("not delivered")
    assert client.calls == ["begin", "offsets", "purge"]  # nothing is asked of it beside the call that hangs
    assert [type(fact) for fact in inbox.facts] == [TransactionBegan, Aborted]
    assert [fact.error for fact in inbox.of(Aborted)] == ["send_offsets: no answer"]
    assert session.open is None


def test_a_client_that_refuses_offsets_aborts_and_goes_on(
    inbox: Recording, open_with: Callable[[FakeClient], Session]
) -> None:
    def refuse() -> None:
        raise KafkaException(KafkaError(KafkaError.REBALANCE_IN_PROGRESS))

    client = FakeClient(refuse)
    session = open_with(client)
    assert not session.send_offsets([], None, 5.0)
    session.abort("not delivered")
    assert client.calls == ["begin", "offsets", "abort"]
    assert session.client is client
    assert ["REBALANCE_IN_PROGRESS" in (fact.error or "") for fact in inbox.of(Aborted)] == [True]


def test_a_client_is_not_destroyed_while_answers_are_on_their_way(
    open_with: Callable[[FakeClient], Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    client = FakeClient(lambda: None)
    session = open_with(client)
    client.on_its_way = 2
    monkeypatch.setattr(session, "serve", lambda _: None)
    session.give_up("succeeded")
    assert client.calls == ["begin", "poll", "poll", "purge"]


def waiting(open_with: Callable[[FakeClient], Session], client: FakeClient) -> tuple[Session, Open, Identity]:
    """Return a session, its transaction, and a write of that which is not answered yet."""
    session, identity = open_with(client), Identity(7, 1, 0, 0)
    assert session.open is not None
    session.open.unresolved[identity] = SteadyClock().now_ns()
    return session, session.open, identity


def test_a_client_that_gave_a_write_up_unanswered_is_not_used_again(
    open_with: Callable[[FakeClient], Session],
) -> None:
    """It gives the purged write's sequence to the next one, which a broker may take for its copy."""
    client = FakeClient(lambda: None)
    session, _, _ = waiting(open_with, client)
    assert not session.deliver(0.01)
    session.abort("not delivered")
    assert client.calls == ["begin", "abort", "purge"]
    assert session.client is None


def test_a_client_whose_write_was_reported_as_failed_is_not_used_again(
    open_with: Callable[[FakeClient], Session],
) -> None:
    session, transaction, identity = waiting(open_with, FakeClient(lambda: None))
    session._delivered(transaction, identity, KafkaError(KafkaError._PURGE_QUEUE), None)
    session.abort("not delivered")
    assert session.client is None


def test_a_client_all_of_whose_writes_were_acknowledged_goes_on_after_an_abort(
    open_with: Callable[[FakeClient], Session],
) -> None:
    client = FakeClient(lambda: None)
    session = open_with(client)
    assert session.deliver(0.01)
    session.abort("aborted on purpose")
    assert session.client is client


def test_offsets_that_are_taken_leave_the_transaction_open(open_with: Callable[[FakeClient], Session]) -> None:
    session = open_with(FakeClient(lambda: None))
    assert session.send_offsets([], None, 5.0)
    assert session.open is not None
    assert session.open.spoiled is None


def test_a_call_that_breaks_is_no_consent(open_with: Callable[[FakeClient], Session]) -> None:
    def broken() -> None:
        raise RuntimeError("Handle has been closed")

    session = open_with(FakeClient(broken))
    assert not session.send_offsets([], None, 5.0)
    assert session.client is None


def test_a_client_whose_token_is_refused_is_asked_for_again_later(
    book: Book, inbox: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise KafkaException(KafkaError(KafkaError.SASL_AUTHENTICATION_FAILED))

    monkeypatch.setattr(opening, "producer", refuse)
    session = Session({}, book, "relay")
    assert not session.prepare()
    assert session.client is None
    assert session.due > time.monotonic()
    assert [fact.code for fact in inbox.of(ClientError)] == ["SASL_AUTHENTICATION_FAILED"]


def test_properties_that_are_not_taken_end_the_thread(book: Book) -> None:
    session = Session({"transactional.id": "x", "no.such.property": "1"}, book, "relay")
    with pytest.raises(KafkaException, match="_INVALID_ARG"):
        session.prepare()


def test_a_reader_whose_token_is_refused_says_so_and_stops_when_told(
    inbox: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise KafkaException(KafkaError(KafkaError.SASL_AUTHENTICATION_FAILED))

    monkeypatch.setattr(tails, "open_consumer", refuse)
    start = Start({0: 0}, b"tagg")
    reader = TailConsumer({}, "read_committed", "read_committed", "t", start, inbox, SteadyClock())
    reader.start()
    inbox.wait(lambda: inbox.of(ClientError))
    assert reader.alive
    assert not reader.ready.is_set()
    in_time(reader.stop(30))
    assert reader.failure is None
    assert [fact.code for fact in inbox.of(ClientError)] == ["SASL_AUTHENTICATION_FAILED"]
