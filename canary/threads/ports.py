"""What a part that watches or probes is handed from outside."""

from typing import Protocol

from canary.facts import Facts
from canary.threads import system


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
