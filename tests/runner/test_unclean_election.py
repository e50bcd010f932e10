"""call-me-maybe on real brokers: acknowledged by one replica alone, lost with it, and everything said about that."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from canary.lab import NodeProperties
from tests.support.labs import Watched
from tests.support.process import Canary
from tests.support.waiting import in_time

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from canary.lab import Lab

pytestmark = pytest.mark.kafka

UNSAFE = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
TOPICS = {"orders": [[1, 2, 3], [3, 2, 1]], "pairs": [[2, 3]], "single": [[1]], "payments": [[1, 2, 3]]}


@pytest.fixture
def unsafe_lab(tmp_path: Path) -> Iterator[Lab]:
    with Watched(
        tmp_path / "lab",
        profile="quick",
        properties=NodeProperties(UNSAFE, {"unclean.leader.election.enable": "true"}),
        die_with_parent=True,
    ) as running:
        yield running


def made(lab: Lab) -> None:
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    for name, assignment in TOPICS.items():
        new = NewTopic(name, replica_assignment=assignment, num_partitions=len(assignment), config=UNSAFE)
        admin.create_topics([new])[name].result(20)


def produced(lab: Lab, count: int) -> None:
    producer = Producer({"bootstrap.servers": lab.bootstrap, "acks": "all", "linger.ms": 0})
    for number in range(count):
        producer.produce("orders", str(number).encode(), partition=0)
        producer.produce("payments", str(number).encode(), partition=0)
    in_time(producer.flush(90) == 0, "all acknowledgements")


def test_what_one_replica_alone_had_and_lost_is_said_before_and_after_with_all_that_was_exposed(
    unsafe_lab: Lab, tmp_path: Path
) -> None:
    lab = unsafe_lab
    made(lab)
    cluster = {
        "name": "t",
        "kafka": {"bootstrap.servers": lab.bootstrap},
        "topic": {"name": "probes", "partitions": 3, "config": UNSAFE},
        "modes": {"idempotent": {"interval": "100ms"}},
        "watch": {
            "offsets": ["orders:0"],
            "epochs": ["pay*"],
            "quorum": True,
            "under_replicated_after": "10s",
        },
    }
    with Canary(tmp_path / "canary", lab.bootstrap, "probes", settings={"clusters": [cluster]}) as canary:
        canary.until_probing()
        produced(lab, 100)
        for broker in (2, 3):
            lab.kill(broker)
        exposed = {*(("probes", p) for p in range(3)), ("orders", 0), ("orders", 1), ("payments", 0)}
        canary.until(lambda: alone(canary) >= exposed, 40, "one replica alone holds each partition")
        assert alone(canary) == exposed
        assert canary.violations("lost-write") == []
        produced(lab, 100)
        time.sleep(6)  # acknowledged, read and listed at that end; a topic of others has no metric that would tell
        lab.kill(1)
        lab.start_broker(2, timeout=0)
        lab.start_broker(3)
        lab.start_broker(1)
        canary.until(lambda: all(told(canary, p) for p in range(3)), 120, "every loss is told with its cause")
        canary.until(lambda: len(canary.violations("offset-regression")) == 2, 30, "the other topics' ends went back")
        canary.until(lambda: not conditions(canary), 60, "conditions end")
        found = canary.violations()
        for partition in range(3):
            here = [v for v in found if (v["topic"], v["partition"]) == ("probes", partition)]
            assert len({v["incident_id"] for v in here}) == 1, [(v["kind"], v["incident_id"]) for v in here]
            (first,) = (v for v in here if v["kind"] == "isr-of-one")
            critical = [v["first_seen_at"] for v in here if v["severity"] == "critical"]
            assert first["first_seen_at"] < min(critical), "it is said before anything is lost"
            (unclean,) = (v for v in here if v["kind"] == "unclean-election" and v["severity"] == "critical")
            (cut,) = (v for v in here if v["kind"] == "truncation")
            gone = [v["offset"] for v in here if v["kind"] == "lost-write"]
            assert {"election": unclean["offset"], "cut": cut["offset"]} == {"election": min(gone), "cut": min(gone)}
        (regression,) = (v for v in found if v["kind"] == "offset-regression" and v["topic"] == "orders")
        assert (regression["topic"], regression["partition"], regression["offset"]) == ("orders", 0, 100)
        there = [v for v in found if (v["topic"], v["partition"]) == ("orders", 0)]
        assert {v["kind"] for v in there if v["severity"] == "critical"} == {"unclean-election", "offset-regression"}
        assert {v["incident_id"] for v in there} == {regression["incident_id"]}
        (lost, *_) = (v for v in found if v["kind"] == "lost-write" and v["partition"] == 0)
        exposure = canary.get(f"/api/v1/violations/{lost['id']}/exposure").json()
        assert exposure["basis"] == "same leader and shrunken ISR"
        others = exposed - {("probes", 0)}  # and pairs, by an election of its own, if broker 2 was back before broker 3
        assert places(exposure["items"]) in (others, others | {("pairs", 0)})
        evidence = canary.get(f"/api/v1/violations/{lost['id']}").json()["evidence"]
        assert {(one["subject"], one["leader"]) for one in evidence["topology"]} >= {("partition", 1)}
        assert {event["event"] for event in evidence["cluster_events"]} >= {"broker-left"}
        # a view is stored after what was found, and the quorum is asked after that
        canary.until(lambda: canary.metric("canary_unclean_elections_total") >= 3, 10, "the elections are counted")
        led = canary.get("/api/v1/topology", topic="orders", partition=0).json()["items"]
        # what is over sooner than a sample has none
        known = [one["leader_epoch"] for one in led if one["leader"] >= 0 and one["leader_epoch"] is not None]
        assert len(known) >= 2
        assert known == sorted(known, reverse=True)
        exact(canary)
        quorum_known(canary, lab.controllers[0])


def quorum_known(canary: Canary, leader: int) -> None:
    canary.until(lambda: canary.metric("canary_quorum_unknown") == 0, 30, "the quorum answers again")
    canary.until(lambda: canary.metric("canary_epochs_unknown") == 0, 30, "the epochs are known again")
    (controller,) = canary.get("/api/v1/topology", subject="controller").json()["items"]
    assert controller["leader"] == leader == canary.metric("canary_quorum_leader")
    assert controller["leader_epoch"] == canary.metric("canary_quorum_epoch")
    assert canary.metric("canary_quorum_unknown") == canary.metric("canary_epochs_unknown") == 0
    assert canary.metric("canary_quorum_voter_behind_seconds", node=str(leader)) == 0


def exact(canary: Canary) -> None:
    """What an election cut off a topic whose epochs are watched is known to the offset, and so is its history."""
    found = [v for v in canary.violations() if v["topic"] == "payments" and v["severity"] == "critical"]
    assert {(v["kind"], v["offset"]) for v in found} == {("unclean-election", 100), ("offset-regression", 100)}
    (cut,) = (v for v in found if v["kind"] == "offset-regression")
    evidence = canary.get(f"/api/v1/violations/{cut['id']}").json()["evidence"]
    assert evidence["cut"] == [100, 200]
    led = canary.get("/api/v1/topology", topic="payments", partition=0).json()["items"]
    begins = {one["leader_epoch"]: one["epoch_start"] for one in led if one["leader"] >= 0 and one["epoch_start"]}
    assert begins[evidence["leader_epoch"]] == 100


def alone(canary: Canary) -> set[tuple[str, int]]:
    return places(canary.violations("isr-of-one"))


def places(items: list[dict[str, Any]]) -> set[tuple[str, int]]:
    """Return topics and partitions, those of internal topics left out: all of them are the lone broker's as well."""
    return {(one["topic"], one["partition"]) for one in items if not one["topic"].startswith("__")}


def told(canary: Canary, partition: int) -> bool:
    kinds = {v["kind"] for v in canary.violations() if (v["topic"], v["partition"]) == ("probes", partition)}
    return {"lost-write", "truncation", "unclean-election"} <= kinds


def conditions(canary: Canary) -> list[dict[str, Any]]:
    kinds = ("isr-of-one", "offline-partition", "under-replicated", "isr-below-half", "under-min-isr")
    return [v for v in canary.violations(*kinds) if v["state"] != "resolved"]
