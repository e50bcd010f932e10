"""Transactions of a producer, as librdkafka's transaction manager has them.

They have states, calls that go on after their timeout, and errors that say of themselves what follows from them
(retriable, fatal, abort required).
"""

from collections.abc import Callable
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from simulation.clients.producer.batches import Partition
from simulation.clients.producer.core import ProducerCore
from simulation.clients.producer.transaction_state import TransactionState
from simulation.clients.values import failure
from simulation.cluster.groups import Groups, Place
from simulation.machine.schedule import Timer

_COORDINATOR_AGAIN_S = 0.5
_LOOK_S = 0.1
"""How often a request to the coordinator that has no answer is looked at."""

_BROKEN: int = KafkaError._TRANSPORT
_MOVED = frozenset({KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_NOT_AVAILABLE})
_FENCED = frozenset({KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED})
_FATAL = _FENCED | {
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.INVALID_TXN_STATE,
}
_AGAIN = _MOVED | {KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.CONCURRENT_TRANSACTIONS}
_NEW_PID = frozenset({KafkaError.UNKNOWN_PRODUCER_ID, KafkaError.INVALID_PRODUCER_ID_MAPPING})


class Transactions(TransactionState):
    """The transactions of one producer. Times out and goes on: a call that is made again finds what has happened."""

    def __init__(self, core: ProducerCore) -> None:
        super().__init__(core)
        self.failures = 0
        """Records of the open transaction whose delivery failed."""
        self._id = str(core.link.config["transactional.id"])
        self._timeout_s = core.link.seconds("transaction.timeout.ms")
        self._coordinator = -1
        self._init_error = 0
        self._sent = False
        """Whether the coordinator knows of the open transaction."""
        self._ending = 0
        """Number of the last request that ends a transaction: answers to others are out of date."""
        self._registering = False
        self._timer: Timer | None = None

    # ---- calls

    def init(self, timeout: float) -> None:
        """Have the coordinator give a producer id; see ``Producer.init_transactions``."""
        deadline = self.begin_call("init_transactions", timeout if timeout >= 0 else self._timeout_s * 2)
        try:
            if self.state != "ready not acked":
                self.require("init", "wait pid", "ready not acked")
                self._init_error = 0
                if self.state == "init":
                    self.state = "wait pid"
                self.core.ask_pid()
            self.wait(deadline)
        except KafkaException as raised:
            error = raised.args[0]
            if error.code() == KafkaError._TIMED_OUT and self._init_error not in {0, KafkaError._TIMED_OUT}:
                code = KafkaError._FENCED if self._init_error in _FENCED else self._init_error
                why = f"Failed to initialize Producer ID: {KafkaError(code).str()}"
                raised = KafkaException(failure(code, why, retriable=True))
            raise self.end_call(raised, resumable=True) from None
        self.state = "ready"
        self.end_call(None)

    def begin(self) -> None:
        """Begin a transaction."""
        self.begin_call("begin_transaction", None)
        try:
            self.require("ready")
        except KafkaException as raised:
            raise self.end_call(raised) from None
        self.state = "in transaction"
        self.failures, self.error = 0, None
        self.end_call(None)

    def commit(self, timeout: float) -> None:
        """Flush, and have the coordinator commit."""
        deadline = self.begin_call("commit_transaction", timeout)
        try:
            self.require("in transaction", "begin commit", "committing", "commit not acked")
            if self.state == "in transaction":
                self.state = "begin commit"
        except KafkaException as raised:
            raise self.end_call(raised) from None
        try:
            self.flush(deadline)
            self.require("begin commit", "committing", "commit not acked")
            if self.state == "begin commit":
                self._begin_end(commit=True)
            if self.state != "commit not acked":
                self.wait(deadline)
        except KafkaException as raised:
            raise self.end_call(raised, resumable=True) from None
        self._complete()

    def abort(self, timeout: float) -> None:
        """Give up what waits, and have the coordinator abort."""
        deadline = self.begin_call("abort_transaction", timeout)
        states = ("in transaction", "begin abort", "aborting", "abortable error", "abort not acked")
        try:
            self.require(*states)
            if self.state in {"in transaction", "abortable error"}:
                self.state = "begin abort"
        except KafkaException as raised:
            raise self.end_call(raised) from None
        try:
            self.core.purge(in_queue=True, in_flight=False, aborting=True)
            self.flush(deadline)
            self.require("begin abort", "aborting", "abort not acked")
            if self.state == "begin abort":
                self._begin_end(commit=False)
            if self.state != "abort not acked":
                self.wait(deadline)
        except KafkaException as raised:
            raise self.end_call(raised, resumable=True) from None
        self._complete()

    def send_offsets(self, positions: list[Any], group_metadata: Any, timeout: float) -> None:
        """Let the transaction move a group's offsets: tell its coordinator of the group, then the group's."""
        self.begin_call("send_offsets_to_transaction", timeout)
        offsets = {(one.topic, one.partition): one.offset for one in positions if one.offset >= 0}
        try:
            self.require("in transaction")
            deadline = self.link.schedule.now + (self._timeout_s if timeout < 0 else min(timeout, self._timeout_s))
            if offsets:
                groups = Groups.of(self.link.cluster)
                self._until(deadline, lambda: self._add_offsets(groups.place(group_metadata.group)))
                self._until(deadline, lambda: self._commit_offsets(groups, group_metadata, offsets, deadline))
        except KafkaException as raised:
            raise self.end_call(raised) from None
        self.end_call(None)

    def _until(self, deadline: float, ask: Callable[[], int]) -> None:
        """Ask until there is no error that passes; raise one that does not."""
        while code := ask():
            now = self.link.schedule.now
            if code in _FATAL:
                told = KafkaError._FENCED if code in _FENCED else code
                self.core.die(told, f"Failed to add offsets to transaction: {KafkaError(told).str()}")
                raise KafkaException(failure(told, self.core.fatal.str() if self.core.fatal else "", fatal=True))
            if code not in _AGAIN | {KafkaError._TRANSPORT, KafkaError.REQUEST_TIMED_OUT}:
                why = f"Failed to commit offsets to transaction: {KafkaError(code).str()}"
                self.fail(code, why, bump=code in _NEW_PID)
                raise KafkaException(failure(code, why, txn_requires_abort=True))
            if now >= deadline:
                why = f"Failed to commit offsets to transaction: {KafkaError(KafkaError._TIMED_OUT).str()}"
                raise KafkaException(failure(KafkaError._TIMED_OUT, why, retriable=True))
            self.link.wait(min(now + _LOOK_S, deadline))
            self.link.check()

    def _add_offsets(self, place: Place) -> int:
        if not self._find_coordinator():
            return _BROKEN
        code: int = self.link.cluster.add_partitions(self._coordinator, self._id, *self.core.pid, [place])
        if code in _MOVED:
            self._coordinator = -1
        self._sent = self._sent or not code
        return code

    def _commit_offsets(self, groups: Groups, who: Any, offsets: dict[Place, int], deadline: float) -> int:
        link = self.link
        broker = groups.coordinator(who.group) if link.ask_any() is not None else -1
        if not link.reaches(broker):
            return _BROKEN
        answers: list[int] = []

        def reply(code: int) -> None:
            if link.reaches(broker):
                answers.append(code)
                link.stir()

        transaction = (self._id, *self.core.pid)
        groups.commit(broker, who.group, (who.member, who.generation), offsets, link.guarded(reply), transaction)
        while not answers and link.schedule.now < deadline and not link.gone(broker):
            link.wait(min(link.schedule.now + _LOOK_S, deadline))
        return answers[0] if answers else _BROKEN

    def _complete(self) -> None:
        """The application knows that its transaction is committed, or aborted."""
        self.needs_bump = self._sent = False
        for one in self.core.partitions.values():
            one.registered = False
        self.state = "ready"
        self.end_call(None)

    # ---- what the producer tells

    def may_send(self, one: Partition) -> bool:
        """Return whether a partition's records may be sent now; tell the coordinator of it first."""
        if self.state not in {"in transaction", "begin commit"}:
            return False
        if not one.registered and not self._registering:
            self._register()
        return one.registered

    def pid_state_changed(self, state: str) -> None:
        """Go on with what waited for a producer id, or for its next epoch."""
        if state != "assigned":
            return
        if self.state == "wait pid":
            self.state = "ready not acked"
            self.settle(None)
        elif self.state in {"begin abort", "aborting"}:
            self.state = "abort not acked"
            self.settle(None)

    def produce_failed(self, code: int, what: str) -> None:
        """A request failed for good."""
        if self.core.state == "wait abort":
            return
        if code == KafkaError.INVALID_PRODUCER_EPOCH:
            why = f"{what}: {KafkaError(code).str()}: transactional producer fenced by newer producer instance"
            self.core.die(KafkaError._FENCED, why)
        else:
            self.fail(code, f"{what}: {KafkaError(code).str()}: current transaction must be aborted")

    # ---- the coordinator

    def ask_pid(self) -> tuple[int, int] | None:
        """Have the coordinator give a producer id, or the next epoch of this one; None: no answer yet."""
        if self.state not in {"wait pid", "begin abort", "aborting"} or not self._find_coordinator():
            return None
        code, pid, epoch = self.link.cluster.init_producer_id(self._coordinator, self._id, self._timeout_s)
        if not code:
            return pid, epoch
        if code in _FATAL - {KafkaError.INVALID_TXN_STATE} or code == KafkaError.INVALID_TRANSACTION_TIMEOUT:
            fenced = code in _FENCED
            where = f"TxnCoordinator/{self._coordinator}"
            why = f"Failed to acquire transactional PID from broker {where}: {KafkaError(code).str()}"
            told = f"Producer fenced by newer instance: {why}" if fenced else why
            self.core.die(KafkaError._FENCED if fenced else code, told)
        elif code in _MOVED:
            self._coordinator = -1
        self._init_error = code
        return None

    def _find_coordinator(self) -> bool:
        """Return whether the coordinator is known and answers."""
        if self._coordinator >= 0 and self.link.reaches(self._coordinator):
            return True
        self._coordinator = -1 if self.link.ask_any() is None else self.link.cluster.coordinator(self._id)
        return self.link.reaches(self._coordinator)

    def _register(self) -> None:
        """Tell the coordinator which partitions take part in the transaction, and send what waited for that."""
        core = self.core
        pending = [one for one in core.partitions.values() if one.waiting() and not one.registered]
        if self.state not in {"in transaction", "begin commit"} or core.state != "assigned" or not pending:
            return
        if not self._find_coordinator():
            self._register_later(_COORDINATOR_AGAIN_S)
            return
        places = [(one.topic, one.partition) for one in pending]
        code = self.link.cluster.add_partitions(self._coordinator, self._id, *core.pid, places)
        self._sent = self._sent or not code
        if not code:
            for one in pending:
                one.registered = True
            self._registering = True  # what is sent now asks for nothing
            core.serve_all()
            self._registering = False
        elif code in _FATAL:
            told = KafkaError._FENCED if code in _FENCED else code
            core.die(told, f"Failed to add partitions to transaction: {KafkaError(told).str()}")
        elif code in _AGAIN or code == KafkaError.UNKNOWN_TOPIC_OR_PART:
            if code in _MOVED:
                self._coordinator = -1
            self._register_later(0.02 if code == KafkaError.CONCURRENT_TRANSACTIONS else _COORDINATOR_AGAIN_S)
        else:
            where = f"TxnCoordinator/{self._coordinator}"
            why = f"Failed to add partition(s) to transaction on broker {where}: {KafkaError(code).str()}"
            if code in _NEW_PID:
                core.bump(why, code)
            else:
                self.fail(code, why)

    def _register_later(self, pause_s: float) -> None:
        self._registering = True

        def again() -> None:
            self._registering = False
            self._register()

        self.link.after(pause_s, again)

    # ---- ending a transaction

    def _begin_end(self, *, commit: bool) -> None:
        """Ask the coordinator to commit or abort."""
        core = self.core
        if commit and self.failures:
            why = f"{self.failures} message(s) failed delivery (see individual delivery reports)"
            self.fail(KafkaError._INCONSISTENT, why)
            raise KafkaException(failure(KafkaError._INCONSISTENT, why, txn_requires_abort=True))
        if not self._sent:
            self._ended(commit=commit)
        elif commit or core.state in {"assigned", "wait abort"}:
            self.state = "committing" if commit else "aborting"
            self._ask_end(commit=commit)

    def _ask_end(self, *, commit: bool) -> None:
        self._ending += 1
        number, link, asked_at = self._ending, self.link, self.link.schedule.now
        if self.state not in {"committing", "aborting"}:
            return
        if not self._find_coordinator():
            link.after(_COORDINATOR_AGAIN_S, lambda: self._ask_end(commit=commit) if number == self._ending else None)
            return
        coordinator = self._coordinator

        def answered(code: int) -> None:
            if number == self._ending:
                self._ending += 1
                self._end_answered(code, commit=commit)

        def look() -> None:
            if number != self._ending:
                return
            if link.gone(coordinator) or link.schedule.now - asked_at >= self.core.request_s:
                self._ask_end(commit=commit)
            else:
                link.after(_LOOK_S, look)

        reply = link.guarded(answered)
        link.cluster.end_transaction(coordinator, self._id, *self.core.pid, commit=commit, reply=reply)
        if number == self._ending:
            link.after(_LOOK_S, look)

    def _end_answered(self, code: int, *, commit: bool) -> None:
        if self.state == "abortable error":
            local, text = self.cause()
            because = f"failed locally due to: {text}"
            if code:
                why = f"EndTxn failed with {KafkaError(code).name()} but transaction had already {because}"
                self.settle(failure(local, why, txn_requires_abort=True))
            else:
                why = f"Transaction commit succeeded on the broker but the transaction had already {because}"
                self.settle(failure(local, why, fatal=True))
        elif self.state not in {"committing", "aborting"}:
            return
        elif not code:
            self._ended(commit=commit)
        elif code in _AGAIN:
            if code in _MOVED:
                self._coordinator = -1
            number = self._ending
            pause_s = _COORDINATOR_AGAIN_S if code in _MOVED else self.link.seconds("retry.backoff.ms")
            self.link.after(pause_s, lambda: self._ask_end(commit=commit) if number == self._ending else None)
        elif code in _FATAL:
            told = KafkaError._FENCED if code in _FENCED else code
            self.core.die(told, f"Failed to end transaction: {KafkaError(told).str()}")
        elif code in _NEW_PID and not commit:
            self.core.drain(f"EndTxn abort failed: {KafkaError(code).str()}")
        else:
            if self.state == "aborting":
                self.state = "begin abort"
            self.fail(code, f"Failed to end transaction: {KafkaError(code).str()}", bump=code in _NEW_PID)
            why = f"EndTxn {'commit' if commit else 'abort'} failed: {KafkaError(code).str()}"
            self.settle(failure(code, why, txn_requires_abort=True))

    def _ended(self, *, commit: bool) -> None:
        """The coordinator has decided, or there was nothing to decide."""
        if self.needs_bump and not commit:
            self.core.drain(f"Transaction aborted: {self.error.str() if self.error is not None else ''}")
            return
        self.state = "commit not acked" if commit else "abort not acked"
        self.settle(None)
