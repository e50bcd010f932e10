"""Where a group stands, as a member is told it: a coordinator of yesterday is asked again before it is believed."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, TopicPartition

from canary.facts import GroupOffset
from canary.kafka import opening
from canary.probing import group
from canary.threads import system
from tests.support.recording import Recording
from tests.support.unmet import Unmet
from tests.support.wiring import wired


class Coordinator(Unmet):
    """A consumer whose group's coordinator gives these answers, one after the other, and keeps what it is to commit."""

    def __init__(self, *answers: int) -> None:
        self.answers = list(answers)
        self.asked: list[list[TopicPartition]] = []

    def subscribe(self, *_: Any, **__: Any) -> None: ...

    def commit(self, offsets: list[TopicPartition], **_: Any) -> list[TopicPartition]:
        self.asked.append(offsets)
        return offsets  # what one that is waited for is answered

    def unsubscribe(self) -> None: ...

    def poll(self, _timeout: float) -> None: ...

    def assignment(self) -> list[TopicPartition]:
        return []

    def close(self) -> None: ...

    def committed(self, places: list[TopicPartition], timeout: float) -> list[TopicPartition]:
        assert timeout > 0
        offset = self.answers.pop(0)
        return [TopicPartition(place.topic, place.partition, offset) for place in places]


@pytest.fixture
def inbox(monkeypatch: pytest.MonkeyPatch) -> Recording:
    monkeypatch.setattr(group, "AGAIN_S", 0.01)
    monkeypatch.setattr(opening, "consumer", lambda *_, **__: Coordinator())
    return Recording()


def a_group(inbox: Recording) -> group.GroupProbe:
    return group.GroupProbe({"group.id": "g"}, wired(inbox, "group", members=1, interval=1.0, rebalance_every=9.0))


def told(inbox: Recording, reason: str, *members: group._Member) -> list[int | None]:
    """Return the offsets that are told once the clients of ``members`` have been polled."""
    for member in members:
        member.poll(0)
    return [fact.offset for fact in inbox.of(GroupOffset) if fact.reason == reason]


def assigned(inbox: Recording, committed: int, *answers: int) -> list[int | None]:
    """Return what is told when a member is assigned a partition, after another one had committed there."""
    member = group._Member(0, a_group(inbox))
    member._on_commit(None, [TopicPartition("t", 0, committed)])
    coordinator = Coordinator(*answers)
    member._on_assign(coordinator, [TopicPartition("t", 0)])
    assert coordinator.answers == []
    assert told(inbox, "fetched") == [], "within a callback nothing is told: the client may be asked nothing there"
    return told(inbox, "fetched", member)


def test_an_answer_below_what_was_committed_is_asked_for_again(inbox: Recording) -> None:
    assert assigned(inbox, 2089, 2082, 2089) == [2089]


def test_a_group_that_stands_below_it_each_time_has_gone_back(inbox: Recording) -> None:
    assert assigned(inbox, 2089, 2082, 2082, 2082, 2082) == [2082]


def test_a_group_that_has_forgotten_each_time_has_forgotten(inbox: Recording) -> None:
    assert assigned(inbox, 2089, -1001, -1001, -1001, -1001) == [None]


def test_an_answer_at_what_was_committed_is_believed(inbox: Recording) -> None:
    assert assigned(inbox, 2089, 2089) == [2089]


def test_a_member_asks_for_what_it_has_committed(inbox: Recording) -> None:
    member = group._Member(0, a_group(inbox))
    assert not member.read_back()
    assert told(inbox, "fetched") == []
    member._on_commit(None, [TopicPartition("t", 0, 12)])
    member.client.answers = [7, 12]
    assert member.read_back()
    assert told(inbox, "fetched") == [12]


def test_of_two_commits_on_their_way_at_once_the_lower_one_is_what_the_group_was_promised(inbox: Recording) -> None:
    """The client sends the first one again after the second when the coordinator moves."""
    member = group._Member(0, a_group(inbox))
    member._positions = {0: 825, 1: 7}
    member.commit()
    member._positions = {0: 827, 1: 7}
    member.commit(wait=True)  # partitions are taken away; the first commit has no answer yet
    assert told(inbox, "committed", member) == [825, 7]
    (late, _) = member.client.asked
    member._on_commit(None, late)
    assert told(inbox, "committed", member) == [825, 7, 825, 7]
    member._positions = {0: 830, 1: 7}
    member.commit(wait=True)
    assert told(inbox, "committed", member)[4:] == [830]


def test_a_member_has_one_commit_on_its_way_but_for_the_one_that_is_waited_for(inbox: Recording) -> None:
    member = group._Member(0, a_group(inbox))
    for position in (3, 4, 5):
        member._positions = {0: position}
        member.commit()
    assert [place.offset for (place,) in member.client.asked] == [3]
    member._on_commit(KafkaError(KafkaError.REBALANCE_IN_PROGRESS), member.client.asked[0])
    member.commit()
    assert [place.offset for (place,) in member.client.asked] == [3, 5]
    assert told(inbox, "committed") == []


def test_what_another_member_sent_before_holds_the_promise_down_until_that_one_has_left(inbox: Recording) -> None:
    probe = a_group(inbox)
    slow, quick = group._Member(0, probe), group._Member(1, probe)
    slow._positions = {0: 4}
    slow.commit()
    quick._positions = {0: 6}
    quick.commit(wait=True)
    slow.leave()
    quick._positions = {0: 8}
    quick.commit(wait=True)
    assert told(inbox, "committed", quick) == [4, 8]


def measured(probe: group.GroupProbe) -> dict[str, tuple[float, int]]:
    return {
        one.name.removeprefix("canary_group_commit_"): (one.value, sum(one.counts))
        for one in probe._wiring.meters.measured((), ())
    }


def test_a_commit_is_counted_with_the_time_it_took_and_one_that_failed_as_a_failure(
    inbox: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    probe = a_group(inbox)
    member = group._Member(0, probe)
    now = [10.0]
    monkeypatch.setattr(system, "monotonic", lambda: now[0])
    for position, error in (
        (3, None),
        (4, KafkaError(KafkaError.NOT_COORDINATOR)),
        (5, KafkaError(KafkaError.REBALANCE_IN_PROGRESS)),
    ):
        member._positions = {0: position}
        member.commit()
        now[0] += 0.75
        member._on_commit(error, member.client.asked[-1])
    assert measured(probe) == {"latency_seconds": (0.75, 1), "failures_total": (1, 0)}
