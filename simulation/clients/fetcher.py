"""What a consumer fetches, and when.

While it waits it asks nothing: the cluster says when a partition has changed, and then it is fetched. A fetch that
brings nothing ends after ``fetch.wait.max.ms`` and tells the end of the partition; that is done here for each
partition ``fetch.wait.max.ms`` after its last change. What fails is tried again after a pause.
"""

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Literal

from confluent_kafka import KafkaError

from simulation.clients.link import ASK_AGAIN_S, Link
from simulation.clients.membership import Membership
from simulation.clients.values import Message
from simulation.kafka.contract import Fetched, Isolation, PartitionMeta

BEGINNING, END, INVALID = -2, -1, -1001
"""Logical offsets."""
_WIRE_S = 0.002
"""How long a change takes to be noticed: changes of several partitions within that time are one wake-up."""
_MOST = 1000

_PASSING = frozenset(
    {
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.FENCED_LEADER_EPOCH,
    }
)
"""Errors of a fetch that the client does not tell: it asks for metadata and fetches again."""


class Assignment:
    """One assigned partition. ``position`` is what is fetched next, None when it is not in the log."""

    __slots__ = (
        "asked_at",
        "dirty",
        "due",
        "end_told",
        "epoch",
        "held_until",
        "partition",
        "place",
        "position",
        "topic",
        "unwatch",
        "validate",
    )

    def __init__(self, topic: str, partition: int, position: int) -> None:
        self.topic = topic
        self.partition = partition
        self.place = (topic, partition)
        self.position: int | None = position
        self.epoch = -1
        """Leader epoch of what was read last."""
        self.end_told = INVALID
        """The position at which the end of the partition was told last."""
        self.validate = False
        self.dirty = True
        """Whether it has changed since the last fetch."""
        self.due: float | None = None
        """When to fetch though nothing has changed."""
        self.held_until = 0.0
        """Before that, it is not fetched again: the last fetch failed."""
        self.asked_at: float | None = None
        """Since when fetches bring nothing."""
        self.unwatch: Callable[[], None] = lambda: None

    def in_log(self) -> int:
        """Return the position.

        Raises:
            RuntimeError: it is not in the log.
        """
        if self.position is None:
            raise RuntimeError(f"the position in {self.place} is not in the log")
        return self.position


class Fetcher:
    """Fetches the partitions in ``assigned``, and puts messages into ``queue``."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.assigned: dict[tuple[str, int], Assignment] = {}
        self.queue: deque[Message] = deque()
        self.isolation: Isolation = (
            "read_committed" if link.config["isolation.level"] == "read_committed" else "read_uncommitted"
        )
        self.membership: Membership | None = None
        """In the group that has committed offsets."""
        self._tells_ends = link.flag("enable.partition.eof")
        self._reset = str(link.config["auto.offset.reset"])
        self._fetch_wait_s = link.seconds("fetch.wait.max.ms")
        self._backoff_s = link.seconds("fetch.error.backoff.ms")
        self._waking = False
        link.on_leader = self._leader_changed
        link.on_missing = self._missing
        link.on_moved = self._moved

    def add(self, place: tuple[str, int], position: int) -> None:
        """Fetch a partition from now on."""
        self.assigned[place] = one = Assignment(*place, position)
        one.unwatch = self.link.cluster.watch(*place, partial(self._changed, one))

    def drop(self, places: Iterable[tuple[str, int]]) -> None:
        """Fetch partitions no more, and forget what was fetched of them."""
        gone = set(places)
        for place in gone:
            self.assigned.pop(place).unwatch()
        if self.queue:
            self.queue = deque(one for one in self.queue if (one.topic(), one.partition()) not in gone)

    def _changed(self, one: Assignment) -> None:
        """The partition has changed: have it fetched soon."""
        one.dirty = True
        link = self.link
        if link.process.dead or link.closed:
            one.unwatch()
        elif not self._waking and link.is_awaited():
            self._waking = True
            link.after(_WIRE_S, self._wake)

    def _moved(self) -> None:
        """The client is in another cluster: what changes there counts."""
        for one in self.assigned.values():
            one.unwatch()
            one.unwatch = self.link.cluster.watch(*one.place, partial(self._changed, one))
            one.dirty = True

    def _wake(self) -> None:
        self._waking = False
        self.link.stir()

    def _leader_changed(self, topic: str, partition: int) -> None:
        """Metadata tell a new leader epoch: whether the log still holds the position has to be asked (KIP-320)."""
        one = self.assigned.get((topic, partition))
        if one is not None and one.epoch >= 0:
            one.validate = True

    def _missing(self, topic: str, partition: int) -> None:
        """The topic, or this partition of it, does not exist any more."""
        one = self.assigned.get((topic, partition))
        if one is not None:
            code = KafkaError._UNKNOWN_PARTITION if topic in self.link.topics else KafkaError.UNKNOWN_TOPIC_OR_PART
            why = f"{topic} [{partition}]: desired partition is no longer available ({KafkaError(code).str()})"
            self._tell(one, code, why, INVALID)
            self.link.stir()

    def next_due(self) -> float | None:
        """Return when to fetch next without a change."""
        soonest = None
        for one in self.assigned.values():
            due = one.held_until if one.dirty else one.due
            if due is not None and (soonest is None or due < soonest):
                soonest = due
        return soonest

    def fetch(self) -> None:
        """Fetch what has changed, or is due."""
        now = self.link.schedule.now
        for one in self.assigned.values():
            if (one.dirty or (one.due is not None and one.due <= now)) and one.held_until <= now:
                self._fetch_one(one)

    def _fetch_one(self, one: Assignment) -> None:
        one.dirty, one.due = False, None
        if one.position is None:
            return
        link = self.link
        known = self._leader(one)
        if known is None:
            self._again(one, self._backoff_s)
            return
        if one.position < 0 and not self._find_position(one, known):
            return
        found = link.cluster.fetch(
            link.site,
            known.leader,
            one.topic,
            one.partition,
            one.position,
            isolation=self.isolation,
            current_epoch=known.epoch,
            last_epoch=one.epoch if one.validate else -1,
            most=_MOST,
        )
        if found.error:
            self._failed(one, found.error, known.leader)
        elif one.validate and found.diverging is not None and found.diverging[1] < one.position:
            self._truncated(one, found.diverging, known.leader)
        elif found.diverging is not None:
            one.validate, one.dirty = False, True  # an older epoch, which holds the position
        else:
            one.validate = False
            self._deliver(one, found, known)

    def _leader(self, one: Assignment) -> PartitionMeta | None:
        """Return a partition's leader if it answers; else ask for metadata, which may name another one."""
        link = self.link
        known = link.place(*one.place)
        if known is not None and link.reaches(known.leader):
            return known
        link.refresh(ASK_AGAIN_S)
        known = link.place(*one.place)
        return known if known is not None and link.reaches(known.leader) else None

    def _again(self, one: Assignment, pause_s: float) -> None:
        """Fetch again after a pause, whatever changes meanwhile."""
        one.due = one.held_until = self.link.schedule.now + pause_s

    def _deliver(self, one: Assignment, found: Fetched, known: PartitionMeta) -> None:
        now, position = self.link.schedule.now, one.in_log()
        append, topic, partition, last = self.queue.append, one.topic, one.partition, position - 1
        for record in found.records:
            last, one.epoch = record.offset, record.epoch
            append(Message(topic, partition, last, record.key, record.value, record.timestamp_ms, record.epoch))
        if found.next_offset > last + 1:
            one.epoch = known.epoch  # beyond the records are markers, or hidden records, of this epoch at most
        if found.next_offset > position:
            one.position = position = found.next_offset
            one.asked_at = now
            one.dirty = position < found.end
        elif one.asked_at is None:
            one.asked_at = now
        if position == found.end and position != one.end_told and self._tells_ends:
            if now < one.asked_at + self._fetch_wait_s:
                one.due = one.asked_at + self._fetch_wait_s
            else:
                one.end_told = position
                text = f"reached end of partition at offset {position} (HighwaterMark {found.end})"
                self._tell(one, KafkaError._PARTITION_EOF, f"Fetch from broker {known.leader} {text}", position)

    def _tell(self, one: Assignment, code: int, text: str, offset: int) -> None:
        self.queue.append(Message(one.topic, one.partition, offset, error=KafkaError(code, text)))

    def _failed(self, one: Assignment, code: int, leader: int) -> None:
        position = one.in_log()
        if code in _PASSING:
            self.link.refresh(ASK_AGAIN_S)
            self._again(one, self._backoff_s)
        elif code == KafkaError.OFFSET_OUT_OF_RANGE:
            self._out_of_log(
                one, position, code, leader, "fetch failed due to requested offset not available on the broker"
            )
        else:
            at = f"offset {position} (leader epoch {one.epoch})"
            self._tell(one, code, f"Fetch from broker {leader} failed at {at}: {KafkaError(code).str()}", position)
            self._again(one, self._backoff_s)

    def _truncated(self, one: Assignment, diverging: tuple[int, int], leader: int) -> None:
        """The log of the epoch that was read last ends below the position."""
        epoch, end = diverging
        at = f"offset {one.position} (leader epoch {one.epoch})"
        ends = f"broker end offset is {end} (offset leader epoch {epoch})."
        one.validate = False
        if end < 0 or epoch < 0:
            why = f"No epoch found less or equal to {at}: {ends} Reset using configured policy."
            self._out_of_log(one, one.position or 0, KafkaError._LOG_TRUNCATION, leader, why)
        elif self._reset == "error":
            why = f"Partition log truncation detected at {at}: {ends} Reset to INVALID."
            self._out_of_log(one, INVALID, KafkaError._LOG_TRUNCATION, leader, why)
        else:
            one.position, one.dirty = end, True

    def _out_of_log(self, one: Assignment, position: int, code: int, leader: int, why: str) -> None:
        """Do what ``auto.offset.reset`` says about a position that is not in the log."""
        if self._reset == "error":
            one.position = None
            text = f"{why}: {KafkaError(code).str()} (broker {leader})"
            self._tell(one, KafkaError._AUTO_OFFSET_RESET, text, position)
        else:
            one.position = BEGINNING if self._reset in {"earliest", "beginning", "smallest"} else END
            one.epoch = -1
            self._again(one, 0.1)

    def _find_position(self, one: Assignment, known: PartitionMeta) -> bool:
        """Turn a logical offset into one of the log. Returns whether it did."""
        if one.position == INVALID and self.membership is not None:
            stored = self.membership.committed([one.place])
            if stored is None:
                self._again(one, self._backoff_s)
                return False
            if stored[one.place] >= 0:
                one.position = stored[one.place]
                return True
        if one.position == INVALID:
            one.position = {"error": None, "latest": END, "largest": END, "end": END}.get(self._reset, BEGINNING)
            if one.position is None:
                text = f"no previously committed offset available: {KafkaError(KafkaError._NO_OFFSET).str()}"
                self._tell(one, KafkaError._AUTO_OFFSET_RESET, text, INVALID)
                return False
        link = self.link
        which: Literal["earliest", "latest"] = "earliest" if one.position == BEGINNING else "latest"
        found = link.cluster.list_offset(link.site, known.leader, *one.place, which, self.isolation)
        if found.error:
            link.refresh(ASK_AGAIN_S)
            self._again(one, self._backoff_s)
            return False
        one.position = found.offset
        return True
