"""Probes to every partition at a steady rate, one or a burst of them, by an idempotent producer with acks from all.

A fatal client error (a truncated log answers the same producer with OUT_OF_ORDER_SEQUENCE_NUMBER: why-fsync,
FIELD-NOTES) ends that client. Its unresolved probes become indeterminate, the owner is asked for a new generation, and
a new client goes on.

Cost is per wake-up: a beat hands over all partitions' probes at once and then serves delivery reports as they come, so
that a latency ends when the report arrives, not at the next beat. They are put into the inbox together.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import partial
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException

from canary.facts import Batch, ClientError, Fact, ProducerEpochBumped, Skipped
from canary.facts.batch import column
from canary.kafka import opening
from canary.kafka.client_inbox import ClientInbox, cluster_of
from canary.kafka.effective_config import IDEMPOTENT, logging_properties, require
from canary.kafka.producer_epochs import watching_epochs
from canary.kafka.quiet import ErrorReporter, Gate, calm, quiet_logger, whole_ms
from canary.kafka.responses import text_of
from canary.probing.base import SAFE, Renewal, Wiring, Writer
from canary.probing.book import Book
from canary.probing.sending.pipeline import piped
from canary.probing.sending.records import Record
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

LEAST_S = 0.01
"""Between two beats: where probes are to come faster, each beat sends several to a partition."""
CATCH_UP_S = 0.25
"""A writer that comes late sends what was due in so many seconds; the rest is skipped."""
SKIPS_S = 1.0
"""How often it is told how many were skipped."""

PACE_S = 0.25
"""Longest wait in one poll(): bounds the reaction to stop and retarget."""
SLACK, SLACK_S = 3, 0.01
"""A latency is noted at most a third and at most 10 ms too long (1 ms where that is more): so long does the writer
sleep after a report. The client asks for each partition by itself, so that the reports of one beat come one by one
(librdkafka issue 1700), and to be woken for each of them costs more than all else."""
GATHER_S = 0.1
"""How long acknowledgements are held at most while other probes have no report."""


class IdempotentProducer(Writer):
    """The thread that sends.

    Args:
        config: librdkafka properties; ``forced`` goes over them.
        max_in_flight: unresolved probes of a partition beyond which its beats are skipped (counted in ``skipped``);
            by default 200, or as many as are due in a second, or two bursts.
        patience_s: when the oldest unresolved probe of a partition is older than so many seconds (and what it may
            linger in the client), FEW are the most.
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
        max_in_flight: int | None = None,
        patience_s: float = 0.4,
        flush_s: float = 0.5,
        forced: Mapping[str, object] = SAFE,
        promised: Mapping[str, str] = IDEMPOTENT,
    ) -> None:
        super().__init__(wiring)
        self._client_inbox = ClientInbox(wiring.inbox, wiring.clock, self.name, lambda: cluster_of(self._producer))
        self.skipped: Counter[int] = Counter()
        settings = wiring.settings
        given = {name: value for name, value in config.items() if name not in ALIASES}
        self._config = piped({**DEFAULTS, **given}, settings)
        self._interval_s = settings.interval
        self._burst = settings.burst
        self._max_in_flight = max_in_flight or max(200, int(settings.rate), 2 * settings.burst)
        self._most_at_once = max(1, int(CATCH_UP_S / self._interval_s))
        self._patience_ns = int((patience_s + (settings.linger or 0)) * 1e9)
        self._flush_s = flush_s
        self._forced = forced
        self._promised = promised
        self._book = Book(wiring, wiring.under)
        self._open: defaultdict[int, dict[int, int]] = defaultdict(dict)
        """By partition: sequence to when (ns) the client took it."""
        self._acks: list[tuple[int, int, int, int, int]] = []
        self._put_at = math.inf
        """When the acknowledgements are put into the inbox at the latest."""
        self._outcomes: list[Fact | Batch[Any]] = []
        self._skips: Counter[int] = Counter()
        self._late: Counter[int] = Counter()
        self._skips_told = system.monotonic()
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
        all_failed = False
        while not self.stopping.is_set():
            self._obey()
            if self._fatal is not None:
                self._start_over()
                continue
            now = system.monotonic()
            beat_at = min(beat_at, now)  # one that is interrupted comes early
            due = 1 + int((now - beat_at) / self._interval_s)
            beats = 0 if self._inbox.paused else min(due, self._most_at_once)
            if due > beats:
                for partition in self._under.partitions:
                    self._skip(partition, (due - beats) * self._burst, late=not all_failed)
            all_failed = beats > 0 and self._beat(beats)
            self._tell_skips(now)
            beat_at += due * self._interval_s
            # when all failed, the topic is gone or the queue is full: no use in asking ten times a second
            wake_at = max(beat_at, now + (max(self._interval_s, 1.0) if all_failed else LEAST_S))
            while (left := wake_at - system.monotonic()) > 0 and not self._interrupted():
                self._serve(min(left, PACE_S))
        self._tell_skips(math.inf)
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
        self._outcome(ProducerEpochBumped(at_ns, *who, reason))
        log.info("producer_epoch_bumped", worker=self.name, reason=reason)

    def _go_on_after(self, before: Renewal) -> None:
        fresh = (self._under.generation, self._under.tag) != (before.generation, before.tag)
        if fresh:  # while the book still numbers under the former generation
            self._give_up("retargeted before a delivery report")
        self._book.renew(self._under)
        if fresh:
            self._open_client()
        elif set(self._under.partitions) - set(before.partitions):
            self._learn_partitions()

    def _learn_partitions(self) -> None:
        """Make the client ask for metadata now: until it knows a partition, produce() to it raises."""
        try:
            self._producer.list_topics(self._wiring.topic, timeout=1.0)
        except KafkaException as error:
            log.info("metadata_not_refreshed", worker=self.name, error=str(error))

    def _beat(self, beats: int) -> bool:
        """Send so many bursts to each partition that has room. Returns whether some probes were sent and all failed."""
        now_ns, due = self._clock.now_ns(), beats * self._burst
        chosen: list[int] = []
        for partition in self._under.partitions:
            number = min(due, self._room(partition, now_ns))
            chosen += [partition] * number
            self._skip(partition, due - number)
        sent = self._book.send(chosen)
        failed = 0
        for partition, sequence, record in zip(chosen, column(sent, "sequence"), self._book.records(sent), strict=True):
            failed += not self._produce(partition, sequence, record)
        return bool(chosen) and failed == len(chosen)

    def _room(self, partition: int, now_ns: int) -> int:
        """Return how many more probes may be under way to a partition."""
        unresolved = self._open[partition]
        few = min(FEW, self._max_in_flight) - len(unresolved)
        if unresolved and now_ns - next(iter(unresolved.values())) >= self._patience_ns:
            return max(few, 0)
        return max(self._max_in_flight - len(unresolved), few, 0)

    def _skip(self, partition: int, number: int, *, late: bool = False) -> None:
        """Count probes that were due and are not sent; ``late``: because this writer came too late."""
        if number:
            self.skipped[partition] += number
            self._skips[partition] += number
            self._late[partition] += number * late
            if self._gate.admit(partition) is not None:
                unresolved = len(self._open[partition])
                log.warning("beat_skipped", worker=self.name, partition=partition, unresolved=unresolved)

    def _tell_skips(self, now: float) -> None:
        """Put into the inbox, once a second, how many probes were not sent."""
        if now - self._skips_told >= SKIPS_S:
            self._skips_told = now
            skips, self._skips = self._skips, Counter()
            late, self._late = self._late, Counter()
            if skips:
                where, at_ns, mode = self._wiring.topic, self._clock.now_ns(), self._wiring.mode
                self._client_inbox.tell(
                    [Skipped(at_ns, where, p, mode, number, late[p]) for p, number in skips.items()]
                )

    def _produce(self, partition: int, sequence: int, record: Record) -> bool:
        """Hand one probe to the client. Returns whether it took it."""
        unresolved = self._open[partition]
        unresolved[sequence] = self._clock.now_ns()
        report = partial(self._delivered, unresolved, partition, sequence)
        try:
            self._book.produce(self._producer, partition, record, report)
        except (BufferError, KafkaException) as error:
            unresolved.pop(sequence, None)
            self._client_inbox.tell([self._book.failed(self._book.identity(partition, sequence), error)])
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
            self._client_inbox.tell([fact])
            self._died(text_of(first))

    def _delivered(
        self, unresolved: dict[int, int], partition: int, sequence: int, error: KafkaError | None, message: Any
    ) -> None:
        started_ns = unresolved.pop(sequence, None)
        if started_ns is None:
            return
        offset = message.offset() if error is None else None
        if offset is not None and offset >= 0:
            at_ns = self._clock.now_ns()
            self._acks.append((partition, sequence, at_ns, offset, at_ns - started_ns))
        else:
            identity = self._book.identity(partition, sequence)
            self._outcome(self._book.reported(identity, started_ns, error, message))

    def _outcome(self, fact: Fact) -> None:
        """Keep a fact, after what was acknowledged before it, until the inbox is given it."""
        self._keep_acks()
        self._outcomes.append(fact)

    def _keep_acks(self) -> None:
        if self._acks:
            acks, self._acks = self._acks, []
            self._outcomes += self._book.acked(acks)

    def _serve(self, timeout_s: float) -> None:
        """Let the client call back for at most ``timeout_s`` seconds, and put its reports into the inbox.

        Acknowledgements alone wait for those of the other probes, for a moment.
        """
        held = self._put_at - system.monotonic()
        try:
            self._producer.poll(whole_ms(max(min(timeout_s, held), 0)))
        except KafkaException as error:
            self._note(error)
        if self._acks and not self._outcomes and any(self._open.values()):
            now = system.monotonic()
            self._put_at = min(self._put_at, now + GATHER_S)
            if now < self._put_at:
                latency_s = self._acks[-1][-1] / 1e9
                system.sleep(min(max(latency_s / SLACK, 0.001), SLACK_S))
                return
        self._hand_over()

    def _hand_over(self) -> None:
        """Put into the inbox what was reported."""
        self._put_at = math.inf
        self._keep_acks()
        if self._outcomes:
            outcomes, self._outcomes = self._outcomes, []
            self._client_inbox.tell(outcomes)

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
        self._hand_over()
        open_ones = [
            self._book.identity(p, sequence) for p, unresolved in self._open.items() for sequence in unresolved
        ]
        rest = self._book.unreported(open_ones, why)
        for unresolved in self._open.values():
            unresolved.clear()  # a report that comes later is of a generation that is over
        self._open.clear()
        if rest:
            self._client_inbox.tell(rest)
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
