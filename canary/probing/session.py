"""One transactional client, with exact bookkeeping: every transaction that begins here ends as one fact.

A session never guesses: canary.probing.taxonomy says what an error proves; what it does not prove is indeterminate,
and the client is closed, for a client whose state is not understood must not write another record.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog
from confluent_kafka import KafkaError, KafkaException, Producer

from canary.client.answers import text_of
from canary.client.honesty import IDEMPOTENT, confessing, require
from canary.client.opening import opened, refusal_or_raise
from canary.client.quiet import ErrorReporter, calm, quiet_logger
from canary.client.worker import in_background
from canary.facts import (
    Aborted,
    Acked,
    CommitAsked,
    Committed,
    Fact,
    Failed,
    Indeterminate,
    Sent,
    TransactionBegan,
    TransactionIndeterminate,
)
from canary.probe.identity import Identity
from canary.probe.record import encode, key
from canary.probing.idempotent import SAFE
from canary.probing.taxonomy import proof

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from canary.client.ports import Clock, Inbox
    from canary.probing.idempotent import Renewal
    from canary.probing.taxonomy import Where

log = structlog.get_logger(__name__)

PACE_S = 0.1
CALL_S = 2.0
"""Longest wait in one call of the client: bounds the reaction to stop."""
GRACE_S = 1.0
"""How long after its timeout a call may still come back."""
LAND_S = 2.0
"""How long a client that is to be destroyed waits for answers to what it has sent."""
SETTLE_S = 90.0
"""How long a commit that got no answer is asked for again before it is given up as indeterminate."""
AGAIN_S = 0.5


@dataclass(slots=True)
class Book:
    """What all sessions of a mode write under and count in: one thread's."""

    topic: str
    mode: str
    producer_id: int
    record_length: int
    under: Renewal
    inbox: Inbox
    clock: Clock
    next: Counter[int] = field(default_factory=Counter)
    transactions: int = 0

    def begin(self) -> Open:
        """Write down that a transaction is about to begin."""
        number, self.transactions = self.transactions, self.transactions + 1
        generation = self.under.generation
        self.inbox.put([TransactionBegan(self.clock.now_ns(), self.mode, self.producer_id, generation, number)])
        return Open(self.producer_id, generation, number, self.under.tag)

    def renew(self, under: Renewal) -> None:
        """Go on under another generation, or the same one with other partitions."""
        if under.generation != self.under.generation:
            self.next.clear()
        self.under = under


@dataclass(slots=True)
class Open:
    """A transaction that is not settled.

    ``spoiled`` says why it must not be committed; ``doubtful``: whether a write of it was given up unanswered.
    """

    producer_id: int
    generation: int
    number: int
    tag: bytes
    spoiled: str | None = None
    doubtful: bool = False
    asked_at: float | None = None
    unresolved: dict[Identity, int] = field(default_factory=dict)

    @property
    def key(self) -> tuple[int, int, int]:
        """(producer_id, generation, transaction_id), as facts carry it."""
        return (self.producer_id, self.generation, self.number)


class Session:
    """A client with one transactional id. Used by one thread.

    Args:
        config: librdkafka properties, with ``transactional.id``.
        book: the mode's.
        name: of the client, in logs and facts.
    """

    def __init__(self, config: Mapping[str, object], book: Book, name: str) -> None:
        self.name = name
        self.open: Open | None = None
        self.due = 0.0
        self._config = dict(config)
        self._book = book
        self._outcomes: list[Fact] = []
        self._fatal: str | None = None
        self._client: Any = None
        self._ready = False

    @property
    def client(self) -> Any:
        """The client itself, None while there is none."""
        return self._client

    @property
    def ready(self) -> bool:
        """Whether a transaction can begin."""
        return self._ready and self.open is None

    @property
    def settling(self) -> bool:
        """Whether a commit was asked for and its outcome is not known yet."""
        return self.open is not None and self.open.asked_at is not None

    def prepare(self, timeout_s: float = CALL_S) -> bool:
        """Make the client if there is none, and initialise it: whoever had the id before is fenced from here on.

        Returns whether that is so; if not, it is to be called again. A client that refuses for good is closed.
        """
        if self._client is None and not self._make():
            return False
        try:
            self._client.init_transactions(timeout_s)
        except KafkaException as raised:
            error = raised.args[0]
            self.due = time.monotonic() + AGAIN_S
            if error.fatal() or not error.retriable():
                log.warning("transactional_client_refused", client=self.name, error=text_of(error))
                self.close()
            return False
        self._ready = True
        return True

    def _make(self) -> bool:
        """Make the client. Returns whether it is there; not so while its credentials are refused at once."""
        self._fatal = None
        config = calm(self._config, self.name, forced=SAFE)
        report = ErrorReporter(self.name, self._book.inbox, self._book.clock, on_fatal=self._died)
        config["error_cb"] = report
        logger = quiet_logger(self.name)
        config, confession = confessing(config, logger)
        try:
            self._client = opened(lambda: Producer(config, logger=logger))
        except KafkaException as raised:
            refusal_or_raise(raised, report)
            self.due = time.monotonic() + AGAIN_S
            return False
        require(self._client, confession, IDEMPOTENT)
        return True

    def _died(self, reason: str) -> None:
        self._fatal = self._fatal or reason

    def begin(self) -> bool:
        """Begin a transaction. Returns whether it did; else it is settled as aborted already."""
        self.open = self._book.begin()
        try:
            self._client.begin_transaction()
        except KafkaException as raised:
            self._settle_by("before commit", raised.args[0])
            self.close()
            return False
        return True

    def send(self, partitions: Sequence[int], records: int = 1) -> list[Identity]:
        """Send ``records`` probes to each of the partitions; returns their identities."""
        assert self.open is not None  # noqa: S101  # the caller began it
        book, transaction = self._book, self.open
        at_ns = book.clock.now_ns()
        sent: list[Sent] = []
        for partition in partitions:
            for _ in range(records):
                sequence = book.next[partition]
                book.next[partition] += 1
                place = (book.topic, partition, transaction.producer_id, transaction.generation, sequence, book.mode)
                sent.append(Sent(at_ns, *place, transaction_id=transaction.number))
        book.inbox.put(sent)
        identities = [Identity(s.producer_id, s.generation, s.partition, s.sequence) for s in sent]
        for identity in identities:
            self._produce(transaction, identity, at_ns)
        return identities

    def _produce(self, transaction: Open, identity: Identity, at_ns: int) -> None:
        book = self._book
        value = encode(
            identity,
            tag=transaction.tag,
            mode=book.mode,
            transaction_id=transaction.number,
            sent_at_ns=at_ns,
            length=book.record_length,
        )
        transaction.unresolved[identity] = book.clock.now_ns()
        try:
            self._client.produce(
                book.topic,
                value,
                key(identity),
                partition=identity.partition,
                on_delivery=partial(self._delivered, transaction, identity),
            )
        except (BufferError, KafkaException) as error:
            del transaction.unresolved[identity]
            self._spoil(transaction, f"produce: {error}")
            self._outcomes.append(Failed(book.clock.now_ns(), book.topic, *identity_fields(identity), error=str(error)))

    def _delivered(self, transaction: Open, identity: Identity, error: KafkaError | None, message: Any) -> None:
        started_ns = transaction.unresolved.pop(identity, None)
        if started_ns is None:
            return
        at_ns, place = self._book.clock.now_ns(), (self._book.topic, *identity_fields(identity))
        if error is not None:
            transaction.doubtful = True
            self._spoil(transaction, f"delivery: {text_of(error)}")
            self._outcomes.append(Indeterminate(at_ns, *place, error=text_of(error)))
            return
        offset = message.offset()
        known = offset if offset is not None and offset >= 0 else None
        self._outcomes.append(Acked(at_ns, *place, offset=known, latency_ns=at_ns - started_ns))

    def _spoil(self, transaction: Open, why: str) -> None:
        transaction.spoiled = transaction.spoiled or why

    def serve(self, timeout_s: float) -> None:
        """Let the client call back, and pass on what it told."""
        try:
            self._client.poll(timeout_s)
        except KafkaException as raised:
            self._died(text_of(raised.args[0]))
        if self._outcomes:
            outcomes, self._outcomes = self._outcomes, []
            self._book.inbox.put(outcomes)

    def deliver(self, timeout_s: float, stopping: Any = None) -> bool:
        """Wait until everything sent is reported. Returns whether it was, and well; else it must be aborted."""
        assert self.open is not None  # noqa: S101  # the caller began it
        deadline = time.monotonic() + timeout_s
        while self.open.unresolved and self._fatal is None and (left := deadline - time.monotonic()) > 0:
            self.serve(min(PACE_S, left))
            if stopping is not None and stopping.is_set():
                deadline = min(deadline, time.monotonic() + 1.0)
        self.serve(0)
        if self._fatal is not None:
            self._spoil(self.open, self._fatal)
        elif self.open.unresolved:
            self._spoil(self.open, "no delivery report in time")
        return self.open.spoiled is None

    def send_offsets(self, offsets: Sequence[Any], group: Any, timeout_s: float = CALL_S) -> bool:
        """Let the transaction move a consumer group. Returns whether it will; else it must be aborted.

        While the group's coordinator is away this call may last for ever, whatever timeout it is given (librdkafka
        #5456, #5511). So it is made in a thread of its own; a client that does not come back is left to that thread.
        """
        assert self.open is not None  # noqa: S101  # the caller began it
        client, answers = self._client, list[KafkaError | None]()

        def ask() -> None:
            try:
                client.send_offsets_to_transaction(list(offsets), group, timeout_s)
            except KafkaException as raised:
                answers.append(raised.args[0])
            else:
                answers.append(None)

        in_background(ask, f"{self.name}-offsets").join(timeout_s + GRACE_S)
        if not answers:
            log.warning("client_does_not_come_back", client=self.name, call="send_offsets", timeout_s=timeout_s)
            self._spoil(self.open, "send_offsets: no answer")
            self.close()
            return False
        error = answers[0]
        if error is not None:
            self._spoil(self.open, f"send_offsets: {text_of(error)}")
        return error is None

    def commit(self, timeout_s: float = CALL_S) -> None:
        """Ask for the commit; again if that was done before. Afterwards it is settled, or still ``settling``."""
        assert self.open is not None  # noqa: S101  # the caller began it
        transaction, again = self.open, self.settling
        if not again:
            transaction.asked_at = time.monotonic()
            self._book.inbox.put([CommitAsked(self._book.clock.now_ns(), *transaction.key)])
        try:
            self._client.commit_transaction(timeout_s)
        except KafkaException as raised:
            self._not_committed(transaction, raised.args[0], "commit again" if again else "commit")
        else:
            self._end(Committed(self._book.clock.now_ns(), *transaction.key))

    def _not_committed(self, transaction: Open, error: KafkaError, where: Where) -> None:
        means = proof(where, error)
        log.info("commit_failed", client=self.name, error=text_of(error), fatal=error.fatal(), means=means)
        patience = transaction.asked_at is not None and time.monotonic() - transaction.asked_at < SETTLE_S
        if means == "again" and patience:
            self.due = time.monotonic() + AGAIN_S
            return
        if means == "aborted":
            self._end(Aborted(self._book.clock.now_ns(), *transaction.key, error=text_of(error)))
        elif means == "abort" and self._abort_acknowledged():
            self._end(Aborted(self._book.clock.now_ns(), *transaction.key, error=text_of(error)))
            return
        else:
            self._end(TransactionIndeterminate(self._book.clock.now_ns(), *transaction.key, error=text_of(error)))
        self.close()

    def _abort_acknowledged(self) -> bool:
        try:
            self._client.abort_transaction(CALL_S)
        except KafkaException as raised:
            log.info("abort_failed", client=self.name, error=text_of(raised.args[0]))
            return False
        return True

    def abort(self, why: str, timeout_s: float = CALL_S) -> None:
        """Abort what was never asked to be committed: definite, whatever the abort says.

        The client is closed if a write was given up unanswered. It takes what it purges from its queue for unsent, also
        when it stood there to be sent again, and gives the same sequences, under the same producer epoch, to what is
        written next: a broker that had appended the first takes the next for its copy, acknowledges it at the first
        one's offset, and it is in no log, though its transaction commits (librdkafka 2.16).
        """
        assert self.open is not None  # noqa: S101  # the caller began it
        transaction = self.open
        doubtful = transaction.doubtful or bool(transaction.unresolved)
        if self._client is not None:  # else it was closed with the transaction open
            try:
                self._client.abort_transaction(timeout_s)
            except KafkaException as raised:
                self._settle_by("abort", raised.args[0])
                self.close()
                return
        self._end(Aborted(self._book.clock.now_ns(), *transaction.key, error=transaction.spoiled or why))
        if doubtful and self._client is not None:
            log.info("client_renewed", client=self.name, reason="a write was given up unanswered")
            self.close()

    def abandon(self, why: str) -> None:
        """Never ask for the commit, and leave the transaction to the coordinator's timeout."""
        assert self.open is not None  # noqa: S101  # the caller began it
        self._end(Aborted(self._book.clock.now_ns(), *self.open.key, error=why))
        self.close()

    def fenced_by(self, why: str) -> None:
        """Somebody else has initialised the same id: what is open here, and never asked to be committed, is aborted."""
        assert self.open is not None  # noqa: S101  # the caller began it
        self.serve(0)
        self._book.inbox.put([Aborted(self._book.clock.now_ns(), *self.open.key, error=why)])

    def haunt(self, partitions: Sequence[int], timeout_s: float) -> bool:
        """Write and commit although fenced: for the probe of fencing only. Returns whether the commit was accepted.

        Its transaction was settled before (``fenced_by``), so nothing that it does makes another outcome; only an
        accepted commit is told, for the tracker to judge.
        """
        assert self.open is not None  # noqa: S101  # the caller began it
        transaction = self.open
        self.send(partitions)
        self.deliver(timeout_s)
        accepted = False
        try:
            self._client.commit_transaction(timeout_s)
            accepted = True
        except KafkaException as raised:
            log.debug("zombie_refused", client=self.name, error=text_of(raised.args[0]))
        at_ns = self._book.clock.now_ns()
        self.serve(0)
        rest: list[Fact] = [
            Indeterminate(at_ns, self._book.topic, *identity_fields(identity), error="its client was fenced")
            for identity in transaction.unresolved
        ]
        transaction.unresolved.clear()
        self._book.inbox.put([*rest, *([Committed(at_ns, *transaction.key)] if accepted else [])])
        self.open = None
        self.close()
        return accepted

    def give_up(self, why: str) -> None:
        """End what is open without another call: aborted if no commit was ever asked for, else indeterminate."""
        transaction = self.open
        if transaction is not None:
            at_ns = self._book.clock.now_ns()
            if transaction.asked_at is None:
                self._end(Aborted(at_ns, *transaction.key, error=why))
            else:
                self._end(TransactionIndeterminate(at_ns, *transaction.key, error=why))
        self.close()

    def _settle_by(self, where: Where, error: KafkaError) -> None:
        assert self.open is not None  # noqa: S101  # the caller began it
        assert proof(where, error) == "aborted"  # noqa: S101  # no commit was asked for
        self._end(Aborted(self._book.clock.now_ns(), *self.open.key, error=text_of(error)))

    def _end(self, outcome: Fact) -> None:
        """Put what is known of the writes, then the outcome."""
        assert self.open is not None  # noqa: S101  # the caller began it
        transaction, self.open = self.open, None
        if self._client is not None:
            self.serve(0)
        at_ns = self._book.clock.now_ns()
        rest = [
            Indeterminate(at_ns, self._book.topic, *identity_fields(identity), error="its transaction ended before")
            for identity in transaction.unresolved
        ]
        transaction.unresolved.clear()
        self._book.inbox.put([*rest, outcome])
        if self._fatal is not None:
            self.close()

    def close(self) -> None:
        """Drop what the client has not sent, and destroy it in a background thread: that may hang.

        A thread that is still in one of its calls keeps it; then it is destroyed when that call comes back.
        """
        client, self._client, self._ready = self._client, None, False
        if client is not None:
            try:
                self._land(client)
                client.purge()
            except KafkaException as error:
                log.debug("purge_refused", client=self.name, error=str(error))
            self.due = time.monotonic() + AGAIN_S
            holder = [client]
            del client
            in_background(holder.clear, f"{self.name}-closing")

    def _land(self, client: Any) -> None:
        """Wait a moment for the answers to what is on its way.

        A transactional client that has failed and is destroyed before them frees the text of its error twice when one
        of them says that it was fenced, and that ends the process (librdkafka 2.16: rd_kafka_txns_term() runs before
        the brokers' threads end).
        """
        deadline = time.monotonic() + LAND_S
        while len(client) and (left := deadline - time.monotonic()) > 0:
            client.poll(min(PACE_S, left))


def identity_fields(identity: Identity) -> tuple[int, int, int, int]:
    """Return the fields in the order of the facts: producer, generation, sequence stand after the partition."""
    return identity.partition, identity.producer_id, identity.generation, identity.sequence
