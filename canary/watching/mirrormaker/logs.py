"""The logs of one topic, read from where one was to where they end now."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from confluent_kafka import OFFSET_END, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import OffsetSpec

from canary.anomalies.mirrormaker.facts import Row
from canary.kafka import opening
from canary.kafka.client_inbox import cluster_of
from canary.kafka.quiet import calm, quiet_logger
from canary.kafka.responses import GRACE_S, result, text_of, topic_id_of
from canary.probe.record import Refusal, decode, header_fields
from canary.probe.record import key as key_of
from canary.settings.clients import ASSIGNED
from canary.threads import system
from canary.watching import offsets

Place = tuple[str, int]
TIMEOUT_S: Final = 5.0
_POLL_S: Final = 0.1
_OFTEN: Final = 3
_BATCH: Final = 1000
MOST_READ: Final = 50_000
"""Records that are read at once: they are in memory until they are judged."""
_LOST: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})  # noqa: SLF001  # public in librdkafka


class Bounds(NamedTuple):
    """A log's first offset, the end up to which can be read (the last stable offset), and its high watermark."""

    start: int
    end: int
    high: int


class NotReadError(Exception):
    """What a cluster does not tell, or refuses; ``topic``: it is about this one alone. ``error``: None, or its own."""

    def __init__(self, error: KafkaError | None, what: str, topic: str | None = None) -> None:
        super().__init__(what if error is None else f"{what}: {text_of(error)}")
        self.topic = topic
        self.refused = error is not None and error.code() in {
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        }


@dataclass(slots=True)
class Progress:
    """How far topics of one cluster were read; it outlives clients.

    ``ids``: the topics' incarnations; ``next``: the next offset of each log that is read; ``read``: the records before
    it that nobody has taken yet; ``beyond``: how often in a row the log's end was below that offset; ``partial``: logs
    whose first records may have expired before they were read. ``cluster_id``: of the cluster that clients met first;
    ``met``: of the one that a client met last.
    """

    ids: dict[str, str | None] = field(default_factory=dict)
    next: dict[Place, int] = field(default_factory=dict)
    read: dict[Place, list[Any]] = field(default_factory=dict)
    beyond: dict[Place, int] = field(default_factory=dict)
    partial: set[Place] = field(default_factory=set)
    cluster_id: str | None = None
    met: str | None = None

    def begin(self, place: Place, offset: int, start: int) -> None:
        """Begin at an offset of a log that has records from ``start`` on."""
        self.next[place] = offset
        (self.partial.add if offset <= start and start > 0 else self.partial.discard)(place)

    def take(self, place: Place) -> list[Any]:
        """Return the records that were read and not taken yet."""
        return self.read.pop(place, [])

    def astray(self, place: Place, log: Bounds) -> bool:
        """Say whether the log has not the next offset: it begins above, or ends below it again and again.

        Once is nothing: a new leader may tell its end before it knows how far the former one was.
        """
        self.beyond[place] = self.beyond.get(place, 0) + 1 if self.next[place] > log.end else 0
        return self.next[place] < log.start or self.beyond[place] >= _OFTEN


def row_of(message: Any) -> Row:
    """Return what a record of a probe topic, or of its mirror, says."""
    content = decode(message.value(), None)
    if isinstance(content, Refusal):
        return Row(message.offset(), None, refusal=content.reason)
    identity, form = content.identity, content.form
    wanted = header_fields(identity, form) if form.headers else []
    names = {name for name, _ in wanted}
    whole = message.key() == key_of(identity) and message.partition() == identity.partition
    if names:
        whole = whole and wanted == [one for one in message.headers() or () if one[0] in names]
    return Row(message.offset(), identity, content.sent_at_ns, whole)


class Logs:
    """Clients of one cluster.

    Args:
        config: of a consumer whose positions are assigned.
        name: of the clients.
        cluster: the cluster's name, for what is said.
        progress: how far its topics were read.
        stopping: returns whether to break off.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        name: str,
        cluster: str,
        progress: Progress,
        stopping: Callable[[], bool],
    ) -> None:
        self._config = calm(config, name, forced={**ASSIGNED, "isolation.level": "read_committed"})
        self._name = name
        self.cluster = cluster
        self.progress = progress
        self._stopping = stopping
        admin = {key: one for key, one in self._config.items() if key not in _CONSUMERS}
        self._admin = opening.admin(admin, quiet_logger(name))
        self._consumer: Any = None
        self._assigned: dict[Place, bool] = {}

    def close(self) -> None:
        """Close the clients; it may wait."""
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = self._admin = None

    def _same_cluster(self, client: Any) -> None:
        """Note which cluster a client has met: what it says of another one's logs is of no use.

        Raises:
            NotReadError: it is another one than clients met before.
        """
        progress = self.progress
        progress.met = cluster_of(client) or progress.met
        progress.cluster_id = progress.cluster_id or progress.met
        if progress.met != progress.cluster_id:
            raise NotReadError(None, f"{self.cluster}: a new connection leads to another cluster, {progress.met}")

    def partitions(self, topic: str) -> list[int]:
        """Return the partitions of a topic, none if it does not exist; one that was made anew is read from its start.

        Raises:
            NotReadError: it is not known.
        """
        asked = self._admin.describe_topics(TopicCollection([topic]), request_timeout=TIMEOUT_S)[topic]
        self._admin.poll(0)  # lets it call the logger
        try:
            found = result(asked, TIMEOUT_S + GRACE_S)
        except KafkaException as error:
            self._same_cluster(self._admin)
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                return []
            raise NotReadError(error.args[0], f"{topic} in {self.cluster}", topic) from error
        self._same_cluster(self._admin)
        topic_id = topic_id_of(found)
        before = self.progress.ids.get(topic)
        self.progress.ids[topic] = topic_id or before
        if before is not None and topic_id is not None and topic_id != before:
            self.forget(place for place in list(self.progress.next) if place[0] == topic)
        return sorted(one.id for one in found.partitions)

    def forget(self, places: Iterable[Place]) -> None:
        """Read these no further: where they are read from is to be decided again."""
        for place in places:
            self.progress.next.pop(place, None)
            self.progress.read.pop(place, None)
            self.progress.beyond.pop(place, None)
            if self._assigned.pop(place, None) is not None:
                self._consumer.incremental_unassign([TopicPartition(*place)])

    def bounds(self, places: Collection[Place]) -> dict[Place, Bounds]:
        """Return the bounds of those logs that answer.

        Raises:
            NotReadError: all of them are refused.
        """
        found, refusal = offsets.logs(self._admin, places, TIMEOUT_S)
        self._same_cluster(self._admin)
        if not found and refusal is not None:
            raise NotReadError(refusal.args[0], f"offsets in {self.cluster}")
        ends = {place: one.end if one.stable is None else min(one.stable, one.end) for place, one in found.items()}
        return {place: Bounds(one.start, ends[place], one.end) for place, one in found.items()}

    def newest(self, places: Collection[Place]) -> dict[Place, int]:
        """Return the greatest timestamp (ns) of each of these logs that has one and tells it (KIP-734)."""
        if not places:
            return {}
        asked = {TopicPartition(*place): OffsetSpec.max_timestamp() for place in places}
        answers = self._admin.list_offsets(asked, request_timeout=TIMEOUT_S)
        system.done(set(answers.values()), TIMEOUT_S + GRACE_S)
        told = {
            (place.topic, place.partition): one.result().timestamp
            for place, one in answers.items()
            if one.done() and one.exception() is None
        }
        return {place: ms * 10**6 for place, ms in told.items() if ms > 0}

    def begin(self, places: Mapping[Place, int]) -> None:
        """Begin to read each of these at its first record of that time (ns) or later; at the end if there is none.

        Raises:
            NotReadError: it is not known where that is.
        """
        if not places:
            return
        bounds = self.bounds(places)
        known = [TopicPartition(*place, ns // 10**6) for place, ns in places.items() if place in bounds]
        try:
            found = self._client().offsets_for_times(known, timeout=TIMEOUT_S) if known else ()
            self._same_cluster(self._client())
            for one in found:
                place = (one.topic, one.partition)
                if one.error is None:
                    end = one.offset in {OFFSET_END, -1} or one.offset < 0
                    self.progress.begin(place, bounds[place].end if end else one.offset, bounds[place].start)
        except KafkaException as error:
            raise NotReadError(error.args[0], f"offsets in {self.cluster}") from error

    def read(
        self, until: Mapping[Place, int], paused: Collection[Place], most_s: float, most: int = MOST_READ
    ) -> set[Place]:
        """Read on up to these offsets, or for so many seconds, into ``progress``; return places that went astray.

        ``paused`` are not read on for now. Astray is a position that the log has not: it was expired, or cut.

        Raises:
            NotReadError: it is refused.
        """
        self._assign(until, paused)
        astray: set[Place] = set()
        deadline = system.monotonic() + most_s
        wanted = {place: end for place, end in until.items() if place not in paused}
        while not self._stopping() and system.monotonic() < deadline and most > 0:
            if all(self.progress.next[place] >= end or place in astray for place, end in wanted.items()):
                break
            messages = self._client().consume(_BATCH, _POLL_S)
            self._same_cluster(self._client())
            most -= len(messages)
            for message in messages:
                self._take(message, astray)
        return astray

    def _take(self, message: Any, astray: set[Place]) -> None:
        error, place = message.error(), (message.topic(), message.partition())
        if error is None:
            if place in self._assigned:
                self.progress.read.setdefault(place, []).append(message)
                self.progress.next[place] = message.offset() + 1
        elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # public in librdkafka
            if place in self._assigned:
                self.progress.next[place] = max(self.progress.next[place], message.offset())
        elif error.code() in _LOST:
            astray.add(place)
        elif error.code() in {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}:
            raise NotReadError(error, f"{message.topic()} in {self.cluster}", message.topic())

    def _assign(self, places: Iterable[Place], paused: Collection[Place]) -> None:
        client = self._client()
        new = [place for place in places if place not in self._assigned]
        if new:
            client.incremental_assign([TopicPartition(*place, self.progress.next[place]) for place in new])
            self._assigned |= dict.fromkeys(new, False)
        for place, was in self._assigned.items():
            if (place in paused) != was:
                (client.resume if was else client.pause)([TopicPartition(*place)])
                self._assigned[place] = not was

    def _client(self) -> Any:
        if self._consumer is None:
            self._consumer = opening.consumer(self._config, quiet_logger(self._name))
        return self._consumer

    def between(self, place: Place, start: int, end: int, most_s: float) -> tuple[list[Row], int] | None:
        """Read [start, end) with a fresh client; return what is there, and the log's first offset; None: not read."""
        log = self.bounds([place]).get(place)
        if log is None:
            return None
        known = Progress(cluster_id=self.progress.cluster_id)
        fresh = Logs(self._config, f"{self._name}-again", self.cluster, known, self._stopping)
        try:
            begin, limit = max(start, log.start), min(end, log.end)
            if begin >= limit:
                return [], log.start
            fresh.progress.next[place] = begin
            if fresh.read({place: limit}, (), most_s, limit - begin + _BATCH) or fresh.progress.next[place] < limit:
                return None
            return [row for row in map(row_of, fresh.progress.take(place)) if row.offset < end], log.start
        finally:
            self.progress.met = known.met or self.progress.met
            fresh.close()


_CONSUMERS: Final = frozenset(
    {*ASSIGNED, "isolation.level", "group.id", "fetch.max.bytes", "queued.max.messages.kbytes", "fetch.wait.max.ms"}
)
"""Properties that an admin client would warn of."""
