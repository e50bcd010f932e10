"""What coordinators decided about transactions, and which of those decisions did not hold in a partition."""

from collections.abc import Sequence
from typing import Literal

from simulation.kafka.contract import Record

Outcome = Literal["commit", "abort"]


class Promises:
    """Records of one partition whose transaction is decided, while they have no marker."""

    def __init__(self) -> None:
        self._decided: dict[int, tuple[Outcome, Record]] = {}
        """By id()."""

    def decided(self, truth: Sequence[Record], producer_id: int, outcome: Outcome, below: int | None = None) -> None:
        """The open transaction of a producer is decided, of it only what is ``below`` an offset; what was, stands."""
        for record in reversed(truth):
            if record.producer_id == producer_id and (below is None or record.offset < below):
                if record.control is not None:
                    return
                if record.transactional:
                    self._decided.setdefault(id(record), (outcome, record))

    def markers_lost(self, truth: Sequence[Record], lost: Sequence[Record]) -> None:
        """Markers are gone with a part of the log: what they ended is open again."""
        for marker in lost:
            if marker.control is not None:
                self.decided(truth, marker.producer_id, marker.control, marker.offset)

    def undone(self, marker: Record, first: int) -> list[Record]:
        """A marker ends a transaction that began at ``first``; return the records that were decided otherwise."""
        broken = []
        for key, (outcome, record) in list(self._decided.items()):
            if record.producer_id == marker.producer_id and first <= record.offset < marker.offset:
                del self._decided[key]
                if outcome != marker.control:
                    broken.append(record)
        return broken
