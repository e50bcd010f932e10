"""What a replica holds in memory while it believes that it leads."""

from collections.abc import Callable
from typing import Generic, TypeVar

from simulation.kafka.producers import Producers
from simulation.machine.schedule import Timer

Follower = TypeVar("Follower")


class Waiting:
    """A write that waits until the high watermark is at ``needed``."""

    __slots__ = ("done", "needed", "timer")

    def __init__(self, needed: int, done: Callable[[int], None]) -> None:
        self.needed = needed
        self.done = done
        self.timer: Timer | None = None


class Leadership(Generic[Follower]):
    """One leadership, which ends with the process, or when the broker hears of a successor."""

    def __init__(self, epoch: int, start: int, isr: tuple[int, ...], producers: Producers) -> None:
        self.epoch = epoch
        self.start = start
        """End of the log when this began."""
        self.isr = isr
        self.producers = producers
        self.followers: list[Follower] = []
        """Those that have everything, and get each record at once."""
        self.late: list[Follower] = []
        """Those that fetch, but late."""
        self.fetching: list[int] = []
        """Brokers of ``late`` ones that will catch up in a moment."""
        self.ends: dict[int, int] = {}
        """Log ends of the others, as the leader last saw them."""
        self.since: dict[int, float] = {}
        """When each of the others last had everything."""
        self.waiting: list[Waiting] = []
        self.real = True
        """No other broker leads under a higher epoch."""
        self.in_step = False
        """Whether what is appended is committed at once."""
        self.timer: Timer | None = None
