"""The port to what differs from run to run: time, waiting, threads, processes and randomness.

No other module asks for them.

Product code calls the functions here. They lead to the operating system, or to another ``System`` that ``use`` has put
in its place: a simulator's, in which the same code runs step by step in virtual time, and the same way each time.
"""

import concurrent.futures
import secrets
import threading
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future
from queue import SimpleQueue as Queue
from threading import Condition, Event, Thread
from typing import Any

from canary.threads import pids

__all__ = ["Condition", "Event", "Queue", "System", "Thread", "use"]


class System:
    """What the functions of this module ask: here, the operating system."""

    def monotonic_ns(self) -> int:
        """Return ns of a clock that never goes back."""
        return time.monotonic_ns()

    def wall_ns(self) -> int:
        """Return ns since the epoch, as the machine's clock has them now."""
        return time.time_ns()

    def cpu_s(self) -> float:
        """Return the CPU seconds of this thread."""
        return time.thread_time()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def event(self) -> Event:
        """Return an event that is not set."""
        return threading.Event()

    def lock(self) -> Any:
        """Return a lock that nobody holds."""
        return threading.Lock()

    def condition(self, lock: Any) -> Condition:
        """Return a condition of a lock."""
        return threading.Condition(lock)

    def new_queue(self) -> "Queue[Any]":
        """Return an empty queue without a bound."""
        return Queue()

    def thread(self, run: Callable[[], object], name: str) -> Thread:
        """Return a daemon thread, not started."""
        return threading.Thread(target=run, name=name, daemon=True)

    def done(self, futures: "Collection[Future[Any]]", timeout: float) -> "set[Future[Any]]":
        """Wait until all are done, at most ``timeout`` seconds; return those that are not."""
        return concurrent.futures.wait(futures, timeout).not_done

    def random_bytes(self, count: int) -> bytes:
        """Return bytes that nobody can guess."""
        return secrets.token_bytes(count)

    def process_stamp(self) -> str:
        """Return what ``process_doubt`` knows this process by, later."""
        return pids.stamp()

    def process_doubt(self, stamped: str) -> str | None:
        """Return why the process with this stamp may be alive; None: it has ended, for certain."""
        return pids.doubt(stamped)


_system = System()


def use(system: System) -> System:
    """Let every function of this module ask ``system`` from now on; return what was asked before."""
    global _system
    before, _system = _system, system
    return before


def monotonic() -> float:
    """Return seconds of a clock that never goes back."""
    return _system.monotonic_ns() / 1e9


def monotonic_ns() -> int:
    """Return ns of a clock that never goes back."""
    return _system.monotonic_ns()


def wall_ns() -> int:
    """Return ns since the epoch, as the machine's clock has them now: it may be set, and go back."""
    return _system.wall_ns()


def cpu_s() -> float:
    """Return the CPU seconds of this thread."""
    return _system.cpu_s()


def sleep(seconds: float) -> None:
    """Wait, and nothing can wake it: for short pauses."""
    _system.sleep(seconds)


def event() -> Event:
    """Return an event that is not set."""
    return _system.event()


def lock() -> Any:
    """Return a lock that nobody holds."""
    return _system.lock()


def condition(lock: Any = None) -> Condition:
    """Return a condition, of a ``lock`` that others may share."""
    return _system.condition(lock)


def new_queue() -> "Queue[Any]":
    """Return an empty queue without a bound; its ``get`` raises queue.Empty."""
    return _system.new_queue()


def thread(run: Callable[[], object], name: str) -> Thread:
    """Return a daemon thread, not started."""
    return _system.thread(run, name)


def done(futures: "Collection[Future[Any]]", timeout: float) -> "set[Future[Any]]":
    """Wait until all futures are done, at most ``timeout`` seconds; return those that are not."""
    return _system.done(futures, timeout)


def random_bytes(count: int) -> bytes:
    """Return bytes that nobody can guess."""
    return _system.random_bytes(count)


def token_hex(count: int) -> str:
    """Return ``count`` random bytes as text that nobody can guess."""
    return _system.random_bytes(count).hex()


def random_bits(count: int) -> int:
    """Return a random number from 0 on, below 2 to the power of ``count``."""
    return int.from_bytes(_system.random_bytes((count + 7) // 8)) >> -count % 8


def process_stamp() -> str:
    """Return what ``process_doubt`` knows this process by, later: words in one line, none where it has no stamp."""
    return _system.process_stamp()


def process_doubt(stamped: str) -> str | None:
    """Return why the process with this stamp may be alive; None: it has ended, for certain."""
    return _system.process_doubt(stamped)
