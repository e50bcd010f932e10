"""What each probe topic is to be like: as the settings say, or like the production topic that it mirrors."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException

from canary.kafka.responses import answer, describe_settings, describe_topic, text_of
from canary.kafka.topic_creation import UNREACHABLE, TopicError, ensure_topic
from canary.runner.topics.changes import existing
from canary.runner.topics.planning import Wanted
from canary.settings import ClusterSettings
from canary.watching.audit.collection import origin
from canary.watching.audit.mirrors import NOT_COPIED
from canary.workloads.mirror import WORKLOAD as MIRROR

log = structlog.get_logger(__name__)


class NoOriginalError(TopicError):
    """The production topic that should be mirrored does not exist."""


def mirrored(cluster: ClusterSettings) -> dict[str, str]:
    """Return each mirror's topic, and what it mirrors."""
    settings = getattr(cluster.modes, MIRROR.name)
    return {} if settings is None else {cluster.topic_of(MIRROR.name): settings.of}


def ensure(admin: Any, cluster: ClusterSettings, topic: str) -> bool:
    """Create a probe topic if it is missing; return False when it cannot be: what it mirrors does not exist.

    Raises:
        TopicError: the cluster does not answer, or not enough rights.
    """
    try:
        to_be = wanted(admin, cluster, topic)
    except NoOriginalError as error:
        log.error("nothing_to_mirror", cluster=cluster.name, topic=topic, reason=str(error))  # noqa: TRY400  # one line
        if existing(admin, topic, ()) is None:
            return False
        to_be = as_set(cluster, topic)
    ensure_topic(admin, topic, to_be.partitions, to_be.replication_factor, to_be.config)
    return True


def wanted(admin: Any, cluster: ClusterSettings, topic: str) -> Wanted:
    """Return what a probe topic should be like.

    Raises:
        NoOriginalError: it mirrors a topic that does not exist.
        TopicError: the cluster does not answer, or not enough rights.
    """
    of = mirrored(cluster).get(topic)
    if of is None:
        return as_set(cluster, topic)
    factor, config = _original(admin, of)
    return Wanted(topic, cluster.topic.partitions, factor, config)


def as_set(cluster: ClusterSettings, topic: str) -> Wanted:
    """Return what the settings want of a probe topic that mirrors nothing."""
    return Wanted(topic, cluster.topic.partitions, cluster.topic.replication_factor, cluster.topic.config)


def _original(admin: Any, of: str) -> tuple[int, dict[str, str]]:
    """Return the replication factor of a topic and the settings that were made on it."""
    described = _answer(admin, describe_topic(admin, of), of)
    entries = _answer(admin, describe_settings(admin, of), of)
    config = {
        name: str(entry.value)
        for name, entry in entries.items()
        if entry.value is not None and name not in NOT_COPIED and origin(name, entry) == "topic"
    }
    return min((len(one.replicas) for one in described.partitions), default=1), config


def _answer(admin: Any, ask: Callable[[float], Future[Any]], of: str) -> Any:
    try:
        return answer(admin, ask)
    except KafkaException as error:
        reason: KafkaError = error.args[0]
        if reason.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise NoOriginalError(
                f"topic {of!r}, which is to be mirrored, does not exist: make it, or correct modes.mirror.of", 2
            ) from error
        raise TopicError(
            f"topic {of!r} could not be looked at: {text_of(reason)}; the canary needs DESCRIBE and DESCRIBE_CONFIGS "
            "on what it mirrors",
            UNREACHABLE,
            reason.name(),
        ) from error
