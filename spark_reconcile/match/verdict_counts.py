"""Counts of judged identities: added over ranges, and subtracted where a second look judges again."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, Self

import numpy as np

from spark_reconcile.match.anomalies import ANOMALIES, NightlyAnomaly
from spark_reconcile.match.rules import VERDICTS, Judgement, Verdict
from spark_reconcile.tables.columns import I64, Bool, Probes

DAY_US: Final = 86_400_000_000
_DAYS: Final = 1000
"""Up to so many days, one bin a day is cheaper than finding out which days occur."""
TABLE: Final = ("attempted", "acked", "survivors", "acked_lost", "unacked_found")
_NOTES: Final = ("voided", "unverified", "moved", "blind", "promised")


@dataclass(slots=True)
class VerdictCounts:
    """Counts of identities by number of the verdict, and of cases by kind.

    ``table``: the five columns of rule 5 by (mode, day since the epoch). ``notes``: by the names of those fields of a
    Judgement that rules 1, 3, 4 and 7 count.
    """

    verdicts: I64 = field(default_factory=lambda: np.zeros(len(VERDICTS), dtype=np.int64))
    table: dict[tuple[str, int], I64] = field(default_factory=dict)
    anomalies: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)

    def add_survivors(self, probes: Probes, plainly: Bool) -> None:
        """Count those of ``probes`` that were promised and are at the offset where they were acknowledged."""
        number = int(np.count_nonzero(plainly))
        self.verdicts[Verdict.SURVIVED] += number
        self.notes["promised"] += number
        nothing: Bool = np.zeros(len(probes), dtype=np.bool_)
        self._tabulate(probes, (plainly, plainly, plainly, nothing, nothing))

    def add(self, probes: Probes, judged: Judgement) -> None:
        """Count ``probes``, judged row by row."""
        self.verdicts += np.bincount(judged.verdict, minlength=len(VERDICTS))
        for name in _NOTES:
            self.notes[name] += int(getattr(judged, name).sum())
        for anomaly in ANOMALIES.values():
            if anomaly.cases is not None:
                self.add_cases(anomaly, int(anomaly.cases(judged).sum()))
        columns = (judged.attempted, judged.acked, judged.survivor, judged.acked_lost, judged.unacked_found)
        self._tabulate(probes, columns)

    def add_cases(self, anomaly: NightlyAnomaly, number: int) -> None:
        """Count cases that are not found by looking at judged probes one by one."""
        self.anomalies[anomaly.kind] += number

    def __iadd__(self, other: VerdictCounts) -> Self:
        """Add other counts."""
        return self._merge(other, 1)

    def __isub__(self, other: VerdictCounts) -> Self:
        """Subtract other counts."""
        return self._merge(other, -1)

    def total(self) -> dict[str, int]:
        """Return the five columns of the table over all modes and days."""
        sums = sum(self.table.values(), np.zeros(len(TABLE), dtype=np.int64))
        return dict(zip(TABLE, sums.tolist(), strict=True))

    def by_verdict(self) -> dict[str, int]:
        """Return the verdicts that occur, by name."""
        numbers = zip(Verdict, VERDICTS, self.verdicts.tolist(), strict=True)
        return {name: number for verdict, name, number in numbers if number and verdict != Verdict.UNJUDGED}

    def _merge(self, other: VerdictCounts, sign: int) -> Self:
        self.verdicts += sign * other.verdicts
        for key, row in other.table.items():
            self.table[key] = self.table.get(key, 0) + sign * row
        for mine, more in ((self.anomalies, other.anomalies), (self.notes, other.notes)):
            mine.update({name: sign * number for name, number in more.items()})
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
            key_of_cell = probes.modes[cell // len(days)], int(days[cell % len(days)])
            self.table[key_of_cell] = self.table.get(key_of_cell, 0) + cells[cell].astype(np.int64)
