"""How the transactions in a log ended, told by its markers. Pure.

Only what did not commit is kept: aborted transactions, and those whose end cannot be told. Where part of the log is
unreadable, a marker may have been there: what was open before it is undecided, however its producer went on.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["committed", "aborted", "undecided"]


@dataclass(frozen=True, slots=True)
class Undecided:
    """A transaction of which the log does not tell the end; its records stand from ``first`` on, below ``behind``."""

    producer_id: int
    producer_epoch: int
    first: int
    behind: int


class Outcomes:
    """A fold over the batches of one partition, in order; then the outcome of each record."""

    def __init__(self) -> None:
        self._open: dict[int, tuple[int, int]] = {}
        self._ended: dict[int, list[tuple[int, int, Outcome]]] = defaultdict(list)
        self._undecided: list[Undecided] = []

    def data(self, producer_id: int, producer_epoch: int, offset: int) -> None:
        """Take a batch of a transaction that begins at an offset."""
        self._open.setdefault(producer_id, (offset, producer_epoch))

    def marker(self, producer_id: int, offset: int, *, committed: bool) -> None:
        """Take a marker that ends the producer's transaction."""
        first, _ = self._open.pop(producer_id, (offset, 0))
        if not committed and first < offset:
            self._ended[producer_id].append((first, offset, "aborted"))

    def unreadable(self, offset: int) -> None:
        """Take it that what follows, from an offset on, cannot be read, or that the log ends there."""
        for producer_id, (first, epoch) in self._open.items():
            self._ended[producer_id].append((first, offset, "undecided"))
            self._undecided.append(Undecided(producer_id, epoch, first, offset))
        self._open.clear()

    def of(self, producer_id: int, offset: int) -> Outcome:
        """Return the outcome of a transaction's record, once everything was taken."""
        ended = self._ended.get(producer_id, [])
        at = bisect_right(ended, offset, key=lambda one: one[0]) - 1
        return ended[at][2] if at >= 0 and offset < ended[at][1] else "committed"

    def undecided(self) -> Iterator[Undecided]:
        """Return the transactions that are undecided."""
        yield from self._undecided
