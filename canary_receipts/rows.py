"""Receipts in memory: columns, the transactions they wait for, and counts."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field


@dataclass(slots=True)
class Rows:
    """Receipts in columns of numbers, no object for each row; ``topic`` is a place in the recorder's list of names."""

    topic: array[int] = field(default_factory=lambda: array("i"))
    partition: array[int] = field(default_factory=lambda: array("i"))
    offset: array[int] = field(default_factory=lambda: array("q"))
    timestamp: array[int] = field(default_factory=lambda: array("q"))
    acked_ns: array[int] = field(default_factory=lambda: array("q"))
    digest: array[int] = field(default_factory=lambda: array("q"))
    digested: bytearray = field(default_factory=bytearray)
    transactional: bytearray = field(default_factory=bytearray)
    in_doubt: bytearray = field(default_factory=bytearray)

    def __len__(self) -> int:
        """Return how many they are."""
        return len(self.topic)

    def add(self, others: Rows) -> None:
        """Add all of some others."""
        for name in self.__slots__:
            getattr(self, name).extend(getattr(others, name))


@dataclass(slots=True, eq=False)
class Transaction:
    """A transaction, and the receipts of its records; ``outcome`` None: it has no end yet."""

    outcome: str | None = None
    rows: Rows = field(default_factory=Rows)


@dataclass(slots=True)
class Counts:
    """The counts of the metadata, of the incarnation so far."""

    receipts: int = 0
    dropped: int = 0
    failed: int = 0
    aborted: int = 0
    without_offset: int = 0
