"""What may happen to topics while every mode probes them: each is said as what it is, and none of it is a loss."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from canary.facts import Polled
from canary.probing.readers.tail import Start, TailConsumer
from canary.threads.ports import SteadyClock
from tests.support.process import Canary
from tests.support.recording import Recording
from tests.support.topics import alter
from tests.support.waiting import in_time

if TYPE_CHECKING:
    from pathlib import Path

    from canary.lab import Lab

pytestmark = pytest.mark.kafka

MAIN = "lives"
MODES: dict[str, Any] = {
    "idempotent": {},
    "transactional": {"timeout": "5s"},
    "relay": {"timeout": "5s"},
    "group": {},
    "fencing": {"interval": "5s", "timeout": "5s"},
    "mirror": {"of": "orders"},
}
WRITING = ("idempotent", "transactional", "relay", "fencing", "mirror")


@pytest.fixture
def admin(lab: Lab) -> AdminClient:
    return AdminClient({"bootstrap.servers": lab.bootstrap})


def config_of(admin: AdminClient, topic: str, *names: str) -> list[str]:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    entries = admin.describe_configs([resource])[resource].result(20)
    return [entries[name].value for name in names]


def goes_on(canary: Canary, *modes: str) -> None:
    """Wait until every mode gets acknowledgements."""
    before = {mode: canary.metric("canary_probes_acked_total", mode=mode) for mode in modes}
    for mode in modes:
        canary.until(
            lambda mode=mode: canary.metric("canary_probes_acked_total", mode=mode) > before[mode] + 5,  # type: ignore[misc]
            60,
            f"{mode} goes on",
        )


def said(canary: Canary) -> list[tuple[str, str]]:
    """Return what was said, but for a transaction that somebody leaves open for a minute: it is stalled, rightly."""
    found = [(v["kind"], v["topic"]) for v in canary.unexplained() if v["severity"] != "info"]
    return sorted(one for one in found if one[0] != "stalled")


READERS = ("rack-a", "rack-nowhere", "broker-1", "broker-2", "broker-3")


@pytest.mark.slow  # two to four minutes
def test_partitions_added_foreign_records_expiry_of_what_nobody_read_and_recreation_are_no_loss(
    lab: Lab, admin: AdminClient, tmp_path: Path
) -> None:
    production = {"min.insync.replicas": "1", "retention.ms": "7200000"}
    new = NewTopic("orders", replica_assignment=[[1, 2], [2, 3]], num_partitions=2, config=production)
    admin.create_topics([new])["orders"].result(20)
    cluster = {
        "name": "t",
        "kafka": {"bootstrap.servers": lab.bootstrap},
        "topic": {"name": MAIN},
        "modes": MODES,
        "readers": {"racks": ["a", "nowhere"], "each_broker": True},
        "watch": {"audit_interval": "10s"},
    }
    foreign = Producer({"bootstrap.servers": lab.bootstrap, "transactional.id": "theirs"})
    with Canary(tmp_path, lab.bootstrap, MAIN, settings={"clusters": [cluster]}) as canary:
        canary.until_probing()
        goes_on(canary, *WRITING)
        # a mirror is made like the topic that it mirrors; where they drift apart, the audit says so
        assert config_of(admin, f"{MAIN}-mirror", *production) == [*production.values()]
        assert {len(lab.partition(f"{MAIN}-mirror", p).replicas) for p in range(3)} == {2}
        canary.until(lambda: canary.get("/api/v1/audit").json()["audited"], 30, "there was an audit")
        assert audited(canary, "mirror-drift") == []
        alter(admin, "orders", min_insync_replicas="2")
        # partitions are added
        for topic in (MAIN, f"{MAIN}-transactional"):
            admin.create_partitions([NewPartitions(topic, 5)])[topic].result(20)
        canary.until(
            lambda: canary.metric("canary_probes_seen_total", topic=MAIN, partition="4") > 20, 60, "both read it"
        )
        for reader in READERS:
            canary.until(
                lambda reader=reader: canary.metric("canary_probes_seen_total", consumer=reader, partition="4") > 0,  # type: ignore[misc]
                30,
                f"{reader} reads it",
            )
        # a foreign transaction, left open: nobody reads on behind it, and what is written meanwhile expires
        foreign.init_transactions(20)
        foreign.begin_transaction()
        for partition in range(5):
            foreign.produce(MAIN, b"of somebody else", partition=partition)
        foreign.flush(20)
        canary.until(lambda: canary.metric("canary_unseen_probes", consumer="read_committed") > 50, 60, "it holds back")
        alter(admin, MAIN, retention_ms="3000", segment_ms="1000")
        canary.until(lambda: canary.metric("canary_unverified_expired_total") > 20, 90, "unread probes have expired")
        foreign.abort_transaction(20)
        alter(admin, MAIN, retention_ms="3600000")
        canary.until_all_seen()
        assert canary.metric("canary_foreign_records_total", topic=MAIN) >= 5
        canary.until(lambda: audited(canary, "mirror-drift"), 30, "the drift is found")
        assert audited(canary, "mirror-drift") == ["min.insync.replicas=1, and 2 on orders"]
        assert said(canary) == []
        # and everything is made again
        for topic in (MAIN, f"{MAIN}-transactional", f"{MAIN}-mirror"):
            admin.delete_topics([topic])[topic].result(20)
        canary.until(lambda: len(canary.violations("topic-recreated")) == 3, 90, "the new incarnations are recognised")
        goes_on(canary, *WRITING)
        canary.until_all_seen()
        canary.until_no_doubt(30)
        each = [f"{MAIN}{end}" for end in ("", "-mirror", "-transactional")]
        assert said(canary) == [(kind, topic) for kind in ("promises-void", "topic-recreated") for topic in each]
        assert config_of(admin, f"{MAIN}-mirror", "min.insync.replicas") == ["2"]
        assert canary.stop() == [0, 0]


def audited(canary: Canary, check: str) -> list[str]:
    return [one["found"] for one in canary.get("/api/v1/audit").json()["items"] if one["check"] == check]


def test_a_reader_of_a_rack_reads_from_followers_there(lab: Lab, admin: AdminClient) -> None:
    new = NewTopic("followed", replica_assignment=[[1, 2, 3]], num_partitions=1)
    admin.create_topics([new])["followed"].result(20)
    asked: set[int] = set()

    def seen(text: str) -> None:
        topics = json.loads(text)["topics"]
        asked.update(
            p["broker"] for t in topics.values() for p in t["partitions"].values() if p["fetch_state"] == "active"
        )

    config = {
        "bootstrap.servers": lab.bootstrap,
        "client.rack": "c",
        "statistics.interval.ms": 200,
        "stats_cb": seen,
    }
    inbox = Recording()
    reader = TailConsumer(
        config,
        "rack-c",
        "read_committed",
        "followed",
        Start({0: 0}, b"tag1"),
        inbox,
        SteadyClock(),
    )
    producer = Producer({"bootstrap.servers": lab.bootstrap})
    reader.start()
    try:
        deadline = time.monotonic() + 90
        while 3 not in asked:
            in_time(time.monotonic() < deadline, f"the brokers that were asked: {asked}")
            producer.produce("followed", b"x", partition=0)
            producer.flush(10)
    finally:
        reader.stop()
    assert lab.leader("followed", 0) == 1
    assert inbox.of(Polled) == []  # they are nobody's probes
