"""Redpanda's documented answers, read and judged. Nobody here has a live Redpanda.

Shapes: https://docs.redpanda.com/api/doc/admin/ (endpoint-brokers, endpoint-clusters), and the models of
src/v/redpanda/admin/api-doc/{broker,cluster}.json in redpanda-data/redpanda.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest

from canary.watching.audit.checks import check
from canary.watching.audit.cluster_config import BrokerConfig, ClusterConfig, Setting, TopicConfig
from canary.watching.audit.collection import with_vendor_api
from canary.watching.redpanda_api import RedpandaAdmin
from canary.watching.vendor_api import NotAvailableError, Placement, VendorApi

if TYPE_CHECKING:
    from collections.abc import Callable

VERSION = "v24.2.7 - 0a1b2c"
BROKERS: list[dict[str, object]] = [
    {
        "node_id": number,
        "num_cores": 4,
        "rack": "r1",
        "internal_rpc_address": f"10.0.0.{number}",
        "internal_rpc_port": 33145,
        "membership_status": "active" if number < 2 else "draining",
        "is_alive": True,
        "version": VERSION,
        "maintenance_status": {"draining": False},
    }
    for number in range(3)
]
VIEW = {"version": 12, "brokers": BROKERS}
HEALTH = {
    "is_healthy": False,
    "unhealthy_reasons": ["nodes_down", "leaderless_partitions"],
    "controller_id": 0,
    "all_nodes": [0, 1, 2],
    "nodes_down": [2],
    "leaderless_partitions": ["kafka/orders/0"],
    "under_replicated_partitions": ["kafka/orders/0", "kafka/orders/1"],
}
CONFIG = {
    "id_allocator_replication": 3,
    "transaction_coordinator_replication": 3,
    "internal_topic_replication_factor": 3,
    "write_caching_default": "false",
    "auto_create_topics_enabled": False,
    "default_topic_replications": 3,
}
DECOMMISSION = {"finished": False, "replicas_left": 41, "partitions": []}


def placed(topic: str, *nodes: int) -> list[dict[str, object]]:
    replicas = [{"node_id": node, "core": 0} for node in nodes]
    return [
        {
            "ns": "kafka_internal",
            "topic": topic,
            "partition_id": 0,
            "leader_id": nodes[0],
            "replicas": replicas,
            "disabled": False,
        }
    ]


ANSWERS: dict[str, Any] = {
    "/v1/cluster_view": VIEW,
    "/v1/brokers": BROKERS,
    "/v1/cluster/health_overview": HEALTH,
    "/v1/cluster_config": CONFIG,
    "/v1/brokers/2/decommission": DECOMMISSION,
    "/v1/cluster/partitions/kafka_internal/id_allocator": placed("id_allocator", 0, 1, 2),
    "/v1/cluster/partitions/kafka_internal/tx": placed("tx", 0, 1, 2),
}


def redpanda(**changed: Any) -> RedpandaAdmin:
    """What it answers; ``changed`` by the last word of a path, None for 404."""
    answers = {path: changed.get(path.rsplit("/", 1)[-1], known) for path, known in ANSWERS.items()}

    def answer(request: httpx.Request) -> httpx.Response:
        known = answers.get(request.url.path)
        return httpx.Response(404) if known is None else httpx.Response(200, json=known)

    return RedpandaAdmin("http://admin", transport=httpx.MockTransport(answer))


def found(*, topics: tuple[TopicConfig, ...] = (), **changed: Any) -> list[tuple[str, str, str]]:
    what = ClusterConfig([BrokerConfig(number, "r1") for number in range(3)], topics, 86_400.0)
    with redpanda(**changed) as api:
        done = check(with_vendor_api(what, api))
    assert all(one.why and one.change for one in done.findings)
    return [(one.check, one.severity, one.found) for one in done.findings]


def test_its_answers_are_read_as_documented() -> None:
    with redpanda() as api:
        members = api.members()
        assert members.version == 12
        assert [(one.id, one.membership, one.alive, one.version) for one in members.brokers] == [
            (0, "active", True, VERSION),
            (1, "active", True, VERSION),
            (2, "draining", True, VERSION),
        ]
        health = api.health()
        assert (health.healthy, health.down, len(health.under_replicated)) == (False, (2,), 2)
        assert api.settings()["write_caching_default"] == "false"
        assert api.replicas_left(2) == 41
        assert api.partitions("kafka_internal", "tx") == [Placement(0, 0, (0, 1, 2), disabled=False)]


def test_a_view_that_is_older_than_one_seen_before_is_refused() -> None:
    """Lists of brokers may be arbitrarily old: a node seemed decommissioned and was not (jepsen-redpanda 4.5)."""
    versions = iter((12, 13, 12))

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"version": next(versions), "brokers": BROKERS})

    with RedpandaAdmin("http://admin", transport=httpx.MockTransport(answer)) as api:
        assert [api.members().version, api.members().version] == [12, 13]
        with pytest.raises(NotAvailableError, match="version 12, and 13 was seen before"):
            api.members()


def test_before_there_were_views_the_list_of_brokers_is_asked_for() -> None:
    with redpanda(cluster_view=None) as api:
        members = api.members()
        assert (members.version, len(members.brokers)) == (None, 3)


def refused(_: httpx.Request) -> httpx.Response:
    return httpx.Response(403, text="Forbidden")


def silent(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectTimeout("timed out", request=request)


def other_words(_: httpx.Request) -> httpx.Response:
    return httpx.Response(200, json=[{"id": 1}])


def no_json(_: httpx.Request) -> httpx.Response:
    return httpx.Response(200, text="<html>")


@pytest.mark.parametrize("answer", [refused, silent, other_words, no_json])
def test_what_it_does_not_tell_is_not_available_here_and_the_audit_goes_on(
    answer: Callable[[httpx.Request], httpx.Response],
) -> None:
    what = ClusterConfig([BrokerConfig(0, None)], [TopicConfig("t", "production", [[0], [0]], {})], None)
    with RedpandaAdmin("http://admin", transport=httpx.MockTransport(answer)) as api:
        for ask in (api.members, api.health, lambda: api.partitions("kafka", "t"), lambda: api.replicas_left(1)):
            with pytest.raises(NotAvailableError):
                ask()
        told = with_vendor_api(what, api)
    assert told.topics == what.topics
    notes = [note.text for note in told.notes]
    assert notes
    assert all(text.startswith("Not available here: ") for text in notes)


def test_with_the_kafka_protocol_alone_one_note_says_what_is_not_available() -> None:
    (note,) = with_vendor_api(ClusterConfig([], []), VendorApi()).notes
    assert note.text == (
        "Not available here: broker versions and membership, health, the cluster's own configuration "
        "(the Kafka protocol of this client has no call)."
    )
    for ask in (lambda: VendorApi().partitions("kafka", "t"), lambda: VendorApi().replicas_left(1)):
        with pytest.raises(NotAvailableError):
            ask()


def test_a_redpanda_that_is_set_well_has_no_finding_and_its_state_is_noted() -> None:
    assert found() == []
    with redpanda() as api:
        notes = [note.text for note in with_vendor_api(ClusterConfig([BrokerConfig(0, None)], []), api).notes]
    assert notes == [
        "It is being decommissioned: 41 replicas are left on it.",
        "It is not healthy: nodes down [2], 1 partitions without a leader, 2 under-replicated.",
    ]


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (
            {"id_allocator": placed("id_allocator", 0)},
            ("internal-replication", "critical", "kafka_internal/id_allocator has replication factor 1"),
        ),
        (
            {"tx": None, "cluster_config": CONFIG | {"transaction_coordinator_replication": 1}},
            ("internal-replication", "critical", "transaction_coordinator_replication=1"),
        ),
        (
            {"cluster_config": CONFIG | {"default_topic_replications": 1}},
            ("internal-replication", "warning", "default_topic_replications=1"),
        ),
        (
            {"cluster_config": CONFIG | {"write_caching_default": "true"}},
            ("write-caching", "warning", "write_caching_default=true"),
        ),
        (
            {"cluster_config": CONFIG | {"auto_create_topics_enabled": True}},
            ("auto-create", "warning", "auto_create_topics_enabled=true"),
        ),
    ],
)
def test_each_of_its_own_risks_is_one_finding(changed: dict[str, Any], expected: tuple[str, str, str]) -> None:
    assert found(**changed) == [expected]


def test_what_is_made_counts_and_not_with_what_it_would_be_made() -> None:
    assert found(cluster_config=CONFIG | {"transaction_coordinator_replication": 1}) == []


def test_write_caching_of_one_topic_is_a_finding_unless_the_cluster_forbids_it() -> None:
    topic = TopicConfig("t", "production", [[0, 1, 2]], {"write.caching": Setting("true", "topic")})
    assert found(topics=(topic,)) == [("write-caching", "warning", "write.caching=true")]
    assert found(topics=(topic,), cluster_config=CONFIG | {"write_caching_default": "disabled"}) == []


@pytest.mark.parametrize(
    ("version", "bad"),
    [
        ("v21.10.1 - 0a1b2c", True),
        ("v21.11.2", True),
        ("v21.11.15", True),  # duplicates by default
        ("v22.1.1", False),
        (VERSION, False),
        ("(no version)", False),
    ],
)
def test_versions_in_which_jepsen_found_losses_are_known(version: str, bad: bool) -> None:  # noqa: FBT001
    brokers = [one | {"version": version} for one in BROKERS]
    checks = {check for check, _, _ in found(cluster_view={"version": 1, "brokers": brokers})}
    assert checks == ({"known-bad-version"} if bad else set())
