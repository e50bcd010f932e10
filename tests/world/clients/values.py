"""What the simulated clients hand out where confluent-kafka has classes that only it can make: messages, futures."""

from collections.abc import Iterable
from typing import Any

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_NOT_AVAILABLE, KafkaError

from tests.world.schedule import Schedule, Task


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
        self._waiters: list[Task] = []

    def done(self) -> bool:
        return self._done

    def add_waiter(self, task: Task) -> None:
        """Wake ``task`` when there is an answer."""
        self._waiters.append(task)

    def remove_waiter(self, task: Task) -> None:
        """Do not wake ``task`` any more."""
        self._waiters.remove(task)

    def resolve(self, value: Any = None, error: BaseException | None = None) -> None:
        """Set the answer; a second one does not count."""
        if self._done:
            return
        self._done, self._value, self._error = True, value, error
        for task in self._waiters:
            self._schedule.wake(task)
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
    """Park until all are done, at most ``timeout`` seconds; return those that are not."""
    deadline = None if timeout is None else schedule.deadline(timeout)
    pending = [one for one in futures if not one.done()]
    task = schedule.current
    assert task is not None, "only a task can wait"
    for one in pending:
        one.add_waiter(task)
    while any(not one.done() for one in pending) and schedule.park(deadline):
        pass
    late = [one for one in pending if not one.done()]
    for one in late:
        one.remove_waiter(task)  # it must not be woken where it waits next
    return set(late)
