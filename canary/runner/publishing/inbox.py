"""The one queue of facts."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from canary.facts import Fact

PAUSE_AT = 50_000
"""So many facts that are not durable yet: senders pause until half of them are left."""
BOUND = 100_000
"""So many: whoever puts more waits. Some tens of MB."""


class FactQueue:
    """Where all threads put facts, and from which one thread takes them, in one order.

    A sequence put at once stays together. Nothing is dropped: when facts do not become durable as fast as they come,
    senders are to pause first (``paused``), and at the bound every ``put`` waits.

    Args:
        keeps: says which facts are wanted; the others are left out. By default all are.
        pause_at: see PAUSE_AT.
        bound: see BOUND.
    """

    def __init__(
        self, keeps: Callable[[Fact], bool] | None = None, *, pause_at: int = PAUSE_AT, bound: int = BOUND
    ) -> None:
        self._keeps = keeps
        self._pause_at = pause_at
        self._bound = bound
        self._queue: deque[tuple[Fact, ...]] = deque()
        lock = threading.Lock()
        self._filled = threading.Condition(lock)
        self._room = threading.Condition(lock)
        self._pending = 0
        self._taken = 0
        self._crowded: float | None = None
        self._halted = False
        self._released = False

    def put(self, facts: Sequence[Fact], /) -> None:
        """Take ``facts``; wait for room before that while as many as the bound are pending."""
        if self._keeps is not None:
            facts = tuple(filter(self._keeps, facts))
        if not facts:
            return
        with self._room:
            self._room.wait_for(lambda: self._pending < self._bound or self._released)
            self._queue.append(tuple(facts))
            self._pending += len(facts)
            if self._pending >= self._pause_at and self._crowded is None:
                self._crowded = time.monotonic()
            self._filled.notify()

    @property
    def pending(self) -> int:
        """How many facts are not durable yet: those that wait, and those that were gathered and not settled."""
        return self._pending

    @property
    def paused(self) -> bool:
        """Whether senders are to send nothing for now."""
        return self._halted or self._crowded is not None

    @property
    def crowded_s(self) -> float:
        """For how many seconds too many facts have been pending; 0.0 if they are not."""
        since = self._crowded
        return 0.0 if since is None else time.monotonic() - since

    def halt(self, *, halted: bool) -> None:
        """Have senders pause, however few facts are pending, or let them go on."""
        self._halted = halted

    def release(self) -> None:
        """Let nobody wait any more: the end has come."""
        with self._room:
            self._released = True
            self._room.notify_all()

    def gather(self, seconds: float, most: int) -> list[Fact]:
        """Return what comes within ``seconds``, at once when ``most`` facts are there; to be followed by ``settle``."""
        deadline = time.monotonic() + seconds
        found: list[Fact] = []
        with self._filled:
            while len(found) < most and self._filled.wait_for(
                lambda: bool(self._queue), max(deadline - time.monotonic(), 0)
            ):
                found.extend(self._queue.popleft())
            self._taken += len(found)
        return found

    def settle(self) -> None:
        """What was gathered is durable: there is room for as much."""
        with self._room:
            self._pending -= self._taken
            self._taken = 0
            if self._pending < self._pause_at / 2:
                self._crowded = None
            self._room.notify_all()
