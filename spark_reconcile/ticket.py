"""What the scheduler hands to the process that reconciles; the scheduler itself loads nothing that reads Parquet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BY_THE_CLOCK: Final = "schedule"
"""Who asked for a run that nobody asked for."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """Which row of `reconciliations` this is, and in whose name it was claimed."""

    reconciliation_id: str
    holder: str
    cluster: str
