"""Who leads a partition, who is in sync, and who may lead when nobody is (ELR): DescribeTopicPartitions (KIP-966).

Any broker answers from what it knows of the cluster. Those that do not know the question (ZooKeeper, Kafka before 3.7,
Redpanda) are asked for Metadata, which has no ELR.
"""

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kafka.protocol.admin.topics import DescribeTopicPartitionsRequest
from kafka.protocol.metadata.metadata import MetadataRequest

from canary.wire.client import asked, failed
from canary.wire.errors import WireError

_WITH_EPOCHS: Final = 7
"""The first version of Metadata with leader epochs: Kafka 2.1."""
_WITH_CLUSTER_ID: Final = 2
"""The first version of Metadata with the cluster's id: Kafka 0.10.1."""
_PAGE: Final = 2000
_UNSUPPORTED: Final = "UNSUPPORTED_VERSION"


@dataclass(frozen=True, slots=True)
class PartitionReplicas:
    """A partition as a broker knows it.

    Attributes:
        topic: its topic's name.
        partition: its number.
        topic_id: of the topic, as librdkafka writes it; None where the cluster has no ids.
        leader: None: nobody leads.
        leader_epoch: counts the changes of leader; -1: unknown.
        replicas: in the order of their assignment.
        isr: who is in sync.
        elr: who is not in sync, and has all that was acknowledged; empty also where the cluster has ELR switched off.
            None: unknown.
        last_known_elr: who was eligible, and went down uncleanly. None: unknown.
        offline: replicas of which the broker knows that they do not run.
    """

    topic: str
    partition: int
    topic_id: str | None
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: frozenset[int]
    elr: frozenset[int] | None
    last_known_elr: frozenset[int] | None
    offline: frozenset[int]


def described(
    admin: Any, topics: Iterable[str], broker: int | None = None
) -> dict[str, tuple[PartitionReplicas, ...] | WireError]:
    """Return the partitions of each topic, by number. Needs the right to Describe the topics.

    Args:
        admin: a client (``canary.wire.client.opened``).
        topics: their names.
        broker: the id of the one to ask, None: whichever is at hand.

    A topic without an answer has the error in its place: ``UNKNOWN_TOPIC_OR_PARTITION`` (there is none, or we may not
    Describe it).

    Raises:
        WireError: the broker does not answer.
    """
    wanted = sorted(set(topics))
    if not wanted:
        return {}
    try:
        answers = _pages(admin, wanted, broker)
    except WireError as error:
        if error.code != _UNSUPPORTED:
            raise
        named = [MetadataRequest.MetadataRequestTopic(name=name) for name in wanted]
        request = MetadataRequest(topics=named, allow_auto_topic_creation=False, min_version=_WITH_EPOCHS)
        answers = list(asked(admin, request, broker).topics)
    found: dict[str, tuple[PartitionReplicas, ...] | WireError] = {}
    for topic in answers:
        if topic.error_code:
            found[topic.name] = failed(topic.error_code, f"topic {topic.name}")
            continue
        before = found.get(topic.name, ())  # a page may end in the middle of a topic
        topic_id = _id(getattr(topic, "topic_id", None))
        more = tuple(
            sorted((_partition(one, topic.name, topic_id) for one in topic.partitions), key=lambda one: one.partition)
        )
        found[topic.name] = more if isinstance(before, WireError) else (*before, *more)
    return {name: _by_number(found.get(name), name) for name in wanted}


def _by_number(
    found: tuple[PartitionReplicas, ...] | WireError | None, topic: str
) -> tuple[PartitionReplicas, ...] | WireError:
    if isinstance(found, WireError):
        return found
    return tuple(sorted(found or (), key=lambda one: one.partition)) or WireError(f"nothing is said of topic {topic}")


class Members(NamedTuple):
    """The ids of all brokers and of that which clients take for the controller, and of the cluster (None: not told)."""

    brokers: list[int]
    controller: int
    cluster_id: str | None


def members(admin: Any, broker: int | None = None) -> Members:
    """Return what a broker, None: whichever is at hand, knows of its cluster.

    Raises:
        WireError: it does not answer.
    """
    answer = asked(admin, MetadataRequest(topics=[], min_version=_WITH_CLUSTER_ID), broker)
    return Members(sorted(one.node_id for one in answer.brokers), int(answer.controller_id), answer.cluster_id)


def cluster_at(admin: Any, broker: int) -> str | None:
    """Return the id of the cluster of what answers as this broker: a new connection to it may lead elsewhere.

    Raises:
        WireError: it does not answer.
    """
    return members(admin, broker).cluster_id


def names(admin: Any) -> list[str]:
    """Return the names of all topics that we may Describe, as whichever broker is at hand knows them.

    Raises:
        WireError: it does not answer.
    """
    return sorted(one.name for one in asked(admin, MetadataRequest(topics=None)).topics if not one.error_code)


def _pages(admin: Any, topics: list[str], broker: int | None) -> list[Any]:
    named = [DescribeTopicPartitionsRequest.TopicRequest(name=name) for name in topics]
    found: list[Any] = []
    cursor = None
    while True:
        request = DescribeTopicPartitionsRequest(topics=named, response_partition_limit=_PAGE, cursor=cursor)
        answer = asked(admin, request, broker)
        found += answer.topics
        if (following := answer.next_cursor) is None:
            return found
        cursor = DescribeTopicPartitionsRequest.Cursor(
            topic_name=following.topic_name, partition_index=following.partition_index
        )


def _partition(one: Any, topic: str, topic_id: str | None) -> PartitionReplicas:
    return PartitionReplicas(
        topic=topic,
        partition=one.partition_index,
        topic_id=topic_id,
        leader=one.leader_id if one.leader_id >= 0 else None,
        leader_epoch=one.leader_epoch,
        replicas=tuple(one.replica_nodes),
        isr=frozenset(one.isr_nodes),
        elr=_known(getattr(one, "eligible_leader_replicas", None)),
        last_known_elr=_known(getattr(one, "last_known_elr", None)),
        offline=frozenset(one.offline_replicas),
    )


def _id(topic_id: Any) -> str | None:
    if topic_id is None or not topic_id.int:
        return None
    return base64.b64encode(topic_id.bytes).rstrip(b"=").decode()  # as librdkafka tells it; see facts.incarnation


def _known(ids: list[int] | None) -> frozenset[int] | None:
    return None if ids is None else frozenset(ids)
