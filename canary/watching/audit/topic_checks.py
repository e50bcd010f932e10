"""The checks of one topic: replicas, in-sync replicas, retention, racks."""

from collections.abc import Iterator

from canary.metrics.findings import Finding
from canary.watching.audit.broker_checks import AHEAD, DAY_MS, MIN_ISR, UNCLEAN, WHY_AHEAD, WHY_LOW_MIN_ISR, WHY_UNCLEAN
from canary.watching.audit.cluster_config import ClusterConfig, TopicConfig, listed, number

_SLACK = 1.05


def change_topic(topic: str, setting: str) -> str:
    """Return the command that sets ``setting`` (name=value) on a topic."""
    return f"kafka-configs.sh --alter --entity-type topics --entity-name {topic} --add-config {setting}"


def check_topic(config: ClusterConfig, topic: TopicConfig) -> Iterator[Finding]:
    """Yield what is unsafe about a topic; nothing where its replicas are not known."""
    where, factor = f"topic {topic.name}", topic.replication_factor
    if not factor:
        return
    yield from _replication(config, where, factor)
    if topic.set_here(UNCLEAN) == "true":
        change = change_topic(topic.name, f"{UNCLEAN}=false")
        yield Finding("unclean-election", "critical", where, f"{UNCLEAN}=true", WHY_UNCLEAN, change)
    if factor > 1:
        yield from _min_isr(config, topic, factor)
    if topic.role == "probe":
        yield from _retention(config, topic)
        policy = topic.settings.get("cleanup.policy")
        if policy is not None and "compact" in policy.value:
            why = "compaction refuses or removes probes: that one is not there any more proves nothing"
            change = change_topic(topic.name, "cleanup.policy=delete")
            yield Finding("compaction", "warning", where, f"cleanup.policy={policy.value}", why, change)
    ahead = number(topic.settings.get(AHEAD))
    if ahead is not None and topic.set_here(AHEAD) is not None and ahead > DAY_MS:
        change = change_topic(topic.name, f"{AHEAD}=3600000")
        yield Finding("timestamps", "info", where, f"{AHEAD}={ahead}", WHY_AHEAD, change)
    yield from _one_rack(config, topic)


def _replication(config: ClusterConfig, where: str, factor: int) -> Iterator[Finding]:
    change = "kafka-reassign-partitions.sh with three replicas for each partition"
    if factor == 1 and len(config.brokers) > 1:
        why = "one broker has the only copy: losing its disk loses everything, and its restart is an outage"
        yield Finding("replication-factor", "critical", where, "replication factor 1", why, change)
    elif factor < min(3, len(config.brokers)):
        why = "with two replicas, either writes stop when one is down, or the other one alone acknowledges them"
        yield Finding("replication-factor", "warning", where, f"replication factor {factor}", why, change)


def _min_isr(config: ClusterConfig, topic: TopicConfig, factor: int) -> Iterator[Finding]:
    setting, least = topic.settings.get(MIN_ISR), topic.number(MIN_ISR)
    if setting is None or least is None:
        return
    where = f"topic {topic.name}"
    reported = setting.origin == "broker" and any(config.on_brokers(MIN_ISR))
    internal_default = topic.role == "internal" and setting.origin == "default"
    if least < 2 and not reported and not internal_default:
        change = change_topic(topic.name, f"{MIN_ISR}=2")
        yield Finding("min-isr", "warning", where, f"{MIN_ISR}={least}", WHY_LOW_MIN_ISR, change)
    elif least >= factor:
        why = "every replica is needed for every write: one broker's restart stops all writes"
        yield Finding(
            "no-tolerance",
            "warning",
            where,
            f"{MIN_ISR}={least} with replication factor {factor}",
            why if least == factor else "more replicas are needed than there are: no write with acks=all is accepted",
            change_topic(topic.name, f"{MIN_ISR}={max(factor - 1, 1)}"),
        )


def _retention(config: ClusterConfig, topic: TopicConfig) -> Iterator[Finding]:
    """Check that probes are kept from one reconciliation to the next, by time and by bytes.

    Of bytes, those that are written between two reconciliations must be kept; the open segment is kept in addition.
    """
    every_s = config.reconcile_every_s
    if every_s is None:
        return
    where, policy = f"topic {topic.name}", topic.settings.get("cleanup.policy")
    why = f"probes expire before the reconciliation, done every {every_s / 3600:g} h, has read them: "
    kept_ms = topic.number("retention.ms")
    deletes = policy is None or "delete" in policy.value
    if deletes and kept_ms is not None and 0 <= kept_ms < every_s * _SLACK * 1000:
        change = change_topic(topic.name, f"retention.ms={int(every_s * 2000)}")
        found = f"retention.ms={kept_ms}"
        yield Finding("retention", "warning", where, found, f"{why}their loss stays unseen", change)
    kept, rate = topic.number("retention.bytes"), config.probe_rates.get(topic.name)
    if rate is None or kept is None or kept < 0:
        return
    needed = int(rate * every_s)
    if kept + (topic.number("segment.bytes") or 0) < needed:
        change = change_topic(topic.name, f"retention.bytes={needed * 4}")
        why += f"meanwhile {needed} bytes of a partition and more are written"
        yield Finding("retention", "warning", where, f"retention.bytes={kept}", why, change)


def _one_rack(config: ClusterConfig, topic: TopicConfig) -> Iterator[Finding]:
    racks = {broker.id: broker.rack for broker in config.brokers if broker.rack}
    if len(set(racks.values())) < 2:
        return
    together = [
        partition
        for partition, replicas in enumerate(topic.replicas)
        if len(replicas) > 1 and len({racks.get(one, one) for one in replicas}) == 1
    ]
    if together:
        found = f"all replicas of partitions {listed(together)} are in one rack"
        change = "kafka-reassign-partitions.sh with replicas in different racks"
        yield Finding("racks", "warning", f"topic {topic.name}", found, "what takes the rack takes every copy", change)
