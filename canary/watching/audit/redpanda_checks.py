"""The audit of a Redpanda cluster, from its own configuration. Untested against a live one."""

import re
from collections.abc import Iterator, Mapping

from canary.anomalies.anomaly import Severity
from canary.metrics.findings import Finding
from canary.watching.audit.cluster_config import ClusterConfig

_BAD_BELOW = (
    (
        (21, 10, 3),
        "lost writes, inconsistent offsets and aborted reads, the most frequent fixed in 21.10.3 (jepsen-redpanda)",
    ),
    ((21, 11, 15), "aborted reads and lost transactional writes, fixed in 21.11.15 (jepsen-redpanda 21.10.1, 3616)"),
    ((22, 1, 1), "duplicate writes by default, fixed in 22.1.1 (jepsen-redpanda 21.10.1, 1)"),
)
_WHY_CACHING = "writes are acknowledged from memory, before fsync: a majority that loses power loses them (why-fsync)"
COORDINATORS = {
    "kafka_internal/id_allocator": (
        "id_allocator_replication",
        "producer ids are given out twice when the id allocator loses its log",
    ),
    "kafka_internal/tx": ("transaction_coordinator_replication", "outcomes of transactions are lost with one broker"),
}
"""Internal topics, the setting with which each will be made, and why its replicas matter."""
_DEFAULTS: tuple[tuple[str, str, Severity], ...] = (
    ("internal_topic_replication_factor", "internal topics lose what they remember with one broker", "critical"),
    ("default_topic_replications", "topics made without a replication factor have one copy", "warning"),
)


def check(config: ClusterConfig) -> Iterator[Finding]:
    """Yield the findings; none where it is no Redpanda."""
    if config.redpanda is None:
        return
    yield from _coordinators(config, config.redpanda)
    yield from _caching(config, config.redpanda)
    if config.redpanda.get("auto_create_topics_enabled") is True:
        yield Finding(
            "auto-create",
            "warning",
            "cluster",
            "auto_create_topics_enabled=true",
            "a misspelt or deleted topic is created by itself and takes writes that no consumer looks for",
            "rpk cluster config set auto_create_topics_enabled false",
        )
    for broker in config.brokers:
        version = _version(broker.version)
        why = next((why for below, why in _BAD_BELOW if version and version < below), None)
        if why is not None:
            found = f"version {broker.version}"
            yield Finding("known-bad-version", "critical", f"broker {broker.id}", found, why, "upgrade Redpanda")


def _coordinators(config: ClusterConfig, settings: Mapping[str, object]) -> Iterator[Finding]:
    """Internal topics as they are, or, before they are made, as they will be."""
    least = min(3, len(config.brokers))
    for topic, (name, why) in COORDINATORS.items():
        count = config.coordinators.get(topic)
        if count is not None:
            found, change = f"{topic} has replication factor {count}", f"move its partition to {least} brokers"
        else:
            value = settings.get(name)
            count = value if isinstance(value, int) else least
            found, change = f"{name}={count}", f"rpk cluster config set {name} {least}"
        if count < least:
            yield Finding("internal-replication", "critical", "cluster", found, why, change)
    for name, why, severity in _DEFAULTS:
        value = settings.get(name)
        if isinstance(value, int) and value < least:
            change = f"rpk cluster config set {name} {least}"
            yield Finding("internal-replication", severity, "cluster", f"{name}={value}", why, change)


def _caching(config: ClusterConfig, settings: Mapping[str, object]) -> Iterator[Finding]:
    value = settings.get("write_caching_default")
    if value in {"true", True}:
        change = "rpk cluster config set write_caching_default disabled"
        yield Finding("write-caching", "warning", "cluster", "write_caching_default=true", _WHY_CACHING, change)
    for topic in config.topics:
        own = topic.settings.get("write.caching")
        if own is not None and own.origin == "topic" and own.value == "true" and value != "disabled":
            change = f"rpk topic alter-config {topic.name} --set write.caching=false"
            yield Finding("write-caching", "warning", f"topic {topic.name}", "write.caching=true", _WHY_CACHING, change)


def _version(text: str | None) -> tuple[int, ...] | None:
    """Return "v21.11.15 - 0a1b2c" as numbers, None where it is of another shape."""
    found = re.match(r"v?(\d+)\.(\d+)\.(\d+)", text or "")
    return tuple(map(int, found.groups())) if found else None
