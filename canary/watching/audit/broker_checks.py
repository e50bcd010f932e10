"""The checks of brokers' settings: each setting is reported once, for all the brokers that have it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from canary.anomalies.anomaly import Severity
from canary.metrics.findings import Finding
from canary.watching.audit.cluster_config import ClusterConfig, numbered

UNCLEAN = "unclean.leader.election.enable"
MIN_ISR = "min.insync.replicas"
AHEAD = "message.timestamp.after.max.ms"
DAY_MS = 86_400_000
WHY_UNCLEAN = (
    "a replica that was not in sync may become leader, and everything acknowledged that it does not have is lost "
    "(call-me-maybe)"
)
WHY_LOW_MIN_ISR = (
    "with acks=all a write may be acknowledged by the leader alone, and is lost with it (call-me-maybe: a third of "
    "the acknowledged writes)"
)
WHY_AHEAD = "a producer whose clock is ahead writes records that retention by time never deletes"

_CHANGE = "set {setting} on every broker (kafka-configs.sh --entity-type brokers --entity-default, or its file)"
_OLD_PROTOCOLS = (
    ((0, 11), "followers truncate to their high watermark after a restart and can lose acknowledged records (KIP-101)"),
    ((2, 0), "leader epochs are not compared between followers: logs can diverge after fast leader changes (KIP-279)"),
)


@dataclass(frozen=True, slots=True)
class _BrokerCheck:
    """``unsafe`` is given a value that was set on brokers and the number of brokers; ``safe`` is the value to set."""

    setting: str
    unsafe: Callable[[str, int], bool]
    check: str
    severity: Severity
    why: str
    safe: str


_CHECKS = (
    _BrokerCheck(UNCLEAN, lambda value, _: value == "true", "unclean-election", "critical", WHY_UNCLEAN, "false"),
    _BrokerCheck(
        MIN_ISR,
        lambda value, brokers: value.isdigit() and int(value) < 2 <= brokers,
        "min-isr",
        "warning",
        WHY_LOW_MIN_ISR,
        "2",
    ),
    _BrokerCheck(
        "offsets.commit.required.acks",
        lambda value, _: value not in {"-1", "all"},
        "offset-commit-acks",
        "warning",
        "committed offsets are acknowledged before all in-sync replicas have them",
        "-1",
    ),
    _BrokerCheck(
        f"log.{AHEAD}",
        lambda value, _: value.isdigit() and int(value) > DAY_MS,
        "timestamps",
        "info",
        WHY_AHEAD,
        "3600000",
    ),
)


def check_brokers(config: ClusterConfig) -> Iterator[Finding]:
    """Yield what is unsafe about the brokers."""
    for check in _CHECKS:
        for brokers, value in config.on_brokers(check.setting):
            if check.unsafe(value, len(config.brokers)):
                change = _CHANGE.format(setting=f"{check.setting}={check.safe}")
                yield Finding(check.check, check.severity, brokers, f"{check.setting}={value}", check.why, change)
    yield from _auto_create(config)
    yield from _internal_settings(config)
    yield from _versions(config)
    without = [broker.id for broker in config.brokers if broker.settings and not broker.rack]
    if without and any(broker.rack for broker in config.brokers):
        yield Finding(
            "racks",
            "warning",
            numbered("broker", without),
            "no broker.rack, and others have one",
            "replicas are spread over racks only when every broker says its own",
            "set broker.rack on every broker",
        )


def _auto_create(config: ClusterConfig) -> Iterator[Finding]:
    for brokers, value in config.on_brokers("auto.create.topics.enable", explicit=False):
        if value == "true":
            factors = config.on_brokers("default.replication.factor", explicit=False)
            yield Finding(
                "auto-create",
                "warning",
                brokers,
                f"auto.create.topics.enable=true (default.replication.factor={factors[0][1] if factors else '1'})",
                "a misspelt or deleted topic is created by itself, with the brokers' defaults, and takes writes that "
                "no consumer looks for",
                _CHANGE.format(setting="auto.create.topics.enable=false"),
            )


def _internal_settings(config: ClusterConfig) -> Iterator[Finding]:
    """Check the settings of internal topics that do not exist yet; those that exist are checked as they are."""
    existing = {topic.name for topic in config.topics}
    wanted = min(3, len(config.brokers))
    for topic, name, least in (
        ("__consumer_offsets", "offsets.topic.replication.factor", wanted),
        ("__transaction_state", "transaction.state.log.replication.factor", wanted),
        ("__transaction_state", "transaction.state.log.min.isr", min(2, wanted)),
        ("__share_group_state", "share.coordinator.state.topic.replication.factor", wanted),
        ("__share_group_state", "share.coordinator.state.topic.min.isr", min(2, wanted)),
    ):
        for brokers, value in config.on_brokers(name) if topic not in existing else ():
            if value.isdigit() and int(value) < least:
                yield Finding(
                    "internal-replication",
                    "warning",
                    brokers,
                    f"{name}={value}",
                    f"{topic} will be made with it: losing one broker loses what its coordinators remember",
                    f"set {name}={least} on every broker before {topic} is first used",
                )


def _versions(config: ClusterConfig) -> Iterator[Finding]:
    known_settings = {frozenset(broker.settings) for broker in config.brokers if broker.settings}
    versions = {broker.version for broker in config.brokers if broker.version}
    if len(known_settings) > 1 or len(versions) > 1:
        yield Finding(
            "versions-mixed",
            "warning",
            "brokers",
            f"versions {', '.join(sorted(versions))}" if versions else "brokers that know different settings",
            "brokers of different versions are meant to meet only while they are upgraded",
            "finish the upgrade, then raise the metadata version (or inter.broker.protocol.version)",
        )
    for brokers, value in config.on_brokers("inter.broker.protocol.version", explicit=False):
        version = protocol_version(value)
        why = next((why for below, why in _OLD_PROTOCOLS if version and version < below), None)
        if why is not None:
            change = "upgrade the brokers, then raise inter.broker.protocol.version"
            found = f"inter.broker.protocol.version={value}"
            yield Finding("known-bad-version", "critical", brokers, found, why, change)


def protocol_version(text: str) -> tuple[int, ...]:
    """Return the version that a protocol names: (2, 8) for "2.8-IV1", () for text of another shape."""
    parts = text.split("-", maxsplit=1)[0].split(".")
    return tuple(int(part) for part in parts[:2]) if all(part.isdigit() for part in parts[:2]) else ()
