"""Gives the scrubber its leave: so many bytes a second, one partition after the other, for ever (decision 6)."""

from collections.abc import Callable

import structlog

from canary.facts import ScrubAsked
from canary.threads.ports import Clock, Inbox
from canary.threads.worker import Worker

log = structlog.get_logger(__name__)

_OVERHEAD = 64
"""Bytes of a record beside its value: key, and what the batch costs."""
_LEAST_S = 1.0


class Scrubber(Worker):
    """Asks, at the pace of the budget, for one chunk after the other of everything retained.

    Args:
        places: returns the (topic, partition) pairs there are.
        bytes_per_second: what may be read for it; 0: nothing, and the thread ends at once.
        record_bytes: of a probe's value and headers.
        chunk: records of one re-read.
    """

    def __init__(
        self,
        places: Callable[[], list[tuple[str, int]]],
        *,
        bytes_per_second: int,
        record_bytes: float,
        inbox: Inbox,
        clock: Clock,
        chunk: int = 5000,
    ) -> None:
        super().__init__("scrubber")
        self._places = places
        self._bytes_per_second = bytes_per_second
        self._chunk = chunk
        self._pause_s = max(chunk * (record_bytes + _OVERHEAD) / max(bytes_per_second, 1), _LEAST_S)
        self._inbox = inbox
        self._clock = clock

    def run(self) -> None:
        """Ask until stopped."""
        if not self._bytes_per_second:
            self.stopping.wait()
            return
        log.info("scrub_budget", bytes_per_second=self._bytes_per_second, bytes_per_day=self._bytes_per_second * 86_400)
        turn = 0
        while not self.stopping.is_set():
            places = sorted(self._places())
            if places:
                topic, partition = places[turn % len(places)]
                turn += 1
                self._inbox.put([ScrubAsked(self._clock.now_ns(), topic, partition, self._chunk)])
            self.stopping.wait(self._pause_s if places else _LEAST_S)
