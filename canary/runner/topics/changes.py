"""Reads what the plan of the probe topics needs, and makes the changes of a plan."""

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, NewTopic, ResourceType

from canary.kafka import membership
from canary.kafka.responses import answer, describe_settings, describe_topic, text_of
from canary.kafka.topic_creation import UNREACHABLE, Broker, TopicError, with_racks
from canary.runner.topics.planning import Change, Existing


def live_brokers(admin: Any) -> list[Broker]:
    """Return the brokers that live.

    Raises:
        TopicError: the cluster does not answer.
    """
    return with_racks(admin, _result(admin, membership.asked(admin), "list the brokers"))


def existing(admin: Any, topic: str, names: Sequence[str]) -> Existing | None:
    """Return a topic as it is, with the settings called ``names``; None when there is no such topic.

    Raises:
        TopicError: the cluster does not answer, or not enough rights.
    """
    missing = {KafkaError.UNKNOWN_TOPIC_OR_PART}
    described = _result(admin, describe_topic(admin, topic), f"describe topic {topic!r}", missing)
    if described is None:
        return None
    entries = _result(admin, describe_settings(admin, topic), f"read the settings of topic {topic!r}")
    replicas = [[node.id for node in part.replicas] for part in sorted(described.partitions, key=lambda one: one.id)]
    return Existing(replicas, {name: entries[name].value for name in names if name in entries})


def make(admin: Any, change: Change, partitions_now: int) -> None:
    """Make one change of a topic that had ``partitions_now`` when it was planned; fine if it was made meanwhile.

    Raises:
        TopicError: it is refused, or not answered.
    """
    what = f"{change.action} topic {change.topic!r}"
    if change.action == "create":
        new = NewTopic(
            change.topic,
            num_partitions=len(change.assignments),
            replica_assignment=[list(one) for one in change.assignments],
            config=dict(change.config),
        )
        _result(
            admin,
            lambda most_s: admin.create_topics([new], request_timeout=most_s)[change.topic],
            what,
            {KafkaError.TOPIC_ALREADY_EXISTS},
        )
    elif change.action == "add-partitions":
        total = partitions_now + len(change.assignments)
        more = NewPartitions(change.topic, total, replica_assignment=[list(one) for one in change.assignments])
        try:
            _result(admin, lambda most_s: admin.create_partitions([more], request_timeout=most_s)[change.topic], what)
        except TopicError:
            now = existing(admin, change.topic, [])
            if now is None or len(now.replicas) < total:
                raise
    else:
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in change.config
        ]
        resource = ConfigResource(ResourceType.TOPIC, change.topic, incremental_configs=entries)
        _result(
            admin, lambda most_s: admin.incremental_alter_configs([resource], request_timeout=most_s)[resource], what
        )


def _result(admin: Any, ask: Callable[[float], Future[Any]], what: str, fine: Collection[int] = ()) -> Any:
    """Return what the cluster answers; None where that is one of the errors that are ``fine``."""
    try:
        return answer(admin, ask)
    except KafkaException as error:
        reason: KafkaError = error.args[0]
        if reason.code() in fine:
            return None
        raise TopicError(
            f"could not {what}: {text_of(reason)}; is the cluster reachable, and has the canary its rights "
            "(DESCRIBE, CREATE, ALTER, ALTER_CONFIGS)?",
            UNREACHABLE,
            reason.name(),
        ) from error
