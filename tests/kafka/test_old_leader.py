"""A client that knew the leader of before an election, on real brokers: whoever asks for offsets is told them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from canary.salvage.cluster import ClusterView, Topic
from canary.watching import offsets
from canary.wire.client import opened
from spark_reconcile.dump.kafka_bounds import Cluster
from spark_reconcile.tables.columns import ISOLATIONS
from tests.support.waiting import in_time, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from canary.lab import Lab

pytestmark = [pytest.mark.kafka, pytest.mark.quick]

NAMES = ["led-again", "led-by-another"]
ENDS = {(name, 0): 1 for name in NAMES}


class Asking:
    """Three that ask for offsets, each with a client of its own: a night, a salvage, and a watcher of groups."""

    def __init__(self, config: dict[str, object], wire: object) -> None:
        self._night = Cluster("c", config, timeout_s=2)
        self._topics = self._night.topics(NAMES)
        self._admins = AdminClient(config), AdminClient(config)
        self._salvage = ClusterView("c", self._admins[0], wire)

    def night(self) -> dict[tuple[str, int], int]:
        return {(one.topic, one.partition): one.end for one in self._night.spans(self._topics, ISOLATIONS[:1])}

    def salvage(self, *names: str) -> dict[tuple[str, int], int]:
        found = {name: self._salvage.log(Topic(name, None, 1), 0).holdings for name in names or NAMES}
        assert all(one.start == 0 for one in found.values())
        return {(name, 0): one.end for name, one in found.items()}

    def watcher(self) -> dict[tuple[str, int], int]:
        return {place: log.end for place, log in offsets.logs(self._admins[1], list(ENDS), 2)[0].items()}


def told(ask: Callable[[], dict[tuple[str, int], int]]) -> bool:
    return ask() == ENDS


@pytest.fixture
def asking(lab: Lab) -> Iterator[Asking]:
    """All of them have learned who leads, broker 3."""
    config = {"bootstrap.servers": lab.bootstrap, "log_level": 0}
    admin = AdminClient(config)
    alone = {"min.insync.replicas": "1"}  # whoever leads alone tells its end
    for name, brokers in zip(NAMES, ([3], [3, 1]), strict=True):
        new = NewTopic(name, 1, replica_assignment=[brokers], config=alone)
        admin.create_topics([new])[name].result(60)
    lab.wait_isr(NAMES[1], 0, {1, 3})
    writer = Producer(config)
    for name in NAMES:
        writer.produce(name, b"order", partition=0)
    in_time(writer.flush(60) == 0, "acknowledgements")
    with opened(config) as wire:
        found = Asking(config, wire)
        for ask in (found.night, found.salvage, found.watcher):
            until(partial(told, ask), 60, "the new topics have leaders")
        yield found


def test_after_an_election_offsets_are_told_to_clients_that_knew_the_former_leader(lab: Lab, asking: Asking) -> None:
    lab.kill(3)
    until(lambda: lab.leader(NAMES[1], 0) == 1, 60, "another broker leads what it led")
    until(lambda: asking.watcher() == {(NAMES[1], 0): 1}, 60, "not known at one look, and known at the next")
    assert asking.night() == {(NAMES[1], 0): 1}, "the other one has no leader"
    assert asking.salvage(NAMES[1]) == {(NAMES[1], 0): 1}
    lab.start_broker(3)
    lab.wait_isr(NAMES[1], 0, {1, 3})
    assert asking.night() == ENDS
    assert asking.salvage() == ENDS
    until(partial(told, asking.watcher), 60, "as the night")
