"""A log as Kafka keeps it: offsets, transactions with markers, what each isolation level may read, how it breaks."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Transaction:
    """One transaction; ``markers`` says for each partition how it ended there, once it has."""

    transaction_id: int
    markers: dict[int, str] = field(default_factory=dict)


@dataclass
class Entry:
    """What stands at an offset: a message, a transaction's marker (value None), or a hole."""

    value: int | None
    transaction: Transaction | None = None
    leaked: bool = False
    """Delivered to everybody, whatever its transaction says."""
    corrupt: bool = False


@dataclass
class Log:
    """One partition of one incarnation."""

    partition: int
    key: str
    entries: list[Entry | None] = field(default_factory=list)
    start: int = 0
    epoch: int = 0
    leader: int = 1
    _decided: int = 0

    @property
    def end(self) -> int:
        """The offset that the next message gets."""
        return len(self.entries)

    def cut(self, end: int) -> None:
        """Lose everything from ``end`` on, under a new leader."""
        del self.entries[end:]
        self._decided = min(self._decided, end)
        self.epoch += 1

    def message(self, offset: int) -> Entry:
        """Return what stands at an offset.

        Raises:
            LookupError: it has been cut off, or removed.
        """
        entry = self.entries[offset]
        if entry is None:
            raise LookupError(f"nothing stands at {offset}")
        return entry

    def append(self, value: int | None, transaction: Transaction | None = None) -> int:
        """Append a message, a marker or a hole, and return its offset."""
        self.entries.append(Entry(value, transaction))
        return self.end - 1

    @property
    def stable(self) -> int:
        """First offset of a transaction that is open here, else the end."""
        while self._decided < self.end:
            entry = self.entries[self._decided]
            if (
                entry is not None
                and entry.transaction is not None
                and self.partition not in entry.transaction.markers
                and not entry.leaked
            ):
                break
            self._decided += 1
        return self._decided

    def visible(self, offset: int, isolation: str) -> Entry | None:
        """Return the message at ``offset`` if a consumer may have it."""
        entry = self.entries[offset]
        if entry is None or entry.value is None:
            return None
        if isolation == "read_uncommitted" or entry.transaction is None or entry.leaked:
            return entry
        return entry if entry.transaction.markers.get(self.partition) == "commit" else None

    def read(self, position: int, limit: int, isolation: str) -> tuple[list[tuple[int, Entry]], int]:
        """Return at most ``limit`` messages from ``position`` on, and the position after them."""
        end = self.end if isolation == "read_uncommitted" else self.stable
        found: list[tuple[int, Entry]] = []
        position = max(position, self.start)
        while position < end and len(found) < limit:
            entry = self.visible(position, isolation)
            if entry is not None:
                found.append((position, entry))
            position += 1
        return found, position
