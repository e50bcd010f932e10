"""A mirror that is set unlike what it mirrors is a finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from canary.watching.audit.checks import check
from canary.watching.audit.cluster_config import BrokerConfig, ClusterConfig, Setting, TopicConfig

if TYPE_CHECKING:
    from collections.abc import Mapping

    from canary.watching.audit.cluster_config import Role

THREE = [[1, 2, 3]]


def topic(name: str, replicas: list[list[int]], **settings: str) -> TopicConfig:
    made = {key.replace("_", "."): Setting(value, "topic") for key, value in settings.items()}
    role: Role = "probe" if name == "probes-mirror" else "production"
    return TopicConfig(name, role, replicas, {"retention.ms": Setting("604800000", "default")} | made)


def drift(*topics: TopicConfig, mirrors: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    brokers = [BrokerConfig(number, None) for number in (1, 2, 3)]
    what = ClusterConfig(brokers, topics, mirrors={"probes-mirror": "orders"} if mirrors is None else mirrors)
    return [(one.where, one.found) for one in check(what).findings if one.check == "mirror-drift"]


def test_a_mirror_that_is_set_alike_is_no_finding() -> None:
    alike = {"min_insync_replicas": "2", "retention_ms": "1000"}
    throttled = topic("orders", [[3, 1, 2]], follower_replication_throttled_replicas="0:1", **alike)
    assert drift(topic("probes-mirror", THREE, **alike), throttled) == []


def test_what_differs_is_said_from_either_side() -> None:
    mirror = topic("probes-mirror", THREE, min_insync_replicas="2", retention_ms="1000")
    original = topic("orders", [[1, 2]], min_insync_replicas="1")
    assert drift(mirror, original) == [
        ("topic probes-mirror", "replication factor 3, and 2 on orders"),
        ("topic probes-mirror", "min.insync.replicas=2, and 1 on orders"),
        ("topic probes-mirror", "retention.ms=1000, and 604800000 on orders"),
    ]


def test_a_topic_that_is_gone_cannot_be_mirrored() -> None:
    assert drift(topic("probes-mirror", THREE)) == [("topic probes-mirror", "topic orders does not exist")]
    assert drift(topic("probes-mirror", THREE), mirrors={}) == []
