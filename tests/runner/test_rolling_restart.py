"""What is no loss is no violation, on real brokers: a rolling restart, retention, and a topic that is made again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.process import Canary
from tests.support.waiting import in_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from canary.lab import Lab

pytestmark = [pytest.mark.kafka, pytest.mark.quick]


@pytest.fixture
def canary(lab: Lab, tmp_path: Path) -> Iterator[Canary]:
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    made(admin, "orders")
    settings = {
        "clusters": [
            {
                "name": "t",
                "kafka": {"bootstrap.servers": lab.bootstrap},
                "topic": {"name": "rolled", "config": {"min.insync.replicas": "2"}},
                "modes": {"idempotent": {"interval": "250ms"}},
                "watch": {"offsets": ["orders"]},
            }
        ]
    }
    with Canary(tmp_path, lab.bootstrap, "rolled", settings=settings) as running:
        running.until_probing()
        yield running
    admin.delete_topics(["orders"])["orders"].result(20)


def made(admin: AdminClient, topic: str) -> None:
    new = NewTopic(topic, 3, 3, config={"min.insync.replicas": "2"})
    admin.create_topics([new])[topic].result(20)


def produced(lab: Lab, count: int) -> None:
    producer = Producer({"bootstrap.servers": lab.bootstrap, "acks": "all", "enable.idempotence": True})
    for number in range(count):
        producer.produce("orders", str(number).encode(), partition=number % 3)
    in_time(producer.flush(90) == 0, "all acknowledgements")


def restarted(lab: Lab, broker: int, canary: Canary, *, kill: bool) -> None:
    """Stop (or kill) and start a broker, and wait until every partition that is watched has all replicas in sync."""
    produced(lab, 30)
    if kill:
        lab.kill(broker)
    else:
        lab.stop_broker(broker)
    canary.until(lambda: behind(canary), 30, "the broker is seen to be gone")
    produced(lab, 30)
    lab.start_broker(broker)
    canary.until(lambda: not behind(canary), 60, "all replicas are seen to be in sync")


def behind(canary: Canary) -> list[object]:
    now = canary.get("/api/v1/topology", subject="partition", since=soon(), limit=500).json()["items"]
    return [one for one in now if len(one["isr"]) < len(one["replicas"])]


def timeline(canary: Canary) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = canary.get("/api/v1/topology", topic="orders").json()["items"]
    return items


def listed(canary: Canary) -> set[int]:
    """Return the partitions of which the canary knows the leader epoch, which it learns with their offsets."""
    return {one["partition"] for one in timeline(canary) if one["leader_epoch"] is not None}


def soon() -> str:
    """A time from now on, at which only what is so at present is so."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 60))


def test_brokers_that_come_back_retention_and_topics_made_again_are_no_finding(
    lab: Lab, canary: Canary, *, long: bool
) -> None:
    """Shows (a): each broker is stopped in turn, then one (in the long form each) killed; what was promised is seen."""
    killed = lab.brokers if long else lab.brokers[:1]
    for broker in lab.brokers:
        restarted(lab, broker, canary, kill=False)
    for broker in killed:
        restarted(lab, broker, canary, kill=True)
    canary.until_probing()
    canary.until_all_seen()
    assert canary.broken_promises() == []
    assert canary.metric("canary_violations_total") == sum(v["count"] for v in canary.violations())
    assert canary.metric("canary_unclean_elections_total") == 0
    assert canary.metric("canary_offset_regressions_total") == 0
    left = [
        one for one in canary.get("/api/v1/topology", subject="broker", limit=500).json()["items"] if one["address"]
    ]
    assert len(left) >= 3 + 3 + len(killed), "each time that a broker was there"
    assert canary.get("/api/v1/topology", subject="controller").json()["items"] == []
    expired_and_made_again(lab, canary)


def expired_and_made_again(lab: Lab, canary: Canary) -> None:
    """Records expire of a topic that is watched, then it is made again, and so is the topic that is probed."""
    known = {one["id"] for one in canary.violations()}
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    produced(lab, 300)
    canary.until(lambda: listed(canary) == {0, 1, 2}, 20, "its offsets are watched")
    cut = [TopicPartition("orders", number, 90) for number in range(3)]
    for future in admin.delete_records(cut).values():
        future.result(20)
    admin.delete_topics(["orders"])["orders"].result(20)
    made(admin, "orders")
    produced(lab, 30)
    canary.until(lambda: canary.violations("topic-recreated"), 90, "the new incarnation is recognised")
    canary.until_probing()

    def said() -> list[tuple[str, str, str]]:
        return [(v["kind"], v["topic"], v["severity"]) for v in canary.unexplained() if v["id"] not in known]

    assert said() == [("topic-recreated", "orders", "critical")]
    admin.delete_topics(["rolled"])["rolled"].result(20)
    canary.until(lambda: len(canary.violations("topic-recreated")) == 2, 60, "that of the probes, too")
    canary.until_probing()
    canary.until_all_seen()
    assert sorted(said())[:-1] == [("promises-void", "rolled", "critical"), ("topic-recreated", "orders", "critical")]
    assert max(said()) == ("topic-recreated", "rolled", "warning"), "what was in it is said already"
    assert canary.stop() == [0, 0]
