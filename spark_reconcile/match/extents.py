"""Which identities the probe log holds, in outline: enough for rule 10, small enough for the driver."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from spark_reconcile.tables.columns import I64, Bool, Found, Identities, by_producer

OUT_OF_SCOPE, BETWEEN, BEYOND_NEWEST, BEYOND_OLDER = range(4)
"""Where an identity that only the dump has lies in the log's own order (rule 10)."""

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

    def locate(self, identities: Identities) -> I64:
        """Return where each identity lies that the log does not hold."""
        result = np.full(len(identities), BETWEEN, dtype=np.int64)
        for producer, generation, rows in by_producer(identities):
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
                    sequence = identities.sequence[rows]
                    result[rows] = np.select([sequence < first, sequence > last], [OUT_OF_SCOPE, beyond], BETWEEN)
        return result

    def in_scope(self, rows: Found, above: int | None = None) -> Found:
        """Return ``rows`` without those out of scope (unless at or ``above`` an offset), if there are many rows.

        Such rows belong to an older slice of the log, or to a log whose retention is shorter than the topic's.
        """
        if len(rows) < BULK:
            return rows
        keep: Bool = self.locate(rows) != OUT_OF_SCOPE
        if above is not None:
            keep |= rows.offset >= above
        return rows.take(keep)
