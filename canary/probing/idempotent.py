"""One probe to every partition at a steady rate, by an idempotent producer with acks from all.

A fatal client error (a truncated log answers the same producer with OUT_OF_ORDER_SEQUENCE_NUMBER: why-fsync,
FIELD-NOTES) ends that client. Its unresolved probes become indeterminate, the owner is asked for a new generation, and
a new client goes on.

Cost is per wake-up: a beat hands over all partitions' probes at once and then serves delivery reports as they come, so
that a latency ends when the report arrives, not at the next beat.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import partial
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException

from canary.facts import ClientError, Fact, ProducerEpochBumped, Sent
from canary.kafka import opening
from canary.kafka.effective_config import IDEMPOTENT, logging_properties, require
from canary.kafka.producer_epochs import watching_epochs
from canary.kafka.quiet import ErrorReporter, Gate, calm, quiet_logger, whole_ms
from canary.kafka.responses import text_of
from canary.probe.identity import Identity
from canary.probing.base import SAFE, Renewal, Wiring, Writer
from canary.probing.book import Book, identity_of
from canary.settings import producer_config
from canary.threads import system
from canary.workloads.descriptor import Settings

log = structlog.get_logger(__name__)

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


class IdempotentProducer(Writer):
    """The thread that sends.

    Args:
        config: librdkafka properties; ``forced`` goes over them.
        max_in_flight: unresolved probes of a partition beyond which its beats are skipped (counted in ``skipped``).
        patience_s: when the oldest unresolved probe of a partition is older than so many seconds, FEW are the most.
            Requests that get no answer make the client's broker threads spin now and then, a core each, until the
            socket times out (measured with every broker frozen); and more of them would show nothing more.
        flush_s: how long a stop waits for reports of what is in flight.
        forced: librdkafka properties that make the promise; only the workload ``plain`` has others.
        promised: what the client itself must say that it does (canary.kafka.effective_config).
    """

    def __init__(
        self,
        config: Mapping[str, object],
        wiring: Wiring[Settings],
        *,
        max_in_flight: int = 200,
        patience_s: float = 0.4,
        flush_s: float = 0.5,
        forced: Mapping[str, object] = SAFE,
        promised: Mapping[str, str] = IDEMPOTENT,
    ) -> None:
        super().__init__(wiring)
        self.skipped: Counter[int] = Counter()
        self._config = {**DEFAULTS, **{name: value for name, value in config.items() if name not in ALIASES}}
        self._interval_s = wiring.settings.interval
        self._max_in_flight = max_in_flight
        self._patience_ns = int(patience_s * 1e9)
        self._flush_s = flush_s
        self._forced = forced
        self._promised = promised
        self._book = Book(wiring, wiring.under)
        self._open: defaultdict[int, dict[Identity, int]] = defaultdict(dict)
        self._outcomes: list[Fact] = []
        self._fatal: str | None = None
        self._gate = Gate()
        self._producer: Any = None

    @property
    def in_flight(self) -> int:
        """Probes without outcome."""
        return sum(map(len, list(self._open.values())))

    def run(self) -> None:
        """Send beat after beat until stopped; then wait a moment for reports."""
        self._open_client()
        beat_at = system.monotonic()
        while not self.stopping.is_set():
            self._obey()
            if self._fatal is not None:
                self._start_over()
                continue
            all_failed = not self._inbox.paused and self._beat()
            beat_at = max(beat_at + self._interval_s, system.monotonic())
            if all_failed:  # the topic is gone, or the queue is full: no use in asking ten times a second
                beat_at = system.monotonic() + max(self._interval_s, 1.0)
            while (left := beat_at - system.monotonic()) > 0 and not self._interrupted():
                self._serve(min(left, PACE_S))
        self._drain(self._flush_s)

    def end(self) -> None:
        """Give up what has no report."""
        self._give_up("stopped before a delivery report")

    def _interrupted(self) -> bool:
        return self.stopping.is_set() or self._fatal is not None or self._wanted is not None

    def _open_client(self) -> None:
        self._fatal = None
        name = f"{self._wiring.mode}-{self._under.generation}"
        config = calm(self._config, name, forced=self._forced)
        config["error_cb"] = ErrorReporter(f"producer-{name}", self._inbox, self._clock, on_fatal=self._died)
        logger = quiet_logger(f"producer-{name}")
        config = watching_epochs(config, logger, self._bumped)
        config, effective = logging_properties(config, logger)
        self._producer = opening.producer(config, logger)
        require(self._producer, effective, self._promised)

    def _died(self, reason: str) -> None:
        self._fatal = self._fatal or reason

    def _bumped(self, reason: str) -> None:
        """Note, before any outcome that comes after it, that what is in flight may be sent twice."""
        at_ns, who = self._clock.now_ns(), (self._wiring.topic, self._wiring.producer_id, self._under.generation)
        self._outcomes.append(ProducerEpochBumped(at_ns, *who, reason))
        log.info("producer_epoch_bumped", worker=self.name, reason=reason)

    def _go_on_after(self, before: Renewal) -> None:
        self._book.renew(self._under)
        if (self._under.generation, self._under.tag) != (before.generation, before.tag):
            self._give_up("retargeted before a delivery report")
            self._open_client()
        elif set(self._under.partitions) - set(before.partitions):
            self._learn_partitions()

    def _learn_partitions(self) -> None:
        """Make the client ask for metadata now: until it knows a partition, produce() to it raises."""
        try:
            self._producer.list_topics(self._wiring.topic, timeout=1.0)
        except KafkaException as error:
            log.info("metadata_not_refreshed", worker=self.name, error=str(error))

    def _beat(self) -> bool:
        """Send one probe to each partition that has room. Returns whether there were some and all of them failed."""
        room = [partition for partition in self._under.partitions if self._has_room(partition)]
        for partition in set(self._under.partitions).difference(room):
            self.skipped[partition] += 1
            if self._gate.admit(partition) is not None:
                unresolved = len(self._open[partition])
                log.warning("beat_skipped", worker=self.name, partition=partition, unresolved=unresolved)
        sent = self._book.send(room)
        failed = sum(not self._produce(*one) for one in zip(sent, self._book.records(sent), strict=True))
        return bool(sent) and failed == len(sent)

    def _has_room(self, partition: int) -> bool:
        unresolved = self._open[partition]
        if len(unresolved) < min(FEW, self._max_in_flight):
            return True
        oldest_ns = next(iter(unresolved.values()))
        return len(unresolved) < self._max_in_flight and self._clock.now_ns() - oldest_ns < self._patience_ns

    def _produce(self, fact: Sent, record: tuple[bytes, bytes]) -> bool:
        """Hand one probe to the client. Returns whether it took it."""
        identity = identity_of(fact)
        self._open[fact.partition][identity] = self._clock.now_ns()
        try:
            self._book.produce(self._producer, fact.partition, record, partial(self._delivered, identity))
        except (BufferError, KafkaException) as error:
            self._open[fact.partition].pop(identity, None)
            self._inbox.put([self._book.failed(identity, error)])
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
        started_ns = self._open[identity.partition].pop(identity, None)
        if started_ns is not None:
            self._outcomes.append(self._book.reported(identity, started_ns, error, message))

    def _serve(self, timeout_s: float) -> None:
        """Let the client call back for at most ``timeout_s`` seconds, and put its reports into the inbox."""
        try:
            self._producer.poll(whole_ms(timeout_s))
        except KafkaException as error:
            self._note(error)
        if self._outcomes:
            outcomes, self._outcomes = self._outcomes, []
            self._inbox.put(outcomes)

    def _drain(self, seconds: float) -> None:
        deadline = system.monotonic() + seconds
        while self.in_flight and self._fatal is None and (left := deadline - system.monotonic()) > 0:
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
        rest = self._book.unreported([one for unresolved in self._open.values() for one in unresolved], why)
        self._open.clear()
        if rest:
            self._inbox.put(rest)
        self._producer = None

    def _start_over(self) -> None:
        """After a fatal error: a new generation from the owner, and a new client."""
        reason = self._fatal or ""
        log.warning("client_died", worker=self.name, reason=reason)
        self._give_up(f"the client died: {reason}")
        if self._renew_after_death(reason):
            self._book.renew(self._under)
            self._open_client()


def make(wiring: Wiring[Settings]) -> IdempotentProducer:
    """Return the workload's writer."""
    return IdempotentProducer(producer_config(wiring.cluster), wiring)
