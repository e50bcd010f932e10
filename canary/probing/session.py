"""One transactional client, with exact bookkeeping: every transaction that begins here ends as one fact.

canary.kafka.transaction_errors has what each error proves. What it does not prove is indeterminate, and the client is
closed, because a client in an unknown state must not write another record.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException

from canary.facts import Aborted, CommitAsked, Committed, Fact, TransactionIndeterminate
from canary.kafka import opening
from canary.kafka.client_inbox import ClientInbox, cluster_of
from canary.kafka.effective_config import IDEMPOTENT, logging_properties, require
from canary.kafka.opening import refusal_or_raise
from canary.kafka.quiet import ErrorReporter, calm, quiet_logger, whole_ms
from canary.kafka.responses import text_of
from canary.kafka.transaction_errors import Where, proof
from canary.probe.identity import Identity
from canary.probing.base import SAFE, Wiring
from canary.probing.book import Book, Open
from canary.probing.sending.pipeline import piped
from canary.probing.sending.records import identity_of
from canary.settings import transactional_config
from canary.threads import system
from canary.threads.worker import in_background

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
DELIVERY_SHARE = 0.6
"""How much of a transaction's timeout delivery reports are waited for, before it is aborted."""


class Session:
    """A client with one transactional id, which is in ``config``; facts have its ``name``. Used by one thread.

    ``measure`` is told of each commit how long (s) it took since it was asked for first, None if a call did not do it.
    """

    def __init__(
        self,
        config: Mapping[str, object],
        book: Book,
        name: str,
        measure: Callable[[float | None], None] = lambda _: None,
    ) -> None:
        self.name = name
        self.open: Open | None = None
        self.due = 0.0
        self.client: Any = None
        self._config = dict(config)
        self._book = book
        self._inbox = ClientInbox(book.inbox, book.clock, name, lambda: cluster_of(self.client))
        self._outcomes: list[Fact] = []
        self._fatal: str | None = None
        self._ready = False
        self._measure = measure

    @property
    def _transaction(self) -> Open:
        """The transaction that the caller has begun."""
        assert self.open is not None  # noqa: S101  # for the type checker
        return self.open

    def _aborted(self, why: str) -> Aborted:
        return Aborted(self._book.clock.now_ns(), *self._transaction.key, error=why)

    def _undecided(self, why: str) -> TransactionIndeterminate:
        return TransactionIndeterminate(self._book.clock.now_ns(), *self._transaction.key, error=why)

    @property
    def ready(self) -> bool:
        """Whether a transaction can begin."""
        return self._ready and self.open is None

    @property
    def settling(self) -> bool:
        """Whether a commit was asked for and its outcome is not known yet."""
        return self.open is not None and self.open.asked_at is not None

    def prepare(self, timeout_s: float = CALL_S) -> bool:
        """Make the client if there is none, and initialise it: from here on, another client with this id is fenced.

        Returns whether that is so; if not, it is to be called again. A client that refuses for good is closed.
        """
        if self.client is None and not self._make():
            return False
        try:
            self.client.init_transactions(timeout_s)
        except KafkaException as raised:
            self._inbox.tell([])  # another cluster may refuse it for ever
            error = raised.args[0]
            self.due = system.monotonic() + AGAIN_S
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
        config, effective = logging_properties(config, logger)
        try:
            self.client = opening.producer(config, logger)
        except KafkaException as raised:
            refusal_or_raise(raised, report)
            self.due = system.monotonic() + AGAIN_S
            return False
        require(self.client, effective, IDEMPOTENT)
        return True

    def _died(self, reason: str) -> None:
        self._fatal = self._fatal or reason

    def begin(self) -> bool:
        """Begin a transaction. Returns whether it did; else it is settled as aborted already."""
        self.open = self._book.begin()
        try:
            self.client.begin_transaction()
        except KafkaException as raised:
            self._settle_by("before commit", raised.args[0])
            self.close()
            return False
        return True

    def send(self, partitions: Sequence[int], records: int = 1) -> None:
        """Send ``records`` probes to each of the partitions."""
        transaction = self._transaction
        each = [partition for partition in partitions for _ in range(records)]
        sent = self._book.send(each, transaction.number)
        for fact, record in zip(sent, self._book.records(sent), strict=True):
            identity = identity_of(fact)
            transaction.unresolved[identity] = self._book.clock.now_ns()
            try:
                self._book.produce(self.client, fact.partition, record, partial(self._delivered, transaction, identity))
            except (BufferError, KafkaException) as error:
                del transaction.unresolved[identity]
                self._spoil(transaction, f"produce: {error}")
                self._outcomes.append(self._book.failed(identity, error))

    def _delivered(self, transaction: Open, identity: Identity, error: KafkaError | None, message: Any) -> None:
        started_ns = transaction.unresolved.pop(identity, None)
        if started_ns is None:
            return
        if error is not None:
            transaction.doubtful = True
            self._spoil(transaction, f"delivery: {text_of(error)}")
        self._outcomes.append(self._book.reported(identity, started_ns, error, message))

    def _spoil(self, transaction: Open, why: str) -> None:
        transaction.spoiled = transaction.spoiled or why

    def serve(self, timeout_s: float) -> None:
        """Let the client call back, and put the outcomes into the inbox."""
        try:
            self.client.poll(whole_ms(timeout_s))
        except KafkaException as raised:
            self._died(text_of(raised.args[0]))
        if self._outcomes:
            outcomes, self._outcomes = self._outcomes, []
            self._inbox.tell(outcomes)

    def deliver(self, timeout_s: float, stopping: Any = None) -> bool:
        """Wait until everything sent is reported. Returns whether it was, and well; else it must be aborted."""
        transaction = self._transaction
        deadline = system.monotonic() + timeout_s
        while transaction.unresolved and self._fatal is None and (left := deadline - system.monotonic()) > 0:
            self.serve(min(PACE_S, left))
            if stopping is not None and stopping.is_set():
                deadline = min(deadline, system.monotonic() + 1.0)
        self.serve(0)
        if self._fatal is not None:
            self._spoil(transaction, self._fatal)
        elif transaction.unresolved:
            self._spoil(transaction, "no delivery report in time")
        return transaction.spoiled is None

    def send_offsets(self, offsets: Sequence[Any], group: Any, timeout_s: float = CALL_S) -> bool:
        """Let the transaction move a consumer group. Returns whether it will; else it must be aborted.

        While the group's coordinator is away this call may last for ever, whatever timeout it is given (librdkafka
        #5456, #5511). So it is made in a thread of its own; a client that does not come back is left to that thread.
        """
        transaction, client, answers = self._transaction, self.client, list[KafkaError | None]()

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
            self._spoil(transaction, "send_offsets: no answer")
            self.close()
            return False
        error = answers[0]
        if error is not None:
            self._spoil(transaction, f"send_offsets: {text_of(error)}")
        return error is None

    def commit(self, timeout_s: float = CALL_S) -> None:
        """Ask for the commit; again if that was done before. Afterwards it is settled, or still ``settling``."""
        transaction, again = self._transaction, self.settling
        if not again:
            transaction.asked_at = system.monotonic()
            self._inbox.tell([CommitAsked(self._book.clock.now_ns(), *transaction.key)])
        try:
            self.client.commit_transaction(timeout_s)
        except KafkaException as raised:
            self._measure(None)
            self._not_committed(transaction, raised.args[0], "commit again" if again else "commit")
        else:
            assert transaction.asked_at is not None  # noqa: S101  # for the type checker
            self._measure(system.monotonic() - transaction.asked_at)
            self._end(Committed(self._book.clock.now_ns(), *transaction.key))

    def _not_committed(self, transaction: Open, error: KafkaError, where: Where) -> None:
        means = proof(where, error)
        log.info("commit_failed", client=self.name, error=text_of(error), fatal=error.fatal(), means=means)
        patience = transaction.asked_at is not None and system.monotonic() - transaction.asked_at < SETTLE_S
        if means == "again" and patience:
            self.due = system.monotonic() + AGAIN_S
            return
        if means == "aborted":
            self._end(self._aborted(text_of(error)))
        elif means == "abort" and self._abort_acknowledged():
            self._end(self._aborted(text_of(error)))
            return
        else:
            self._end(self._undecided(text_of(error)))
        self.close()

    def _abort_acknowledged(self) -> bool:
        try:
            self.client.abort_transaction(CALL_S)
        except KafkaException as raised:
            log.info("abort_failed", client=self.name, error=text_of(raised.args[0]))
            return False
        return True

    def abort(self, why: str, timeout_s: float = CALL_S) -> None:
        """Abort a transaction whose commit was never asked for: it is aborted for certain, whatever the call returns.

        The client is closed if a write was given up unanswered. Say that the record with sequence 7 waits in its queue
        to be sent again, and the abort purges it: the client takes it for unsent, and gives sequence 7, under the same
        producer epoch, to the next record. A broker that had appended the first record takes the next one for its
        copy, and acknowledges it at the first one's offset: it is in no log, though its transaction commits
        (librdkafka 2.16).
        """
        transaction = self._transaction
        doubtful = transaction.doubtful or bool(transaction.unresolved)
        if self.client is not None:  # else it was closed with the transaction open
            try:
                self.client.abort_transaction(timeout_s)
            except KafkaException as raised:
                self._settle_by("abort", raised.args[0])
                self.close()
                return
        self._end(self._aborted(transaction.spoiled or why))
        if doubtful and self.client is not None:
            log.info("client_renewed", client=self.name, reason="a write was given up unanswered")
            self.close()

    def fenced_by(self, why: str) -> None:
        """Another client has initialised the same id: the open transaction, never asked to be committed, is aborted."""
        self.serve(0)
        self._inbox.tell([self._aborted(why)])

    def haunt(self, partitions: Sequence[int], timeout_s: float) -> None:
        """Write and commit although fenced, which only the workload ``fencing`` does.

        Its transaction was settled before (``fenced_by``), so nothing here makes another outcome. An
        accepted commit is put into the inbox, for the tracker to judge.
        """
        transaction = self._transaction
        self.send(partitions)
        self.deliver(timeout_s)
        accepted = False
        try:
            self.client.commit_transaction(timeout_s)
            accepted = True
        except KafkaException as raised:
            log.debug("zombie_refused", client=self.name, error=text_of(raised.args[0]))
        at_ns = self._book.clock.now_ns()
        self.serve(0)
        rest = self._book.unreported(transaction.unresolved, "its client was fenced")
        transaction.unresolved.clear()
        self._inbox.tell([*rest, *([Committed(at_ns, *transaction.key)] if accepted else [])])
        self.open = None
        self.close()

    def give_up(self, why: str) -> None:
        """End the open transaction without a call: aborted if no commit was ever asked for, else indeterminate."""
        if self.open is not None:
            self._end(self._undecided(why) if self.settling else self._aborted(why))
        self.close()

    def _settle_by(self, where: Where, error: KafkaError) -> None:
        assert proof(where, error) == "aborted"  # noqa: S101  # no commit was asked for
        self._end(self._aborted(text_of(error)))

    def _end(self, outcome: Fact) -> None:
        """Put the outcomes of the writes into the inbox, then that of the transaction."""
        transaction, self.open = self._transaction, None
        if self.client is not None:
            self.serve(0)
        rest = self._book.unreported(transaction.unresolved, "its transaction ended before")
        transaction.unresolved.clear()
        self._inbox.tell([*rest, outcome])
        if self._fatal is not None:
            self.close()

    def close(self) -> None:
        """Drop the client's unsent records, and destroy it in a background thread: that may hang.

        A thread that is still in one of its calls keeps it; then it is destroyed when that call comes back.
        """
        client, self.client, self._ready = self.client, None, False
        if client is not None:
            try:
                self._land(client)
                client.purge()
            except KafkaException as error:
                log.debug("purge_refused", client=self.name, error=str(error))
            self.due = system.monotonic() + AGAIN_S
            holder = [client]
            del client
            in_background(holder.clear, f"{self.name}-closing")

    def _land(self, client: Any) -> None:
        """Wait a moment for the answers to what is on its way.

        A transactional client that has failed and is destroyed before them frees the text of its error twice when one
        of them says that it was fenced, and that ends the process (librdkafka 2.16: rd_kafka_txns_term() runs before
        the brokers' threads end).
        """
        deadline = system.monotonic() + LAND_S
        while len(client) and (left := deadline - system.monotonic()) > 0:
            client.poll(whole_ms(min(PACE_S, left)))


def client_config(wiring: Wiring[Any], transactional_id: str) -> dict[str, Any]:
    """Return the properties of a client that gives a record up no later than its transaction ends. Holds secrets."""
    timeout_ms = int(wiring.settings.timeout * 1000)
    return piped(transactional_config(wiring.cluster, transactional_id), wiring.settings) | {
        "transaction.timeout.ms": timeout_ms,
        "message.timeout.ms": timeout_ms,
        "socket.timeout.ms": min(timeout_ms, 5000),  # librdkafka: no longer than a transaction
        "linger.ms": 0,
    }
