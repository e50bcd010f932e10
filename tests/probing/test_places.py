"""Where a reader goes on, where replicas go, and whose turn a re-read is: the decisions without a cluster."""

from __future__ import annotations

import pytest

from canary.anomalies.violation import RereadRequest
from canary.kafka.topic_creation import Broker, spread
from canary.probing.readers.reread import _Queue
from canary.probing.readers.tail import nearest


@pytest.mark.parametrize(
    ("position", "start", "end", "expected"),
    [
        (10, 0, 9, 9),  # cut off
        (5, 12, 20, 12),  # expired
        (10, 0, 20, 10),  # in range again: the re-read of the new epoch finds what changed below
        (30, 12, 12, 12),
    ],
)
def test_reading_goes_on_at_the_nearest_place_that_hides_nothing(
    position: int, start: int, end: int, expected: int
) -> None:
    assert nearest(position, start, end)[0] == expected


def test_every_broker_leads_and_racks_are_mixed() -> None:
    brokers = [Broker(1, "a"), Broker(2, "a"), Broker(3, "b"), Broker(4, "b")]
    assignment = spread(brokers, 8, 2)
    assert sorted(replicas[0] for replicas in assignment) == [1, 1, 2, 2, 3, 3, 4, 4]
    racks = {broker.id: broker.rack for broker in brokers}
    assert all(racks[leader] != racks[follower] for leader, follower in assignment[:4])
    assert all(len(set(replicas)) == 2 for replicas in assignment)
    assert len({frozenset(replicas) for replicas in assignment}) > 4


def test_one_broker_is_enough_for_one_replica() -> None:
    assert spread([Broker(1, None)], 2, 1) == [[1], [1]]


def request(number: int, partition: int) -> RereadRequest:
    return RereadRequest(number, "canary", partition, "read_committed", 0, 10, "confirm")


def test_the_oldest_reread_goes_first_but_a_partition_is_read_by_one_at_a_time() -> None:
    queue = _Queue()
    for number, partition in enumerate((0, 0, 1)):
        queue.put(request(number, partition))
    first, second = queue.take(0), queue.take(0)
    assert first is not None
    assert second is not None
    assert (first.request_id, second.request_id) == (0, 2)
    assert queue.take(0) is None
    queue.done(first, silent=False)
    third = queue.take(0)
    assert third is not None
    assert third.request_id == 1
    assert not queue._waiting


def test_a_partition_that_was_silent_waits_for_the_others() -> None:
    queue = _Queue()
    queue.put(request(0, 0))
    silent = queue.take(0)
    assert silent is not None
    queue.done(silent, silent=True)
    for number, partition in ((1, 0), (2, 1)):
        queue.put(request(number, partition))
    taken = [queue.take(0), queue.take(0)]
    assert [one.request_id for one in taken if one is not None] == [2, 1]
