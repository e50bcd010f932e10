"""What each probe topic is to be like: as the settings say, or like the production topic that it mirrors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import ConfigResource, ConfigSource, ResourceType

from canary.client.answers import answer, text_of
from canary.probing.topic import UNREACHABLE, TopicError
from canary.runner.planning import Wanted
from canary.watching.mirrors import NOT_COPIED

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from canary.settings import ClusterSettings


class NoOriginalError(TopicError):
    """The production topic that should be mirrored does not exist."""


def mirrored(cluster: ClusterSettings) -> dict[str, str]:
    """Return each mirror's topic, and what it mirrors."""
    settings = cluster.modes.mirror
    return {} if settings is None else {cluster.topic_of("mirror"): settings.of}


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
    described = _answer(
        admin, lambda most_s: admin.describe_topics(TopicCollection([of]), request_timeout=most_s)[of], of
    )
    resource = ConfigResource(ResourceType.TOPIC, of)
    entries = _answer(admin, lambda most_s: admin.describe_configs([resource], request_timeout=most_s)[resource], of)
    config = {
        name: str(entry.value)
        for name, entry in entries.items()
        if entry.value is not None and name not in NOT_COPIED and _made_there(entry)
    }
    return min((len(one.replicas) for one in described.partitions), default=1), config


def _made_there(entry: Any) -> bool:
    source = entry.source.value if isinstance(entry.source, ConfigSource) else entry.source
    return bool(source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value)


def _answer(admin: Any, ask: Callable[[float], Future[Any]], of: str) -> Any:
    try:
        return answer(admin, ask)
    except KafkaException as error:
        said: KafkaError = error.args[0]
        if said.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise NoOriginalError(
                f"topic {of!r}, which is to be mirrored, does not exist: make it, or correct modes.mirror.of", 2
            ) from error
        raise TopicError(
            f"topic {of!r} could not be looked at: {text_of(said)}; the canary needs DESCRIBE and DESCRIBE_CONFIGS on "
            "what it mirrors",
            UNREACHABLE,
            said.name(),
        ) from error
