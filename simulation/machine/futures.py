"""Answers to come, for tasks that wait in virtual time."""

from collections.abc import Callable, Iterable
from typing import Any

from simulation.machine.schedule import Schedule


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
        """Return whether there is an answer."""
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
