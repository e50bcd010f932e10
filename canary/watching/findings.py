"""The checks of the audit, each a function over what was collected. Pure.

A setting is reported where it was made: a broker's setting once for all brokers that have it, and not again for each
topic that inherits it. What is Kafka's own default and harmless in itself is a note.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from canary.watching import mirrors, redpanda_findings
from canary.watching.audited import Audit, Finding, Note, Setting, number

if TYPE_CHECKING:
    from collections.abc import Iterator

    from canary.watching.audited import Audited, AuditedTopic

_RANK = {"critical": 0, "warning": 1, "info": 2}
_UNCLEAN = "unclean.leader.election.enable"
_MIN_ISR = "min.insync.replicas"
_DAY_S = 86_400.0
_SLACK = 1.05
_AHEAD = "message.timestamp.after.max.ms"
_LONGEST = 2**63 - 1
_WHY_UNCLEAN = (
    "a replica that was not in sync may become leader, and everything acknowledged that it does not have is lost "
    "(call-me-maybe)"
)
_CHANGE_TOPIC = "kafka-configs.sh --alter --entity-type topics --entity-name {name} --add-config {setting}"
_CHANGE_BROKER = "set {setting} on every broker (kafka-configs.sh --entity-type brokers --entity-default, or its file)"
_OLD_PROTOCOLS = (
    ((0, 11), "followers truncate to their high watermark after a restart and can lose acknowledged records (KIP-101)"),
    ((2, 0), "leader epochs are not compared between followers: logs can diverge after fast leader changes (KIP-279)"),
)
FLUSH_NOTE = (
    "A write is acknowledged once the in-sync replicas have it in memory, not on disk (flush settings are the "
    "defaults): machines that lose power together lose it, and one that lost its page cache can lead and cut the "
    "others (why-fsync). Spread replicas over power domains; flush.messages=1 pays for less risk with throughput."
)
_OLD_TRANSACTIONS = (
    "Before Kafka 4.0 a late write of a transaction that is over can join the next one, or hold up every reader that "
    "reads committed (KAFKA-14402; KIP-890 ends it with transaction.version=2)."
)
FLUSHED_NOTE = "log.flush.interval is set: the time between two flushes is what a crash of all replicas can lose."


def audit(what: Audited) -> Audit:
    """Return the findings, worst first, and the notes."""
    found: list[Finding] = []
    found += _brokers(what)
    for topic in what.topics:
        found += _topic(what, topic)
    found += redpanda_findings.check(what)
    found += mirrors.check(what)
    ordered = sorted(found, key=lambda one: (_RANK[one.severity], one.where, one.check))
    return Audit(tuple(ordered), (*what.notes, *_notes(what)))


# Brokers


def _brokers(what: Audited) -> Iterator[Finding]:
    for ids, value in _set_on(what, _UNCLEAN):
        if value == "true":
            change = _CHANGE_BROKER.format(setting=f"{_UNCLEAN}=false")
            yield Finding("unclean-election", "critical", ids, f"{_UNCLEAN}=true", _WHY_UNCLEAN, change)
    for ids, value in _set_on(what, _MIN_ISR):
        if value.isdigit() and int(value) < 2 <= len(what.brokers):
            yield _low_min_isr(ids, value, _CHANGE_BROKER.format(setting=f"{_MIN_ISR}=2"))
    for ids, value in _set_on(what, "auto.create.topics.enable", explicit=False):
        if value == "true":
            factor = next((v for _, v in _set_on(what, "default.replication.factor", explicit=False)), "1")
            yield Finding(
                "auto-create",
                "warning",
                ids,
                f"auto.create.topics.enable=true (default.replication.factor={factor})",
                "a misspelt or deleted topic comes into being by itself, with the brokers' defaults, and takes writes "
                "that nobody will look for",
                _CHANGE_BROKER.format(setting="auto.create.topics.enable=false"),
            )
    for ids, value in _set_on(what, "offsets.commit.required.acks"):
        if value not in {"-1", "all"}:
            yield Finding(
                "offset-commit-acks",
                "warning",
                ids,
                f"offsets.commit.required.acks={value}",
                "committed offsets are acknowledged before all in-sync replicas have them",
                _CHANGE_BROKER.format(setting="offsets.commit.required.acks=-1"),
            )
    yield from _broker_timestamps(what)
    yield from _internal_settings(what)
    yield from _versions(what)
    yield from _racks(what)


def _broker_timestamps(what: Audited) -> Iterator[Finding]:
    for ids, value in _set_on(what, f"log.{_AHEAD}"):
        if value.isdigit() and int(value) / 1000 > _DAY_S:
            yield _timestamps_ahead(
                ids, f"log.{_AHEAD}={value}", _CHANGE_BROKER.format(setting=f"log.{_AHEAD}=3600000")
            )


def _internal_settings(what: Audited) -> Iterator[Finding]:
    """Settings of internal topics that are not made yet; those that are made are looked at as they are."""
    made = {topic.name for topic in what.topics}
    wanted = min(3, len(what.brokers))
    checks = (
        ("__consumer_offsets", "offsets.topic.replication.factor", wanted),
        ("__transaction_state", "transaction.state.log.replication.factor", wanted),
        ("__transaction_state", "transaction.state.log.min.isr", min(2, wanted)),
        ("__share_group_state", "share.coordinator.state.topic.replication.factor", wanted),
        ("__share_group_state", "share.coordinator.state.topic.min.isr", min(2, wanted)),
    )
    for topic, name, least in checks:
        if topic in made:
            continue
        for ids, value in _set_on(what, name):
            if value.isdigit() and int(value) < least:
                yield Finding(
                    "internal-replication",
                    "warning",
                    ids,
                    f"{name}={value}",
                    f"{topic} will be made with it: losing one broker loses what its coordinators remember",
                    f"set {name}={least} on every broker before {topic} is first used",
                )


def _versions(what: Audited) -> Iterator[Finding]:
    told = {frozenset(broker.settings) for broker in what.brokers if broker.settings}
    versions = {broker.version for broker in what.brokers if broker.version}
    if len(told) > 1 or len(versions) > 1:
        yield Finding(
            "versions-mixed",
            "warning",
            "brokers",
            f"versions {', '.join(sorted(versions))}" if versions else "brokers that know different settings",
            "brokers of different versions are meant to meet only while they are upgraded",
            "finish the upgrade, then raise the metadata version (or inter.broker.protocol.version)",
        )
    for ids, value in _set_on(what, "inter.broker.protocol.version", explicit=False):
        version = _version(value)
        for below, why in _OLD_PROTOCOLS:
            if version and version < below:
                change = "upgrade the brokers, then raise inter.broker.protocol.version"
                yield Finding(
                    "known-bad-version", "critical", ids, f"inter.broker.protocol.version={value}", why, change
                )
                break


def _racks(what: Audited) -> Iterator[Finding]:
    without = [broker.id for broker in what.brokers if not broker.rack]
    if without and len(without) < len(what.brokers):
        yield Finding(
            "racks",
            "warning",
            _ids(without),
            "no broker.rack, and others have one",
            "replicas are spread over racks only when every broker says its own",
            "set broker.rack on every broker",
        )


# Topics


def _topic(what: Audited, topic: AuditedTopic) -> Iterator[Finding]:
    where, factor = f"topic {topic.name}", topic.replication_factor
    if not factor:
        return
    alone = len(what.brokers) < 2 and factor == 1
    if factor == 1 and not alone:
        yield Finding(
            "replication-factor",
            "critical",
            where,
            "replication factor 1",
            "one broker has the only copy: losing its disk loses everything, and its restart is an outage",
            "kafka-reassign-partitions.sh with three replicas for each partition",
        )
    elif factor < min(3, len(what.brokers)):
        yield Finding(
            "replication-factor",
            "warning",
            where,
            f"replication factor {factor}",
            "with two replicas, either writes stop when one is down, or the other one alone acknowledges them",
            "kafka-reassign-partitions.sh with three replicas for each partition",
        )
    unclean = topic.settings.get(_UNCLEAN)
    if unclean is not None and unclean.value == "true" and unclean.origin == "topic":
        change = _CHANGE_TOPIC.format(name=topic.name, setting=f"{_UNCLEAN}=false")
        yield Finding("unclean-election", "critical", where, f"{_UNCLEAN}=true", _WHY_UNCLEAN, change)
    if factor > 1:
        yield from _min_isr(what, topic, factor)
    if topic.role == "probe":
        yield from _retention(what, topic)
        yield from _retention_bytes(what, topic)
        yield from _compaction(topic)
    yield from _timestamps(topic)
    yield from _one_rack(what, topic)


def _min_isr(what: Audited, topic: AuditedTopic, factor: int) -> Iterator[Finding]:
    setting, least = topic.settings.get(_MIN_ISR), topic.number(_MIN_ISR)
    if setting is None or least is None:
        return
    where = f"topic {topic.name}"
    change = _CHANGE_TOPIC.format(name=topic.name, setting=f"{_MIN_ISR}=2")
    said = setting.origin == "broker" and any(_set_on(what, _MIN_ISR))
    internal_default = topic.role == "internal" and setting.origin == "default"
    if least < 2 and not said and not internal_default:
        yield _low_min_isr(where, str(least), change)
    elif least >= factor:
        why = "every replica is needed for every write: one broker's restart stops all writes"
        yield Finding(
            "no-tolerance",
            "warning",
            where,
            f"{_MIN_ISR}={least} with replication factor {factor}",
            why if least == factor else "more replicas are needed than there are: no write with acks=all is accepted",
            _CHANGE_TOPIC.format(name=topic.name, setting=f"{_MIN_ISR}={max(factor - 1, 1)}"),
        )


def _low_min_isr(where: str, value: str, change: str) -> Finding:
    why = (
        "with acks=all a write may be acknowledged by the leader alone, and is lost with it (call-me-maybe: a third of "
        "the acknowledged writes)"
    )
    return Finding("min-isr", "warning", where, f"{_MIN_ISR}={value}", why, change)


def _retention(what: Audited, topic: AuditedTopic) -> Iterator[Finding]:
    kept, every = topic.number("retention.ms"), what.reconcile_every_s
    policy = topic.settings.get("cleanup.policy")
    if every is None or kept is None or kept < 0 or (policy is not None and "delete" not in policy.value):
        return
    if kept / 1000 < every * _SLACK:
        hours = every / 3600
        yield Finding(
            "retention",
            "warning",
            f"topic {topic.name}",
            f"retention.ms={kept}",
            f"probes expire before the reconciliation, done every {hours:g} h, has read them: their loss stays unseen",
            _CHANGE_TOPIC.format(name=topic.name, setting=f"retention.ms={int(every * 2000)}"),
        )


def _retention_bytes(what: Audited, topic: AuditedTopic) -> Iterator[Finding]:
    """As many bytes as are written between two reconciliations must be kept, and those of the open segment more."""
    kept, every, rate = topic.number("retention.bytes"), what.reconcile_every_s, what.probe_rates.get(topic.name)
    if every is None or rate is None or kept is None or kept < 0:
        return
    needed = int(rate * every)
    if kept + (topic.number("segment.bytes") or 0) < needed:
        yield Finding(
            "retention",
            "warning",
            f"topic {topic.name}",
            f"retention.bytes={kept}",
            f"probes expire before the reconciliation, done every {every / 3600:g} h, has read them: so long they take "
            f"{needed} bytes of a partition and more",
            _CHANGE_TOPIC.format(name=topic.name, setting=f"retention.bytes={needed * 4}"),
        )


def _compaction(topic: AuditedTopic) -> Iterator[Finding]:
    policy = topic.settings.get("cleanup.policy")
    if policy is not None and "compact" in policy.value:
        yield Finding(
            "compaction",
            "warning",
            f"topic {topic.name}",
            f"cleanup.policy={policy.value}",
            "compaction refuses or removes probes: that one is not there any more proves nothing",
            _CHANGE_TOPIC.format(name=topic.name, setting="cleanup.policy=delete"),
        )


def _timestamps(topic: AuditedTopic) -> Iterator[Finding]:
    setting = topic.settings.get(_AHEAD)
    ahead = number(setting)
    if setting is not None and setting.origin == "topic" and ahead is not None and ahead / 1000 > _DAY_S:
        change = _CHANGE_TOPIC.format(name=topic.name, setting=f"{_AHEAD}=3600000")
        yield _timestamps_ahead(f"topic {topic.name}", f"{_AHEAD}={ahead}", change)


def _timestamps_ahead(where: str, found: str, change: str) -> Finding:
    why = "a producer whose clock is ahead writes records that retention by time never deletes"
    return Finding("timestamps", "info", where, found, why, change)


def _one_rack(what: Audited, topic: AuditedTopic) -> Iterator[Finding]:
    racks = {broker.id: broker.rack for broker in what.brokers if broker.rack}
    if len(set(racks.values())) < 2:
        return
    together = [
        number
        for number, replicas in enumerate(topic.replicas)
        if len(replicas) > 1 and len({racks.get(one, one) for one in replicas}) == 1
    ]
    if together:
        yield Finding(
            "racks",
            "warning",
            f"topic {topic.name}",
            f"all replicas of partitions {_numbers(together)} are in one rack",
            "what takes the rack takes every copy",
            "kafka-reassign-partitions.sh with replicas in different racks",
        )


# Notes


def _notes(what: Audited) -> Iterator[Note]:
    if not any(broker.settings for broker in what.brokers):
        return
    flushed = [*_set_on(what, "log.flush.interval.messages"), *_set_on(what, "log.flush.interval.ms")]
    yield Note("brokers", FLUSHED_NOTE if flushed else FLUSH_NOTE)
    if not list(_set_on(what, _MIN_ISR)) and len(what.brokers) > 1:
        yield Note(
            "brokers",
            f"Topics without a setting of their own have {_MIN_ISR}=1. Where eligible leader replicas are on, brokers' "
            "files do not count: set it with kafka-configs.sh --entity-type brokers --entity-default (KIP-966).",
        )
    for topic in what.topics:
        setting = topic.settings.get(_MIN_ISR)
        if topic.role == "internal" and topic.replication_factor > 1 and setting == Setting("1", "default"):
            yield Note(
                f"topic {topic.name}",
                f"{_MIN_ISR}=1 by default: what its coordinators acknowledge may be with one replica alone, and "
                "committed offsets or outcomes of transactions go back when that is lost. "
                + _CHANGE_TOPIC.format(name=topic.name, setting=f"{_MIN_ISR}=2"),
            )
    if any(number(broker.settings.get(f"log.{_AHEAD}")) == _LONGEST for broker in what.brokers):
        yield Note(
            "brokers",
            f"log.{_AHEAD} is unlimited, the default before Kafka 4.0: a producer whose clock is ahead writes records "
            "that retention by time never deletes.",
        )
    for _, value in _set_on(what, "inter.broker.protocol.version", explicit=False):
        if (version := _version(value)) and version < (4, 0):
            yield Note("brokers", _OLD_TRANSACTIONS)
            break
    if not any(broker.rack for broker in what.brokers):
        yield Note("brokers", "No broker says its rack: whether replicas share one cannot be told.")


# Words


def _set_on(what: Audited, name: str, *, explicit: bool = True) -> list[tuple[str, str]]:
    """Return (brokers in words, value) for each value of a setting that was set (or, not ``explicit``, is in force)."""
    by_value: dict[str, list[int]] = {}
    for broker in what.brokers:
        setting = broker.settings.get(name)
        if setting is not None and (setting.origin != "default" or not explicit):
            by_value.setdefault(setting.value.lower(), []).append(broker.id)
    return [(_ids(ids), value) for value, ids in sorted(by_value.items())]


def _ids(ids: list[int]) -> str:
    return f"broker{'s' if len(ids) > 1 else ''} {_numbers(ids)}"


def _numbers(numbers: list[int]) -> str:
    shown = ", ".join(map(str, numbers[:10]))
    return shown + (f" and {len(numbers) - 10} more" if len(numbers) > 10 else "")


def _version(text: str) -> tuple[int, ...]:
    parts = text.split("-", maxsplit=1)[0].split(".")
    return tuple(int(part) for part in parts[:2]) if all(part.isdigit() for part in parts[:2]) else ()
