"""What making a change says when somebody else was faster, and when it is refused."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from canary.kafka import responses
from canary.kafka.responses import PATIENCE_S
from canary.kafka.topic_creation import TopicError
from canary.runner.topics.changes import existing, make
from canary.runner.topics.planning import Change

MORE = Change("add-partitions", "probes", "planned before", ((4, 1, 2),))


class Refusing:
    """An AdminClient whose cluster has ``partitions`` partitions and takes no more."""

    def __init__(self, partitions: int) -> None:
        self._partitions = partitions

    def create_partitions(self, wanted: list[Any], **_: object) -> dict[str, Future[None]]:
        refused: Future[None] = Future()
        refused.set_exception(KafkaException(KafkaError(KafkaError.INVALID_PARTITIONS)))
        return {wanted[0].topic: refused}

    def describe_topics(self, topics: Any, **_: object) -> dict[str, Future[Any]]:
        partitions = [SimpleNamespace(id=n, replicas=[SimpleNamespace(id=1)]) for n in range(self._partitions)]
        told: Future[Any] = Future()
        told.set_result(SimpleNamespace(partitions=partitions))
        assert topics is not None
        return {"probes": told}

    def describe_configs(self, resources: list[Any], **_: float) -> dict[Any, Future[Any]]:
        told: Future[Any] = Future()
        told.set_result({})
        return {resources[0]: told}


class Waiting(Refusing):
    """One that took a dead broker for the controller: so many times it is told of that one again."""

    def __init__(self, unanswered: int) -> None:
        super().__init__(3)
        self.unanswered = unanswered

    def describe_configs(self, resources: list[Any], **timeout: float) -> dict[Any, Future[Any]]:
        if self.unanswered == 0:
            return super().describe_configs(resources)
        none: Future[Any] = Future()
        none.set_exception(KafkaException(KafkaError(KafkaError._TIMED_OUT)))
        assert timeout["request_timeout"] < PATIENCE_S / 3, "there is time to ask again"
        return {resources[0]: none}

    def list_topics(self, timeout: float) -> None:
        assert timeout < PATIENCE_S / 3
        self.unanswered -= 1
        if self.unanswered % 2:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))


def test_a_cluster_that_names_a_dead_controller_is_asked_again() -> None:
    found = existing(Waiting(2), "probes", [])
    assert found is not None
    assert len(found.replicas) == 3


def test_a_cluster_that_never_answers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(responses, "PATIENCE_S", 0.5)
    never = Waiting(1000)
    with pytest.raises(TopicError, match=r"could not read the settings of topic 'probes'.*reachable"):
        existing(never, "probes", [])
    assert never.unanswered < 999


def test_partitions_that_somebody_else_has_made_meanwhile_are_no_error() -> None:
    make(Refusing(4), MORE, 3)


def test_partitions_that_are_refused_and_not_there_are_one() -> None:
    with pytest.raises(TopicError, match="could not add-partitions topic 'probes'"):
        make(Refusing(3), MORE, 3)
