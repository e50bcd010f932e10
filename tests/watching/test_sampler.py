"""What the watcher tells of a real cluster, and what it does not say when nobody answers."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewPartitions, NewTopic

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
from canary.lab import LabError
from canary.threads.ports import SteadyClock
from canary.watching import own_topics
from canary.watching.sampler import Watcher
from tests.support.recording import Recording
from tests.support.topics import as_known
from tests.support.waiting import in_time, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka.admin import AdminClient

    from canary.lab import Lab

pytestmark = pytest.mark.kafka


def made(lab: Lab, admin: AdminClient, topic: str, **settings: str) -> None:
    """Make the topic and wait until every broker knows it, with every replica in sync."""
    new = NewTopic(topic, replica_assignment=[[1, 2, 3], [2, 3, 1]], num_partitions=2, config=settings)
    unanswered = False

    def created() -> bool:
        nonlocal unanswered
        try:
            admin.create_topics([new])[topic].result(60)
        except TimeoutError:
            unanswered = True
            return False
        except KafkaException as error:  # its predecessor is still being deleted, or a broker is fenced for a moment
            code = error.args[0].code()
            if code == KafkaError.TOPIC_ALREADY_EXISTS:
                return unanswered  # an attempt of ours made it
            unanswered = unanswered or code in {KafkaError._TIMED_OUT, KafkaError.REQUEST_TIMED_OUT}
            return False
        return True

    def known() -> bool:
        each = as_known(lab, topic)
        return all(states and len(states) == 2 and all(one.isr == {1, 2, 3} for one in states) for states in each)

    until(created, 60, f"{topic} made")
    until(known, 60, f"{topic} known to every broker")


@pytest.fixture
def watcher(config: dict[str, Any], topic: str, inbox: Recording) -> Iterator[Watcher]:
    """Waits long for an answer: on a busy machine that is no failure."""
    part = Watcher(config, [topic], inbox, SteadyClock(), timeout_s=30.0)
    yield part
    in_time(part.stop(30))


@pytest.fixture
def hasty(config: dict[str, Any], topic: str, inbox: Recording) -> Iterator[Watcher]:
    """Waits no longer than in production."""
    part = Watcher(config, [topic], inbox, SteadyClock())
    yield part
    in_time(part.stop(30))


def test_a_round_tells_everything_after_it_was_announced(
    lab: Lab,
    config: dict[str, Any],
    admin: AdminClient,
    topic: str,
    inbox: Recording,
    watcher: Watcher,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(own_topics, "REPEAT_S", 3600.0)
    monkeypatch.setattr(own_topics, "CONFIGURED_S", 3600.0)
    made(lab, admin, topic, **{"retention.ms": "12345", "min.insync.replicas": "2"})
    producer = Producer(config)
    for _ in range(7):
        producer.produce(topic, b"x", partition=1)
    in_time(producer.flush(60) == 0, "all acknowledgements")
    watcher.start()
    inbox.wait(lambda: len({f.sample for f in inbox.of(Listed)} - {f.sample for f in inbox.of(WatchFailed)}) >= 2)

    def told() -> dict[int, tuple[object, ...]]:
        seen = {f.partition: (f.leader, f.replicas, f.isr) for f in inbox.of(PartitionSeen)}
        listed = {f.partition: (f.leader_epoch, f.start, f.end, f.stable) for f in inbox.of(Listed)}
        return {p: (*seen[p], *listed[p]) for p in seen.keys() & listed.keys()}

    def true() -> dict[int, tuple[object, ...]]:
        """Return what the brokers say themselves: where one stalls, another leads."""
        states = {p: lab.partition(topic, p) for p in (0, 1)}
        isr = {p: ",".join(map(str, sorted(state.isr))) for p, state in states.items()}
        ends = {0: (0, 0, 0), 1: (0, 7, 7)}
        return {p: (state.leader, "1,2,3", isr[p], state.leader_epoch, *ends[p]) for p, state in states.items()}

    def agreed() -> bool:
        with contextlib.suppress(LabError):  # no broker answers just now
            return told() == true()
        return False

    until(agreed, 60, "what is told is what the brokers say")
    for partition in (0, 1):
        states = [(f.leader, f.replicas, f.isr) for f in inbox.of(PartitionSeen) if f.partition == partition]
        assert all(state != following for state, following in itertools.pairwise(states))  # told when it changes
    asked = {f.sample: n for n, f in enumerate(inbox.facts) if isinstance(f, WatchAsked)}
    answers = (ClusterSeen, TopicSeen, TopicGone, PartitionSeen, Listed, WatchFailed)
    assert all(asked[f.sample] < n for n, f in enumerate(inbox.facts) if isinstance(f, answers))
    assert list(asked) == sorted(asked)
    inbox.wait(lambda: any(f.brokers == "1,2,3" for f in inbox.of(ClusterSeen)))
    assert {f.cluster_id for f in inbox.of(ClusterSeen)} == {lab.cluster_id}
    assert inbox.of(TopicSeen)[0].partitions == 2
    assert inbox.of(TopicSeen)[0].topic_id
    (configured,) = inbox.of(TopicConfigured)
    assert (configured.retention_ms, configured.min_insync_replicas) == (12345, 2)
    assert (configured.retention_bytes, configured.cleanup_policy) == (-1, "delete")


def test_a_topic_made_again_is_gone_first_and_has_another_id_then(
    lab: Lab, admin: AdminClient, topic: str, inbox: Recording, watcher: Watcher
) -> None:
    made(lab, admin, topic)
    watcher.start()
    inbox.wait(lambda: inbox.of(Listed))
    admin.delete_topics([topic])[topic].result(60)
    inbox.wait(lambda: inbox.of(TopicGone))
    before = len(inbox.facts)
    made(lab, admin, topic, **{"retention.ms": "777"})
    watcher.ask_now()
    inbox.wait(lambda: len({f.topic_id for f in inbox.of(TopicSeen)}) == 2)
    inbox.wait(lambda: inbox.of(Listed, since=before))
    inbox.wait(lambda: any(f.retention_ms == 777 for f in inbox.of(TopicConfigured)))


def test_added_partitions_are_listed_at_once(
    lab: Lab, admin: AdminClient, topic: str, inbox: Recording, watcher: Watcher
) -> None:
    made(lab, admin, topic)
    watcher.start()
    inbox.wait(lambda: inbox.of(Listed))
    lab.wait_ready()
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result(60)
    inbox.wait(lambda: {f.partition for f in inbox.of(Listed)} == {0, 1, 2, 3}, 120)


def test_the_settings_in_force_are_told_together_with_a_start_that_has_moved(
    lab: Lab, admin: AdminClient, topic: str, inbox: Recording, watcher: Watcher
) -> None:
    """Whether retention explains it; a minute later it may be another one."""
    made(lab, admin, topic)
    producer = Producer({"bootstrap.servers": lab.bootstrap})
    for _ in range(5):
        producer.produce(topic, b"x", partition=0)
    in_time(producer.flush(60) == 0, "all acknowledgements")
    watcher.start()
    inbox.wait(lambda: any(f.end == 5 and f.start == 0 for f in inbox.of(Listed)))
    before = len(inbox.facts)
    admin.delete_records([TopicPartition(topic, 0, 3)])[TopicPartition(topic, 0)].result(60)
    inbox.wait(lambda: any(f.start == 3 for f in inbox.of(Listed)), 120)
    moved = next(i for i, f in enumerate(inbox.facts) if isinstance(f, Listed) and f.start == 3)
    rounds = [i for i, f in enumerate(inbox.facts) if isinstance(f, WatchAsked) and i > moved]
    told = [i for i, f in enumerate(inbox.facts) if isinstance(f, TopicConfigured) and i > before]
    assert [i for i in told if moved < i < (rounds[0] if rounds else len(inbox.facts))] != []


@pytest.mark.quick
def test_the_rest_is_still_told_when_a_broker_is_frozen(
    lab: Lab, admin: AdminClient, topic: str, inbox: Recording, hasty: Watcher
) -> None:
    made(lab, admin, topic)
    hasty.start()
    inbox.wait(lambda: inbox.of(Listed))
    controller = inbox.of(ClusterSeen)[-1].controller
    lab.pause(controller or 1)
    before = len(inbox.facts)
    inbox.wait(lambda: len(inbox.of(TopicSeen, since=before)) >= 3, 120)
    inbox.wait(lambda: {f.partition for f in inbox.of(Listed, since=before)} == {0, 1}, 120)
    inbox.wait(lambda: any(str(controller) not in f.isr.split(",") for f in inbox.of(PartitionSeen, since=before)), 120)
    assert inbox.of(TopicGone) == []


def test_silence_is_told_as_silence_and_does_not_hold_up_the_stop(
    lab: Lab, config: dict[str, Any], admin: AdminClient, topic: str, inbox: Recording, hasty: Watcher
) -> None:
    made(lab, admin, topic)
    hasty.start()
    inbox.wait(lambda: inbox.of(Listed))
    for broker in lab.brokers:
        lab.pause(broker)
    before = len(inbox.facts)
    inbox.wait(lambda: len(inbox.of(WatchFailed, since=before)) >= 4, 120)
    assert inbox.of(TopicGone) == []
    patient_inbox = Recording()
    patient = Watcher(config, [topic], patient_inbox, SteadyClock(), timeout_s=300.0)
    patient.start()
    patient_inbox.wait(lambda: patient_inbox.of(WatchAsked))
    in_time(hasty.stop(20))
    in_time(patient.stop(20))  # its answer would be waited for much longer
