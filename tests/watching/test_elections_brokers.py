"""Leader epochs and the quorum of real brokers, as the parts that ask for them see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from canary.anomalies.online import Tracker
from canary.facts import EpochSeen, QuorumSeen, RunnerStarted
from canary.threads.ports import SteadyClock
from canary.watching.elections.epoch_watcher import EpochWatcher
from canary.watching.elections.quorum_watcher import QuorumWatcher
from tests.support.recording import Recording
from tests.support.waiting import in_time, until

if TYPE_CHECKING:
    from canary.lab import Lab

pytestmark = [pytest.mark.kafka, pytest.mark.quick]


def produce(lab: Lab, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": lab.bootstrap, "linger.ms": 0})
    for _ in range(count):
        producer.produce(topic, b"order", partition=0)
        producer.flush(60)  # a batch each, so that a log may be cut anywhere
    assert len(producer) == 0


def watched(config: dict[str, Any], inbox: Recording, reached: Any) -> None:
    watcher = EpochWatcher(config, ["watched-*"], ["ours"], inbox, SteadyClock(), 0.2)
    watcher.start()
    try:
        inbox.wait(reached)
        until(lambda: watcher.latest is not None and watcher.latest.unknown == 0, 30, "all is known")
        assert watcher.failing is None
    finally:
        in_time(watcher.stop(20))


def test_what_a_leader_lost_from_its_disk_while_nobody_looked_is_known_though_it_was_written_over(
    lab: Lab, admin: AdminClient, config: dict[str, Any], topic: str, inbox: Recording
) -> None:
    leader = lab.brokers[-1]
    admin.create_topics([NewTopic(topic, replica_assignment=[[leader]], num_partitions=1)])[topic].result(30)
    produce(lab, topic, 30)
    watched(config, inbox, lambda: any(one.end == 30 for one in inbox.of(EpochSeen)))
    lab.kill(leader)
    lab.truncate(leader, topic, 0, to_offset=20)
    lab.start_broker(leader)
    produce(lab, topic, 25)
    seen = len(inbox.facts)
    watched(config, inbox, lambda: any(one.end == 45 for one in inbox.of(EpochSeen, since=seen)))
    tracker = Tracker()
    tracker.fold([RunnerStarted(1, "canary-0", "test"), *inbox.facts])
    (found,) = tracker.drain().violations
    assert (found.kind, found.partition, found.offset) == ("offset-regression", 0, 20)
    assert found.evidence["cut"] == [20, 30]
    described = admin.describe_topics(TopicCollection([topic]))[topic].result(30)
    assert found.topic_id == str(described.topic_id)


def test_the_quorum_is_asked_through_each_broker_and_without_an_answer_it_is_unknown(
    lab: Lab, config: dict[str, Any], inbox: Recording
) -> None:
    watcher = QuorumWatcher(config, inbox, SteadyClock(), 0.2)
    watcher.start()
    try:
        everyone = {None, *lab.brokers}
        inbox.wait(lambda: {one.through for one in inbox.of(QuorumSeen)} == everyone)
        told = inbox.of(QuorumSeen)
        assert {(one.controller, one.brokers) for one in told} == {(lab.controllers[0], str(lab.controllers[0]))}
        ends = [one.high_watermark or 0 for one in told]
        assert ends == sorted(ends)
        assert ends[0] > 0
        assert watcher.latest is not None
        assert [(one.node, one.lag) for one in watcher.latest.voters] == [(lab.controllers[0], 0)]
    finally:
        in_time(watcher.stop(20))
    nowhere = QuorumWatcher({"bootstrap.servers": "127.0.0.1:1"}, inbox, SteadyClock(), 0.2)
    nowhere.start()
    try:
        until(lambda: nowhere.latest is not None, 30, "nobody answers")
        assert nowhere.latest is not None
        assert {one.name: one.value for one in nowhere.latest.measurements()} == {"canary_quorum_unknown": 1}
    finally:
        in_time(nowhere.stop(20))
