"""What a cluster answers about the replicas of its partitions: canary.wire's answers as what is compared."""

import hashlib
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from canary.anomalies.replicas.copies import Kept, UndecodableError
from canary.wire import fetch, records
from canary.wire.errors import RecordsError, WireError
from canary.wire.replicas import PartitionReplicas, cluster_at, described, names
from canary.wire.topics import log_start, setting

_DIGEST_BYTES: Final = 8
_PRODUCED: Final = struct.Struct(">qqhiib")
"""Of each record: timestamp, producer id, epoch and sequence, leader epoch, and flags."""
_LENGTH: Final = struct.Struct(">i")
_SEQUENCES: Final = 2**31


@dataclass(frozen=True, slots=True)
class Held:
    """A batch as a broker holds it (canary.anomalies.replicas.copies.Batch)."""

    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    size: int
    intact: bool
    batch: records.Batch

    def kept(self) -> Iterator[Kept]:
        """Return its records, as digests.

        Raises:
            UndecodableError: they cannot be decoded.
        """
        try:
            marker = self.batch.marker() or "other" if self.batch.control else None
            for one in self.batch.records():
                yield self._kept(one, marker)
        except RecordsError as error:
            raise UndecodableError(str(error)) from error

    def _kept(self, one: records.Record, marker: Any) -> Kept:
        batch = self.batch
        sequence = batch.base_sequence
        if sequence >= 0:
            sequence = (sequence + one.offset - batch.base_offset) % _SEQUENCES
        flags = batch.transactional | batch.control << 1 | (batch.timestamp_type == "append") << 2
        made = (one.timestamp_ms, batch.producer_id, batch.producer_epoch, sequence, batch.leader_epoch, flags)
        digest = hashlib.blake2b(_PRODUCED.pack(*made), digest_size=_DIGEST_BYTES)
        for part in (one.key, one.value, *(part for header in one.headers for part in header)):
            digest.update(_LENGTH.pack(-1 if part is None else len(part)))
            digest.update(part or b"")
        return Kept(
            offset=one.offset,
            digest=digest.hexdigest(),
            key=None if one.key is None else hashlib.blake2b(one.key, digest_size=_DIGEST_BYTES).digest(),
            tombstone=one.key is not None and one.value is None,
            marker=marker,
            producer=batch.producer_id if batch.transactional or batch.control else None,
        )


@dataclass(frozen=True, slots=True)
class Read:
    """What a replica gave from an offset on; ``unreadable``: where its bytes are no batches, or it says so itself."""

    batches: tuple[Held, ...]
    high_watermark: int
    size: int
    unreadable: int | None = None

    @property
    def reach(self) -> int:
        """The first offset of which nothing was given; with no batch at all there is nothing up to the end."""
        return self.batches[-1].last_offset + 1 if self.batches else self.high_watermark


class Source:
    """Asks by a client that is open (``canary.wire.client.opened``). All calls raise WireError."""

    def __init__(self, admin: Any) -> None:
        self._admin = admin

    def names(self) -> list[str]:
        """Return the names of all topics that we may Describe."""
        return names(self._admin)

    def partitions(self, *topics: str) -> list[PartitionReplicas]:
        """Return the partitions of topics; none of a topic that does not exist, or that we may not Describe."""
        answers = described(self._admin, topics).values()
        return [one for found in answers if not isinstance(found, WireError) for one in found]

    def cluster_at(self, broker: int) -> str | None:
        """Return the id of the cluster of what answers as this broker."""
        return cluster_at(self._admin, broker)

    def compacted(self, topic: str) -> bool | None:
        """Return whether brokers compact a topic; None: we may not know."""
        policy = setting(self._admin, topic, "cleanup.policy")
        return None if policy is None else "compact" in policy

    def tiered(self, topic: str) -> bool | None:
        """Return whether a topic has a remote tier; None: we may not know, or the cluster knows none."""
        enabled = setting(self._admin, topic, "remote.storage.enable")
        return None if enabled is None else enabled == "true"

    def kept_ms(self, topic: str) -> int | None:
        """Return retention.ms, -1: for ever; None: it is not all that may remove records, or we may not know."""
        told = [setting(self._admin, topic, name) for name in ("retention.ms", "retention.bytes", "cleanup.policy")]
        if told[0] is None or told[1:] != ["-1", "delete"] or self.tiered(topic):
            return None
        return int(told[0])

    def starts(self, place: PartitionReplicas, broker: int) -> tuple[int, int]:
        """Return the first offset of a replica, and the first one that the broker has itself, not only a tier."""
        local = None
        try:
            local = log_start(self._admin, place.topic, place.partition, broker, local=True)
        except WireError as error:
            if error.code not in {"", "UNSUPPORTED_VERSION"}:
                raise  # else it is a broker that knows no tiers
        first = log_start(self._admin, place.topic, place.partition, broker, local=False)  # it may rise meanwhile
        return first, first if local is None else max(first, local)

    def read(self, state: PartitionReplicas, broker: int, offset: int, max_bytes: int) -> Read:
        """Read a replica from an offset on, if the broker knows of the same leader as ``state`` does."""
        try:
            found = fetch.fetch(
                self._admin,
                state.topic,
                state.partition,
                broker,
                offset,
                leader_epoch=state.leader_epoch,
                max_bytes=max_bytes,
            )
        except WireError as error:
            if error.code != "CORRUPT_MESSAGE":
                raise
            return Read((), offset, 0, unreadable=offset)
        batches: list[Held] = []
        unreadable = None
        try:
            batches.extend(map(_held, records.batches(found.batches)))
        except RecordsError:
            unreadable = batches[-1].last_offset + 1 if batches else offset
        return Read(tuple(batches), found.high_watermark, len(found.batches), unreadable)


def _held(one: records.Batch) -> Held:
    return Held(one.base_offset, one.last_offset, one.leader_epoch, one.crc, one.size, one.crc_is_right, one)
