"""Consume, process, produce: each probe of the main topic is written once into the mode's own topic.

The facts (Relayed) name the input offsets that a transaction takes, before its commit is asked for; the offsets go with
the transaction (send_offsets_to_transaction). After an error that is not understood, the next client asks the group for
its committed offsets, as an application would, instead of trusting our memory. The tracker checks that committed
transactions take each input offset exactly once: an offset taken twice is a duplicate, one that is skipped is a loss
(jepsen-redpanda 1.2; idempotent-producer, "Transitivity").

With ``rebalance_every`` the input is subscribed to, and now and then another member joins the group while a transaction
is open. The rebalance takes partitions away whose offsets the transaction was about to move, so it must abort
(jepsen-redpanda #10); the next owner of those partitions begins at the committed offsets.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from canary.facts import Relayed
from canary.kafka.client_inbox import ClientInbox, cluster_of
from canary.kafka.leaving import leave
from canary.kafka.quiet import ErrorReporter
from canary.kafka.responses import text_of
from canary.probe.record import Refusal, decode
from canary.probing.base import Renewal, Wiring, Writer
from canary.probing.book import Book
from canary.probing.readers.consumer import Target, open_consumer, take
from canary.probing.session import DELIVERY_SHARE, Session, client_config
from canary.settings import consumer_config
from canary.threads import system
from canary.threads.worker import in_background
from canary.workloads.relay import WORKLOAD, RelaySettings

log = structlog.get_logger(__name__)

_PACE_S = 0.1
_ASK_S = 2.0
_LOOK_S = 15.0
"""How often the input's partitions are looked at."""
_VISIT_S = 4.0
"""How long another member waits for being let into the group."""


class Relay(Writer):
    """The thread that does all of it; ``source`` is the input topic.

    ``producing`` has a ``transactional.id``, ``consuming`` a ``group.id`` of its own.
    """

    def __init__(
        self,
        producing: Mapping[str, object],
        consuming: Mapping[str, object],
        source: str,
        wiring: Wiring[RelaySettings],
    ) -> None:
        super().__init__(wiring)
        self._settings = wiring.settings
        self._consuming = dict(consuming)
        self._source = source
        self._book = Book(wiring, wiring.under)
        self._session = Session(producing, self._book, wiring.mode)
        self._report = ErrorReporter(f"consumer-{wiring.mode}", wiring.inbox, wiring.clock)
        self._input: Any = None
        self._taken = ClientInbox(wiring.inbox, wiring.clock, f"{wiring.mode}-input", lambda: cluster_of(self._input))
        self._reads = Target(None, b"", ())
        """The incarnation of the input that is read."""
        self._look_at = 0.0
        self._positions: dict[int, int] = {}
        self._before: dict[int, int] = {}
        """Where the transaction to come begins."""
        self._rebalance_at = 0.0
        self._revoked = False
        """Whether a rebalance took partitions away since the present transaction's input began to be read."""
        self._begun: set[int] | None = None
        """In a new incarnation of the input: partitions that it has committed; the others begin at their start."""
        self._refused: set[int] = set()
        """Partitions whose leader refused a fetch at the group's offset, and of which none was read since."""
        self._kept: list[Any] = []
        """Records that were read and are beyond the limit of the present transaction."""

    def run(self) -> None:
        """Transaction after transaction until stopped."""
        next_at = system.monotonic()
        while not self.stopping.is_set():
            self._obey()
            now = system.monotonic()
            if self._session.settling:
                if now >= self._session.due:
                    self._session.commit(1.0)
                    self._after()
            elif not self._session.ready:
                if now >= self._session.due and self._session.prepare(1.0):
                    self._leave()  # the predecessor's transaction is settled now: ask the group for its offsets
            elif self._input is None or self._wiring.targets(self._source).tag != self._reads.tag:
                self._join()
            else:
                if now >= self._look_at:
                    self._look()
                if self._input is not None and now >= next_at and not self._inbox.paused:
                    next_at = now + self._settings.interval
                    self._relay()
                    continue
            self.stopping.wait(min(max(next_at - now, 0.01), _PACE_S))

    def end(self) -> None:
        """Ask once more for the commit that has no answer; what has none then is indeterminate."""
        if self._session.settling:
            self._session.commit(1.0)
        self._session.give_up("stopped before its outcome was known")
        self._leave()

    def _go_on_after(self, before: Renewal) -> None:
        if self._under.tag != before.tag:
            self._session.give_up("the topic is another one")
        self._book.renew(self._under)

    def _join(self) -> None:
        """Begin to read at the group's offsets; without any, at the end, or at the start of a new incarnation."""
        self._leave()
        target = self._wiring.targets(self._source)
        if target.tag != self._reads.tag:
            self._begun = None if self._reads.tag == b"" else set()
        client = open_consumer(
            self._consuming, f"{self._wiring.mode}-input", "read_committed", self._wiring.inbox, self._clock
        )
        try:
            if self._settings.rebalance_every is None:
                self._assign(client, [TopicPartition(self._source, p) for p in self._led(client, _ASK_S)])
            else:
                client.subscribe(
                    [self._source], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
                )
        except KafkaException as raised:
            self._report(raised.args[0])
            in_background(client.close, f"{self._wiring.mode}-input-closing")
            self.stopping.wait(_PACE_S * 5)
            return
        self._input, self._reads = client, target
        self._look_at = system.monotonic() + _LOOK_S

    def _look(self) -> None:
        """Join again when the input has partitions that were not there, or had no leader, at the last time."""
        self._look_at = system.monotonic() + _LOOK_S
        if self._settings.rebalance_every is not None:
            return  # the group finds new partitions itself
        try:
            found = self._led(self._input, 1.0)
        except KafkaException as raised:
            self._report(raised.args[0])
            return
        if set(found) - self._positions.keys():
            self._leave()

    def _led(self, client: Any, most_s: float) -> list[int]:
        """Return the input's partitions that have a leader; raises KafkaException without an answer."""
        found = client.list_topics(self._source, timeout=most_s).topics[self._source].partitions
        return sorted(partition for partition, one in found.items() if one.leader >= 0)

    def _assign(self, client: Any, places: Sequence[Any]) -> None:
        """Begin at the group's committed offsets; raises KafkaException while they are not known.

        A partition whose leader does not answer is left out until the next look, unless none answers.
        """
        begun = self._begun
        positions: dict[int, int] = {}
        refusal: KafkaException | None = None
        for place in client.committed(list(places), timeout=_ASK_S):
            if place.error is not None:
                raise KafkaException(place.error)
            try:
                start, end = client.get_watermark_offsets(TopicPartition(self._source, place.partition), _ASK_S)
            except KafkaException as raised:
                refusal = raised
                continue
            fits = place.offset >= 0 and (begun is None or place.partition in begun)
            expired = place.partition in self._refused  # a listed start alone may be too high
            committed = max(place.offset, start) if expired else place.offset
            positions[place.partition] = committed if fits else (end if begun is None else start)
        if refusal is not None and not positions:
            raise refusal
        client.assign([TopicPartition(self._source, p, offset) for p, offset in positions.items()])
        self._positions, self._before = positions, dict(positions)
        self._rebalance_at = system.monotonic() + (self._settings.rebalance_every or 0.0)
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
            return  # a former client, which is being closed in the background
        self._revoked = True
        self._positions.clear()
        self._kept.clear()

    def _visit(self) -> None:
        """Let another member join the group and leave it, in the middle of the transaction that is open."""
        log.debug("relay_visited", worker=self.name)
        visitor = open_consumer(
            self._consuming, f"{self._wiring.mode}-visitor", "read_committed", self._wiring.inbox, self._clock
        )
        deadline = system.monotonic() + _VISIT_S
        try:
            visitor.subscribe([self._source])
            while not self._revoked and system.monotonic() < deadline and not self.stopping.is_set():
                take(visitor, _PACE_S, self._report)
                self._kept += take(self._input, 0.0, self._report)
        except KafkaException as raised:
            self._report(raised.args[0])
        finally:
            in_background(visitor.close, f"{self._wiring.mode}-visitor-closing")

    def _leave(self) -> None:
        client, self._input = self._input, None
        self._kept.clear()
        if client is not None:
            grouped = self._settings.rebalance_every is not None
            in_background(partial(leave, client) if grouped else client.close, f"{self._wiring.mode}-input-closing")

    def _relay(self) -> None:
        """Read at most ``most`` records, and write them on in one transaction."""
        self._before, self._revoked = dict(self._positions), False
        taken = self._take()
        self._taken.tell([])  # in another cluster it may find nothing to take
        before = self._before
        if self._revoked:  # records from before and after the rebalance are mixed
            self._leave()
        if self._input is None or self._positions == before:
            return
        session = self._session
        if session.begin():
            assert session.open is not None  # noqa: S101  # it has just begun
            moved = {p: (before[p], end) for p, end in self._positions.items() if end != before[p]}
            at_ns = self._clock.now_ns()
            self._taken.tell(
                [
                    Relayed(at_ns, *session.open.key, self._source, p, a, b, self._reads.topic_id)
                    for p, (a, b) in sorted(moved.items())
                ]
            )
            session.send([self._under.partitions[p % len(self._under.partitions)] for p in taken])
            offsets = [TopicPartition(self._source, p, end) for p, (_, end) in moved.items()]
            sent = session.deliver(self._settings.timeout * DELIVERY_SHARE, self.stopping)
            if self._settings.rebalance_every is not None and system.monotonic() >= self._rebalance_at:
                self._visit()
            if self._revoked:
                session.abort("a rebalance took its input away")
            elif sent and session.send_offsets(offsets, self._input.consumer_group_metadata()):
                if self._begun is not None:
                    self._begun.update(moved)
                session.commit()
            else:
                session.abort("not delivered")
                self._leave()  # go on at the group's offsets
        self._after()

    def _take(self) -> list[int]:
        """Return the partition of each record to write on; positions move past every record."""
        taken: list[int] = []
        tag = self._reads.tag
        for message in self._messages():
            error = message.error()
            if error is None and message.partition() not in self._positions:
                continue  # taken away meanwhile
            if error is None:
                self._positions[message.partition()] = message.offset() + 1
                self._refused.discard(message.partition())
                if not isinstance(decode(message.value(), tag), Refusal):
                    taken.append(message.partition())
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # public in librdkafka
                continue
            else:
                self._report(error)
                if error.code() in {KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION}:  # noqa: SLF001
                    log.warning("relay_input_astray", worker=self.name, error=text_of(error))
                    self._refused.add(message.partition())
                    self._leave()
                    return []
        return taken

    def _messages(self) -> list[Any]:
        self._kept += take(self._input, 0.0 if self._kept else 0.01, self._report)
        now, self._kept = self._kept[: self._settings.most], self._kept[self._settings.most :]
        return now

    def _after(self) -> None:
        """A client that had to be closed is followed by a new one, which fences it before anything is written."""
        if self._session.client is not None or self.stopping.is_set():
            return
        self._leave()
        self.stopping.wait(self.pause.left_s)
        self.pause.start()


def make(wiring: Wiring[RelaySettings]) -> Relay:
    """Return the workload's writer."""
    assert WORKLOAD.source is not None  # noqa: S101  # for the type checker
    group: dict[str, object] = {"group.id": f"{wiring.cluster.identifier_prefix}-{wiring.own_name}"}
    if wiring.settings.rebalance_every is not None:  # a member notices soon that another one joins
        group |= {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 500}
    return Relay(
        client_config(wiring, wiring.own_name),
        consumer_config(wiring.cluster, "read_committed") | group,
        wiring.cluster.topic_of(WORKLOAD.source),
        wiring,
    )
