"""How a dumped record is recognised in the log again: by its leader epoch and by checksums of its bytes.

A log that was cut and filled again holds, at an offset that it had before, a record of a later leader epoch with other
bytes. What is asked here is asked by a fresh client, which shares no session with whatever read the records first.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from canary.client.opening import opened
from canary.client.quiet import calm, quiet_logger
from canary.probing.tail import OUT_OF_RANGE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SILENCE_S: Final = 10.0
"""After so long without any answer nothing more is expected."""
_POLL_S: Final = 0.5
_NAME: Final = "dump-ends"
_DEFAULTS: Final[dict[str, object]] = {"group.id": "durability-canary"}  # demanded; nothing joins it or commits
_FORCED: Final[dict[str, object]] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "check.crcs": True,
    "fetch.wait.max.ms": 100,
    "fetch.message.max.bytes": 65_536,  # one record is wanted of each place, not what follows it
    "queued.min.messages": 1,
}
Place: TypeAlias = tuple[str, int]
"""Topic, partition."""


class End(NamedTuple):
    """A record: ``content`` is the checksum of timestamp and value, ``rest`` that of key and headers.

    ``leader_epoch``: None where the cluster tells none.
    """

    offset: int
    leader_epoch: int | None
    content: str
    rest: str


def content(timestamp_ms: int, value: bytes | None) -> str:
    """Return the checksum of a record's timestamp (ms since the epoch) and value."""
    return _checksum(timestamp_ms, value)


def read(
    config: Mapping[str, Any], isolation: str, wanted: Mapping[Place, Iterable[int]], silence_s: float = SILENCE_S
) -> dict[tuple[Place, int], End | None]:
    """Return, for each offset asked for, the first record that the log has at it or after it.

    Args:
        config: librdkafka properties.
        isolation: the level to read at.
        wanted: offsets, by topic and partition.
        silence_s: how long to wait for the next answer.

    Returns:
        Records by place and the offset asked for, None where nothing follows; no entry where nobody answered, or where
        the offset is outside the log.
    """
    waiting = {place: deque(sorted(set(offsets))) for place, offsets in wanted.items()}
    waiting = {place: offsets for place, offsets in waiting.items() if offsets}
    found: dict[tuple[Place, int], End | None] = {}
    if not waiting:
        return found
    properties = calm({**_DEFAULTS, **config}, _NAME, forced=_FORCED | {"isolation.level": isolation})
    try:
        client = opened(lambda: Consumer(properties, logger=quiet_logger(_NAME)))
    except KafkaException:  # the credentials are refused: nobody answers
        return found
    try:
        client.assign([TopicPartition(*place, offsets[0]) for place, offsets in waiting.items()])
        heard = time.monotonic()
        while waiting and time.monotonic() - heard < silence_s:
            message = client.poll(_POLL_S)
            place = (message.topic(), message.partition()) if message is not None else None
            if message is None or place not in waiting or not _take(message, place, waiting[place], found):
                continue
            heard = time.monotonic()
            if waiting[place]:
                client.seek(TopicPartition(*place, waiting[place][0]))
            else:
                del waiting[place]
                client.pause([TopicPartition(*place)])
    finally:
        client.close()
    return found


def _take(message: Any, place: Place, offsets: deque[int], found: dict[tuple[Place, int], End | None]) -> bool:
    """Strike off the offsets that a message answers; return whether there were any."""
    error = message.error()
    if error is not None and error.code() in OUT_OF_RANGE:
        offsets.clear()
        return True
    if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001  # public in librdkafka
        return False  # passing; if it stays, silence ends it
    end = _end(message) if error is None else None
    before = len(offsets)
    while offsets and (end is None or offsets[0] <= end.offset):
        found[place, offsets.popleft()] = end
    return len(offsets) < before


def _end(message: Any) -> End:
    headers = [part for name, value in message.headers() or () for part in (name.encode(), value)]
    return End(
        message.offset(),
        message.leader_epoch(),
        content(message.timestamp()[1], message.value()),
        _checksum(message.key(), *headers),
    )


def _checksum(*parts: int | bytes | None) -> str:
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()
