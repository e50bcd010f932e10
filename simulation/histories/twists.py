"""What can be twisted in one transaction, from its writes to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from simulation.histories.clockwork import RC, Injected
from simulation.histories.kafka import Entry, Log, Transaction

if TYPE_CHECKING:
    from simulation.histories.cluster import Simulator


def note(life: Simulator, kind: str, log: Log, offset: int | None, value: int | None, **lenses: bool) -> None:
    """Note what is broken, and which of the two lenses shows it."""
    identity = None if value is None else life.identities[value]
    life.injected.append(Injected(kind, log.key, log.partition, offset, value, identity, **lenses))


class Leak:
    """A transaction whose last write is delivered before it asks for its commit, to itself and to the canary."""

    fate = "commit"

    def appended(
        self, life: Simulator, log: Log, offset: int, value: int, positions: dict[int, int]
    ) -> dict[str, Any] | None:
        """Deliver the write at once, and have it polled."""
        if log.stable != offset:  # another transaction is open below: nobody could come here
            life.twists.append(Leak())
            return None
        entry = log.message(offset)
        entry.leaked = True
        life.tail(RC, log.partition, log.end + 1)
        polled = life.poll_by(positions, 1 << 30, [log.partition])
        note(life, "precommitted-read", log, offset, value)
        return polled

    def ending(self, life: Simulator, transaction: Transaction, logs: list[Log]) -> None:
        """Nothing more."""

    def ended(self, life: Simulator, kind: str) -> None:
        """Nothing more."""


class Fracture:
    """A committed transaction one of whose acknowledged writes is not there."""

    fate = "commit"

    def appended(
        self, life: Simulator, log: Log, offset: int, value: int, positions: dict[int, int]
    ) -> dict[str, Any] | None:
        """Take the write away."""
        del positions
        log.entries[offset] = Entry(None)
        self.place = (log, offset, value)
        for kind in ("lost-write", "fractured-transaction"):
            note(life, kind, *self.place, certain=False)
        return None

    def ending(self, life: Simulator, transaction: Transaction, logs: list[Log]) -> None:
        """Nothing yet."""

    def ended(self, life: Simulator, kind: str) -> None:
        """Note that it was committed for certain."""
        if kind == "ok" and hasattr(self, "place"):
            note(life, "lost-write", *self.place)
            note(life, "fractured-transaction", *self.place, history=False)


class Undead:
    """An aborted transaction whose messages are delivered all the same."""

    fate = "abort"

    def __init__(self) -> None:
        self.undead: list[tuple[Log, int, int]] = []

    def appended(
        self, life: Simulator, log: Log, offset: int, value: int, positions: dict[int, int]
    ) -> dict[str, Any] | None:
        """Nothing yet."""

    def ending(self, life: Simulator, transaction: Transaction, logs: list[Log]) -> None:
        """Show what is about to be aborted."""
        for log in logs:
            for offset, entry in enumerate(log.entries):
                if entry is not None and entry.transaction is transaction and entry.value is not None:
                    entry.leaked = True
                    self.undead.append((log, offset, entry.value))
                    note(life, "precommitted-read", log, offset, entry.value, certain=False)

    def ended(self, life: Simulator, kind: str) -> None:
        """Note that it was aborted for certain."""
        if kind == "fail":  # else nobody knows for certain that it failed
            for undead in self.undead:
                note(life, "G1a", *undead)
