"""What the audit calls unsafe, what it only notes, and that a good cluster has nothing."""

from __future__ import annotations

import dataclasses

import pytest

from canary.watching.audit.checks import FLUSH_NOTE, check
from canary.watching.audit.cluster_config import BrokerConfig, ClusterConfig, Setting, TopicConfig

GOOD_BROKER = {
    "unclean.leader.election.enable": Setting("false", "default"),
    "min.insync.replicas": Setting("2", "broker"),
    "auto.create.topics.enable": Setting("false", "broker"),
    "offsets.topic.replication.factor": Setting("3", "broker"),
    "transaction.state.log.replication.factor": Setting("3", "broker"),
    "transaction.state.log.min.isr": Setting("2", "broker"),
}
GOOD_TOPIC = {
    "min.insync.replicas": Setting("2", "topic"),
    "unclean.leader.election.enable": Setting("false", "default"),
    "retention.ms": Setting("604800000", "topic"),
    "cleanup.policy": Setting("delete", "default"),
}
REPLICAS = [[1, 2, 3], [2, 3, 1]]


def cluster(**topic: Setting | str) -> ClusterConfig:
    settings = {
        **GOOD_TOPIC,
        **{
            name.replace("_", "."): value if isinstance(value, Setting) else Setting(value, "topic")
            for name, value in topic.items()
        },
    }
    brokers = [BrokerConfig(number, None, GOOD_BROKER) for number in (1, 2, 3)]
    topics = [
        TopicConfig("probes", "probe", REPLICAS, settings),
        TopicConfig("__consumer_offsets", "internal", REPLICAS, GOOD_TOPIC),
    ]
    return ClusterConfig(brokers, topics, 86_400.0, probe_rates={"probes": 960.0})


def with_broker(what: ClusterConfig, **settings: str) -> ClusterConfig:
    changed = {**GOOD_BROKER, **{name.replace("_", "."): Setting(value, "broker") for name, value in settings.items()}}
    return dataclasses.replace(what, brokers=[dataclasses.replace(one, settings=changed) for one in what.brokers])


def found(what: ClusterConfig) -> list[tuple[str, str, str]]:
    return [(one.check, one.severity, one.where) for one in check(what).findings]


def test_a_good_cluster_has_no_finding_and_is_told_of_the_page_cache() -> None:
    done = check(cluster())
    assert done.findings == ()
    assert FLUSH_NOTE in [note.text for note in done.notes]


def noted(what: ClusterConfig) -> str:
    return " ".join(f"{note.where}: {note.text}" for note in check(what).notes)


def test_what_is_kafkas_own_default_is_a_note() -> None:
    good = cluster()
    offsets = dataclasses.replace(good.topics[1], settings={"min.insync.replicas": Setting("1", "default")})
    what = dataclasses.replace(good, topics=[good.topics[0], offsets])
    assert found(what) == []
    assert "topic __consumer_offsets: min.insync.replicas=1 by default" in noted(what)
    old = {
        **GOOD_BROKER,
        "inter.broker.protocol.version": Setting("3.4-IV0", "default"),
        "log.message.timestamp.after.max.ms": Setting("9223372036854775807", "default"),
    }
    what = dataclasses.replace(good, brokers=[dataclasses.replace(one, settings=old) for one in good.brokers])
    assert found(what) == []
    assert "KAFKA-14402" in noted(what)
    assert "log.message.timestamp.after.max.ms is unlimited" in noted(what)
    assert "KAFKA-14402" not in noted(good)


def test_enough_bytes_kept_are_enough() -> None:
    assert found(cluster(retention_bytes="82000000", segment_bytes="1000000")) == []
    assert found(cluster(retention_bytes="1000000", segment_bytes="1073741824")) == [], "the open segment is kept"
    assert found(cluster(retention_bytes="-1")) == []


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (cluster(unclean_leader_election_enable="true"), ("unclean-election", "critical", "topic probes")),
        (cluster(min_insync_replicas="1"), ("min-isr", "warning", "topic probes")),
        (cluster(min_insync_replicas="3"), ("no-tolerance", "warning", "topic probes")),
        (cluster(retention_ms="3600000"), ("retention", "warning", "topic probes")),
        (cluster(min_insync_replicas="4"), ("no-tolerance", "warning", "topic probes")),
        (cluster(retention_bytes="1000000", segment_bytes="1000000"), ("retention", "warning", "topic probes")),
        (cluster(cleanup_policy="compact"), ("compaction", "warning", "topic probes")),
        (
            with_broker(cluster(), log_message_timestamp_after_max_ms="9223372036854775807"),
            ("timestamps", "info", "brokers 1, 2, 3"),
        ),
        (cluster(message_timestamp_after_max_ms="9223372036854775807"), ("timestamps", "info", "topic probes")),
        (
            with_broker(cluster(), unclean_leader_election_enable="true"),
            ("unclean-election", "critical", "brokers 1, 2, 3"),
        ),
        (with_broker(cluster(), min_insync_replicas="1"), ("min-isr", "warning", "brokers 1, 2, 3")),
        (with_broker(cluster(), auto_create_topics_enable="true"), ("auto-create", "warning", "brokers 1, 2, 3")),
        (
            with_broker(cluster(), transaction_state_log_min_isr="1"),
            ("internal-replication", "warning", "brokers 1, 2, 3"),
        ),
        (
            with_broker(cluster(), inter_broker_protocol_version="0.10.2-IV0"),
            ("known-bad-version", "critical", "brokers 1, 2, 3"),
        ),
    ],
)
def test_one_bad_setting_is_one_finding(what: ClusterConfig, expected: tuple[str, str, str]) -> None:
    assert found(what) == [expected]
    (one,) = check(what).findings
    assert one.why
    assert one.change


def test_what_topics_inherit_is_not_said_again_for_each() -> None:
    inherited = cluster(
        unclean_leader_election_enable=Setting("true", "broker"), min_insync_replicas=Setting("1", "broker")
    )
    what = with_broker(inherited, unclean_leader_election_enable="true", min_insync_replicas="1")
    assert sorted(where for _, _, where in found(what)) == ["brokers 1, 2, 3"] * 2


def test_replication_factors_racks_and_mixed_versions() -> None:
    good = cluster()
    one = dataclasses.replace(good.topics[0], replicas=[[1], [2]])
    two = dataclasses.replace(good.topics[1], replicas=[[1, 2], [2, 3]], settings={})
    assert found(dataclasses.replace(good, topics=[one, two])) == [
        ("replication-factor", "critical", "topic probes"),
        ("replication-factor", "warning", "topic __consumer_offsets"),
    ]
    some = [dataclasses.replace(b, rack="a" if b.id < 3 else None) for b in good.brokers]
    assert found(dataclasses.replace(good, brokers=some)) == [("racks", "warning", "broker 3")]
    racks = [dataclasses.replace(b, rack="a" if b.id < 4 else "b") for b in (*good.brokers, BrokerConfig(4, "b"))]
    assert [where for _, _, where in found(dataclasses.replace(good, brokers=racks))] == [
        "topic __consumer_offsets",
        "topic probes",
    ]
    mixed = [dataclasses.replace(good.brokers[0], settings={**GOOD_BROKER, "new.one": Setting("1", "default")})]
    assert found(dataclasses.replace(good, brokers=[*mixed, *good.brokers[1:]])) == [
        ("versions-mixed", "warning", "brokers")
    ]
