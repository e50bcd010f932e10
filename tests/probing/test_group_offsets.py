"""Where a group stands, as a member is told it: a coordinator of yesterday is asked again before it is believed."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import TopicPartition

from canary.client.ports import SteadyClock
from canary.client.recording import Recording
from canary.facts import GroupOffset
from canary.probing import group


class Coordinator:
    """A consumer whose group's coordinator gives these answers, one after the other."""

    def __init__(self, *answers: int) -> None:
        self.answers = list(answers)

    def subscribe(self, *_: Any, **__: Any) -> None: ...

    def committed(self, places: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        assert timeout > 0
        offset = self.answers.pop(0)
        return [TopicPartition(place.topic, place.partition, offset) for place in places]


@pytest.fixture
def inbox(monkeypatch: pytest.MonkeyPatch) -> Recording:
    monkeypatch.setattr(group, "AGAIN_S", 0.01)
    monkeypatch.setattr(group, "Consumer", lambda *_, **__: Coordinator())
    return Recording()


def assigned(inbox: Recording, committed: int, *answers: int) -> list[int | None]:
    """Return what is told when a member is assigned a partition, after another one had committed there."""
    probe = group.GroupProbe(
        {"group.id": "g"}, "t", members=1, interval_s=1.0, rebalance_every_s=9.0, inbox=inbox, clock=SteadyClock()
    )
    member = group._Member(0, probe)
    member._on_commit(None, [TopicPartition("t", 0, committed)])
    coordinator = Coordinator(*answers)
    member._on_assign(coordinator, [TopicPartition("t", 0)])
    assert coordinator.answers == []
    return [fact.offset for fact in inbox.of(GroupOffset) if fact.reason == "fetched"]


def test_an_answer_below_what_was_committed_is_asked_for_again(inbox: Recording) -> None:
    assert assigned(inbox, 2089, 2082, 2089) == [2089]


def test_a_group_that_stands_below_it_twice_has_gone_back(inbox: Recording) -> None:
    assert assigned(inbox, 2089, 2082, 2082) == [2082]


def test_a_group_that_has_forgotten_twice_has_forgotten(inbox: Recording) -> None:
    assert assigned(inbox, 2089, -1001, -1001) == [None]


def test_an_answer_at_what_was_committed_is_believed(inbox: Recording) -> None:
    assert assigned(inbox, 2089, 2089) == [2089]
