"""What making a change says when somebody else was faster, and when it is refused."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from canary.probing.topic import TopicError
from canary.runner.managing import make
from canary.runner.planning import Change

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

    def describe_configs(self, resources: list[Any], **_: object) -> dict[Any, Future[Any]]:
        told: Future[Any] = Future()
        told.set_result({})
        return {resources[0]: told}


def test_partitions_that_somebody_else_has_made_meanwhile_are_no_error() -> None:
    make(Refusing(4), MORE, 3)


def test_partitions_that_are_refused_and_not_there_are_one() -> None:
    with pytest.raises(TopicError, match="could not add-partitions topic 'probes'"):
        make(Refusing(3), MORE, 3)
