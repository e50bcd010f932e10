"""Which of a cluster's partitions are this runner's, where several runners share them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SHARED: Final = frozenset({"idempotent", "plain"})
"""Modes whose partitions are shared: each partition is probed for itself. The others need all of them."""


@dataclass(frozen=True, slots=True)
class Share:
    """The partitions whose number leaves the rest ``index`` when divided by ``of``."""

    index: int = 0
    of: int = 1

    @classmethod
    def parse(cls, text: str) -> Share:
        """Return the share that ``text`` (like 0/3) names.

        Raises:
            ValueError: it names none.
        """
        index, slash, of = text.partition("/")
        if not (slash and index.isdecimal() and of.isdecimal() and int(index) < int(of) <= 1000):
            raise ValueError(f"{text!r} is no share")
        return cls(int(index), int(of))

    def has(self, partition: int) -> bool:
        """Return whether a partition is in it."""
        return partition % self.of == self.index

    def mine(self, partitions: int) -> tuple[int, ...]:
        """Return those of so many partitions that are in it."""
        return tuple(range(self.index, partitions, self.of))
