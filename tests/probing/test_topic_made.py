"""Making the probe topic while the client itself is in flux."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Uuid

from canary.kafka.topic_creation import TopicError, ensure_topic


class Flux:
    """An admin client that answers the creations with ``answers`` in turn; the topic exists after the last None."""

    def __init__(self, *answers: int | None) -> None:
        self.answers = list(answers)
        self.exists = False

    def create_topics(self, new: list[Any], **_: object) -> dict[str, Future[None]]:
        code = self.answers.pop(0)
        self.exists = self.exists or code is None
        return {new[0].topic: self._answer(code)}

    def describe_topics(self, *_: object, **__: object) -> dict[str, Future[Any]]:
        missing = None if self.exists else KafkaError.UNKNOWN_TOPIC_OR_PART
        described = SimpleNamespace(topic_id=Uuid(1, 2), partitions=[0, 1, 2])
        return dict.fromkeys(("canary",), self._answer(missing, described))

    def list_topics(self, timeout: float) -> None:
        assert timeout

    def describe_cluster(self, **_: object) -> Future[Any]:
        nodes = [SimpleNamespace(id=i, rack=None) for i in (1, 2, 3)]
        return self._answer(None, SimpleNamespace(nodes=nodes))

    @staticmethod
    def _answer(code: int | None, value: Any = None) -> Future[Any]:
        future: Future[Any] = Future()
        if code is None:
            future.set_result(value)
        else:
            future.set_exception(KafkaException(KafkaError(code)))
        return future


def test_a_broker_that_leaves_the_metadata_does_not_end_the_creation() -> None:
    admin = Flux(KafkaError._DESTROY_BROKER, None)
    assert ensure_topic(admin, "canary", 3, 3, {}).created
    assert admin.answers == []


def test_what_the_cluster_refuses_is_not_asked_again() -> None:
    admin = Flux(KafkaError.POLICY_VIOLATION, None)
    with pytest.raises(TopicError, match="make topic 'canary'"):
        ensure_topic(admin, "canary", 3, 3, {})
    assert admin.answers == [None]
