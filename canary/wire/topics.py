"""A setting of a topic, and where the log of each replica starts."""

from typing import Any, Final

from kafka.protocol.admin import DescribeConfigsRequest
from kafka.protocol.consumer import ListOffsetsRequest

from canary.wire.client import asked, failed
from canary.wire.errors import WireError

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
