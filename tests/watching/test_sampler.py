"""What the watcher tells of a real cluster, and what it does not say when nobody answers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewPartitions, NewTopic

from canary.client.ports import SteadyClock
from canary.facts import (
    ClusterSeen,
    Listed,
    PartitionSeen,
    TopicConfigured,
    TopicGone,
    TopicSeen,
    WatchAsked,
    WatchFailed,
)
from canary.watching.sampler import Watcher

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka.admin import AdminClient

    from canary.client.recording import Recording
    from canary.lab import Lab

pytestmark = pytest.mark.kafka


def made(admin: AdminClient, topic: str, **settings: str) -> None:
    new = NewTopic(topic, replica_assignment=[[1, 2, 3], [2, 3, 1]], num_partitions=2, config=settings)
    deadline = time.monotonic() + 60
    while True:
        try:
            admin.create_topics([new])[topic].result(10)
        except KafkaException:  # its predecessor is still being deleted
            assert time.monotonic() < deadline
            continue
        return


@pytest.fixture
def watcher(config: dict[str, Any], topic: str, inbox: Recording) -> Iterator[Watcher]:
    part = Watcher(config, [topic], inbox, SteadyClock())
    yield part
    assert part.stop(5)


def test_a_round_tells_everything_after_it_was_announced(
    lab: Lab, config: dict[str, Any], admin: AdminClient, topic: str, inbox: Recording, watcher: Watcher
) -> None:
    made(admin, topic, **{"retention.ms": "12345", "min.insync.replicas": "2"})
    producer = Producer(config)
    for _ in range(7):
        producer.produce(topic, b"x", partition=1)
    assert producer.flush(10) == 0
    watcher.start()
    inbox.wait(lambda: len({f.sample for f in inbox.of(Listed)}) >= 2)
    asked = {f.sample: n for n, f in enumerate(inbox.facts) if isinstance(f, WatchAsked)}
    answers = (ClusterSeen, TopicSeen, TopicGone, PartitionSeen, Listed, WatchFailed)
    assert all(asked[f.sample] < n for n, f in enumerate(inbox.facts) if isinstance(f, answers))
    assert list(asked) == sorted(asked)
    cluster = inbox.of(ClusterSeen)[0]
    assert (cluster.cluster_id, cluster.brokers) == (lab.cluster_id, "1,2,3")
    assert inbox.of(TopicSeen)[0].partitions == 2
    assert inbox.of(TopicSeen)[0].topic_id
    assert [(f.partition, f.leader, f.replicas, f.isr) for f in inbox.of(PartitionSeen)] == [
        (0, 1, "1,2,3", "1,2,3"),
        (1, 2, "1,2,3", "1,2,3"),
    ]
    listed = {f.partition: (f.start, f.end, f.stable, f.leader_epoch) for f in inbox.of(Listed)}
    assert listed == {0: (0, 0, 0, 0), 1: (0, 7, 7, 0)}
    (configured,) = inbox.of(TopicConfigured)
    assert (configured.retention_ms, configured.min_insync_replicas) == (12345, 2)
    assert (configured.retention_bytes, configured.cleanup_policy) == (-1, "delete")
    assert inbox.of(WatchFailed) == []


def test_a_topic_made_again_is_gone_first_and_has_another_id_then(
    lab: Lab, admin: AdminClient, topic: str, inbox: Recording, watcher: Watcher
) -> None:
    assert lab.alive()
    made(admin, topic)
    watcher.start()
    inbox.wait(lambda: inbox.of(Listed))
    admin.delete_topics([topic])[topic].result(10)
    inbox.wait(lambda: inbox.of(TopicGone))
    before = len(inbox.facts)
    made(admin, topic, **{"retention.ms": "777"})
    watcher.ask_now()
    inbox.wait(lambda: inbox.of(TopicSeen, since=before))
    inbox.wait(lambda: inbox.of(Listed, since=before))
    assert len({f.topic_id for f in inbox.of(TopicSeen)}) == 2
    inbox.wait(lambda: any(f.retention_ms == 777 for f in inbox.of(TopicConfigured)))


def test_added_partitions_are_listed_at_once(
    lab: Lab, admin: AdminClient, topic: str, inbox: Recording, watcher: Watcher
) -> None:
    assert lab.alive()
    made(admin, topic)
    watcher.start()
    inbox.wait(lambda: inbox.of(Listed))
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(10)
    inbox.wait(lambda: {f.partition for f in inbox.of(Listed)} == {0, 1, 2, 3}, 60)


def test_the_settings_in_force_are_told_together_with_a_start_that_has_moved(
    lab: Lab, admin: AdminClient, topic: str, inbox: Recording, watcher: Watcher
) -> None:
    """Whether retention explains it; a minute later it may be another one."""
    made(admin, topic)
    producer = Producer({"bootstrap.servers": lab.bootstrap})
    for _ in range(5):
        producer.produce(topic, b"x", partition=0)
    assert producer.flush(10) == 0
    watcher.start()
    inbox.wait(lambda: any(f.end == 5 and f.start == 0 for f in inbox.of(Listed)))
    before = len(inbox.facts)
    admin.delete_records([TopicPartition(topic, 0, 3)])[TopicPartition(topic, 0)].result(10)
    inbox.wait(lambda: any(f.start == 3 for f in inbox.of(Listed)), 60)
    moved = next(i for i, f in enumerate(inbox.facts) if isinstance(f, Listed) and f.start == 3)
    rounds = [i for i, f in enumerate(inbox.facts) if isinstance(f, WatchAsked) and i > moved]
    told = [i for i, f in enumerate(inbox.facts) if isinstance(f, TopicConfigured) and i > before]
    assert [i for i in told if moved < i < (rounds[0] if rounds else len(inbox.facts))] != []


def test_the_rest_is_still_told_when_a_broker_is_frozen(
    healthy: Lab, admin: AdminClient, topic: str, inbox: Recording, watcher: Watcher
) -> None:
    made(admin, topic)
    watcher.start()
    inbox.wait(lambda: inbox.of(Listed))
    controller = inbox.of(ClusterSeen)[-1].controller
    healthy.pause(controller or 1)
    before = len(inbox.facts)
    inbox.wait(lambda: len(inbox.of(TopicSeen, since=before)) >= 3, 30)
    inbox.wait(lambda: {f.partition for f in inbox.of(Listed, since=before)} == {0, 1}, 30)
    inbox.wait(lambda: any(str(controller) not in f.isr.split(",") for f in inbox.of(PartitionSeen, since=before)), 30)
    assert inbox.of(TopicGone) == []


def test_silence_is_told_as_silence_and_does_not_hold_up_the_stop(
    healthy: Lab, admin: AdminClient, topic: str, inbox: Recording, watcher: Watcher
) -> None:
    made(admin, topic)
    watcher.start()
    inbox.wait(lambda: inbox.of(Listed))
    for broker in healthy.brokers:
        healthy.pause(broker)
    before = len(inbox.facts)
    inbox.wait(lambda: len(inbox.of(WatchFailed, since=before)) >= 4, 60)
    assert inbox.of(TopicGone) == []
    began = time.monotonic()
    assert watcher.stop(5)
    assert time.monotonic() - began < 1.0
