"""A Fetch of one partition from one named broker, leader or follower (KIP-392), as bytes."""

from dataclasses import dataclass, field
from typing import Any, Final

from kafka.protocol.consumer.fetch import FetchRequest

from canary.wire.client import asked, failed
from canary.wire.errors import WireError
from canary.wire.records import whole

_OF_BATCHES: Final = 4
"""The first version with record batches: Kafka 0.11. From version 11 on (2.4) followers answer, too."""
_BY_NAME: Final = 12
"""The last version that names topics; later ones have their ids."""
_ATTEMPTS: Final = 8
"""Of one that a quota throttles."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a replica holds from an offset on.

    Attributes:
        high_watermark: up to where this replica gives records: its own, which of a follower is behind the leader's.
        last_stable_offset: the first offset of a transaction that is open there, or the high watermark.
        log_start_offset: the first offset of the log; -1: the broker does not tell.
        batches: whole record batches, the first of which may begin before the offset; b"" at the high watermark.
    """

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    batches: bytes = field(repr=False)


def fetch(
    admin: Any,
    topic: str,
    partition: int,
    broker: int,
    offset: int,
    *,
    leader_epoch: int = -1,
    max_bytes: int = 1 << 20,
    wait_ms: int = 500,
) -> Fetched:
    """Fetch from ``offset`` on, uncommitted transactions too. Needs the right to Read the topic.

    The broker may be the leader or, of Kafka 2.4 and later, any follower: it answers for its own log. At least one
    batch is returned, however large, if there is one below the broker's high watermark.

    Args:
        admin: a client (``canary.wire.client.opened``).
        topic: its name.
        partition: its number.
        broker: the id of the one to ask.
        offset: of the first record.
        leader_epoch: in which the broker has to be (KIP-320: FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH); -1: in any.
        max_bytes: how much at most, if the first batch is not larger.
        wait_ms: how long the broker waits for records where there are none, and for those of a tier.

    Raises:
        WireError: no answer. ``code`` says why: ``NOT_LEADER_OR_FOLLOWER``: it has no replica, or is older than Kafka
            2.4 and does not lead; ``OFFSET_OUT_OF_RANGE``: the offset is before its log, or behind its end;
            ``OFFSET_NOT_AVAILABLE``: it was elected just now, and does not know its high watermark;
            ``UNKNOWN_TOPIC_OR_PARTITION``: there is none, or we may not Describe it; ``TOPIC_AUTHORIZATION_FAILED``.
    """
    for attempt in range(_ATTEMPTS):
        most = max(max_bytes >> attempt, 1)
        answer = asked(admin, _request((topic, partition), offset, leader_epoch, most, wait_ms), broker)
        if answer.responses or not answer.throttle_time_ms:
            break  # else a quota of ours is used up: the next request waits for it, and asks for less
    return _fetched(answer, f"{topic}:{partition}", broker, offset)


def _request(place: tuple[str, int], offset: int, leader_epoch: int, max_bytes: int, wait_ms: int) -> Any:
    topic, partition = place
    topics = FetchRequest.FetchTopic
    wanted = topics.FetchPartition(
        partition=partition, current_leader_epoch=leader_epoch, fetch_offset=offset, partition_max_bytes=max_bytes
    )
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        topics=[topics(topic=topic, partitions=[wanted])],
        min_version=_OF_BATCHES,
        max_version=_BY_NAME,
    )


def _fetched(answer: Any, place: str, broker: int, offset: int) -> Fetched:
    if answer.error_code:
        raise failed(answer.error_code, f"broker {broker}")
    ((found,),) = [one.partitions for one in answer.responses] or ((None,),)
    if found is None:
        raise WireError(f"broker {broker} says nothing of {place}")
    if found.error_code:
        raise failed(found.error_code, f"{place} of broker {broker} from offset {offset} on")
    if found.preferred_read_replica >= 0:  # a selector of the cluster's own: ours has no rack
        raise WireError(f"broker {broker} sends readers of {place} to {found.preferred_read_replica}")
    return Fetched(
        high_watermark=found.high_watermark,
        last_stable_offset=found.last_stable_offset,
        log_start_offset=found.log_start_offset,
        batches=whole(bytes(found.records or b"")),
    )
