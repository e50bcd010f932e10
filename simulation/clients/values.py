"""What the simulated clients hand out where confluent-kafka has classes that only it can make: messages, futures."""

from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE, KafkaError

from simulation.machine.schedule import Schedule


def failure(code: int, why: str | None = None, **flags: bool) -> KafkaError:
    """Return an error; without ``why``, the text is the one of its code."""
    return KafkaError(code, why, **flags) if why is not None else KafkaError(code, KafkaError(code).str(), **flags)


class Message:
    """A record or an event of a consumer, or what a delivery report is about."""

    __slots__ = ("_epoch", "_error", "_key", "_offset", "_partition", "_timestamp_ms", "_topic", "_value")

    def __init__(
        self,
        topic: str,
        partition: int,
        offset: int,
        key: bytes | None = None,
        value: bytes | None = None,
        timestamp_ms: int = -1,
        epoch: int = -1,
        error: KafkaError | None = None,
    ) -> None:
        self._topic = topic
        self._partition = partition
        self._offset = offset
        self._key = key
        self._value = value
        self._timestamp_ms = timestamp_ms
        self._epoch = epoch
        self._error = error

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return self._partition

    def offset(self) -> int | None:
        return self._offset if self._offset >= 0 else None

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value if self._error is None or self._value is not None else self._error.str().encode()

    def error(self) -> KafkaError | None:
        return self._error

    def leader_epoch(self) -> int | None:
        return self._epoch if self._epoch >= 0 else None

    def timestamp(self) -> tuple[int, int]:
        kind = TIMESTAMP_CREATE_TIME if self._timestamp_ms >= 0 else TIMESTAMP_NOT_AVAILABLE
        return kind, self._timestamp_ms


class SimulatedFuture:
    """An answer to come, as concurrent.futures has it."""

    __slots__ = ("_done", "_error", "_schedule", "_value", "_waiters")

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._waiters: list[Callable[[], object]] = []

    def done(self) -> bool:
        return self._done

    def add_waiter(self, waiter: Callable[[], object]) -> None:
        """Call ``waiter`` when there is an answer."""
        self._waiters.append(waiter)

    def remove_waiter(self, waiter: Callable[[], object]) -> None:
        """Do not call ``waiter`` any more."""
        self._waiters.remove(waiter)

    def resolve(self, value: Any = None, error: BaseException | None = None) -> None:
        """Set the answer; a second one does not count."""
        if self._done:
            return
        self._done, self._value, self._error = True, value, error
        for waiter in self._waiters:
            waiter()
        self._waiters.clear()

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the error that the answer is, None if it is none.

        Raises:
            TimeoutError: there is no answer within ``timeout`` seconds.
        """
        if not self._done and wait_futures(self._schedule, [self], timeout):
            raise TimeoutError
        return self._error

    def result(self, timeout: float | None = None) -> Any:
        """Return the answer, or raise it if it is an error.

        Raises:
            TimeoutError: there is no answer within ``timeout`` seconds.
        """
        error = self.exception(timeout)
        if error is not None:
            raise error
        return self._value


def wait_futures(schedule: Schedule, futures: Iterable[SimulatedFuture], timeout: float | None) -> set[SimulatedFuture]:
    """Park until all are done, at most ``timeout`` seconds; return those that are not.

    That takes one turn however many they are: concurrent.futures.wait wakes up when the last one is done.
    """
    deadline = None if timeout is None else schedule.deadline(timeout)
    pending = [one for one in futures if not one.done()]
    left = len(pending)
    task = schedule.running()

    def answered() -> None:
        nonlocal left
        left -= 1
        if not left:
            schedule.wake(task)

    for one in pending:
        one.add_waiter(answered)
    while left and schedule.park(deadline):
        pass
    late = [one for one in pending if not one.done()]
    for one in late:
        one.remove_waiter(answered)  # the task must not be woken where it waits next
    return set(late)
