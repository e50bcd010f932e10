"""Answers of brokers that are not true, made of true ones: one entry of ``LIES`` for each.

An end or a start is too high in logs that begin at 0, as answers do not say which of the two was asked for.

An answer is taken apart and put together again by kafka-python's classes. What the brokers have is as it should be, and
who asks when the lie is over is given that.
"""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final
from uuid import UUID

OTHER_ID: Final = UUID(int=0xDEAD << 64 | 1)
"""Of a topic that there is not."""
OTHER_CLUSTER: Final = "another-cluster-altogether"
NO_BROKER: Final = 99
_BY: Final = 3
_SLOW_MS: Final = 2000
_COORDINATOR_NOT_AVAILABLE: Final = 15


@dataclass(slots=True)
class About:
    """Of which topic a lie is told: its name, and its ``id`` (16 bytes) where that is known; what was said before."""

    topic: str
    id: bytes = b""
    before: list[Any] = field(default_factory=list)

    def among(self, topics: Any) -> Iterator[Any]:
        """Yield the topic's entries in an answer."""
        for one in topics or ():
            told = getattr(one, "topic_id", None)
            named = self.topic in {getattr(one, "name", None), getattr(one, "topic", None)}
            if named or (told is not None and told.bytes == self.id):
                yield one


@dataclass(frozen=True, slots=True)
class Falsehood:
    """A lie about answers to ``api``; ``change`` makes it of the true answer, in place."""

    api: str
    change: Callable[[Any, About], None]


_CLASSES: Final = {
    "Fetch": ("kafka.protocol.consumer", "FetchResponse"),
    "ListOffsets": ("kafka.protocol.consumer", "ListOffsetsResponse"),
    "OffsetFetch": ("kafka.protocol.consumer", "OffsetFetchResponse"),
    "Metadata": ("kafka.protocol.metadata", "MetadataResponse"),
    "FindCoordinator": ("kafka.protocol.metadata", "FindCoordinatorResponse"),
    "DescribeConfigs": ("kafka.protocol.admin", "DescribeConfigsResponse"),
    "InitProducerId": ("kafka.protocol.producer", "InitProducerIdResponse"),
}


def falsified(frame: bytes, version: int, lie: str, about: About) -> bytes:
    """Return what is answered in place of an answer, with its length; the answer itself if it cannot be read."""
    said = LIES[lie]
    module, name = _CLASSES[said.api]
    response = getattr(import_module(module), name)  # only where a lab lies: these classes are 23 MB
    try:
        answer = response.decode(frame, version=version, header=True, framed=True)
        said.change(answer, about)
        return bytes(answer.encode(header=True, framed=True))
    except (struct.error, ValueError, IndexError):  # not as this version should be, or one that is not known
        return frame


def _partitions(topics: str, change: Callable[[Any], None]) -> Callable[[Any, About], None]:
    """Return what changes each partition of the topic in the field ``topics`` of an answer."""

    def changed(answer: Any, about: About) -> None:
        for topic in about.among(getattr(answer, topics)):
            for partition in topic.partitions:
                change(partition)

    return changed


def _end_too_high(partition: Any) -> None:
    partition.offset += _BY if partition.offset > 0 else 0


def _end_too_low(partition: Any) -> None:
    partition.offset -= min(_BY, max(partition.offset, 0))


def _start_too_high(partition: Any) -> None:
    partition.offset = partition.offset or _BY


def _stale_epoch(partition: Any) -> None:
    partition.leader_epoch = min(partition.leader_epoch, 0)


def _old_leader(partition: Any) -> None:
    followers = [one for one in partition.replica_nodes if one != partition.leader_id]
    partition.leader_id = next(iter(followers), partition.leader_id)
    partition.leader_epoch = max(partition.leader_epoch - 1, 0)


def _nothing(partition: Any) -> None:
    partition.records = b""


def _twice(partition: Any) -> None:
    partition.records = bytes(partition.records or b"") * 2


def _half(partition: Any) -> None:
    records = bytes(partition.records or b"")
    partition.records = records[: len(records) // 2]


def _old_offset(partition: Any) -> None:
    partition.committed_offset = max(partition.committed_offset // 2, min(partition.committed_offset, 0))


def _offsets(answer: Any, about: About) -> None:
    for group in getattr(answer, "groups", None) or [answer]:
        _partitions("topics", _old_offset)(group, about)


def _refused(answer: Any, _about: About) -> None:
    for one in [*(getattr(answer, "groups", None) or getattr(answer, "coordinators", None) or ()), answer]:
        one.error_code = _COORDINATOR_NOT_AVAILABLE


def _partition_missing(answer: Any, about: About) -> None:
    for topic in about.among(answer.topics):
        last = max((one.partition_index for one in topic.partitions), default=0)
        topic.partitions = [one for one in topic.partitions if one.partition_index < last]


def _other_id(answer: Any, about: About) -> None:
    for topic in about.among(answer.topics):
        topic.topic_id = OTHER_ID


def _other_cluster(answer: Any, _about: About) -> None:
    answer.cluster_id = OTHER_CLUSTER


def _dead_controller(answer: Any, _about: About) -> None:
    answer.controller_id = NO_BROKER


def _no_brokers(answer: Any, _about: About) -> None:
    answer.brokers = []


def _throttled(answer: Any, _about: About) -> None:
    answer.throttle_time_ms = _SLOW_MS


def _old_settings(answer: Any, about: About) -> None:
    for result in answer.results:
        for one in result.configs if result.resource_name == about.topic else ():
            if one.name == "retention.ms":
                one.value = "1"


def _producer_again(answer: Any, about: About) -> None:
    if answer.error_code:
        return
    about.before = about.before or [answer.producer_id, answer.producer_epoch]
    answer.producer_id, answer.producer_epoch = about.before


LIES: Final[dict[str, Falsehood]] = {
    "end too high": Falsehood("ListOffsets", _partitions("topics", _end_too_high)),
    "end too low": Falsehood("ListOffsets", _partitions("topics", _end_too_low)),
    "start too high": Falsehood("ListOffsets", _partitions("topics", _start_too_high)),
    "epoch of an end too old": Falsehood("ListOffsets", _partitions("topics", _stale_epoch)),
    "partition missing": Falsehood("Metadata", _partition_missing),
    "other topic id": Falsehood("Metadata", _other_id),
    "other cluster id": Falsehood("Metadata", _other_cluster),
    "old leaders": Falsehood("Metadata", _partitions("topics", _old_leader)),
    "dead controller": Falsehood("Metadata", _dead_controller),
    "no brokers": Falsehood("Metadata", _no_brokers),
    "nothing fetched": Falsehood("Fetch", _partitions("responses", _nothing)),
    "fetched twice": Falsehood("Fetch", _partitions("responses", _twice)),
    "fetched half": Falsehood("Fetch", _partitions("responses", _half)),
    "fetched slowly": Falsehood("Fetch", _throttled),
    "committed offsets too old": Falsehood("OffsetFetch", _offsets),
    "committed offsets refused": Falsehood("OffsetFetch", _refused),
    "no coordinator": Falsehood("FindCoordinator", _refused),
    "old settings": Falsehood("DescribeConfigs", _old_settings),
    "producer id again": Falsehood("InitProducerId", _producer_again),
}
"""By name."""
