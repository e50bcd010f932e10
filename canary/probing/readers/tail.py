"""A reader at the end of the probe topic, which takes every record that comes.

Positions are assigned, never committed, and ``auto.offset.reset=error``: when the log does not hold the position any
more, the reader reports it (``OutOfRange``), asks where the log begins and ends, and goes on from the nearest offset
from which no record can be missed. Whether the log was cut off or had expired is for the tracker to judge.

It waits in poll() for the first record and then takes all others with consume(n, 0): a latency ends when the record
arrives, and the cost is per wake-up (FIELD-NOTES). What came is decoded a few times a second, together.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import structlog
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from canary.facts import Batch, EndOfPartition, Fact, Isolation, OutOfRange, Positioned
from canary.kafka.client_inbox import ClientInbox, cluster_of
from canary.kafka.opening import opened_in_time
from canary.kafka.quiet import ErrorReporter
from canary.kafka.responses import text_of
from canary.probing.readers.consumer import DRAIN, facts_of, open_consumer, take
from canary.threads import system
from canary.threads.ports import Clock, Inbox
from canary.threads.worker import Worker, in_background

log = structlog.get_logger(__name__)

OUT_OF_RANGE = frozenset(
    {KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION, KafkaError.OFFSET_OUT_OF_RANGE}  # noqa: SLF001  # public in librdkafka
)
PACE_S = 0.25
"""Longest wait in one poll(): bounds the reaction to stop and retarget."""
GATHER_S = 0.25
"""Between two times at which records are decoded and told; those that come meanwhile are held, PACE_S more at most."""
END_S = 1.0
"""An end of partition at an unchanged position is reported once in so many seconds."""
ASK_S = 1.0
"""How long the cluster is waited for, in one go, when asked where a log begins and ends."""

_BROKER_END = re.compile(r"broker end offset is (\d+)")


@dataclass(slots=True)
class _Astray:
    """A partition whose position is not in the log."""

    position: int
    broker_end: int | None
    due: float
    attempts: int = 0


class Start(NamedTuple):
    """Where a reader begins: offsets by partition, in the incarnation in which ``tag`` (4 bytes) marks our records.

    ``topic_id`` is that incarnation, None where the cluster does not tell it.
    """

    positions: dict[int, int]
    tag: bytes
    topic_id: str | None = None


class TailConsumer(Worker):
    """The thread that reads on. It is ready (``ready``) once it is assigned; start the producers after that.

    Properties that decide what is seen go over ``config`` (canary.probing.readers.consumer); facts have
    ``consumer_name``.
    """

    def __init__(
        self,
        config: Mapping[str, object],
        consumer_name: str,
        isolation: Isolation,
        topic: str,
        start: Start,
        inbox: Inbox,
        clock: Clock,
    ) -> None:
        super().__init__(f"tail-{consumer_name}")
        self.ready = system.event()
        self._config = dict(config)
        self._consumer_name = consumer_name
        self._isolation: Isolation = isolation
        self._topic = topic
        self._positions = dict(start.positions)
        self._tag = start.tag
        self._topic_id = start.topic_id
        self._inbox = ClientInbox(inbox, clock, self.name, lambda: cluster_of(self._client))
        self._clock = clock
        self._report = ErrorReporter(self.name, inbox, clock)
        self._ends: dict[int, int] = {}
        self._ends_told: dict[int, float] = {}
        self._astray: dict[int, _Astray] = {}
        self._records: list[Any] = []
        self._taken_ns: list[int] = []
        """When each of the records was taken."""
        self._told_at = -math.inf
        """When the inbox was given what was taken."""
        self._facts: list[Fact | Batch[Any]] = []
        self._orders: list[Start] = []
        self._lock = system.lock()
        self._client: Any = None

    def retarget(self, positions: Mapping[int, int], tag: bytes, topic_id: str | None = None) -> None:
        """Go on elsewhere, soon, in its own thread and with a fresh client.

        With another tag (a new incarnation of the topic) ``positions`` replace everything; with the same tag they are
        added, and partitions read already go on from where they are.
        """
        with self._lock:
            self._orders.append(Start(dict(positions), tag, topic_id))

    def run(self) -> None:
        """Read until stopped."""
        self._assign("assigned")
        while not self.stopping.is_set():
            self._obey()
            if self._client is None:
                return  # stopped while the cluster refused it
            self._take()
            self._tell_in_time()
            self._find_places()
        self._hand_over()
        self._leave()

    def _assign(self, reason: str) -> None:
        self._client = opened_in_time(
            lambda: open_consumer(self._config, self.name, self._isolation, self._inbox.beside, self._clock),
            self._report,
            self.stopping,
        )
        if self._client is None:
            return
        self._ends.clear()
        self._astray.clear()
        self._inbox.tell([self._positioned(partition, reason) for partition in sorted(self._positions)])
        self._client.assign([TopicPartition(self._topic, p, offset) for p, offset in self._positions.items()])
        self.ready.set()

    def _positioned(self, partition: int, reason: str) -> Positioned:
        place = (self._consumer_name, self._isolation, self._topic, partition, self._positions[partition])
        return Positioned(self._clock.now_ns(), *place, reason, self._topic_id)

    def _leave(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            in_background(client.close, f"{self.name}-closing")

    def _obey(self) -> None:
        with self._lock:
            orders, self._orders = self._orders, []
        if not orders:
            return
        self._hand_over()
        reason = "partitions added"
        for order in orders:
            if order.tag == self._tag:
                self._positions = {**order.positions, **self._positions}
            else:
                self._positions, self._tag, self._topic_id = order
                reason = "new incarnation"
        self._leave()
        self._assign(reason)

    def _take(self) -> None:
        """Wait a moment for a record, and take all there are, in their order."""
        messages = take(self._client, PACE_S, self._report)
        at_ns = self._clock.now_ns()
        for message in messages:
            if (error := message.error()) is not None:
                self._event(message, error, at_ns)
            else:
                self._records.append(message)
                self._taken_ns.append(at_ns)
                self._positions[message.partition()] = message.offset() + 1

    def _decode(self) -> None:
        """Make facts of the records."""
        if self._records:
            name = (self._consumer_name, self._isolation)
            self._facts += facts_of(self._records, *name, self._tag, self._taken_ns)
            self._records, self._taken_ns = [], []

    def _tell_in_time(self) -> None:
        """Hand over what is held if it is urgent, much, or held for a while."""
        if self._facts or len(self._records) >= DRAIN or system.monotonic() - self._told_at >= GATHER_S:
            self._hand_over()

    def _hand_over(self) -> None:
        """Put into the inbox what was taken, and the ends that were reached."""
        self._decode()
        facts, self._facts = [*self._facts, *self._ends_due()], []
        self._told_at = system.monotonic()
        if facts:
            self._inbox.tell(facts)

    def _event(self, message: Any, error: KafkaError, at_ns: int) -> None:
        partition = message.partition()
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # public in librdkafka
            self._ends[partition] = message.offset()
            if self._positions.get(partition) != message.offset():
                self._positions[partition] = message.offset()
                self._ends_told.pop(partition, None)
        elif error.code() in OUT_OF_RANGE and partition in self._positions:
            self._stray(partition, error, at_ns)
        else:
            self._report(error)

    def _stray(self, partition: int, error: KafkaError, at_ns: int) -> None:
        if partition in self._astray:
            return
        position = self._positions[partition]
        broker_end = _BROKER_END.search(error.str())
        self._astray[partition] = _Astray(position, int(broker_end[1]) if broker_end else None, system.monotonic())
        self._ends.pop(partition, None)
        log.warning("position_not_in_log", worker=self.name, partition=partition, offset=position, said=error.str())
        place = (at_ns, self._consumer_name, self._isolation, self._topic, partition, position)
        self._decode()
        self._facts.append(OutOfRange(*place, error=text_of(error)))

    def _ends_due(self) -> list[Fact]:
        """Return the ends of partition to tell now: new positions at once, known ones once in a while."""
        now, at_ns = system.monotonic(), self._clock.now_ns()
        due = [p for p in self._ends if now - self._ends_told.get(p, float("-inf")) >= END_S]
        facts: list[Fact] = []
        for partition in due:
            self._ends_told[partition] = now
            offset = self._ends.pop(partition)
            if offset == self._positions[partition]:  # else records came after it: it is no end any more
                place = (at_ns, self._consumer_name, self._isolation, self._topic, partition, offset)
                facts.append(EndOfPartition(*place))
        return facts

    def _find_places(self) -> None:
        """Assign an offset in the log to partitions that are out of range, once the cluster tells its start and end."""
        now = system.monotonic()
        due = [partition for partition, astray in self._astray.items() if astray.due <= now]
        for partition in due:
            if self.stopping.is_set():
                return
            astray = self._astray[partition]
            place = TopicPartition(self._topic, partition)
            try:
                offset, reason = self._place(place, astray)
                self._client.incremental_unassign([place])
                self._client.incremental_assign([TopicPartition(self._topic, partition, offset)])
            except KafkaException as error:
                self._report(error.args[0])
                astray.attempts += 1
                astray.due = system.monotonic() + min(0.25 * 2**astray.attempts, 2.0)
                continue
            del self._astray[partition]
            self._positions[partition] = offset
            self._inbox.tell([self._positioned(partition, reason)])

    def _place(self, place: TopicPartition, astray: _Astray) -> tuple[int, str]:
        """Return where to read on and why; raises KafkaException when the cluster does not answer.

        When the error itself says that the reader's leader epoch ended below its position, the reader goes back to
        that end, however long the log is by now: the records after it are other ones. The broker need not be asked
        then, which matters because it does not tell the log's end while too few replicas are in sync
        (OFFSET_NOT_AVAILABLE).
        """
        if astray.broker_end is not None and astray.broker_end < astray.position:
            return astray.broker_end, f"cut off: the log of that epoch ends at {astray.broker_end}"
        start, end = self._client.get_watermark_offsets(place, timeout=ASK_S)
        return nearest(astray.position, start, end)


def nearest(position: int, start: int, end: int) -> tuple[int, str]:
    """Return where to read on when the log [start, end) did not hold ``position``, and why there.

    ``end`` is as the reader's isolation sees it; the log may have grown past ``position`` meanwhile.
    """
    if position < start:
        return start, f"expired: the log starts at {start}"
    if position > end:
        return max(end, start), f"cut off: the log ends at {end}"
    return position, f"in the log again: [{start}, {end})"
