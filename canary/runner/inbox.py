"""The one queue of facts."""

from __future__ import annotations

import queue
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from canary.facts import Fact


class FactQueue:
    """Where all threads put facts, and from which one thread takes them, in one order.

    A sequence put at once stays together.
    """

    def __init__(self, keeps: Callable[[Fact], bool] | None = None) -> None:
        """Begin empty; what ``keeps`` refuses is dropped."""
        self._keeps = keeps
        self._queue: queue.SimpleQueue[tuple[Fact, ...]] = queue.SimpleQueue()
        self._taken = 0
        self._put = 0

    def put(self, facts: Sequence[Fact], /) -> None:
        """Take ``facts``. Never blocks."""
        if self._keeps is not None:
            facts = tuple(filter(self._keeps, facts))
        if facts:
            self._queue.put(tuple(facts))
            self._put += len(facts)  # a gauge: a race between two threads may cost it a count, no fact

    @property
    def pending(self) -> int:
        """About how many facts wait."""
        return max(self._put - self._taken, 0)

    def gather(self, seconds: float, most: int) -> list[Fact]:
        """Return what comes within ``seconds``, at once when ``most`` facts are there; at least waits for one."""
        deadline = time.monotonic() + seconds
        found: list[Fact] = []
        while len(found) < most:
            left = deadline - time.monotonic()
            try:
                found.extend(self._queue.get(timeout=max(left, 0)) if left > 0 else self._queue.get_nowait())
            except queue.Empty:
                break
        self._taken += len(found)
        return found
