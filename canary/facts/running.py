"""What happens to the canary itself: starts, lost memory, client errors, the passing of time."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunnerStarted:
    """A runner process begins; whatever an earlier process had in flight gets no outcome any more.

    ``installation`` is the store's id, a part of every probe's tag. ``remembered_ns`` is the time of the last fact that
    the ledger held before this process, None if it was empty. ``clock_ahead_ns`` is as in ClockSeen, None for 0.
    """

    at_ns: int
    runner: str
    version: str
    installation: str | None = None
    remembered_ns: int | None = None
    clock_ahead_ns: int | None = None


@dataclass(frozen=True, slots=True)
class MemoryLost:
    """The ledger was damaged, wiped or restored: facts from ``from_ns`` (None: the beginning) to now are missing."""

    at_ns: int
    from_ns: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class ClientError:
    """An error that a client reported outside any delivery: evidence, never a violation by itself."""

    at_ns: int
    client: str
    code: str
    error: str
    fatal: bool = False


@dataclass(frozen=True, slots=True)
class ClockSeen:
    """The machine's clock was set by a second or more: it is ahead of the runner's by ``clock_ahead_ns`` now.

    The runner's clock does not follow. Whatever was seen after the machine's clock was set comes later in the queue.
    """

    at_ns: int
    clock_ahead_ns: int


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed and nothing else happened: timers run in a pure fold."""

    at_ns: int
