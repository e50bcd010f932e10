"""Recognises a dumped record in the log again, by its leader epoch and by checksums of its bytes.

A log that was truncated and filled again has, at an offset that it had before, a record of a later leader epoch with
other bytes. The log is read by a new client, which shares no session with the dump.
"""

import hashlib
import time
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from canary.kafka.opening import opened
from canary.kafka.quiet import calm, quiet_logger
from canary.probing.readers.tail import OUT_OF_RANGE
from canary.settings.clients import ASSIGNED

SILENCE_S: Final = 10.0
"""Reading ends after so long without an answer."""
_POLL_S: Final = 0.5
_NAME: Final = "dump-ends"
_DEFAULTS: Final[dict[str, object]] = {"group.id": "durability-canary"}  # demanded; nothing joins it or commits
_FORCED: Final[dict[str, object]] = {
    **ASSIGNED,
    "fetch.wait.max.ms": 100,
    "fetch.message.max.bytes": 65_536,  # one record of each place is enough
    "queued.min.messages": 1,
}
Place: TypeAlias = tuple[str, int]
"""Topic, partition."""


class End(NamedTuple):
    """A record: ``content`` is the `checksum` of timestamp (ms since the epoch) and value, ``rest`` of key and headers.

    ``leader_epoch``: None if the cluster does not know leader epochs.
    """

    offset: int
    leader_epoch: int | None
    content: str
    rest: str


def read(
    config: Mapping[str, Any], isolation: str, wanted: Mapping[Place, Iterable[int]], silence_s: float = SILENCE_S
) -> dict[tuple[Place, int], End | None]:
    """Return, by place and wanted offset, the first record that the log has at it or after it; None: no record follows.

    There is no entry if the broker did not answer for ``silence_s``, or the offset is outside the log.
    """
    waiting = {place: deque(sorted(set(offsets))) for place, offsets in wanted.items()}
    waiting = {place: offsets for place, offsets in waiting.items() if offsets}
    found: dict[tuple[Place, int], End | None] = {}
    if not waiting:
        return found
    properties = calm({**_DEFAULTS, **config}, _NAME, forced=_FORCED | {"isolation.level": isolation})
    try:
        client = opened(lambda: Consumer(properties, logger=quiet_logger(_NAME)))
    except KafkaException:  # the credentials are refused: no broker answers
        return found
    try:
        client.assign([TopicPartition(*place, offsets[0]) for place, offsets in waiting.items()])
        answered = time.monotonic()
        while waiting and time.monotonic() - answered < silence_s:
            message = client.poll(_POLL_S)
            place = (message.topic(), message.partition()) if message is not None else None
            if message is None or place not in waiting or not _take(message, place, waiting[place], found):
                continue
            answered = time.monotonic()
            if waiting[place]:
                client.seek(TopicPartition(*place, waiting[place][0]))
            else:
                del waiting[place]
                client.pause([TopicPartition(*place)])
    finally:
        client.close()
    return found


def _take(message: Any, place: Place, offsets: deque[int], found: dict[tuple[Place, int], End | None]) -> bool:
    """Remove the offsets that a message answers; return whether there were any."""
    error = message.error()
    if error is not None and error.code() in OUT_OF_RANGE:
        offsets.clear()
        return True
    if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001  # public in librdkafka
        return False  # temporary; if it lasts, the silence ends the reading
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
        checksum(message.timestamp()[1], message.value()),
        checksum(message.key(), *headers),
    )


def checksum(*parts: int | bytes | None) -> str:
    """Return the checksum of parts of a record."""
    return hashlib.blake2b(repr(parts).encode(), digest_size=8).hexdigest()
