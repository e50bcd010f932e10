"""Consume, process, produce: each probe of the main topic is written once into the mode's own topic.

Offsets go with the transaction.

The input offsets that a transaction takes are told as facts (Relayed) before its commit is asked for, and sent with it
(send_offsets_to_transaction). After anything not understood the successor asks the group where it stands: that, not our
memory, is what an application would go on from. The tracker checks that committed transactions take each input offset
exactly once: taken twice is a duplicate, passed over is a loss (jepsen-redpanda 1.2; idempotent-producer,
"Transitivity").

Where it is wanted the input is subscribed to, and now and then another member joins the group while a transaction is
open. That takes partitions away whose offsets the transaction was about to move: it is aborted (jepsen-redpanda #10),
and whoever has them then begins where the group stands.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import structlog
from confluent_kafka import OFFSET_INVALID, KafkaError, KafkaException, TopicPartition

from canary.client.answers import text_of
from canary.client.quiet import ErrorReporter
from canary.client.worker import Worker, in_background
from canary.facts import Relayed
from canary.probe.record import Refusal, decode
from canary.probing.idempotent import Renewal
from canary.probing.reading import Target, open_consumer, take
from canary.probing.session import Book, Session
from canary.probing.succession import Succession

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from canary.client.ports import Clock, Inbox

log = structlog.get_logger(__name__)

_PACE_S = 0.1
_ASK_S = 2.0
_LOOK_S = 15.0
"""How often the input's partitions are looked at."""
_VISIT_S = 4.0
"""How long another member waits for being let into the group."""


class Relay(Worker):
    """The thread that does all of it.

    Args:
        producing: librdkafka properties, with ``transactional.id``.
        consuming: librdkafka properties of the input's reader, with a ``group.id`` of its own.
        source: the input topic.
        topic: the mode's topic; it must exist.
        under: generation, tag and partitions to write under.
        targets: returns a topic's present incarnation.
        producer_id: who writes.
        mode: name of the mode the facts carry.
        interval_s: seconds between two transactions.
        most: input records of a transaction at most.
        deliver_s: how long delivery reports are waited for.
        record_length: bytes of a probe's value.
        inbox: where facts go.
        clock: what time it is.
        renew: called in this thread after a client was closed; returns under what to go on.
        rebalance_every_s: how often another member joins for a moment; None: never, and partitions are assigned.
    """

    def __init__(
        self,
        producing: Mapping[str, object],
        consuming: Mapping[str, object],
        source: str,
        topic: str,
        under: Renewal,
        *,
        targets: Callable[[str], Target],
        producer_id: int,
        mode: str,
        interval_s: float,
        most: int,
        deliver_s: float,
        record_length: int,
        inbox: Inbox,
        clock: Clock,
        renew: Callable[[str], Renewal],
        rebalance_every_s: float | None = None,
    ) -> None:
        super().__init__(f"producer-{mode}")
        self._consuming = dict(consuming)
        self._source = source
        self._targets = targets
        self._interval_s = interval_s
        self._most = most
        self._deliver_s = deliver_s
        self._inbox = inbox
        self._clock = clock
        self._succession = Succession(self.name, renew, self.stopping)
        self._book = Book(topic, mode, producer_id, record_length, under, inbox, clock)
        self._session = Session(producing, self._book, mode)
        self._report = ErrorReporter(f"consumer-{mode}", inbox, clock)
        self._input: Any = None
        self._reads = Target(None, b"", ())
        """The incarnation of the input that is read."""
        self._look_at = 0.0
        self._positions: dict[int, int] = {}
        self._before: dict[int, int] = {}
        """Where the transaction to come begins."""
        self._rebalance_every_s = rebalance_every_s
        self._rebalance_at = 0.0
        self._revoked = False
        """Whether partitions were taken away since the last transaction began to be read."""
        self._begun: set[int] | None = None
        """In a new incarnation of the input: partitions that it has committed; the others begin at their start."""
        self._kept: list[Any] = []
        """Given, and not yet taken: a transaction has its limit."""
        self._wanted: Renewal | None = None
        self._lock = threading.Lock()

    def retarget(self, generation: int, tag: bytes, partitions: Sequence[int]) -> None:
        """Go on under other values, soon and in its own thread."""
        with self._lock:
            self._wanted = Renewal(generation, tag, tuple(partitions))

    def run(self) -> None:
        """Transaction after transaction until stopped."""
        next_at = time.monotonic()
        while not self.stopping.is_set():
            self._obey()
            now = time.monotonic()
            if self._session.settling:
                if now >= self._session.due:
                    self._session.commit(1.0)
                    self._after()
            elif not self._session.ready:
                if now >= self._session.due and self._session.prepare(1.0):
                    self._leave()  # whatever the predecessor had open is settled now: the group says where to go on
            elif self._input is None or self._targets(self._source).tag != self._reads.tag:
                self._join()
            elif now >= self._look_at:
                self._look()
            elif now >= next_at and not self._inbox.paused:
                next_at = now + self._interval_s
                self._relay()
                continue
            self.stopping.wait(min(max(next_at - now, 0.01), _PACE_S))

    def end(self) -> None:
        """Ask once more for the commit that has no answer; what has none then is indeterminate."""
        if self._session.settling:
            self._session.commit(1.0)
        self._session.give_up("stopped before its outcome was known")
        self._leave()

    def _obey(self) -> None:
        with self._lock:
            wanted, self._wanted = self._wanted, None
        if wanted is not None:
            if wanted.tag != self._book.under.tag:
                self._session.give_up("the topic is another one")
            self._book.renew(wanted)

    def _join(self) -> None:
        """Begin to read the input where the group stands; in a new incarnation at its start, at first at its end."""
        self._leave()
        target = self._targets(self._source)
        if target.tag != self._reads.tag:
            self._begun = None if self._reads.tag == b"" else set()
        client = open_consumer(self._consuming, f"{self._book.mode}-input", "read_committed", self._inbox, self._clock)
        try:
            if self._rebalance_every_s is None:
                found = client.list_topics(self._source, timeout=_ASK_S).topics[self._source].partitions
                self._assign(client, [TopicPartition(self._source, p) for p in sorted(found)])
            else:
                client.subscribe(
                    [self._source], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
                )
        except KafkaException as raised:
            self._report(raised.args[0])
            in_background(client.close, f"{self._book.mode}-input-closing")
            self.stopping.wait(_PACE_S * 5)
            return
        self._input, self._reads = client, target
        self._look_at = time.monotonic() + _LOOK_S

    def _look(self) -> None:
        """Join again when the input has partitions that were not there at the last time."""
        self._look_at = time.monotonic() + _LOOK_S
        if self._rebalance_every_s is not None:
            return  # the group sees to that
        try:
            found = self._input.list_topics(self._source, timeout=1.0).topics[self._source].partitions
        except KafkaException as raised:
            self._report(raised.args[0])
            return
        if found.keys() - self._positions.keys():
            self._leave()

    def _assign(self, client: Any, places: Sequence[Any]) -> None:
        """Begin where the group stands; raises KafkaException when that is not known yet."""
        begun = self._begun
        positions: dict[int, int] = {}
        for place in client.committed(list(places), timeout=_ASK_S):
            if place.error is not None:
                raise KafkaException(place.error)
            start, end = client.get_watermark_offsets(TopicPartition(self._source, place.partition), _ASK_S)
            stand = place.offset
            fits = stand != OFFSET_INVALID and stand >= 0 and (begun is None or place.partition in begun)
            positions[place.partition] = max(stand, start) if fits else (end if begun is None else start)
        client.assign([TopicPartition(self._source, p, offset) for p, offset in positions.items()])
        self._positions, self._before = positions, dict(positions)
        self._rebalance_at = time.monotonic() + (self._rebalance_every_s or 0.0)
        log.info("relay_reads", worker=self.name, positions=positions, new_incarnation=begun is not None)

    def _on_assign(self, client: Any, places: Sequence[Any]) -> None:
        if client is not self._input:
            return
        try:
            self._assign(client, places)
        except KafkaException as raised:
            self._report(raised.args[0])
            self._revoked = True  # nothing is read; the next turn joins again

    def _on_revoke(self, client: Any, _places: Sequence[Any]) -> None:
        if client is not self._input:
            return  # a former one that is being closed, in a thread of its own
        self._revoked = True
        self._positions.clear()
        self._kept.clear()

    def _visit(self) -> None:
        """Let another member join the group and leave it, in the middle of the transaction that is open."""
        log.debug("relay_visited", worker=self.name)
        visitor = open_consumer(
            self._consuming, f"{self._book.mode}-visitor", "read_committed", self._inbox, self._clock
        )
        deadline = time.monotonic() + _VISIT_S
        try:
            visitor.subscribe([self._source])
            while not self._revoked and time.monotonic() < deadline and not self.stopping.is_set():
                take(visitor, _PACE_S, self._report)
                self._kept += take(self._input, 0.0, self._report)
        except KafkaException as raised:
            self._report(raised.args[0])
        finally:
            in_background(visitor.close, f"{self._book.mode}-visitor-closing")

    def _leave(self) -> None:
        client, self._input = self._input, None
        self._kept.clear()
        if client is not None:
            in_background(client.close, f"{self._book.mode}-input-closing")

    def _relay(self) -> None:
        """Take what is there, at most ``most`` records, and write it on in one transaction."""
        self._before, self._revoked = dict(self._positions), False
        taken = self._take()
        before = self._before
        if self._revoked:  # what was given before and after cannot be told apart
            self._leave()
        if self._input is None or self._positions == before:
            return
        session = self._session
        if session.begin():
            assert session.open is not None  # noqa: S101  # it has just begun
            moved = {p: (before[p], end) for p, end in self._positions.items() if end != before[p]}
            at_ns = self._clock.now_ns()
            self._inbox.put(
                [
                    Relayed(at_ns, *session.open.key, self._source, p, a, b, self._reads.topic_id)
                    for p, (a, b) in sorted(moved.items())
                ]
            )
            session.send([self._book.under.partitions[p % len(self._book.under.partitions)] for p in taken])
            offsets = [TopicPartition(self._source, p, end) for p, (_, end) in moved.items()]
            sent = session.deliver(self._deliver_s, self.stopping)
            if self._rebalance_every_s is not None and time.monotonic() >= self._rebalance_at:
                self._visit()
            if self._revoked:
                session.abort("a rebalance took its input away")
            elif sent and session.send_offsets(offsets, self._input.consumer_group_metadata()):
                if self._begun is not None:
                    self._begun.update(moved)
                session.commit()
            else:
                session.abort("not delivered")
                self._leave()  # go on where the group stands
        self._after()

    def _take(self) -> list[int]:
        """Return the partition of each record to write on; positions move past everything that was given."""
        taken: list[int] = []
        tag = self._reads.tag
        for message in self._messages():
            error = message.error()
            if error is None and message.partition() not in self._positions:
                continue  # taken away meanwhile
            if error is None:
                self._positions[message.partition()] = message.offset() + 1
                if not isinstance(decode(message.value(), tag), Refusal):
                    taken.append(message.partition())
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # public in librdkafka
                continue
            else:
                self._report(error)
                if error.code() in {KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION}:  # noqa: SLF001
                    log.warning("relay_input_astray", worker=self.name, error=text_of(error))
                    self._leave()
                    return []
        return taken

    def _messages(self) -> list[Any]:
        self._kept += take(self._input, 0.0 if self._kept else 0.01, self._report)
        now, self._kept = self._kept[: self._most], self._kept[self._most :]
        return now

    def _after(self) -> None:
        """A client that had to be closed is followed by a new one, under a new generation."""
        if self._session.client is not None or self.stopping.is_set():
            return
        self._leave()
        renewal = self._succession.after_death("its client was closed")
        if renewal is None:
            return
        with self._lock:  # what the owner said before this answer is out of date
            if self._wanted is not None and self._wanted.generation < renewal.generation:
                self._wanted = None
        self._book.renew(renewal)
