"""The product's port to time, waiting, threads and randomness (canary.threads.system), on virtual time."""

import queue
import random
from collections import deque
from collections.abc import Callable, Collection
from typing import Any

from simulation.machine.futures import wait_futures
from simulation.machine.schedule import Killed, Process, Schedule, Task

EPOCH_NS = 1_790_000_000 * 10**9
"""The wall clock's time when the world begins."""


class SimulatedSystem:
    """One for the whole world: what it answers depends on the process whose task asks."""

    def __init__(self, schedule: Schedule, dice: random.Random) -> None:
        self.schedule = schedule
        self._dice = dice
        self._stamped: dict[str, Process] = {}

    def deadline(self, timeout: float | None) -> float | None:
        """Return when a wait of ``timeout`` seconds is over."""
        return None if timeout is None else self.schedule.deadline(timeout)

    @property
    def process(self) -> Process | None:
        """The process whose task asks; None outside of any task."""
        task = self.schedule.current
        if task is None:
            return None
        if task.process.dead:
            raise Killed
        return task.process

    def monotonic_ns(self) -> int:
        """Return virtual time, without that in which the machine of the process that asks slept."""
        task = self.schedule.current
        return round(self.schedule.now * 1e9) - (task.process.slept_ns if task is not None else 0)

    def wall_ns(self) -> int:
        """Return the wall clock of the process that asks."""
        process = self.process
        return EPOCH_NS + round(self.schedule.now * 1e9) + (process.clock_ns if process is not None else 0)

    def cpu_s(self) -> float:
        """Return 0: what a task computes takes no virtual time."""
        return 0.0

    def sleep(self, seconds: float) -> None:
        """Let others run for so long."""
        SimulatedEvent(self).wait(seconds)

    def event(self) -> "SimulatedEvent":
        """Return a new event."""
        return SimulatedEvent(self)

    def lock(self) -> "SimulatedLock":
        """Return a new lock."""
        return SimulatedLock(self)

    def condition(self, lock: "SimulatedLock | None") -> "SimulatedCondition":
        """Return a new condition."""
        return SimulatedCondition(self, lock or SimulatedLock(self))

    def new_queue(self) -> "SimulatedQueue":
        """Return a new queue."""
        return SimulatedQueue(self)

    def thread(self, run: Callable[[], object], name: str) -> "SimulatedThread":
        """Return a thread of the process that asks; it is not started."""
        return SimulatedThread(self, run, name)

    def done(self, futures: Collection[Any], timeout: float) -> set[Any]:
        """Wait for futures; return those that have no answer in time."""
        return wait_futures(self.schedule, futures, timeout)

    def random_bytes(self, count: int) -> bytes:
        """Return bytes from the world's dice."""
        return self._dice.randbytes(count)

    def process_stamp(self) -> str:
        """Return a number of the process that asks."""
        stamp = str(len(self._stamped))
        self._stamped[stamp] = self.schedule.running().process
        return stamp

    def process_doubt(self, stamped: str) -> str | None:
        """Return why a process may be alive; all run on one machine."""
        process = self._stamped.get(stamped)
        return None if process is not None and process.dead else "its process is alive"

    def wait(self, waiters: list[Task], reached: Callable[[], Any], timeout: float | None) -> Any:
        """Park the current task, noted in ``waiters``, until ``reached`` or until the time is over."""
        found = reached()
        if found:
            return found
        deadline = self.deadline(timeout)
        task = self.schedule.running()
        while not found:
            waiters.append(task)
            woken = self.schedule.park(deadline)
            if not woken:
                if task in waiters:
                    waiters.remove(task)
                return reached()
            found = reached()
        return found

    def wake(self, waiters: list[Task]) -> None:
        """Wake every task that is noted."""
        for task in waiters:
            self.schedule.wake(task)
        waiters.clear()


class SimulatedEvent:
    """An event that tasks wait for, as threading.Event."""

    def __init__(self, system: SimulatedSystem) -> None:
        self._system = system
        self._set = False
        self._waiters: list[Task] = []

    def is_set(self) -> bool:
        """Return whether it is set."""
        self._system.process  # noqa: B018  # a dead process asks nothing any more
        return self._set

    def set(self) -> None:
        """Set it, and wake all that wait."""
        self._set = True
        self._system.wake(self._waiters)

    def clear(self) -> None:
        """Let it not be set any more."""
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set; return whether it is."""
        return bool(self._system.wait(self._waiters, lambda: self._set, timeout))


class SimulatedLock:
    """Tasks give up their turn only where they wait, mostly without a lock; one that is held is waited for."""

    def __init__(self, system: SimulatedSystem) -> None:
        self._system = system
        self._held = False
        self._waiters: list[Task] = []

    def acquire(self) -> None:
        """Take the lock, when nobody holds it."""
        if self._held:
            self._system.wait(self._waiters, lambda: not self._held, None)
        self._held = True

    def take(self) -> None:
        """Hold it, without waiting: who gave it up in a wait has it back."""
        self._held = True

    def release(self) -> None:
        """Give the lock up."""
        self._held = False
        if self._waiters:
            self._system.wake(self._waiters)

    def __enter__(self) -> bool:
        """Take the lock."""
        self.acquire()
        return True

    def __exit__(self, *_: object) -> None:
        """Give the lock up."""
        self.release()


class SimulatedCondition:
    """A condition on a lock, as threading.Condition."""

    def __init__(self, system: SimulatedSystem, lock: SimulatedLock) -> None:
        self._system = system
        self._lock = lock
        self._waiters: list[Task] = []

    def __enter__(self) -> bool:
        """Take its lock."""
        return self._lock.__enter__()

    def __exit__(self, *_: object) -> None:
        """Give its lock up."""
        self._lock.release()

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """Give the lock up until the predicate holds; return what it returns."""
        found = predicate()
        if found:
            return found
        self._lock.release()
        try:
            return self._system.wait(self._waiters, predicate, timeout)
        finally:
            self._lock.take()

    def wait(self, timeout: float | None = None) -> bool:
        """Give the lock up until it is notified; return whether it was."""
        woken: list[bool] = []
        self._lock.release()
        task = self._system.schedule.running()
        self._waiters.append(task)
        try:
            woken.append(self._system.schedule.park(self._system.deadline(timeout)))
        finally:
            if task in self._waiters:
                self._waiters.remove(task)
            self._lock.take()
        return woken[0]

    def notify(self, n: int = 1) -> None:  # noqa: ARG002  # all look, and wait again
        """Wake all that wait, which look again."""
        self.notify_all()

    def notify_all(self) -> None:
        """Wake all that wait."""
        if self._waiters:
            self._system.wake(self._waiters)


class SimulatedQueue:
    """A queue without a bound, as queue.SimpleQueue."""

    def __init__(self, system: SimulatedSystem) -> None:
        self._system = system
        self._items: deque[Any] = deque()
        self._waiters: list[Task] = []

    def put(self, item: Any) -> None:
        """Append an item."""
        self._items.append(item)
        self._system.wake(self._waiters)

    def get(self, timeout: float | None = None) -> Any:
        """Return the first item, when there is one."""
        self._system.wait(self._waiters, lambda: bool(self._items), timeout)
        return self.get_nowait()

    def get_nowait(self) -> Any:
        """Return the first item, or raise queue.Empty."""
        if not self._items:
            raise queue.Empty
        return self._items.popleft()


class SimulatedThread:
    """A task of the process whose task starts it."""

    def __init__(self, system: SimulatedSystem, run: Callable[[], object], name: str) -> None:
        self._system = system
        self._run = run
        self.name = name
        self._task: Task | None = None
        self._waiters: list[Task] = []

    @property
    def ident(self) -> int | None:
        """A number once it was started, None before."""
        return None if self._task is None else 1

    def start(self) -> None:
        """Begin a task of the process that asks."""
        process = self._system.schedule.running().process
        self._task = self._system.schedule.spawn(process, self._main, self.name)

    def _main(self) -> None:
        try:
            self._run()
        finally:
            self._system.wake(self._waiters)

    def join(self, timeout: float | None = None) -> None:
        """Wait until it has ended."""
        task = self._task
        if task is not None and not task.ended:
            self._system.wait(self._waiters, lambda: task.ended, timeout)

    def is_alive(self) -> bool:
        """Return whether it was started and has not ended."""
        return self._task is not None and not self._task.ended
