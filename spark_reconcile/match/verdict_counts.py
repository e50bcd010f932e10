"""Counts that add up: whatever is counted in pieces, and taken back when a second look says otherwise."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from spark_reconcile.judging import (
    ABORTED_READ,
    EARLY,
    SURVIVED,
    UNEXPECTED,
    UNJUDGED,
    VERDICTS,
    Judgement,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_reconcile.columns import I64, Bool, Probes

DAY_US: Final = 86_400_000_000
_DAYS: Final = 1000
"""Days that are made room for without looking which of them occur."""
TABLE: Final = ("attempted", "acked", "survivors", "acked_lost", "unacked_found")
_SUMS: Final = {
    "voided": "voided",
    "unverified": "unverified",
    "stray": "strays",
    "blind": "blind",
    "promised": "promised",
}


@dataclass(slots=True)
class Tally:
    """``verdicts``: identities by verdict. ``table``: the five columns of rule 5 by (mode, day since the epoch).

    ``anomalies``: counts by name, of those that are counted by identity. ``notes``: voided, unverified, strays, blind
    and promised of rules 1, 4, 7 and 3.
    """

    verdicts: I64 = field(default_factory=lambda: np.zeros(len(VERDICTS), dtype=np.int64))
    table: dict[tuple[str, int], I64] = field(default_factory=dict)
    anomalies: dict[str, int] = field(default_factory=dict)
    notes: dict[str, int] = field(default_factory=dict)

    def survived(self, probes: Probes, plainly: Bool) -> None:
        """Count those of ``probes`` that were promised and stand where they were acknowledged."""
        number = int(np.count_nonzero(plainly))
        self.verdicts[SURVIVED] += number
        _add_to(self.notes, {"promised": number})
        nothing: Bool = np.zeros(len(probes), dtype=np.bool_)
        self._tabulate(probes, (plainly, plainly, plainly, nothing, nothing))

    def add(self, probes: Probes, judged: Judgement) -> None:
        """Count ``probes``, judged row by row."""
        self.verdicts += np.bincount(judged.verdict, minlength=len(VERDICTS))
        _add_to(self.notes, {name: int(getattr(judged, of).sum()) for of, name in _SUMS.items()})
        _add_to(
            self.anomalies,
            {
                "lost-write": int(judged.lost_write.sum()),
                "duplicate": int(judged.duplicated.sum()),
                "G1a": int((judged.verdict == ABORTED_READ).sum()),
                "early-expiry": int((judged.verdict == EARLY).sum()),
                "phantom": int((judged.verdict == UNEXPECTED).sum()),
            },
        )
        columns = (judged.attempted, judged.acked, judged.survivor, judged.acked_lost, judged.unacked_found)
        self._tabulate(probes, columns)

    def count(self, verdict: int, times: int) -> None:
        """Count identities that are in no probe log."""
        self.verdicts[verdict] += times
        if verdict == UNEXPECTED:
            _add_to(self.anomalies, {"phantom": times})

    def anomaly(self, name: str, times: int) -> None:
        """Count an anomaly."""
        _add_to(self.anomalies, {name: times})

    def __iadd__(self, other: Tally) -> Self:
        """Add another tally."""
        return self._merge(other, 1)

    def __isub__(self, other: Tally) -> Self:
        """Take back another tally."""
        return self._merge(other, -1)

    def total(self) -> dict[str, int]:
        """Return the five columns of the table over all modes and days."""
        sums = sum(self.table.values(), np.zeros(len(TABLE), dtype=np.int64))
        return dict(zip(TABLE, sums.tolist(), strict=True))

    def by_verdict(self) -> dict[str, int]:
        """Return the verdicts that occur, by name."""
        return {
            name: int(number)
            for code, (name, number) in enumerate(zip(VERDICTS, self.verdicts, strict=True))
            if number and code != UNJUDGED
        }

    def _merge(self, other: Tally, sign: int) -> Self:
        self.verdicts += sign * other.verdicts
        for key, row in other.table.items():
            self.table[key] = self.table.get(key, np.zeros(len(TABLE), dtype=np.int64)) + sign * row
        _add_to(self.anomalies, other.anomalies, sign)
        _add_to(self.notes, other.notes, sign)
        return self

    def _tabulate(self, probes: Probes, columns: tuple[Bool, ...]) -> None:
        if not len(probes):
            return
        first, last = int(probes.sent_at.min()) // DAY_US, int(probes.sent_at.max()) // DAY_US
        modes = len(probes.modes)
        days: I64 = np.arange(first, last + 1) if last - first < _DAYS else np.unique(probes.sent_at // DAY_US)
        if len(days) == 1:
            key = probes.mode.astype(np.int64) if modes > 1 else np.zeros(len(probes), dtype=np.int64)
        else:
            key = probes.mode * np.int64(len(days)) + np.searchsorted(days, probes.sent_at // DAY_US)
        counted = {id(column): np.bincount(key[column], minlength=modes * len(days)) for column in columns}
        cells = np.stack([counted[id(column)] for column in columns], axis=1)
        for cell in np.flatnonzero(cells[:, 0]).tolist():
            self._put(probes.modes[cell // len(days)], int(days[cell % len(days)]), cells[cell].astype(np.int64))

    def _put(self, mode: str, day: int, row: I64) -> None:
        if row.any():
            self.table[mode, day] = self.table.get((mode, day), np.zeros(len(TABLE), dtype=np.int64)) + row


def _add_to(counts: dict[str, int], more: Mapping[str, int], sign: int = 1) -> None:
    for name, number in more.items():
        if number:
            counts[name] = counts.get(name, 0) + sign * number
