"""Every check of the audit, over what was collected. Pure.

A setting is reported where it was set: a broker's setting once for all brokers that have it, and not again for each
topic that inherits it. What is Kafka's own default and harmless in itself is a note.
"""

from collections.abc import Iterator

from canary.metrics.findings import Audit, Note
from canary.watching.audit import mirrors, redpanda_checks
from canary.watching.audit.broker_checks import AHEAD, MIN_ISR, check_brokers, protocol_version
from canary.watching.audit.cluster_config import ClusterConfig, Setting, number
from canary.watching.audit.topic_checks import change_topic, check_topic

_RANK = {"critical": 0, "warning": 1, "info": 2}
_LONGEST = 2**63 - 1
FLUSH_NOTE = (
    "A write is acknowledged once the in-sync replicas have it in memory, not on disk (flush settings are the "
    "defaults): machines that lose power together lose it, and one that lost its page cache can lead and cut the "
    "others (why-fsync). Spread replicas over power domains; flush.messages=1 pays for less risk with throughput."
)
_FLUSHED_NOTE = "log.flush.interval is set: the time between two flushes is what a crash of all replicas can lose."
_OLD_TRANSACTIONS = (
    "Before Kafka 4.0 a late write of a transaction that is over can join the next one, or hold up every reader that "
    "reads committed (KAFKA-14402; KIP-890 ends it with transaction.version=2)."
)


def check(config: ClusterConfig) -> Audit:
    """Return the findings, worst first, and the notes."""
    found = [
        *check_brokers(config),
        *(finding for topic in config.topics for finding in check_topic(config, topic)),
        *redpanda_checks.check(config),
        *mirrors.check(config),
    ]
    found.sort(key=lambda one: (_RANK[one.severity], one.where, one.check))
    return Audit(tuple(found), (*config.notes, *_notes(config)))


def _notes(config: ClusterConfig) -> Iterator[Note]:
    if not any(broker.settings for broker in config.brokers):
        return
    flushed = any(config.on_brokers(f"log.flush.interval.{unit}") for unit in ("messages", "ms"))
    yield Note("brokers", _FLUSHED_NOTE if flushed else FLUSH_NOTE)
    if not config.on_brokers(MIN_ISR) and len(config.brokers) > 1:
        yield Note(
            "brokers",
            f"Topics without a setting of their own have {MIN_ISR}=1. Where eligible leader replicas are on, brokers' "
            "files do not count: set it with kafka-configs.sh --entity-type brokers --entity-default (KIP-966).",
        )
    for topic in config.topics:
        setting = topic.settings.get(MIN_ISR)
        if topic.role == "internal" and topic.replication_factor > 1 and setting == Setting("1", "default"):
            yield Note(
                f"topic {topic.name}",
                f"{MIN_ISR}=1 by default: what its coordinators acknowledge may be with one replica alone, and "
                "committed offsets or outcomes of transactions go back when that is lost. "
                + change_topic(topic.name, f"{MIN_ISR}=2"),
            )
    if any(number(broker.settings.get(f"log.{AHEAD}")) == _LONGEST for broker in config.brokers):
        yield Note(
            "brokers",
            f"log.{AHEAD} is unlimited, the default before Kafka 4.0: a producer whose clock is ahead writes records "
            "that retention by time never deletes.",
        )
    protocols = config.on_brokers("inter.broker.protocol.version", explicit=False)
    if any((version := protocol_version(value)) and version < (4, 0) for _, value in protocols):
        yield Note("brokers", _OLD_TRANSACTIONS)
    if not any(broker.rack for broker in config.brokers):
        yield Note("brokers", "No broker says its rack: whether replicas share one cannot be told.")
