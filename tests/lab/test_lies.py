"""What a lie makes of a true answer: that, and nothing else; an answer that cannot be read passes as it is."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from kafka.protocol.admin import DescribeConfigsResponse
from kafka.protocol.consumer import FetchResponse, ListOffsetsResponse, OffsetFetchResponse
from kafka.protocol.metadata import FindCoordinatorResponse, MetadataResponse
from kafka.protocol.producer import InitProducerIdResponse

from canary.lab import LabError, Lie
from canary.lab.proxy.lies import LIES, NO_BROKER, OTHER_CLUSTER, OTHER_ID, About, falsified

ID = UUID(int=7)
OURS, THEIRS = "ours", "theirs"
BATCH = b"0123456789"


def metadata() -> MetadataResponse:
    topic = MetadataResponse.MetadataResponseTopic
    place = topic.MetadataResponsePartition
    partitions = [
        place(partition_index=p, leader_id=1, leader_epoch=4, replica_nodes=[1, 2], isr_nodes=[1, 2], error_code=0)
        for p in (0, 1)
    ]
    topics = [topic(error_code=0, name=name, topic_id=ID, partitions=list(partitions)) for name in (OURS, THEIRS)]
    brokers = [MetadataResponse.MetadataResponseBroker(node_id=1, host="h", port=1, rack=None)]
    return MetadataResponse(cluster_id="c", controller_id=1, brokers=brokers, topics=topics)


def listed(offset: int = 10) -> ListOffsetsResponse:
    topic = ListOffsetsResponse.ListOffsetsTopicResponse
    place = topic.ListOffsetsPartitionResponse
    partitions = [place(partition_index=0, error_code=0, timestamp=-1, offset=offset, leader_epoch=4)]
    return ListOffsetsResponse(topics=[topic(name=OURS, partitions=partitions)])


def fetched() -> FetchResponse:
    topic = FetchResponse.FetchableTopicResponse
    place = topic.PartitionData(partition_index=0, error_code=0, high_watermark=10, records=BATCH)
    return FetchResponse(responses=[topic(topic=OURS, topic_id=ID, partitions=[place])])


def committed() -> OffsetFetchResponse:
    topic = OffsetFetchResponse.OffsetFetchResponseTopic
    place = topic.OffsetFetchResponsePartition(partition_index=0, committed_offset=10, metadata="", error_code=0)
    return OffsetFetchResponse(error_code=0, topics=[topic(name=OURS, partitions=[place])])


def settings() -> DescribeConfigsResponse:
    result = DescribeConfigsResponse.DescribeConfigsResult
    one = result.DescribeConfigsResourceResult(name="retention.ms", value="600000", synonyms=[])
    found = result(error_code=0, error_message=None, resource_type=2, resource_name=OURS, configs=[one])
    return DescribeConfigsResponse(results=[found])


def made(answer: Any, version: int) -> bytes:
    answer.API_VERSION = version
    answer.with_header(5)
    return bytes(answer.encode(header=True, framed=True))


def read(answer: Any, version: int, lie: str, about: About) -> Any:
    return type(answer).decode(
        falsified(made(answer, version), version, lie, about), version=version, header=True, framed=True
    )


CASES: dict[str, tuple[Any, int, Any, Any]] = {
    "end too high": (listed, 7, lambda a: a.topics[0].partitions[0].offset, 13),
    "end too low": (listed, 7, lambda a: a.topics[0].partitions[0].offset, 7),
    "start too high": (lambda: listed(0), 7, lambda a: a.topics[0].partitions[0].offset, 3),
    "epoch of an end too old": (listed, 7, lambda a: a.topics[0].partitions[0].leader_epoch, 0),
    "partition missing": (metadata, 12, lambda a: [len(one.partitions) for one in a.topics], [1, 2]),
    "other topic id": (metadata, 12, lambda a: [one.topic_id for one in a.topics], [OTHER_ID, ID]),
    "other cluster id": (metadata, 12, lambda a: a.cluster_id, OTHER_CLUSTER),
    "old leaders": (
        metadata,
        12,
        lambda a: [(p.leader_id, p.leader_epoch) for p in a.topics[0].partitions],
        [(2, 3)] * 2,
    ),
    "no brokers": (metadata, 12, lambda a: len(a.brokers), 0),
    "dead controller": (metadata, 12, lambda a: a.controller_id, NO_BROKER),
    "nothing fetched": (fetched, 13, lambda a: bytes(a.responses[0].partitions[0].records or b""), b""),
    "fetched twice": (fetched, 11, lambda a: bytes(a.responses[0].partitions[0].records), BATCH * 2),
    "fetched half": (fetched, 16, lambda a: bytes(a.responses[0].partitions[0].records), BATCH[:5]),
    "fetched slowly": (fetched, 16, lambda a: a.throttle_time_ms > 0, True),
    "committed offsets too old": (committed, 7, lambda a: a.topics[0].partitions[0].committed_offset, 5),
    "committed offsets refused": (committed, 7, lambda a: a.error_code, 15),
    "no coordinator": (lambda: FindCoordinatorResponse(error_code=0, host="h", port=1), 2, lambda a: a.error_code, 15),
    "old settings": (settings, 4, lambda a: a.results[0].configs[0].value, "1"),
    "producer id again": (
        lambda: InitProducerIdResponse(error_code=0, producer_id=9, producer_epoch=2),
        4,
        lambda a: (a.producer_id, a.producer_epoch),
        (8, 1),
    ),
}


def test_every_lie_is_tried() -> None:
    assert CASES.keys() == LIES.keys()


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_changes_what_it_says(lie: str) -> None:
    answer, version, what, expected = CASES[lie]
    about = About(OURS, ID.bytes, before=[8, 1])
    if LIES[lie].api == "Metadata":
        about.id = b""  # both topics have it here
    assert what(read(answer(), version, lie, about)) == expected
    assert what(answer()) != expected


def test_an_answer_that_cannot_be_read_passes_as_it_is() -> None:
    frame = made(listed(), 7)
    for strange in (frame[:20], frame[:-1], b"\0\0\0\4\0\0\0\5"):
        assert falsified(strange, 7, "end too high", About(OURS)) == strange
    assert falsified(frame, 99, "end too high", About(OURS)) == frame


def test_a_lie_that_there_is_not_is_named() -> None:
    with pytest.raises(LabError, match="'truth' is no lie that the lab knows; it knows end too high, "):
        Lie("client", "any", OURS, "truth")
