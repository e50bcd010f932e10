"""Which identities the probe log holds, in outline: enough for rule 10, small enough for the driver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from spark_reconcile.columns import Found, by_producer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spark_reconcile.columns import I64, Bool, Identities

OUT_OF_SCOPE, BETWEEN, BEYOND_NEWEST, BEYOND_OLDER = range(4)
"""Where a dump's own identity stands in the log: rule 10."""

BULK: Final = 100_000
"""Below this many rows those out of scope are kept: they prove that a poll's identity is not gone."""


@dataclass(frozen=True, slots=True)
class Extents:
    """The outline of a log.

    ``sequences``: (first, last) by (producer_id, generation) in this partition. ``generations``: by producer_id in the
    whole cluster's log, ascending.
    """

    sequences: Mapping[tuple[int, int], tuple[int, int]]
    generations: Mapping[int, tuple[int, ...]]

    def place(self, who: Identities) -> I64:
        """Return for each identity that the log does not hold where it stands."""
        result = np.full(len(who), BETWEEN, dtype=np.int64)
        for producer, generation, rows in by_producer(who):
            known = self.generations.get(producer)
            if known is None:
                continue
            if generation < known[0]:
                result[rows] = OUT_OF_SCOPE
            elif generation in known:
                beyond = BEYOND_NEWEST if generation == known[-1] else BEYOND_OLDER
                extent = self.sequences.get((producer, generation))
                if extent is None:
                    result[rows] = beyond
                else:
                    first, last = extent
                    sequence = who.sequence[rows]
                    result[rows] = np.select([sequence < first, sequence > last], [OUT_OF_SCOPE, beyond], BETWEEN)
        return result

    def in_scope(self, rows: Found, above: int | None = None) -> Found:
        """Return ``rows`` without those out of scope (and not at or ``above`` an offset), if there are many.

        They are no concern of this log's: an older slice, or a shorter retention than the topic's.
        """
        if len(rows) < BULK:
            return rows
        keep: Bool = self.place(rows.who()) != OUT_OF_SCOPE
        if above is not None:
            keep |= rows.offset >= above
        return rows.take(keep)
