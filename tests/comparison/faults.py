"""What is done to the brokers, and what it destroys of each tool's topic, as a plain client and the disks tell it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from canary.drills.rig import direct
from tests.comparison.tools import PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from canary.lab import Lab

CUT: Final = 20
"""Acknowledged and read records of each partition that are destroyed, at least."""


@dataclass(frozen=True, slots=True)
class Destroyed:
    """What is gone of one partition: offsets ``first`` to ``sure`` were acknowledged and read by a plain client before
    the fault, those from ``sure`` to ``end`` were on disk and may not have been acknowledged (both exclusive)."""

    first: int
    sure: int
    end: int


@dataclass(frozen=True, slots=True)
class Truth:
    """What a fault destroyed, by topic and partition; of a deleted topic it is everything, and stands in ``words``."""

    destroyed: Mapping[str, Mapping[int, Destroyed]] = field(default_factory=dict)
    words: str = "nothing"


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        title: what is done, in the table.
        do: do it to a lab, for the topics of the tools, and return the truth once the brokers are whole again.
    """

    title: str
    do: Callable[[Lab, Sequence[str]], Truth]


def _whole(lab: Lab, topics: Sequence[str]) -> None:
    lab.wait_ready(including=lab.brokers)
    for topic in topics:
        for partition in range(PARTITIONS):
            lab.wait_isr(topic, partition, set(lab.brokers))


def _nothing(_lab: Lab, _topics: Sequence[str]) -> Truth:
    time.sleep(60)
    return Truth()


def _roll(lab: Lab, topics: Sequence[str]) -> Truth:
    for broker in lab.brokers:
        lab.restart(broker)
        _whole(lab, topics)
    return Truth()


def _kill_one(lab: Lab, topics: Sequence[str]) -> Truth:
    lab.kill(1)
    time.sleep(15)
    lab.start_broker(1)
    _whole(lab, topics)
    return Truth()


def _freeze_all(lab: Lab, topics: Sequence[str]) -> Truth:
    for broker in lab.brokers:
        lab.pause(broker)
    time.sleep(20)
    for broker in lab.brokers:
        lab.resume(broker)
    _whole(lab, topics)
    return Truth()


def _cut_all(lab: Lab, topics: Sequence[str]) -> Truth:
    sure = {topic: _ends(lab, topic) for topic in topics}
    for broker in lab.brokers:
        lab.kill(broker)
    destroyed: dict[str, dict[int, Destroyed]] = {topic: {} for topic in topics}
    for topic in topics:
        for partition, end in sure[topic].items():
            cuts = [lab.truncate(broker, topic, partition, to_offset=end - CUT) for broker in lab.brokers]
            first, last = max(cut.after for cut in cuts), max(cut.before for cut in cuts)
            destroyed[topic][partition] = Destroyed(first, end, last)
    for broker in lab.brokers:
        lab.start_broker(broker, timeout=0)
    _whole(lab, topics)
    return Truth(destroyed)


def _ends(lab: Lab, topic: str) -> dict[int, int]:
    """Read a topic; return one more than the last offset that was read, by partition."""
    ends: dict[int, int] = {}
    for record in direct.records(lab.bootstrap, topic):
        ends[record.partition] = max(ends.get(record.partition, 0), record.offset + 1)
    return ends


def _make_again(lab: Lab, topics: Sequence[str]) -> Truth:
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    for future in admin.delete_topics(list(topics)).values():
        future.result(60)
    time.sleep(5)
    for future in admin.create_topics([NewTopic(topic, PARTITIONS, 3) for topic in topics]).values():
        try:
            future.result(60)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:  # one of the tools may have been quicker
                raise
    _whole(lab, topics)
    return Truth(words="every record, by the topics' deletion")


FAULTS: Final = (
    Fault("a quiet minute", _nothing),
    Fault("rolling restart", _roll),
    Fault("`kill -9` of a broker, started again after 15 s", _kill_one),
    Fault("all brokers frozen (SIGSTOP) for 20 s", _freeze_all),
    Fault(f"all brokers killed, {CUT} records cut off each log on every disk", _cut_all),
    Fault("the topic deleted and made again after 5 s", _make_again),
)
