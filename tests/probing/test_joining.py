"""Partitions that have no leader when a writer begins, and have one later: they join, and nothing is numbered twice."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from canary.probing.base import Renewal
from canary.probing.fencing import FencingProbe
from canary.probing.relay import Relay
from tests.support.messages import Message
from tests.support.recording import Recording
from tests.support.unmet import Unmet
from tests.support.wiring import TAG, wired

UNDER = Renewal(1, TAG, [0])


def test_a_fencing_producer_counts_on_in_the_generation_that_gets_more_partitions() -> None:
    probe = FencingProbe({"transactional.id": "x"}, wired(Recording(), "fencing", under=UNDER))
    owner = probe._owner
    probe.retarget(1, TAG, [0, 1])
    probe._obey()
    assert probe._owner is owner
    assert probe._under.partitions == (0, 1)
    probe.retarget(2, TAG, [0, 1])
    probe._obey()
    assert probe._owner is not owner


class Input(Unmet):
    """A consumer of a topic, some of whose partitions have no leader."""

    def __init__(self, *led: int, start: int = 0) -> None:
        self.led, self.start = led, start
        self.given: list[Message] = []
        self.assigned: list[tuple[int, int]] = []

    def committed(self, places: list[Any], timeout: float) -> list[Any]:  # noqa: ARG002  # the client's
        return [TopicPartition(place.topic, place.partition, 5) for place in places]

    def get_watermark_offsets(self, place: Any, _timeout: float) -> tuple[int, int]:
        if place.partition not in self.led:
            raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
        return self.start, 9

    def poll(self, _timeout: float) -> Message | None:
        return self.given.pop(0) if self.given else None

    def consume(self, _most: int, _timeout: float) -> list[Any]:
        return []

    def close(self) -> None:
        pass

    def assign(self, places: list[Any]) -> None:
        self.assigned = [(place.partition, place.offset) for place in places]

    def list_topics(self, topic: str, timeout: float) -> Any:  # noqa: ARG002  # the client's
        found = {number: SimpleNamespace(leader=1 if number in self.led else -1) for number in range(3)}
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions=found)})


def test_a_relay_reads_the_partitions_that_have_a_leader_and_joins_again_when_another_one_has() -> None:
    relay = Relay({}, {}, "s", wired(Recording(), "relay", under=UNDER))
    places = [TopicPartition("s", number) for number in range(3)]
    with pytest.raises(KafkaException):
        relay._assign(Input(), places)
    relay._input = client = Input(1, 2)
    relay._assign(client, places)
    assert client.assigned == [(1, 5), (2, 5)]
    left: list[bool] = []
    relay._leave = lambda: left.append(True)  # type: ignore[method-assign]
    relay._look()
    assert left == []
    client.led = (0, 1, 2)
    relay._look()
    assert left == [True]


def test_a_relay_reads_at_its_group_s_offset_until_that_is_refused_whatever_start_is_listed() -> None:
    relay = Relay({}, {}, "s", wired(Recording(), "relay", under=UNDER))
    relay._input = client = Input(0, start=7)
    relay._assign(client, [TopicPartition("s", 0)])
    assert client.assigned == [(0, 5)]
    client.given = [Message(-1, KafkaError._AUTO_OFFSET_RESET)]
    assert relay._take() == []
    assert relay._input is None
    for given, start in (([], 7), ([Message(7)], 7), ([], 5)):
        relay._input = client
        relay._assign(client, [TopicPartition("s", 0)])
        assert client.assigned == [(0, start)], "it stays where it is put until something is read there"
        client.given = given
        relay._take()
