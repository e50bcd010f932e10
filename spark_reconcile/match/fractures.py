"""Transactions of which a part is missing (rule 12): known only once every partition has spoken."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from spark_reconcile.columns import COMMITTED

if TYPE_CHECKING:
    from spark_reconcile.bounding import Place
    from spark_reconcile.columns import Identities, Probes
    from spark_reconcile.judging import Judgement


class Transaction(NamedTuple):
    """A transaction of a producer's generation."""

    cluster: str
    producer_id: int
    generation: int
    transaction_id: int


class Write(NamedTuple):
    """A write that should be there and is not."""

    place: Place
    sequence: int
    offset: int
    committed: bool
    mode: str


@dataclass(slots=True)
class Fractures:
    """Transactions of which something is known.

    ``missing``: by transaction its writes that are not where they should be. ``proven``: open ones with a found write.
    """

    missing: dict[Transaction, list[Write]] = field(default_factory=dict)
    proven: set[Transaction] = field(default_factory=set)

    def add(self, place: Place, probes: Probes, judgement: Judgement) -> None:
        """Take note of judged probes of one partition."""
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
        """Take over what another part of the work noted."""
        for transaction, writes in other.missing.items():
            self.missing.setdefault(transaction, []).extend(writes)
        self.proven |= other.proven

    def without(self, place: Place, retracted: Identities) -> Fractures:
        """Return these without the writes of some identities of a partition, which will be judged anew.

        Open transactions stay proven: a found write that is looked at again is found again.
        """
        if not len(retracted) or not self.missing:
            return self
        gone = set(
            zip(
                *(column.tolist() for column in (retracted.producer, retracted.generation, retracted.sequence)),
                strict=True,
            )
        )
        kept = {
            transaction: [
                write
                for write in writes
                if write.place != place or (transaction.producer_id, transaction.generation, write.sequence) not in gone
            ]
            for transaction, writes in self.missing.items()
        }
        return Fractures({transaction: writes for transaction, writes in kept.items() if writes}, self.proven)

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
