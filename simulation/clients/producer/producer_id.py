"""The producer id of a client: how it is had, when its epoch rises, and when all is over."""

import logging
from abc import ABC, abstractmethod
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from simulation.clients.link import Link

_PID_AGAIN_S = 0.5


class ProducerId(ABC):
    """The state of the producer id.

    ``state`` is "wait", "assigned", "drain", "wait abort" (a transaction must be aborted first) or "fatal".
    """

    def __init__(self, link: Link) -> None:
        self.link = link
        self.idempotent = link.flag("enable.idempotence")
        self.state = "wait" if self.idempotent else "assigned"
        self.pid = (-1, -1)
        self.fatal: KafkaError | None = None
        self.transactions: Any = None
        """Of a transactional producer: simulation.clients.producer.transactions.Transactions."""
        self.in_flight = 0
        """Partitions with requests in flight."""
        self._asking_pid = False

    @abstractmethod
    def serve_all(self) -> None:
        """Send what may be sent now."""

    @abstractmethod
    def purge(self, *, in_queue: bool, in_flight: bool, aborting: bool = False) -> None:
        """Give up what waits and what is on its way; ``aborting``: sequence numbers go on as if it had not been."""

    def ask_pid(self) -> None:
        """Ask for a producer id; again after a pause if there is no answer."""
        if self._asking_pid:
            return
        if self.transactions is not None:
            got = self.transactions.ask_pid()
        else:
            found = self.link.ask_any()
            code, *pid = self.link.cluster.init_producer_id(found[0], None, 0.0) if found is not None else (1, -1, -1)
            got = None if code else (pid[0], pid[1])
            if code == KafkaError.CLUSTER_AUTHORIZATION_FAILED:
                why = f"Failed to acquire idempotence PID: {KafkaError(code).str()}"
                self.link.after(0, lambda: self.die(code, why))
        if got is not None:
            self.pid = got
            self.enter("assigned")
        elif self.state == "wait":
            self._asking_pid = True
            self.link.after(_PID_AGAIN_S, self._ask_pid_again)

    def _ask_pid_again(self) -> None:
        self._asking_pid = False
        if self.state == "wait" and self.fatal is None:
            self.ask_pid()
            if self.state == "assigned":
                self.serve_all()

    def enter(self, state: str) -> None:
        """Go to another state of the producer id."""
        if self.fatal is None or state in {"drain", "fatal"}:
            self.state = state
            if self.transactions is not None:
                self.transactions.pid_state_changed(state)

    def bump(self, why: str, code: int) -> None:
        """Take a new producer epoch as soon as nothing is in flight: sequence numbers begin anew."""
        if self.transactions is not None:
            self.enter("wait abort")
            self.transactions.fail(code, why, bump=True)
        else:
            self.drain(why)

    def drain(self, why: str) -> None:
        """Take a new epoch as soon as no request is in flight."""
        self.link.debug(
            "eos",
            "DRAIN",
            f"[thrd:main]: Beginning partition drain in state {self.state} for {shown(self.pid)} epoch bump "
            f"for {self.in_flight} partition(s) with in-flight requests: {why}",
        )
        self.enter("drain")
        if not self.in_flight:
            self.drained()

    def drained(self) -> None:
        """Take the new epoch: no request is in flight any more."""
        if self.fatal is not None:
            return
        if self.transactions is not None:
            self.enter("wait")
            self.ask_pid()
            return
        self.pid = (self.pid[0], self.pid[1] + 1)
        self.enter("assigned")
        self.serve_all()

    def die(self, code: int, text: str) -> None:
        """End for good: the next poll raises the error, and produce() refuses."""
        if self.fatal is not None:
            return
        self.fatal = KafkaError(code, text, fatal=True)
        self.link.log(logging.CRITICAL, "FATAL", f"[thrd:main]: Fatal error: {KafkaError(code).str()}: {text}")
        self.enter("fatal")
        self.link.emit(self._raise, self.fatal)
        if self.transactions is not None:
            self.transactions.died(self.fatal)
        self.purge(in_queue=True, in_flight=False)

    def _raise(self, error: KafkaError) -> None:
        raise KafkaException(error)


def shown(pid: tuple[int, int]) -> str:
    """Return a producer id and its epoch as librdkafka writes them."""
    return f"PID{{Id:{pid[0]},Epoch:{pid[1]}}}"
