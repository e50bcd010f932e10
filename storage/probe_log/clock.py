"""The ledger's times are by the runner's clock, those of the probe log by the machine's, as it was when it happened."""

from typing import Final

import numpy as np
import pyarrow as pa

from canary.facts import FACT_KINDS, ClockSeen, RunnerStarted
from storage.ledger.codec import KIND_COLUMN

_KINDS: Final = [FACT_KINDS.index(kind) for kind in (RunnerStarted, ClockSeen)]
_NAME: Final = "clock_ahead_ns"
AHEAD: Final = pa.schema([(_NAME, pa.int64())])
"""The column in which these facts say how far the machine's clock is ahead of the runner's."""


def by_the_machines_clock(block: pa.Table, ahead_ns: int) -> tuple[pa.Table, int]:
    """Return facts with their times by the machine's clock, and how far that is ahead after them.

    ``ahead_ns``: how far it was before them.
    """
    rows = np.flatnonzero(np.isin(block.column(KIND_COLUMN).to_numpy(), _KINDS))
    known = np.concatenate([[ahead_ns], block.column(_NAME).fill_null(0).to_numpy()[rows]])
    if not known.any():
        return block, 0
    at_ns = block.column("at_ns").to_numpy() + known[np.searchsorted(rows, np.arange(len(block)), "right")]
    return block.set_column(block.column_names.index("at_ns"), "at_ns", pa.array(at_ns)), int(known[-1])
