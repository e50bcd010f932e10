"""Making the probe topic while the client itself is in flux."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Uuid

from canary.kafka.topic_creation import TopicError, ensure_topic

if TYPE_CHECKING:
    from collections.abc import Sequence


class Flux:
    """An admin client that answers the creations with ``answers`` in turn; the topic exists after the last None."""

    def __init__(self, *answers: int | None) -> None:
        self.answers = list(answers)
        self.exists = False
        self.told: list[Sequence[int]] = [(1, 2, 3)]
        """The brokers that answers name, in turn; the last one stays."""
        self.refused: int | None = None
        self.made: list[Any] = []

    def create_topics(self, new: list[Any], **_: object) -> dict[str, Future[None]]:
        self.made += new
        code = self.answers.pop(0)
        self.exists = self.exists or code is None
        return {new[0].topic: self._answer(code)}

    def describe_topics(self, *_: object, **__: object) -> dict[str, Future[Any]]:
        missing = None if self.exists else KafkaError.UNKNOWN_TOPIC_OR_PART
        described = SimpleNamespace(topic_id=Uuid(1, 2), partitions=[0, 1, 2])
        return dict.fromkeys(("canary",), self._answer(missing, described))

    def list_topics(self, *_: object, timeout: float) -> Any:
        assert timeout
        told = self.told.pop(0) if len(self.told) > 1 else self.told[0]
        brokers = {i: SimpleNamespace(id=i, host="h", port=1) for i in told}
        return SimpleNamespace(cluster_id="c", controller_id=1, brokers=brokers)

    def describe_configs(self, resources: list[Any], **_: object) -> dict[Any, Future[Any]]:
        return dict.fromkeys(resources, self._answer(self.refused, {"broker.rack": SimpleNamespace(value=None)}))

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


def test_nothing_is_concluded_from_an_answer_that_names_no_broker() -> None:
    admin = Flux(None)
    admin.told = [(), (1, 2, 3)]
    assert ensure_topic(admin, "canary", 3, 3, {}).created
    admin = Flux(None)
    admin.told = [()]
    with pytest.raises(TopicError, match="the controller has fenced all of them") as raised:
        ensure_topic(admin, "canary", 3, 3, {}, timeout_s=0.1)
    assert (raised.value.code, admin.made) == ("_PARTIAL", [])


def test_where_racks_are_not_told_the_cluster_places_the_replicas() -> None:
    admin = Flux(None)
    ensure_topic(admin, "canary", 3, 2, {})
    assert admin.made[0].replica_assignment == [[1, 2], [2, 3], [3, 1]]
    admin = Flux(None)
    admin.refused = KafkaError.CLUSTER_AUTHORIZATION_FAILED
    ensure_topic(admin, "canary", 3, 2, {})
    assert (admin.made[0].replica_assignment, admin.made[0].replication_factor) == (None, 2)
