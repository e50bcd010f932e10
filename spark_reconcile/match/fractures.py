"""Transactions of which a part is missing (rule 12): known only once every partition is judged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from spark_reconcile.match.rules import Judgement
from spark_reconcile.tables.bounds import Place
from spark_reconcile.tables.columns import COMMITTED, Identities, Probes


class Transaction(NamedTuple):
    """A transaction of a producer's generation."""

    cluster: str
    producer_id: int
    generation: int
    transaction_id: int


class Write(NamedTuple):
    """A write that is missing."""

    place: Place
    sequence: int
    offset: int
    committed: bool
    mode: str


@dataclass(slots=True)
class Fractures:
    """Missing writes by transaction, and the open transactions of which some write was found (``proven``).

    Example: transaction 9 wrote one probe to each of two partitions, and its commit's outcome is unknown. One partition
    holds its probe, which proves the commit; the other partition should hold the other probe, and does not: fractured.
    """

    missing: dict[Transaction, list[Write]] = field(default_factory=dict)
    proven: set[Transaction] = field(default_factory=set)

    def add(self, place: Place, probes: Probes, judgement: Judgement) -> None:
        """Note judged probes of one partition."""
        for row in np.flatnonzero(judgement.torn).tolist():
            write = Write(
                place,
                int(probes.sequence[row]),
                int(probes.offset[row]),
                bool(probes.transaction_state[row] == COMMITTED),
                probes.modes[probes.mode[row]],
            )
            self.missing.setdefault(_of(place, probes, row), []).append(write)
        self.proven.update(_of(place, probes, row) for row in np.flatnonzero(judgement.proves).tolist())

    def merge(self, other: Fractures) -> None:
        """Add what another part of the work noted."""
        for transaction, writes in other.missing.items():
            self.missing.setdefault(transaction, []).extend(writes)
        self.proven |= other.proven

    def without(self, place: Place, retracted: Identities) -> Fractures:
        """Return these without the writes of some identities of a partition, which are judged again.

        Open transactions stay proven: a found write is found again at the second look.
        """
        if not len(retracted) or not self.missing:
            return self
        columns = (retracted.producer, retracted.generation, retracted.sequence)
        gone = set(zip(*(column.tolist() for column in columns), strict=True))
        kept = Fractures(proven=self.proven)
        for transaction, writes in self.missing.items():
            who = transaction.producer_id, transaction.generation
            rest = [write for write in writes if write.place != place or (*who, write.sequence) not in gone]
            if rest:
                kept.missing[transaction] = rest
        return kept

    def fractured(self) -> dict[Transaction, list[Write]]:
        """Return the fractured transactions with their missing writes."""
        return {
            transaction: writes
            for transaction, writes in self.missing.items()
            if writes[0].committed or transaction in self.proven
        }


def _of(place: Place, probes: Probes, row: int) -> Transaction:
    return Transaction(
        place.cluster, int(probes.producer[row]), int(probes.generation[row]), int(probes.transaction[row])
    )
