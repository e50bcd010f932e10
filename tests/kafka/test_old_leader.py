"""A client that knew the leader of before an election, on real brokers: each way to ask for offsets is answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from canary.kafka.responses import answer
from canary.watching import offsets
from spark_reconcile.dump.kafka_bounds import Cluster
from spark_reconcile.tables.columns import ISOLATIONS
from tests.support.waiting import in_time, until

if TYPE_CHECKING:
    from canary.lab import Lab

pytestmark = [pytest.mark.kafka, pytest.mark.quick]

TOPIC = "old-leader"
PLACE = TopicPartition(TOPIC, 0)


def patient(admin: AdminClient) -> int:
    found: Any = answer(
        admin, lambda most_s: admin.list_offsets({PLACE: OffsetSpec.latest()}, request_timeout=most_s)[PLACE]
    )
    return int(found.offset)


def test_after_an_election_offsets_are_told_to_a_client_that_knew_the_former_epoch(lab: Lab) -> None:
    config = {"bootstrap.servers": lab.bootstrap, "log_level": 0}
    watching, asking = AdminClient(config), AdminClient(config)
    asking.create_topics([NewTopic(TOPIC, replica_assignment=[[3]], num_partitions=1)])[TOPIC].result(60)
    night = Cluster("c", config)
    (topic,) = night.topics([TOPIC])

    def end_of_night() -> list[int]:
        return [span.end for span in night.spans([topic], list(ISOLATIONS[:1]))]

    def end_watched() -> list[int]:
        return [log.end for log in offsets.logs(watching, [(TOPIC, 0)], 30)[0].values()]

    until(lambda: end_watched() == [0], 60, "the new topic has a leader")
    assert (end_of_night(), patient(asking)) == ([0], 0)
    lab.restart(3)
    writer = Producer(config)
    writer.produce(TOPIC, b"order", partition=0)
    in_time(writer.flush(60) == 0, "an acknowledgement")

    assert end_of_night() == [1]
    assert patient(asking) == 1
    until(lambda: end_watched() == [1], 30, "not known at one look, and known at the next")
