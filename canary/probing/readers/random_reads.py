"""Asks now and then for a place in what is retained, drawn at random, to be read again."""

from collections.abc import Callable

from canary.facts import RandomReadAsked
from canary.threads import system
from canary.threads.ports import Clock, Inbox
from canary.threads.worker import Worker

RECORDS = 100
"""So many are read, at most."""


class RandomReader(Worker):
    """Draws the places; how they are read and what that means is the judge's business, as for the scrubber.

    Args:
        bounds: returns (topic, partition, start, end) of each log; [start, end) are the offsets that it retains.
        every_s: seconds between two reads; None: there is none, and the thread waits for its stop.
    """

    def __init__(
        self,
        bounds: Callable[[], list[tuple[str, int, int, int]]],
        *,
        every_s: float | None,
        inbox: Inbox,
        clock: Clock,
    ) -> None:
        super().__init__("random-reader")
        self._bounds = bounds
        self._every_s = every_s
        self._inbox = inbox
        self._clock = clock

    def run(self) -> None:
        """Ask until stopped."""
        if self._every_s is None:
            self.stopping.wait()
            return
        while not self.stopping.wait(self._every_s):
            logs = sorted(one for one in self._bounds() if one[2] < one[3])
            if logs:
                topic, partition, start, end = logs[system.random_bits(64) % len(logs)]
                place = (topic, partition, start + system.random_bits(64) % (end - start))
                self._inbox.put([RandomReadAsked(self._clock.now_ns(), *place, RECORDS)])
