"""A consumer with assigned positions, or with those that its group gives it."""

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

import orjson
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import ClusterMetadata

from simulation.clients.fetcher import INVALID, Fetcher
from simulation.clients.link import ASK_AGAIN_S, Link
from simulation.clients.membership import GroupMetadata, Membership
from simulation.clients.values import Message, failure

_BOUNDS: tuple[Literal["earliest"], Literal["latest"]] = ("earliest", "latest")


class CommittedOffset(NamedTuple):
    """What the outcome of a commit says of one partition."""

    topic: str
    partition: int
    offset: int
    error: KafkaError | None


class Consumer:
    """confluent_kafka.Consumer, as far as the canary uses it."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._fetcher = Fetcher(link)
        self._membership = Membership(link, self._assign) if "group.id" in link.config else None
        self._fetcher.membership = self._membership
        if "stats_cb" in link.config:
            link.after(link.seconds("statistics.interval.ms"), self._tell_statistics)

    def _tell_statistics(self) -> None:
        """Tell who leads what is read, once the client has learned that: what comes later says no more here."""
        link, topics = self._link, dict[str, Any]()
        for topic, partition in self._fetcher.assigned:
            if (known := link.place(topic, partition)) is not None:
                one = {"leader": known.leader, "leader_epoch": known.epoch}
                topics.setdefault(topic, {"partitions": {}})["partitions"][str(partition)] = one
        if topics:
            link.emit(link.config["stats_cb"], orjson.dumps({"brokers": {}, "topics": topics}).decode())
        else:
            link.after(link.seconds("statistics.interval.ms"), self._tell_statistics)

    # ---- what is read

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions, and no others, from these offsets on."""
        self._open()
        if self._membership is not None:
            self._membership.assigned_by_callback = True
        self._assign(partitions)

    def _assign(self, partitions: Iterable[TopicPartition]) -> None:
        self._fetcher.drop(list(self._fetcher.assigned))
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
        """Read these partitions, too."""
        self._open()
        for given in partitions:
            place = (given.topic, given.partition)
            if place in self._fetcher.assigned:
                error = failure(KafkaError._CONFLICT, f"{given.topic} [{given.partition}] is already assigned")
                raise KafkaException(error)
            self._fetcher.add(place, given.offset)
        self._link.stir()

    def incremental_unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read these partitions no more."""
        self._open()
        places = [(given.topic, given.partition) for given in partitions]
        for place in places:
            if place not in self._fetcher.assigned:
                raise KafkaException(failure(KafkaError._INVALID_ARG, f"{place[0]} [{place[1]}] is not assigned"))
        self._fetcher.drop(places)

    def unassign(self) -> None:
        """Read no partition any more."""
        self._open()
        self._fetcher.drop(list(self._fetcher.assigned))

    def assignment(self) -> list[TopicPartition]:
        """Return the partitions that are read."""
        self._open()
        return [TopicPartition(*place) for place in self._fetcher.assigned]

    def close(self) -> None:
        """End the client; its calls raise RuntimeError from now on."""
        self._link.check()
        if self._link.closed:
            return
        if self._membership is not None:
            self._membership.close()
        self._fetcher.drop(list(self._fetcher.assigned))
        self._fetcher.queue.clear()
        self._link.close()

    def _open(self) -> None:
        self._link.check()
        if self._link.closed:
            raise RuntimeError("Consumer closed")

    # ---- reading

    def poll(self, timeout: float | None = None) -> Message | None:
        """Return the next message or error, None if there is none in time."""
        self._open()
        link, queue = self._link, self._fetcher.queue
        if link.events:
            link.dispatch()
        if not queue:
            self._fetcher.fetch()
            if not queue and timeout != 0:
                deadline = link.deadline(timeout)
                while not queue:
                    due = self._fetcher.next_due()
                    until = deadline if due is None or (deadline is not None and deadline < due) else due
                    if not link.wait(until) and deadline is not None and link.schedule.now >= deadline:
                        break
                    self._open()
                    if link.events:
                        link.dispatch()
                    self._fetcher.fetch()
        return queue.popleft() if queue else None

    def consume(self, num_messages: int = 1, timeout: float = -1) -> list[Message]:
        """Return the next messages, at most so many; fewer if the time is over."""
        self._open()
        taken: list[Message] = []
        deadline = self._link.deadline(timeout)
        while len(taken) < num_messages:
            if not self._fetcher.queue:
                now = self._link.schedule.now
                found = self.poll(0 if timeout == 0 else None if deadline is None else max(deadline - now, 0.0))
                if found is None:
                    break
                taken.append(found)
            else:
                taken.append(self._fetcher.queue.popleft())
        return taken

    # ---- questions

    def get_watermark_offsets(
        self, partition: TopicPartition, timeout: float = -1, *, cached: bool = False
    ) -> tuple[int, int]:
        """Return where the log begins and ends, as this isolation level sees it.

        Raises:
            KafkaException: no answer in time, or no such partition.
        """
        if cached:
            raise NotImplementedError("the canary never asks for cached watermarks")
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
            found = link.cluster.list_offset(link.site, known.leader, topic, partition, which, self._fetcher.isolation)
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
        """Return who this is in the group, for a transaction."""
        return self._group.metadata()

    def cluster_id(self, timeout: float = -1) -> str:
        """Return the cluster's id, as brokers told it last."""
        self._open()
        return self._link.cluster_id(timeout)

    def list_topics(self, topic: str | None = None, timeout: float = -1) -> ClusterMetadata:
        """Return the metadata of one topic or of all."""
        self._open()
        return self._link.list_topics(topic, timeout)

    def position(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return where the next message that is given comes from."""
        self._open()
        found: list[TopicPartition] = []
        for given in partitions:
            place = (given.topic, given.partition)
            one = self._fetcher.assigned.get(place)
            queued = (
                m.offset() for m in self._fetcher.queue if (m.topic(), m.partition()) == place and m.error() is None
            )
            at = next(queued, one.position if one is not None else None)
            found.append(TopicPartition(*place, INVALID if at is None else at))
        return found


def _place(topic: str, partition: int, offset: int, code: int) -> CommittedOffset:
    return CommittedOffset(topic, partition, offset, KafkaError(code) if code else None)


def _no_watermarks(code: int) -> KafkaException:
    return KafkaException(failure(code, f"Failed to get watermark offsets: {KafkaError(code).str()}"))
