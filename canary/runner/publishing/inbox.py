"""The queue through which all facts of a cluster reach the judge."""

from collections import deque
from collections.abc import Callable
from typing import Any

from canary.facts import Batch, ClusterMet, Fact, Facts, OutOfRange, PartitionSeen, RereadEnded, count
from canary.threads import system

PAUSE_AT = 50_000
"""When this many facts are not durable yet, senders pause until half of them are."""
BOUND = 100_000
"""When this many facts (some tens of MB) are not durable yet, every ``put`` waits."""


_HASTY = (ClusterMet, OutOfRange, PartitionSeen, RereadEnded)
"""Facts that are judged at once: something may be lost (the leader has changed), or a question about it has its answer.
They are rare."""


class FactQueue:
    """All threads put facts into it; the judge takes them out, in one order.

    Facts of one ``put`` stay together. Nothing is dropped: when facts come faster than they become durable, senders
    pause (``paused``), and at the bound every ``put`` waits. ``keeps`` returns whether a fact is wanted; without it all
    are.
    """

    def __init__(
        self, keeps: Callable[[Fact], bool] | None = None, *, pause_at: int = PAUSE_AT, bound: int = BOUND
    ) -> None:
        self._keeps = keeps
        self._pause_at = pause_at
        self._bound = bound
        self._queue: deque[Facts] = deque()
        lock = system.lock()
        self._filled = system.condition(lock)
        self._room = system.condition(lock)
        self._pending = 0
        self._taken = 0
        self._enough = 0
        self._hasty = False
        self._crowded: float | None = None
        self._halted = False
        self._released = False

    def put(self, facts: Facts, /) -> None:
        """Append ``facts``, after waiting for room while the queue is at its bound."""
        taken = tuple(one for one in facts if self._keeps is None or isinstance(one, Batch) or self._keeps(one))
        if not taken:
            return
        with self._room:
            self._room.wait_for(lambda: self._pending < self._bound or self._released)
            self._queue.append(taken)
            self._pending += count(taken)
            if self._pending >= self._pause_at and self._crowded is None:
                self._crowded = system.monotonic()
            self._hasty |= any(isinstance(one, _HASTY) for one in taken)
            if self._hasty or self._pending - self._taken >= self._enough:
                self._filled.notify()

    @property
    def pending(self) -> int:
        """How many facts are not durable yet: those in the queue, and those gathered but not settled."""
        return self._pending

    @property
    def paused(self) -> bool:
        """Whether senders must pause."""
        return self._halted or self._crowded is not None

    @property
    def crowded_s(self) -> float:
        """For how many seconds ``pause_at`` facts or more have been pending; 0.0 while fewer are."""
        since = self._crowded
        return 0.0 if since is None else system.monotonic() - since

    def halt(self, *, halted: bool) -> None:
        """Make senders pause, however few facts are pending, or let them go on."""
        self._halted = halted

    def release(self) -> None:
        """Let every ``put`` that waits go on: the runner ends."""
        with self._room:
            self._released = True
            self._room.notify_all()

    def gather(self, seconds: float, most: int) -> list[Fact | Batch[Any]]:
        """Return the facts of the next ``seconds``, or ``most`` of them; call ``settle`` once they are durable.

        Nobody is woken before that, unless one of them is hasty: a thread that wakes for each ``put`` costs more than
        all it does with the facts.
        """
        found: list[Fact | Batch[Any]] = []
        number = 0
        with self._filled:
            self._enough = most
            self._filled.wait_for(lambda: self._hasty or self._pending - self._taken >= most, seconds)
            self._hasty = False
            while self._queue and number < most:
                taken = self._queue.popleft()
                found.extend(taken)
                number += count(taken)
            self._taken += number
        return found

    def settle(self) -> None:
        """Take note that the gathered facts are durable, which makes room for as many."""
        with self._room:
            self._pending -= self._taken
            self._taken = 0
            if self._pending < self._pause_at / 2:
                self._crowded = None
            self._room.notify_all()
