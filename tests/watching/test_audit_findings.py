"""What the audit calls unsafe, what it only notes, and that a good cluster has nothing."""

from __future__ import annotations

import dataclasses

import httpx
import pytest

from canary.watching.audited import Audited, AuditedBroker, AuditedTopic, Setting
from canary.watching.findings import FLUSH_NOTE, audit
from canary.watching.redpanda import NotAvailableError, RedpandaAdmin

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


def cluster(**topic: Setting | str) -> Audited:
    settings = {
        **GOOD_TOPIC,
        **{
            name.replace("_", "."): value if isinstance(value, Setting) else Setting(value, "topic")
            for name, value in topic.items()
        },
    }
    brokers = [AuditedBroker(number, None, GOOD_BROKER) for number in (1, 2, 3)]
    topics = [
        AuditedTopic("probes", "probe", REPLICAS, settings),
        AuditedTopic("__consumer_offsets", "internal", REPLICAS, GOOD_TOPIC),
    ]
    return Audited(brokers, topics, 86_400.0)


def with_broker(what: Audited, **settings: str) -> Audited:
    changed = {**GOOD_BROKER, **{name.replace("_", "."): Setting(value, "broker") for name, value in settings.items()}}
    return dataclasses.replace(what, brokers=[dataclasses.replace(one, settings=changed) for one in what.brokers])


def found(what: Audited) -> list[tuple[str, str, str]]:
    return [(one.check, one.severity, one.where) for one in audit(what).findings]


def test_a_good_cluster_has_no_finding_and_is_told_of_the_page_cache() -> None:
    done = audit(cluster())
    assert done.findings == ()
    assert FLUSH_NOTE in [note.text for note in done.notes]


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        (cluster(unclean_leader_election_enable="true"), ("unclean-election", "critical", "topic probes")),
        (cluster(min_insync_replicas="1"), ("min-isr", "warning", "topic probes")),
        (cluster(min_insync_replicas="3"), ("no-tolerance", "warning", "topic probes")),
        (cluster(retention_ms="3600000"), ("retention", "warning", "topic probes")),
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
def test_one_bad_setting_is_one_finding(what: Audited, expected: tuple[str, str, str]) -> None:
    assert found(what) == [expected]
    (one,) = audit(what).findings
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
    racks = [dataclasses.replace(b, rack="a" if b.id < 4 else "b") for b in (*good.brokers, AuditedBroker(4, "b"))]
    assert [where for _, _, where in found(dataclasses.replace(good, brokers=racks))] == [
        "topic __consumer_offsets",
        "topic probes",
    ]
    mixed = [dataclasses.replace(good.brokers[0], settings={**GOOD_BROKER, "new.one": Setting("1", "default")})]
    assert found(dataclasses.replace(good, brokers=[*mixed, *good.brokers[1:]])) == [
        ("versions-mixed", "warning", "brokers")
    ]


# Redpanda's documented answers (docs.redpanda.com, Admin API v1)

BROKERS = [
    {
        "node_id": number,
        "num_cores": 4,
        "rack": "r1",
        "membership_status": "active" if number < 2 else "draining",
        "is_alive": True,
        "version": "v21.10.1 - 0a1b2c",
    }
    for number in range(3)
]
HEALTH = {
    "is_healthy": False,
    "controller_id": 0,
    "all_nodes": [0, 1, 2],
    "nodes_down": [2],
    "leaderless_partitions": ["kafka/orders/0"],
    "under_replicated_partitions": ["kafka/orders/0", "kafka/orders/1"],
}
CONFIG = {
    "id_allocator_replication": 1,
    "transaction_coordinator_replication": 3,
    "write_caching_default": "true",
    "auto_create_topics_enabled": False,
    "default_topic_replication": 3,
}


def redpanda(answers: dict[str, object]) -> RedpandaAdmin:
    def answer(request: httpx.Request) -> httpx.Response:
        known = answers.get(request.url.path)
        return httpx.Response(404) if known is None else httpx.Response(200, json=known)

    return RedpandaAdmin("http://admin", transport=httpx.MockTransport(answer))


def test_redpandas_admin_api_is_read_as_documented() -> None:
    with redpanda({"/v1/brokers": BROKERS, "/v1/cluster/health_overview": HEALTH, "/v1/cluster_config": CONFIG}) as api:
        assert [(one.id, one.membership, one.alive) for one in api.members()] == [
            (0, "active", True),
            (1, "active", True),
            (2, "draining", True),
        ]
        health = api.health()
        assert (health.healthy, health.down, len(health.under_replicated)) == (False, (2,), 2)
        assert api.settings()["write_caching_default"] == "true"


def test_what_redpanda_does_not_tell_is_not_available_and_nothing_else() -> None:
    with redpanda({"/v1/brokers": [{"id": 1}]}) as api:
        for ask in (api.members, api.health, api.settings):
            with pytest.raises(NotAvailableError):
                ask()


def test_redpandas_own_risks_are_findings() -> None:
    brokers = [AuditedBroker(number, "r1", {}, "v21.10.1 - 0a1b2c") for number in range(3)]
    what = Audited(brokers, [], 86_400.0, redpanda=CONFIG)
    assert [(check, severity) for check, severity, _ in found(what)] == [
        ("known-bad-version", "critical"),
        ("known-bad-version", "critical"),
        ("known-bad-version", "critical"),
        ("internal-replication", "critical"),
        ("write-caching", "warning"),
    ]
