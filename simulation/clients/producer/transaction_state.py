"""The state of a producer's transactions, and the call that is under way."""

from confluent_kafka import KafkaError, KafkaException

from simulation.clients.producer.core import ProducerCore
from simulation.clients.values import failure


class TransactionState:
    """A call times out and goes on: one that is made again finds what has happened."""

    def __init__(self, core: ProducerCore) -> None:
        self.state = "init"
        self.core = core
        self.link = core.link
        self.error: KafkaError | None = None
        """What makes the open transaction fail."""
        self.needs_bump = False
        self._call: str | None = None
        """The call that is under way, or may be made again."""
        self._answered = False
        self._answer: KafkaError | None = None

    def cause(self) -> tuple[int, str]:
        """Return the code and the text of what makes the transaction fail.

        Raises:
            RuntimeError: nothing does.
        """
        if self.error is None:
            raise RuntimeError(f"nothing is wrong in state {self.state}")
        return self.error.code(), self.error.str()

    def begin_call(self, name: str, timeout: float | None) -> float | None:
        """Note which call is under way; returns its deadline. Another one that may be resumed is in its way."""
        if self._call is not None and self._call != name:
            why = f"Conflicting {self._call} API call is already in progress"
            raise KafkaException(failure(KafkaError._CONFLICT, why, retriable=True))
        if self._call is None:
            self._answered, self._answer = False, None
        self._call = name
        return self.link.deadline(timeout)

    def end_call(self, raised: KafkaException | None, *, resumable: bool = False) -> KafkaException:
        """Note that the call is over, or may be resumed; return what it raises."""
        if not (resumable and raised is not None and raised.args[0].retriable()):
            self._call, self._answered, self._answer = None, False, None
        return raised or KafkaException()

    def require(self, *states: str) -> None:
        """Raise what is wrong unless the state is one of these; or what a former try of this call was answered."""
        if self._answered and self._answer is not None:
            raise KafkaException(self._answer)
        if self.state in states:
            return
        if self.state == "fatal":
            raise KafkaException(failure(*self.cause(), fatal=True))
        if self.state == "abortable error":
            raise KafkaException(failure(*self.cause(), txn_requires_abort=True))
        shown = "".join(word.capitalize() for word in self.state.split())
        raise KafkaException(failure(KafkaError._STATE, f"Operation not valid in state {shown}"))

    def wait(self, deadline: float | None) -> None:
        """Wait for the answer of the call that is under way."""
        while not self._answered:
            if not self.link.wait(deadline) and not self._answered:
                why = "Timed out waiting for operation to finish, retry call to resume"
                raise KafkaException(failure(KafkaError._TIMED_OUT, why, retriable=True))
        answer = self._answer
        self._answered, self._answer = False, None
        if answer is not None:
            raise KafkaException(answer)

    def flush(self, deadline: float | None) -> None:
        """Wait until all records are reported."""
        left = self.core.flush(deadline)
        if left:
            why = f"Failed to flush all outstanding messages within the API timeout: {left} message(s) remaining"
            raise KafkaException(failure(KafkaError._TIMED_OUT, why, retriable=True))

    def settle(self, error: KafkaError | None) -> None:
        """Answer the call that is under way, or that will be made again."""
        if self._call is not None and not (self._answered and self._answer is not None):
            self._answered, self._answer = True, error
            self.link.stir()

    def fail(self, code: int, why: str, *, bump: bool = False) -> None:
        """The open transaction can only be aborted from now on; ``bump``: with a new producer epoch after that."""
        if self.core.fatal is not None:
            return
        self.needs_bump |= bump
        if self.error is not None:
            return
        self.error = KafkaError(code, why)
        if self.state in {"in transaction", "begin commit", "committing"}:
            self.state = "abortable error"
        self.link.after(0, self._purge)  # a request that has just failed is first put back into its queue

    def _purge(self) -> None:
        if self.state == "abortable error":
            self.core.purge(in_queue=True, in_flight=False, aborting=True)

    def died(self, error: KafkaError) -> None:
        """Note the fatal error of the producer."""
        self.state, self.error = "fatal", error
        self.settle(failure(error.code(), error.str(), fatal=True))
