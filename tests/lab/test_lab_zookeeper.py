"""Brokers of Kafka 3.4.0 with ZooKeeper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from canary.lab import CONTROLLER, Cut, Lab, LabError, NodeProperties
from canary.wire import broker_view
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path


def create(lab: Lab, name: str, replicas: list[int]) -> None:
    admin = AdminClient({"bootstrap.servers": lab.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(name, 1, replica_assignment=[replicas])])[name].result(60)
    lab.wait_isr(name, 0, set(replicas), 120)


@pytest.mark.kafka
@pytest.mark.slow
def test_brokers_of_zookeeper_are_expelled_and_come_back(tmp_path: Path) -> None:
    properties = NodeProperties({"min.insync.replicas": 1})
    lab = Lab(
        tmp_path, 2, version="3.4.0", zookeeper=True, proxied=True, profile="quick", properties=properties,
        die_with_parent=True,
    )  # fmt: skip
    with lab:
        assert [node.role for node in lab.status()] == ["zookeeper", "broker", "broker"]
        assert AdminClient({"bootstrap.servers": lab.bootstrap}).list_topics(timeout=60).cluster_id == lab.cluster_id
        create(lab, "t", [1, 2])
        for broker in lab.brokers:  # one of them is the controller
            lab.kill(broker)
            lab.start_broker(broker)
            create(lab, f"on-{broker}", [broker])
            lab.wait_isr("t", 0, {1, 2}, 120)  # or nobody else could lead it
        lab.pause(1)
        until(lambda: lab.leader("t", 0) == 2, 30, "it has no session any more")
        lab.resume(1)
        lab.wait_ready()
        lab.wait_isr("t", 0, {1, 2}, 120)
        lab.nemesis(Cut(2, CONTROLLER))
        until(
            lambda: broker_view.registered(lab._site.state().private_port(CONTROLLER)) == frozenset({1}),
            30,
            "nor has one cut off",
        )
        lab.heal()
        lab.restart(CONTROLLER)
        lab.wait_isr("t", 0, {1, 2}, 120)
        lab.stop(hard=True)
        lab.start()
        lab.wait_isr("t", 0, {1, 2}, 120)


def test_zookeeper_is_one_and_for_kafka_3(tmp_path: Path) -> None:
    for wrong in ({"version": "4.1.0"}, {"version": "3.9.1", "controllers": 3}):
        with pytest.raises(LabError, match="one ZooKeeper, and Kafka 3"):
            Lab(tmp_path, zookeeper=True, **wrong)
