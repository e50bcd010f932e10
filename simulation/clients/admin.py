"""The admin client. Questions about the cluster, its topics and their settings go to the broker known as controller.

What is known of the controller is what the last metadata said. So while that broker is dead, such questions time out,
until list_topics(), which any broker answers, tells of another one (as with librdkafka 2.16).
"""

import base64
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Literal
from uuid import UUID

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, Node, TopicPartition, TopicPartitionInfo, Uuid
from confluent_kafka.admin import (
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ListOffsetsResultInfo,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)

from simulation.clients.link import Link, endpoint
from simulation.clients.values import failure
from simulation.kafka.contract import Metadata, TopicMeta
from simulation.machine.futures import SimulatedFuture

_AGAIN_S = 0.25
_REQUEST_S = 60.0
_BASE64 = 22
"""Characters of a UUID in base 64."""

Answer = Callable[[], None]


class Admin:
    """confluent_kafka.admin.AdminClient, as far as the canary uses it."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def poll(self, timeout: float = 0.0) -> int:
        """Call what is due: logs, errors, statistics."""
        link = self._link
        link.check()
        deadline = link.deadline(timeout)
        while not link.events and timeout != 0 and link.wait(deadline):
            pass
        return link.dispatch()

    def cluster_id(self, timeout: float = -1) -> str:
        """Return the cluster's id, as brokers told it last."""
        return self._link.cluster_id(timeout)

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> Any:
        """Return the metadata of one topic or of all, as a broker tells them."""
        return self._link.list_topics(topic, timeout)

    def describe_topics(self, topics: Any, *, request_timeout: float = _REQUEST_S) -> dict[str, SimulatedFuture]:
        """Return a future for each topic, of its id and its partitions."""
        futures = self._futures(topics.topic_names)

        def answer(broker: int) -> None:
            told = self._link.cluster.metadata(broker)
            nodes = _nodes(told)
            for name, future in futures.items():
                topic = told.topics.get(name)
                code = KafkaError.UNKNOWN_TOPIC_OR_PART if topic is None else topic.error
                if topic is None or code:
                    future.resolve(error=KafkaException(failure(code)))
                else:
                    future.resolve(_description(topic, topic.topic_id and self._link.cluster.other_id, nodes))

        self._ask_controller(futures.values(), answer, request_timeout)
        return futures

    def list_offsets(
        self,
        offsets: Mapping[TopicPartition, OffsetSpec],
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        request_timeout: float = _REQUEST_S,
    ) -> dict[TopicPartition, SimulatedFuture]:
        """Return a future for each partition, of its first offset or its end."""
        committed = isolation_level == IsolationLevel.READ_COMMITTED
        latest = OffsetSpec.latest()
        futures = {place: SimulatedFuture(self._link.schedule) for place in offsets}
        for place, spec in offsets.items():
            which: Literal["earliest", "latest"] = "latest" if spec is latest else "earliest"
            self._list_offset(place, which, committed, futures[place], request_timeout)
        return futures

    def _list_offset(
        self,
        place: TopicPartition,
        which: Literal["earliest", "latest"],
        committed: bool,  # noqa: FBT001  # an isolation level
        future: SimulatedFuture,
        timeout: float,
    ) -> None:
        link, topic, partition = self._link, place.topic, place.partition
        known = link.told(topic, partition)
        if known is None or known.leader < 0:
            link.refresh()
            known = link.told(topic, partition)
        if known is None:
            future.resolve(error=KafkaException(failure(KafkaError.UNKNOWN_TOPIC_OR_PART)))
            return
        if known.leader < 0:
            future.resolve(ListOffsetsResultInfo(-1001, -1, -1))
            return
        leader = known.leader

        def answer() -> None:
            isolation: Literal["read_committed", "read_uncommitted"] = (
                "read_committed" if committed else "read_uncommitted"
            )
            found = link.cluster.list_offset(link.site, leader, topic, partition, which, isolation)
            if found.error:
                link.refresh(_AGAIN_S)
                future.resolve(error=KafkaException(failure(found.error)))
            else:
                future.resolve(ListOffsetsResultInfo(found.offset, -1, found.epoch))

        self._ask(lambda: leader, [future], answer, timeout)

    def describe_configs(
        self, resources: Iterable[ConfigResource], *, request_timeout: float = _REQUEST_S
    ) -> dict[ConfigResource, SimulatedFuture]:
        """Return a future for each topic or broker, of its settings."""
        futures = {resource: SimulatedFuture(self._link.schedule) for resource in resources}
        for resource, future in futures.items():
            self._describe_config(resource, future, request_timeout)
        return futures

    def _describe_config(self, resource: ConfigResource, future: SimulatedFuture, timeout: float) -> None:
        of_broker = resource.restype == ResourceType.BROKER
        kind: Literal["topic", "broker"] = "broker" if of_broker else "topic"

        def answer(broker: int) -> None:
            error, found = self._link.cluster.describe_config(broker, kind, resource.name)
            if error:
                future.resolve(error=KafkaException(failure(error)))
            else:
                future.resolve({name: ConfigEntry(name, value, _source(value)) for name, value in found.items()})

        if of_broker:
            asked = int(resource.name)
            self._ask(lambda: asked, [future], lambda: answer(asked), timeout)
        else:
            self._ask_controller([future], answer, timeout)

    def create_topics(
        self, new_topics: Iterable[NewTopic], *, operation_timeout: float = 0.0, request_timeout: float = _REQUEST_S
    ) -> dict[str, SimulatedFuture]:
        """Return a future for each topic that is to be made."""
        if operation_timeout < 0:
            raise ValueError(f"a timeout of {operation_timeout} s")
        wanted = {new.topic: new for new in new_topics}
        futures = self._futures(wanted)

        def answer(broker: int) -> None:
            for name, future in futures.items():
                new = wanted[name]
                assignment = new.replica_assignment or self._spread(new.num_partitions, new.replication_factor)
                _settle(future, self._link.cluster.create_topic(broker, name, assignment, dict(new.config or {})))

        self._ask_controller(futures.values(), answer, request_timeout)
        return futures

    def create_partitions(
        self, new_partitions: Iterable[NewPartitions], *, request_timeout: float = _REQUEST_S
    ) -> dict[str, SimulatedFuture]:
        """Return a future for each topic that is to grow."""
        wanted = {new.topic: new for new in new_partitions}
        futures = self._futures(wanted)

        def answer(broker: int) -> None:
            for name, future in futures.items():
                _settle(future, self._link.cluster.create_partitions(broker, name, wanted[name].replica_assignment))

        self._ask_controller(futures.values(), answer, request_timeout)
        return futures

    def delete_topics(
        self, topics: Iterable[str], *, operation_timeout: float = 0.0, request_timeout: float = _REQUEST_S
    ) -> dict[str, SimulatedFuture]:
        """Return a future for each topic that is to be deleted."""
        if operation_timeout < 0:
            raise ValueError(f"a timeout of {operation_timeout} s")
        futures = self._futures(topics)

        def answer(broker: int) -> None:
            for name, future in futures.items():
                _settle(future, self._link.cluster.delete_topic(broker, name))

        self._ask_controller(futures.values(), answer, request_timeout)
        return futures

    def incremental_alter_configs(
        self, resources: Iterable[ConfigResource], *, request_timeout: float = _REQUEST_S
    ) -> dict[ConfigResource, SimulatedFuture]:
        """Return a future for each topic whose settings are to change."""
        futures = {resource: SimulatedFuture(self._link.schedule) for resource in resources}

        def answer(broker: int) -> None:
            for resource, future in futures.items():
                changes = {entry.name: entry.value for entry in resource.incremental_configs}
                _settle(future, self._link.cluster.alter_config(broker, resource.name, changes))

        self._ask_controller(futures.values(), answer, request_timeout)
        return futures

    def _futures(self, names: Iterable[str]) -> dict[str, SimulatedFuture]:
        return {name: SimulatedFuture(self._link.schedule) for name in names}

    def _spread(self, partitions: int, replicas: int) -> list[list[int]]:
        brokers = sorted(self._link.brokers)
        count = len(brokers)
        return [[brokers[(p + r) % count] for r in range(max(replicas, 1))] for p in range(max(partitions, 1))]

    def _ask_controller(
        self, futures: Iterable[SimulatedFuture], answer: Callable[[int], None], timeout: float
    ) -> None:
        link = self._link

        def target() -> int:
            if link.controller < 0:
                link.refresh(_AGAIN_S)
            return link.controller

        self._ask(target, list(futures), lambda: answer(link.controller), timeout)

    def _ask(self, target: Callable[[], int], futures: list[SimulatedFuture], answer: Answer, timeout: float) -> None:
        """Have ``answer`` called as soon as the target is reached; after ``timeout`` seconds the futures fail."""
        link = self._link
        link.check()
        deadline = link.schedule.now + timeout

        def turn() -> None:
            if link.reaches(target()):
                answer()
            elif link.schedule.now >= deadline:
                error = failure(
                    KafkaError._TIMED_OUT, "Failed while waiting for response from broker: Local: Timed out"
                )
                for future in futures:
                    future.resolve(error=KafkaException(error))
            else:
                link.after(min(_AGAIN_S, deadline - link.schedule.now), turn)

        turn()


def _settle(future: SimulatedFuture, error: int) -> None:
    future.resolve(error=KafkaException(failure(error)) if error else None)


def _nodes(told: Metadata) -> dict[int, Node]:
    return {broker: Node(broker, *endpoint(broker), rack) for broker, rack in told.brokers}


def _description(topic: TopicMeta, other_id: str | None, nodes: Mapping[int, Node]) -> TopicDescription:
    parts = [
        TopicPartitionInfo(
            part.id,
            nodes.get(part.leader),
            [nodes.get(one) or Node(one, "", -1) for one in part.replicas],
            [nodes.get(one) or Node(one, "", -1) for one in part.isr],
        )
        for part in topic.partitions
    ]
    return TopicDescription(topic.name, uuid_of(other_id or topic.topic_id), False, parts)


@cache
def uuid_of(text: str | None) -> Uuid:
    """Return a topic id, which is a UUID in hexadecimal or, as Kafka writes it, in base 64; without one it is zero."""
    if text is None:
        return Uuid(0, 0)
    number = int.from_bytes(base64.b64decode(text + "==")) if len(text) == _BASE64 else UUID(text).int
    return Uuid(_signed(number >> 64), _signed(number))


def _signed(number: int) -> int:
    """Return the lowest 64 bits as a signed number."""
    low = number & (1 << 64) - 1
    return low - (1 << 64) if low >= 1 << 63 else low


def _source(_value: str) -> ConfigSource:
    return ConfigSource.UNKNOWN_CONFIG
