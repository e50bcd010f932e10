"""A consumer with assigned positions.

While it waits it asks nothing: the cluster says when a partition has changed, and then it is fetched. A fetch that
brings nothing ends after ``fetch.wait.max.ms`` and tells the end of the partition; that is done here for each
partition ``fetch.wait.max.ms`` after its last change. What fails is tried again after a pause.
"""

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Literal, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import ClusterMetadata

from simulation.clients.link import ASK_AGAIN_S, Link
from simulation.clients.membership import GroupMetadata, Membership
from simulation.clients.values import Message, failure
from simulation.kafka.contract import Fetched, PartitionMeta

_BEGINNING, _END, _INVALID = -2, -1, -1001
_WIRE_S = 0.002
"""How long a change takes to be noticed: changes of several partitions within that time are one wake-up."""
_MOST = 1000
_BOUNDS: tuple[Literal["earliest"], Literal["latest"]] = ("earliest", "latest")

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


class CommittedOffset(NamedTuple):
    """What the outcome of a commit says of one partition."""

    topic: str
    partition: int
    offset: int
    error: KafkaError | None


class _Assigned:
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
        self.end_told = _INVALID
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


class Consumer:
    """confluent_kafka.Consumer, as far as the canary uses it."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._assigned: dict[tuple[str, int], _Assigned] = {}
        self._queue: deque[Message] = deque()
        self._isolation: Literal["read_committed", "read_uncommitted"] = (
            "read_committed" if link.config["isolation.level"] == "read_committed" else "read_uncommitted"
        )
        self._tells_ends = link.flag("enable.partition.eof")
        self._reset = str(link.config["auto.offset.reset"])
        self._fetch_wait_s = link.seconds("fetch.wait.max.ms")
        self._backoff_s = link.seconds("fetch.error.backoff.ms")
        self._waking = False
        self._membership = Membership(link, self._assign) if "group.id" in link.config else None
        link.on_leader = self._leader_changed
        link.on_missing = self._missing

    # ---- what is read

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._open()
        if self._membership is not None:
            self._membership.assigned_by_callback = True
        self._assign(partitions)

    def _assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._drop(list(self._assigned))
        self.incremental_assign(partitions)

    def subscribe(self, topics: list[str], **callbacks: Any) -> None:
        """Join the group, which gives partitions; callbacks are on_assign, on_revoke and on_lost."""
        self._open()
        self._group.client = self
        self._group.subscribe(topics, **callbacks)

    def unsubscribe(self) -> None:
        """Leave the group."""
        self._open()
        self._group.unsubscribe()

    def incremental_assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._open()
        for given in partitions:
            place = (given.topic, given.partition)
            if place in self._assigned:
                error = failure(KafkaError._CONFLICT, f"{given.topic} [{given.partition}] is already assigned")
                raise KafkaException(error)
            one = _Assigned(*place, given.offset)
            self._assigned[place] = one
            one.unwatch = self._link.cluster.watch(*place, partial(self._changed, one))
        self._link.stir()

    def incremental_unassign(self, partitions: Iterable[TopicPartition]) -> None:
        self._open()
        places = [(given.topic, given.partition) for given in partitions]
        for place in places:
            if place not in self._assigned:
                raise KafkaException(failure(KafkaError._INVALID_ARG, f"{place[0]} [{place[1]}] is not assigned"))
        self._drop(places)

    def unassign(self) -> None:
        self._open()
        self._drop(list(self._assigned))

    def assignment(self) -> list[TopicPartition]:
        self._open()
        return [TopicPartition(*place) for place in self._assigned]

    def _drop(self, places: Iterable[tuple[str, int]]) -> None:
        gone = set(places)
        for place in gone:
            self._assigned.pop(place).unwatch()
        if self._queue:
            self._queue = deque(one for one in self._queue if (one.topic(), one.partition()) not in gone)

    def close(self) -> None:
        """End the client; its calls raise RuntimeError from now on."""
        self._link.check()
        if self._link.closed:
            return
        if self._membership is not None:
            self._membership.close()
        self._drop(list(self._assigned))
        self._queue.clear()
        self._link.close()

    def _open(self) -> None:
        self._link.check()
        if self._link.closed:
            raise RuntimeError("Consumer closed")

    # ---- reading

    def poll(self, timeout: float | None = None) -> Message | None:
        self._open()
        link, queue = self._link, self._queue
        if link.events:
            link.dispatch()
        if not queue:
            self._fetch()
            if not queue and timeout != 0:
                deadline = link.deadline(timeout)
                while not queue:
                    due = self._next_due()
                    until = deadline if due is None or (deadline is not None and deadline < due) else due
                    if not link.wait(until) and deadline is not None and link.schedule.now >= deadline:
                        break
                    self._open()
                    if link.events:
                        link.dispatch()
                    self._fetch()
        return queue.popleft() if queue else None

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        self._open()
        taken: list[Message] = []
        deadline = self._link.deadline(timeout)
        while len(taken) < num_messages:
            if not self._queue:
                now = self._link.schedule.now
                found = self.poll(0 if timeout == 0 else None if deadline is None else max(deadline - now, 0.0))
                if found is None:
                    break
                taken.append(found)
            else:
                taken.append(self._queue.popleft())
        return taken

    def _changed(self, one: _Assigned) -> None:
        """The partition has changed: have it fetched soon."""
        one.dirty = True
        link = self._link
        if link.process.dead or link.closed:
            one.unwatch()
        elif not self._waking and link._waiters:
            self._waking = True
            link.after(_WIRE_S, self._wake)

    def _wake(self) -> None:
        self._waking = False
        self._link.stir()

    def _leader_changed(self, topic: str, partition: int) -> None:
        """Metadata tell a new leader epoch: whether the log still holds the position has to be asked (KIP-320)."""
        one = self._assigned.get((topic, partition))
        if one is not None and one.epoch >= 0:
            one.validate = True

    def _missing(self, topic: str, partition: int) -> None:
        """The topic, or this partition of it, does not exist any more."""
        one = self._assigned.get((topic, partition))
        if one is not None:
            code = KafkaError._UNKNOWN_PARTITION if topic in self._link.topics else KafkaError.UNKNOWN_TOPIC_OR_PART
            why = f"{topic} [{partition}]: desired partition is no longer available ({KafkaError(code).str()})"
            self._tell(one, code, why, _INVALID)
            self._link.stir()

    def _next_due(self) -> float | None:
        """Return when to fetch next without a change."""
        soonest = None
        for one in self._assigned.values():
            due = one.held_until if one.dirty else one.due
            if due is not None and (soonest is None or due < soonest):
                soonest = due
        return soonest

    def _fetch(self) -> None:
        """Fetch what has changed, or is due."""
        now = self._link.schedule.now
        for one in self._assigned.values():
            if (one.dirty or (one.due is not None and one.due <= now)) and one.held_until <= now:
                self._fetch_one(one)

    def _fetch_one(self, one: _Assigned) -> None:
        one.dirty, one.due = False, None
        if one.position is None:
            return
        link = self._link
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
            isolation=self._isolation,
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

    def _leader(self, one: _Assigned) -> PartitionMeta | None:
        """Return a partition's leader if it answers; else ask for metadata, which may name another one."""
        link = self._link
        known = link.place(*one.place)
        if known is not None and link.reaches(known.leader):
            return known
        link.refresh(ASK_AGAIN_S)
        known = link.place(*one.place)
        return known if known is not None and link.reaches(known.leader) else None

    def _again(self, one: _Assigned, pause_s: float) -> None:
        """Fetch again after a pause, whatever changes meanwhile."""
        one.due = one.held_until = self._link.schedule.now + pause_s

    def _deliver(self, one: _Assigned, found: Fetched, known: PartitionMeta) -> None:
        now, position = self._link.schedule.now, one.position
        assert position is not None
        append, topic, partition, last = self._queue.append, one.topic, one.partition, position - 1
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

    def _tell(self, one: _Assigned, code: int, text: str, offset: int) -> None:
        self._queue.append(Message(one.topic, one.partition, offset, error=KafkaError(code, text)))

    def _failed(self, one: _Assigned, code: int, leader: int) -> None:
        position = one.position
        assert position is not None
        if code in _PASSING:
            self._link.refresh(ASK_AGAIN_S)
            self._again(one, self._backoff_s)
        elif code == KafkaError.OFFSET_OUT_OF_RANGE:
            self._out_of_log(
                one, position, code, leader, "fetch failed due to requested offset not available on the broker"
            )
        else:
            at = f"offset {position} (leader epoch {one.epoch})"
            self._tell(one, code, f"Fetch from broker {leader} failed at {at}: {KafkaError(code).str()}", position)
            self._again(one, self._backoff_s)

    def _truncated(self, one: _Assigned, diverging: tuple[int, int], leader: int) -> None:
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
            self._out_of_log(one, _INVALID, KafkaError._LOG_TRUNCATION, leader, why)
        else:
            one.position, one.dirty = end, True

    def _out_of_log(self, one: _Assigned, position: int, code: int, leader: int, why: str) -> None:
        """Do what ``auto.offset.reset`` says about a position that is not in the log."""
        if self._reset == "error":
            one.position = None
            text = f"{why}: {KafkaError(code).str()} (broker {leader})"
            self._tell(one, KafkaError._AUTO_OFFSET_RESET, text, position)
        else:
            one.position = _BEGINNING if self._reset in {"earliest", "beginning", "smallest"} else _END
            one.epoch = -1
            self._again(one, 0.1)

    def _find_position(self, one: _Assigned, known: PartitionMeta) -> bool:
        """Turn a logical offset into one of the log. Returns whether it did."""
        if one.position == _INVALID and self._membership is not None:
            stored = self._membership.committed([one.place])
            if stored is None:
                self._again(one, self._backoff_s)
                return False
            if stored[one.place] >= 0:
                one.position = stored[one.place]
                return True
        if one.position == _INVALID:
            one.position = {"error": None, "latest": _END, "largest": _END, "end": _END}.get(self._reset, _BEGINNING)
            if one.position is None:
                text = f"no previously committed offset available: {KafkaError(KafkaError._NO_OFFSET).str()}"
                self._tell(one, KafkaError._AUTO_OFFSET_RESET, text, _INVALID)
                return False
        link = self._link
        which: Literal["earliest", "latest"] = "earliest" if one.position == _BEGINNING else "latest"
        found = link.cluster.list_offset(link.site, known.leader, *one.place, which, self._isolation)
        if found.error:
            link.refresh(ASK_AGAIN_S)
            self._again(one, self._backoff_s)
            return False
        one.position = found.offset
        return True

    # ---- questions

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = -1, *, cached: bool = False
    ) -> tuple[int, int]:
        """Return where the log begins and ends, as this isolation level sees it.

        Raises:
            KafkaException: no answer in time, or no such partition.
        """
        assert not cached
        self._open()
        deadline = self._link.deadline(timeout)
        while True:
            found = self._watermarks(partition.topic, partition.partition)
            if found is not None:
                return found
            again = self._link.schedule.now + ASK_AGAIN_S
            if deadline is not None and again > deadline:
                self._link.schedule.park(deadline)
                raise _no_watermarks(KafkaError._TIMED_OUT)
            self._link.schedule.park(again)
            self._open()

    def _watermarks(self, topic: str, partition: int) -> tuple[int, int] | None:
        link = self._link
        known = link.told(topic, partition)
        if known is None or not link.reaches(known.leader):
            told = link.refresh(ASK_AGAIN_S)
            known = link.told(topic, partition)
            if known is None and told:
                raise _no_watermarks(KafkaError._UNKNOWN_PARTITION)
            if known is None or not link.reaches(known.leader):
                return None
        ends: list[int] = []
        for which in _BOUNDS:
            found = link.cluster.list_offset(link.site, known.leader, topic, partition, which, self._isolation)
            if found.error == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise _no_watermarks(found.error)
            if found.error:
                link.refresh(ASK_AGAIN_S)
                return None
            ends.append(found.offset)
        return ends[0], ends[1]

    @property
    def _group(self) -> Membership:
        self._open()
        if self._membership is None:
            raise KafkaException(failure(KafkaError._UNKNOWN_GROUP))
        return self._membership

    def commit(self, *, offsets: list[TopicPartition], asynchronous: bool = True) -> list[CommittedOffset] | None:
        """Commit offsets; the outcome goes to ``on_commit``, or is returned.

        Raises:
            KafkaException: it is waited for, and refused or not answered.
        """
        group, link = self._group, self._link
        wanted = {(one.topic, one.partition): one.offset for one in offsets}
        answers: list[int] = []

        def done(code: int) -> None:
            answers.append(code)
            callback = link.config.get("on_commit")
            if asynchronous and callback is not None:
                error = KafkaError(code) if code else None
                link.emit(callback, error, [_place(*place, offset, code) for place, offset in wanted.items()])
            link.stir()

        group.commit(wanted, done)
        if asynchronous:
            return None
        while not answers:
            link.wait(None)
        if answers[0]:
            raise KafkaException(failure(answers[0], f"Commit failed: {KafkaError(answers[0]).str()}"))
        return [_place(*place, offset, 0) for place, offset in wanted.items()]

    def committed(self, partitions: list[TopicPartition], timeout: float = -1) -> list[TopicPartition]:
        """Return the group's offsets; -1001 where there is none.

        Raises:
            KafkaException: there is no answer in time.
        """
        places = [(one.topic, one.partition) for one in partitions]
        found = self._group.wait_committed(places, self._link.deadline(timeout))
        return [TopicPartition(*place, found[place]) for place in places]

    def consumer_group_metadata(self) -> GroupMetadata:
        return self._group.metadata()

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        self._open()
        return self._link.list_topics(topic, timeout)

    def position(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return where the next message that is given comes from."""
        self._open()
        found: list[TopicPartition] = []
        for given in partitions:
            place = (given.topic, given.partition)
            one = self._assigned.get(place)
            queued = (m.offset() for m in self._queue if (m.topic(), m.partition()) == place and m.error() is None)
            at = next(queued, one.position if one is not None else None)
            found.append(TopicPartition(*place, _INVALID if at is None else at))
        return found


def _place(topic: str, partition: int, offset: int, code: int) -> CommittedOffset:
    return CommittedOffset(topic, partition, offset, KafkaError(code) if code else None)


def _no_watermarks(code: int) -> KafkaException:
    return KafkaException(failure(code, f"Failed to get watermark offsets: {KafkaError(code).str()}"))
