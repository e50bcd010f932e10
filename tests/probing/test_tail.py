"""What a reader at the end of the log holds, and when it tells it: message by message, without a broker."""

from __future__ import annotations

from typing import Any

import pytest

from canary.facts import EndOfPartition, Polled
from canary.facts.batch import FEW
from canary.probing.readers.consumer import DRAIN
from canary.probing.readers.tail import GATHER_S, Start, TailConsumer
from canary.threads import system
from tests.support.messages import EOF, OUT_OF_RANGE, TAG, TOPIC, Message
from tests.support.recording import Recording
from tests.support.unmet import Unmet


class CountingClock:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.at_ns = 0

    def now_ns(self) -> int:
        self.at_ns += 1
        return self.at_ns


class Client(Unmet):
    """Hands out what it is given, so much at a time."""

    def __init__(self, tail: TailConsumer, *takes: list[Message]) -> None:
        self._tail, self._takes = tail, list(takes)

    def poll(self, _timeout: float) -> Message | None:
        if not self._takes:
            self._tail.ask_stop()
            return None
        return self._takes[0].pop(0)

    def consume(self, _most: int, _timeout: float) -> list[Message]:
        return self._takes.pop(0)

    def assign(self, _places: list[Any]) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of a clock that stands still."""
    at = [100.0]
    monkeypatch.setattr(system, "monotonic", lambda: at[0])
    return at


def reader(inbox: Recording, monkeypatch: pytest.MonkeyPatch, *takes: list[Message]) -> TailConsumer:
    """Return a reader that was told all it was given, at offset 5."""
    tail = TailConsumer({}, "rc", "read_committed", TOPIC, Start({0: 5}, TAG), inbox, CountingClock())
    monkeypatch.setattr("canary.probing.readers.tail.open_consumer", lambda *_: Client(tail, *takes))
    return tail


def told(inbox: Recording) -> list[tuple[str, Any]]:
    """Return kind and offset of each fact after the first, which is where the reader stands."""
    return [(type(fact).__name__, getattr(fact, "offset", None)) for fact in inbox.facts[1:]]


@pytest.mark.usefixtures("now")
@pytest.mark.parametrize("records", [3, FEW + 3])
def test_records_of_several_wake_ups_are_told_in_their_order_each_with_its_time(
    records: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = Recording()
    tail = reader(inbox, monkeypatch, *([Message(5 + i)] for i in range(records)), [Message(5 + records, EOF)])
    tail.run()
    polled = inbox.of(Polled)
    assert [one.offset for one in polled] == list(range(5, 5 + records))
    assert [one.at_ns for one in polled] == sorted({one.at_ns for one in polled})  # each has another one
    assert told(inbox)[-1] == ("EndOfPartition", 5 + records)


def test_what_is_held_is_told_after_a_moment_and_when_it_is_much(
    now: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    inbox = Recording()
    tail = reader(inbox, monkeypatch, [Message(5)], [Message(6)], [Message(7)], [Message(8 + i) for i in range(DRAIN)])
    tail._assign("assigned")
    seen = []
    for wait_s in (0.0, GATHER_S / 2, GATHER_S / 2, 0.0):
        now[0] += wait_s
        tail._take()
        tail._tell_in_time()
        seen.append(len(inbox.of(Polled)))
    assert seen == [1, 1, 3, 3 + DRAIN]


@pytest.mark.usefixtures("now")
def test_a_position_that_is_not_in_the_log_is_told_at_once_after_what_was_read_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inbox = Recording()
    tail = reader(inbox, monkeypatch, [Message(5)], [Message(6)], [Message(7, OUT_OF_RANGE)])
    tail._assign("assigned")
    for _ in range(3):
        tail._take()
        tail._tell_in_time()
    assert told(inbox) == [("Polled", 5), ("Polled", 6), ("OutOfRange", 7)]


@pytest.mark.usefixtures("now")
def test_what_is_held_is_told_before_the_reader_goes_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    inbox = Recording()
    tail = reader(inbox, monkeypatch, [Message(5)], [Message(6)])
    tail._assign("assigned")
    for _ in range(2):
        tail._take()
        tail._tell_in_time()
    tail.retarget({0: 0}, b"else", "new id")
    tail._obey()
    assert told(inbox) == [("Polled", 5), ("Polled", 6), ("Positioned", 0)]


@pytest.mark.usefixtures("now")
def test_an_end_that_records_have_passed_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    inbox = Recording()
    tail = reader(inbox, monkeypatch, [Message(5)], [Message(6, EOF), Message(6)], [Message(7)])
    tail.run()
    assert inbox.of(EndOfPartition) == []
    assert [one.offset for one in inbox.of(Polled)] == [5, 6, 7]
