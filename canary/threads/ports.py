"""What a part that watches or probes is handed from outside."""

from typing import Protocol

from canary.facts import Facts
from canary.threads import system

_STEP_NS = 10**9


class Inbox(Protocol):
    """Where facts go: one queue, one order (ARCHITECTURE decision 4). Safe to call from any thread."""

    def put(self, facts: Facts, /) -> None:
        """Take the facts, in this order and with nothing in between; may wait until there is room for them."""

    @property
    def paused(self) -> bool:
        """Whether senders are to send nothing for now: facts do not become durable, or not fast enough."""


class Clock(Protocol):
    """Says what time it is; never goes back within one process."""

    def now_ns(self) -> int:
        """Return ns since the epoch."""


class SteadyClock:
    """Wall time at its start plus monotonic time: a step of the system's clock does not reach any latency."""

    def __init__(self) -> None:
        self._offset = system.wall_ns() - system.monotonic_ns()

    def now_ns(self) -> int:
        """Return ns since the epoch, never less than before."""
        return self._offset + system.monotonic_ns()


def clock_ahead_ns(clock: Clock, known_ns: int = 0) -> int:
    """Return how far the machine's clock is ahead of ``clock`` now: it was set since, or the machine was suspended.

    What differs from ``known_ns`` by less than a second is that: the two are not read at one moment.
    """
    ahead_ns = system.wall_ns() - clock.now_ns()
    return ahead_ns if abs(ahead_ns - known_ns) >= _STEP_NS else known_ns
