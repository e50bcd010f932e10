"""Which records may be missing on one replica because its broker compacted the partition before another one did.

Each broker compacts its own replica, when it likes. It removes a record that a later one of the same key follows, one
without a key, one of an aborted transaction, and after a while tombstones and the markers that end transactions
(LogCleaner, KIP-58, KIP-98, KIP-534). The later record, or the marker, is still on some replica: on the one that still
has the record, if nowhere else.
"""

from collections.abc import Iterable
from typing import Any, Final

from canary.anomalies.replicas.copies import Difference, Kept

MOST_PENDING: Final = 20_000
"""Missing records that wait for an explanation; about 10 MB."""


class Search:
    """Looks for what explains that records are missing, from the first offsets to the last.

    ``add`` differences, then ``feed`` the records from there on. When all records up to the high watermark were fed,
    what is still ``pending`` has no explanation.
    """

    def __init__(self) -> None:
        self.explained = 0
        """Differences that compaction explains."""
        self.left_out = 0
        """Differences that were not looked at, because too many were pending."""
        self._pending: dict[int, Difference] = {}
        self._of_key: dict[bytes, list[int]] = {}
        self._of_producer: dict[int, list[int]] = {}

    @property
    def pending(self) -> list[Difference]:
        """Differences that nothing explains yet, ascending."""
        return [self._pending[offset] for offset in sorted(self._pending)]

    def first_pending(self, default: int) -> int:
        """Return the first offset that nothing explains yet."""
        return min(self._pending, default=default)

    def add(self, differences: Iterable[Difference]) -> list[Difference]:
        """Take differences; return those that compaction cannot make."""
        never = []
        for one in differences:
            record = one.record
            if record is None or not one.only_missing:
                never.append(one)
            elif record.marker is not None or record.tombstone or record.key is None:
                self.explained += 1
            elif len(self._pending) >= MOST_PENDING:
                self.left_out += 1
            else:
                self._pending[one.first] = one
                self._of_key.setdefault(record.key, []).append(one.first)
                if record.producer is not None:
                    self._of_producer.setdefault(record.producer, []).append(one.first)
        return never

    def feed(self, records: Iterable[Kept]) -> None:
        """Take the records that are behind those of before, ascending, each of whatever replica has it."""
        for one in records:
            if one.marker is not None:
                self._end(one)
            elif one.key in self._of_key:
                self._explain(self._of_key, one.key, one.offset)

    def _end(self, marker: Kept) -> None:
        """Take the end of a transaction: an abort explains that its records are missing."""
        if marker.producer is None or marker.producer not in self._of_producer:
            return
        if marker.marker == "abort":
            self._explain(self._of_producer, marker.producer, marker.offset)
        else:
            later = [one for one in self._of_producer.pop(marker.producer) if one > marker.offset]
            if later:
                self._of_producer[marker.producer] = later

    def _explain(self, offsets: dict[Any, list[int]], name: object, below: int) -> None:
        """Take what ``name`` has pending below an offset as explained."""
        found = offsets.pop(name)
        later = [one for one in found if one >= below]
        if later:
            offsets[name] = later
        self.explained += sum(self._pending.pop(one, None) is not None for one in found if one < below)
