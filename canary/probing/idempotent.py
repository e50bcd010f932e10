"""One probe to every partition at a steady rate, by an idempotent producer with acks from all.

Outcomes are decided by where an error shows (ARCHITECTURE decision 3): an exception of produce() itself is ``Failed``,
because the client never took the record; every error in a delivery report is ``Indeterminate``, because Python shows no
persistence status and a retry may have landed; what has no report when its client ends is ``Indeterminate`` too.

A fatal client error (a truncated log answers the same producer with OUT_OF_ORDER_SEQUENCE_NUMBER: why-fsync,
FIELD-NOTES) ends that client. Its unresolved probes are given up as indeterminate, the owner is asked for a new
generation, and a new client goes on.

Cost is per wake-up: a beat hands over all partitions' probes at once and then serves delivery reports as they come, so
that a latency is taken when the report arrives and not when somebody looks.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import structlog
from confluent_kafka import KafkaError, KafkaException, Producer

from canary.client.answers import text_of
from canary.client.epochs import watching_epochs
from canary.client.honesty import IDEMPOTENT, confessing, require
from canary.client.quiet import ErrorReporter, Gate, calm, quiet_logger
from canary.client.worker import Worker
from canary.facts import Acked, ClientError, Fact, Failed, Indeterminate, ProducerEpochBumped, Sent
from canary.probe.identity import Identity
from canary.probe.record import encode, key
from canary.probing.succession import Succession

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from canary.client.ports import Clock, Inbox

log = structlog.get_logger(__name__)

SAFE: Mapping[str, object] = {"enable.idempotence": True, "acks": "all"}
"""What makes the promise that is being watched; an operator's properties do not change it (jepsen-redpanda)."""

ALIASES = frozenset({"request.required.acks"})
"""Other names of what is in SAFE: with both set, the order would decide."""

DEFAULTS: Mapping[str, object] = {
    "linger.ms": 0,  # a beat is one record a partition: nothing to gather
    "message.timeout.ms": 120000,
    "compression.type": "none",
}

FEW = 4
"""As many unresolved probes of a partition are never too many: fewer than the client may have on the wire (5)."""

PACE_S = 0.25
"""Longest wait in one poll(): bounds the reaction to stop and retarget."""


class Renewal(NamedTuple):
    """What a new client writes under: the owner has put GenerationBegan into the inbox before it hands this over."""

    generation: int
    tag: bytes
    partitions: Sequence[int]


class IdempotentProducer(Worker):
    """The thread that sends. Nothing is sent before ``start()``.

    Args:
        config: librdkafka properties; ``forced`` goes over them.
        topic: the probe topic; it must exist.
        partitions: the partitions to send to.
        producer_id: who writes (ARCHITECTURE decision 1).
        generation: taken by compare-and-set before this is made; sequences of it count from 0 in each partition.
        tag: the 4 bytes that mark records as ours in this incarnation of the topic.
        mode: name of the mode the facts carry.
        interval_s: seconds from one probe to the next of the same partition.
        record_length: bytes of a probe's value.
        inbox: where facts go.
        clock: what time it is.
        renew: called in this thread after a fatal client error with its text; returns under what to go on. May block
            and raise (canary.probing.succession, which also says how long a client waits that dies again and again).
        max_in_flight: unresolved probes of a partition beyond which its beats are skipped (counted in ``skipped``).
        patience_s: when the oldest unresolved probe of a partition is older than so many seconds, FEW are the most.
            What waits in the client behind requests that nobody answers makes its broker threads spin now and then,
            a core each, until the socket times out (measured with every broker frozen); and it would tell no more.
        flush_s: how long a stop waits for reports of what is in flight.
        forced: librdkafka properties that make the promise; only the mode ``plain`` has others.
        promised: what the client itself must say that it does (canary.client.honesty).
    """

    def __init__(
        self,
        config: Mapping[str, object],
        topic: str,
        partitions: Sequence[int],
        *,
        producer_id: int,
        generation: int,
        tag: bytes,
        mode: str,
        interval_s: float,
        record_length: int,
        inbox: Inbox,
        clock: Clock,
        renew: Callable[[str], Renewal],
        max_in_flight: int = 200,
        patience_s: float = 0.4,
        flush_s: float = 0.5,
        forced: Mapping[str, object] = SAFE,
        promised: Mapping[str, str] = IDEMPOTENT,
    ) -> None:
        super().__init__(f"producer-{mode}")
        self.skipped: Counter[int] = Counter()
        self._config = {**DEFAULTS, **{name: value for name, value in config.items() if name not in ALIASES}}
        self._topic = topic
        self._producer_id = producer_id
        self._under = Renewal(generation, tag, tuple(partitions))
        self._mode = mode
        self._interval_s = interval_s
        self._record_length = record_length
        self._inbox = inbox
        self._clock = clock
        self._succession = Succession(self.name, renew, self.stopping)
        self._max_in_flight = max_in_flight
        self._patience_ns = int(patience_s * 1e9)
        self._flush_s = flush_s
        self._forced = forced
        self._promised = promised
        self._next: Counter[int] = Counter()
        self._open: defaultdict[int, dict[Identity, int]] = defaultdict(dict)
        self._outcomes: list[Fact] = []
        self._fatal: str | None = None
        self._wanted: Renewal | None = None
        self._lock = threading.Lock()
        self._gate = Gate()
        self._producer: Any = None

    def retarget(self, generation: int, tag: bytes, partitions: Sequence[int]) -> None:
        """Go on under other values, soon and in its own thread: the topic was made again, or has more partitions.

        With another generation sequences count from 0 again; with another generation or tag there is a new client and
        what the old one had in flight becomes indeterminate; with neither, the client and its sequences go on.
        """
        with self._lock:
            self._wanted = Renewal(generation, tag, tuple(partitions))

    @property
    def in_flight(self) -> int:
        """Probes without outcome."""
        return sum(map(len, list(self._open.values())))

    def _unresolved(self) -> list[Identity]:
        return [identity for unresolved in self._open.values() for identity in unresolved]

    def run(self) -> None:
        """Send beat after beat until stopped; then wait a moment for reports."""
        self._open_client()
        beat_at = time.monotonic()
        while not self.stopping.is_set():
            self._obey()
            if self._fatal is not None:
                self._start_over()
                continue
            all_failed = not self._inbox.paused and self._beat()
            beat_at = max(beat_at + self._interval_s, time.monotonic())
            if all_failed:  # the topic is gone, or the queue is full: no use in asking ten times a second
                beat_at = time.monotonic() + max(self._interval_s, 1.0)
            while (left := beat_at - time.monotonic()) > 0 and not self._interrupted():
                self._serve(min(left, PACE_S))
        self._drain(self._flush_s)

    def end(self) -> None:
        """Give up what has no report."""
        self._give_up("stopped before a delivery report")

    def _interrupted(self) -> bool:
        return self.stopping.is_set() or self._fatal is not None or self._wanted is not None

    def _open_client(self) -> None:
        self._fatal = None
        name = f"{self._mode}-{self._under.generation}"
        config = calm(self._config, name, forced=self._forced)
        config["error_cb"] = ErrorReporter(f"producer-{name}", self._inbox, self._clock, on_fatal=self._died)
        logger = quiet_logger(f"producer-{name}")
        config = watching_epochs(config, logger, self._bumped)
        config, confession = confessing(config, logger)
        self._producer = Producer(config, logger=logger)
        require(self._producer, confession, self._promised)

    def _died(self, reason: str) -> None:
        self._fatal = self._fatal or reason

    def _bumped(self, reason: str) -> None:
        """Note, before any outcome that comes after it, that what is in flight may be sent twice."""
        at_ns = self._clock.now_ns()
        self._outcomes.append(
            ProducerEpochBumped(at_ns, self._topic, self._producer_id, self._under.generation, reason)
        )
        log.info("producer_epoch_bumped", worker=self.name, reason=reason)

    def _obey(self) -> None:
        with self._lock:
            wanted, self._wanted = self._wanted, None
        if wanted is not None:
            self._go_on_under(wanted, "retargeted before a delivery report")

    def _go_on_under(self, wanted: Renewal, given_up: str) -> None:
        before, self._under = self._under, wanted
        if wanted.generation != before.generation:
            self._next.clear()
        if (wanted.generation, wanted.tag) != (before.generation, before.tag):
            self._give_up(given_up)
            self._open_client()
        elif set(wanted.partitions) - set(before.partitions):
            self._learn_partitions()

    def _learn_partitions(self) -> None:
        """Make the client ask for metadata now: until it knows a partition, produce() to it raises."""
        try:
            self._producer.list_topics(self._topic, timeout=1.0)
        except KafkaException as error:
            log.info("metadata_not_refreshed", worker=self.name, error=str(error))

    def _beat(self) -> bool:
        """Send one probe to each partition that has room. Returns whether there were some and all of them failed."""
        generation, tag, partitions = self._under
        sent: list[Sent] = []
        for partition in partitions:
            if not self._has_room(partition):
                self._skip(partition)
                continue
            at_ns, sequence = self._clock.now_ns(), self._next[partition]
            self._next[partition] += 1
            sent.append(Sent(at_ns, self._topic, partition, self._producer_id, generation, sequence, self._mode))
        if not sent:
            return False
        self._inbox.put(sent)
        failed = sum(not self._produce(fact, tag) for fact in sent)
        return failed == len(sent)

    def _has_room(self, partition: int) -> bool:
        unresolved = self._open[partition]
        if len(unresolved) < min(FEW, self._max_in_flight):
            return True
        oldest_ns = next(iter(unresolved.values()))
        return len(unresolved) < self._max_in_flight and self._clock.now_ns() - oldest_ns < self._patience_ns

    def _skip(self, partition: int) -> None:
        self.skipped[partition] += 1
        if self._gate.admit(partition) is not None:
            log.warning("beat_skipped", worker=self.name, partition=partition, unresolved=len(self._open[partition]))

    def _produce(self, fact: Sent, tag: bytes) -> bool:
        """Hand one probe to the client. Returns whether it took it."""
        identity = Identity(fact.producer_id, fact.generation, fact.partition, fact.sequence)
        value = encode(
            identity,
            tag=tag,
            mode=self._mode,
            transaction_id=None,
            sent_at_ns=fact.at_ns,
            length=self._record_length,
        )
        self._open[fact.partition][identity] = self._clock.now_ns()
        try:
            self._producer.produce(
                self._topic,
                value,
                key(identity),
                partition=fact.partition,
                on_delivery=partial(self._delivered, identity),
            )
        except (BufferError, KafkaException) as error:
            self._close(identity)
            self._inbox.put([Failed(self._clock.now_ns(), self._topic, *_flat(identity), error=str(error))])
            self._note(error)
            return False
        return True

    def _note(self, error: Exception) -> None:
        """See whether an exception of the client means that it is dead."""
        first = error.args[0] if error.args else None
        if not isinstance(first, KafkaError) or not (first.fatal() or first.code() == KafkaError._FATAL):  # noqa: SLF001  # public in librdkafka
            if self._gate.admit(str(error)) is not None:
                log.warning("client_raised", worker=self.name, error=str(error))
        elif self._fatal is None:  # seen here before error_cb was called
            fact = ClientError(self._clock.now_ns(), self.name, first.name(), first.str(), fatal=True)
            self._inbox.put([fact])
            self._died(text_of(first))

    def _delivered(self, identity: Identity, error: KafkaError | None, message: Any) -> None:
        started_ns = self._close(identity)
        if started_ns is None:
            return
        at_ns = self._clock.now_ns()
        if error is not None:
            self._outcomes.append(Indeterminate(at_ns, self._topic, *_flat(identity), error=text_of(error)))
            return
        offset = message.offset()
        known = offset if offset is not None and offset >= 0 else None
        latency_ns = at_ns - started_ns
        self._outcomes.append(Acked(at_ns, self._topic, *_flat(identity), offset=known, latency_ns=latency_ns))

    def _close(self, identity: Identity) -> int | None:
        return self._open[identity.partition].pop(identity, None)

    def _serve(self, timeout_s: float) -> None:
        """Let the client call back for at most ``timeout_s`` seconds, and pass on what it told."""
        try:
            self._producer.poll(timeout_s)
        except KafkaException as error:
            self._note(error)
        if self._outcomes:
            outcomes, self._outcomes = self._outcomes, []
            self._inbox.put(outcomes)

    def _drain(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self.in_flight and self._fatal is None and (left := deadline - time.monotonic()) > 0:
            self._serve(min(left, PACE_S))

    def _give_up(self, why: str) -> None:
        """End the client, if there is one: what it has reported counts, what it has not is indeterminate."""
        if self._producer is None:
            return  # it died, and the stop came before its successor
        try:
            self._producer.purge()
        except KafkaException as error:
            self._note(error)
        for _ in range(3):
            self._serve(0)
        at_ns = self._clock.now_ns()
        rest = [Indeterminate(at_ns, self._topic, *_flat(identity), error=why) for identity in self._unresolved()]
        self._open.clear()
        if rest:
            self._inbox.put(rest)
        self._producer = None

    def _start_over(self) -> None:
        """After a fatal error: a new generation from the owner, and a new client."""
        reason = self._fatal or ""
        log.warning("client_died", worker=self.name, reason=reason)
        self._give_up(f"the client died: {reason}")
        renewal = self._succession.after_death(reason)
        if renewal is None:
            return
        with self._lock:  # what the owner said before this answer is out of date
            if self._wanted is not None and self._wanted.generation < renewal.generation:
                self._wanted = None
        self._under = renewal
        self._next.clear()
        self._open_client()


def _flat(identity: Identity) -> tuple[int, int, int, int]:
    """Return the identity in the order in which facts carry it."""
    return identity.partition, identity.producer_id, identity.generation, identity.sequence
