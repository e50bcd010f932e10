"""A probe topic that mirrors a production topic measures that topic's durability only while both are set alike."""

from collections.abc import Iterator
from typing import Final

from canary.metrics.findings import Finding
from canary.watching.audit.cluster_config import ClusterConfig, TopicConfig
from canary.watching.audit.topic_checks import change_topic

NOT_COPIED: Final = frozenset(
    {
        "confluent.placement.constraints",
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
    }
)
"""Settings that speak of a topic's own partitions, and say nothing about another's."""
_WHY = "probes of the mirror show another durability than that topic has"


def check(config: ClusterConfig) -> Iterator[Finding]:
    """Yield what differs between each mirror and what it mirrors: replicas, and settings made on either of them."""
    topics = {topic.name: topic for topic in config.topics}
    for name, of in config.mirrors.items():
        mirror, original = topics.get(name), topics.get(of)
        if original is None:
            change = "set modes.mirror.of to a topic that exists"
            yield Finding("mirror-drift", "warning", f"topic {name}", f"topic {of} does not exist", _WHY, change)
        elif mirror is not None:
            yield from _drift(mirror, original)


def _drift(mirror: TopicConfig, original: TopicConfig) -> Iterator[Finding]:
    where = f"topic {mirror.name}"
    have, want = mirror.replication_factor, original.replication_factor
    if have and want and have != want:
        found = f"replication factor {have}, and {want} on {original.name}"
        change = "kafka-reassign-partitions.sh, or delete the mirror: the canary makes it again"
        yield Finding("mirror-drift", "warning", where, found, _WHY, change)
    if not mirror.settings or not original.settings:
        return  # not known: noted elsewhere
    made = {name for topic in (mirror, original) for name, one in topic.settings.items() if one.origin == "topic"}
    for name in sorted(made - NOT_COPIED):
        ours, theirs = mirror.settings.get(name), original.settings.get(name)
        if ours is None or theirs is None or ours.value == theirs.value:
            continue
        change = change_topic(mirror.name, f"{name}=[{theirs.value}]")
        found = f"{name}={ours.value}, and {theirs.value} on {original.name}"
        yield Finding("mirror-drift", "warning", where, found, _WHY, change)
