"""Which cluster a client has met stands before what it says there."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from canary.facts import ClusterMet, Reported, Tick
from canary.kafka.client_inbox import ClientInbox, cluster_of
from tests.support.recording import Recording


class Clock:
    def now_ns(self) -> int:
        return 7


def test_the_cluster_comes_before_the_facts_once_and_again_when_it_is_another() -> None:
    inbox, told = Recording(), [None, "a", "a", "b", None, "b", "a"]
    mine = ClientInbox(inbox, Clock(), "reread-1", lambda: told.pop(0))
    for number in range(7):
        mine.tell([Tick(number)])
    a, b = ClusterMet(7, "reread-1", "a"), ClusterMet(7, "reread-1", "b")
    assert inbox.facts == [Tick(0), a, Tick(1), Tick(2), b, Tick(3), Tick(4), Tick(5), a, Tick(6)]


def test_where_a_client_is_is_told_without_facts_too_and_nothing_else_is() -> None:
    inbox, told = Recording(), [None, "a", "a"]
    mine = ClientInbox(inbox, Clock(), "group-1", lambda: told.pop(0))
    for _ in range(3):
        mine.tell([])
    assert inbox.facts == [ClusterMet(7, "group-1", "a")]


def test_a_report_says_in_which_cluster_it_was_found() -> None:
    inbox, told = Recording(), [None, "a"]
    mine = ClientInbox(inbox, Clock(), "group-watcher", lambda: told.pop(0))
    for number in range(2):
        mine.tell([Reported(number, "group-watcher", "{}"), Tick(number)])
    unknown, found = (Reported(number, "group-watcher", "{}", False, met) for number, met in enumerate((None, "a")))
    assert inbox.facts == [unknown, Tick(0), ClusterMet(7, "group-watcher", "a"), found, Tick(1)]


class Client:
    def __init__(self, answer: str | Exception) -> None:
        self.answer = answer

    def cluster_id(self, timeout: float) -> str:
        assert timeout == 0, "nothing is waited for"
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.mark.parametrize("raised", [KafkaException(KafkaError(KafkaError._TIMED_OUT)), RuntimeError("closed")], ids=str)
def test_a_client_without_metadata_or_that_is_closed_tells_nothing(raised: Exception) -> None:
    assert cluster_of(Client("a")) == "a"
    assert cluster_of(Client(raised)) is None
    assert cluster_of(None) is None
