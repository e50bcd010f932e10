"""A setting of a topic, where the log of each replica starts, and how large it is."""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final

from kafka.protocol.admin import DescribeConfigsRequest, DescribeLogDirsRequest
from kafka.protocol.consumer import ListOffsetsRequest

from canary.wire.client import asked, failed
from canary.wire.errors import WireError
from canary.wire.replicas import described

_TOPIC: Final = 2
"""As the type of a resource that has settings."""
_ANY_REPLICA: Final = -2
"""As the replica that asks: a broker answers for its own log, whether it leads or not (ListOffsetsRequest)."""
_EARLIEST: Final = -2
_EARLIEST_LOCAL: Final = -4
"""The first offset that is not in a remote tier alone (KIP-405); of Kafka 3.4 and later."""


def setting(admin: Any, topic: str, name: str) -> str | None:
    """Return a setting of a topic; None: there is none, or we may not see it (it takes the right to DescribeConfigs).

    Raises:
        WireError: no answer.
    """
    resources = DescribeConfigsRequest.DescribeConfigsResource
    wanted = resources(resource_type=_TOPIC, resource_name=topic, configuration_keys=[name])
    answer = asked(admin, DescribeConfigsRequest(resources=[wanted]))
    return next((str(one.value) for found in answer.results for one in found.configs if one.name == name), None)


def log_start(admin: Any, topic: str, partition: int, broker: int, *, local: bool) -> int:
    """Return the first offset of a broker's replica, leader or follower. Needs the right to Describe the topic.

    ``local``: the first one that the broker has itself, where a remote tier has those before (KIP-405).

    Raises:
        WireError: no answer; also of brokers that do not know remote tiers, and are asked what is ``local``.
    """
    topics = ListOffsetsRequest.ListOffsetsTopic
    wanted = topics.ListOffsetsPartition(
        partition_index=partition, current_leader_epoch=-1, timestamp=_EARLIEST_LOCAL if local else _EARLIEST
    )
    request = ListOffsetsRequest(
        replica_id=_ANY_REPLICA,
        isolation_level=0,
        topics=[topics(name=topic, partitions=[wanted])],
        min_version=8 if local else 1,
        max_version=8,
    )
    ((found,),) = [one.partitions for one in asked(admin, request, broker).topics] or ((None,),)
    if found is None:
        raise WireError(f"broker {broker} says nothing of {topic}:{partition}")
    if found.error_code:
        raise failed(found.error_code, f"{topic}:{partition} of broker {broker}")
    return int(found.offset)


def log_sizes(admin: Any, places: Iterable[tuple[str, int]], broker: int) -> dict[tuple[str, int], int]:
    """Return how many bytes the segments of a broker's replicas have. Needs the right to Describe the cluster.

    A replica that the broker does not have, or has on a disk that failed, is left out.

    Raises:
        WireError: no answer.
    """
    by_topic: defaultdict[str, list[int]] = defaultdict(list)
    for topic, partition in places:
        by_topic[topic].append(partition)
    topics = DescribeLogDirsRequest.DescribableLogDirTopic
    wanted = [topics(topic=topic, partitions=partitions) for topic, partitions in by_topic.items()]
    answer = asked(admin, DescribeLogDirsRequest(topics=wanted, min_version=1), broker)
    if code := getattr(answer, "error_code", 0):
        raise failed(code, f"the sizes of logs of broker {broker}")
    return {
        (topic.name, one.partition_index): one.partition_size
        for directory in answer.results
        if not directory.error_code
        for topic in directory.topics
        for one in topic.partitions
        if not one.is_future_key
    }


def sizes_at_leaders(admin: Any, topics: Iterable[str]) -> Iterator[dict[tuple[str, int], int] | WireError]:
    """Yield how many bytes the logs of topics have on one of their leaders after another, or what it answered instead.

    Raises:
        WireError: the cluster does not say which brokers lead.
    """
    led: defaultdict[int, list[tuple[str, int]]] = defaultdict(list)
    for found in described(admin, topics).values():
        for one in () if isinstance(found, WireError) else found:
            if one.leader is not None:
                led[one.leader].append((one.topic, one.partition))
    for leader, places in led.items():
        try:
            yield log_sizes(admin, places, leader)
        except WireError as error:
            yield error
