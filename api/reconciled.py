"""What the metrics say of a reconciliation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from api.ports import Reconciliation


@dataclass(frozen=True, slots=True)
class Reconciled:
    """``ended_s``: s since the epoch; ``verdicts``: identities by verdict; ``unjudged``: how many partitions."""

    cluster: str
    ended_s: float
    verdicts: Mapping[str, int]
    unjudged: int


def reconciled(run: Reconciliation) -> Reconciled:
    """Return what the metrics say of one that ended."""
    verdicts = run.verdicts or run.summary.get("verdicts") or {}
    return Reconciled(
        cluster=run.cluster,
        ended_s=(run.ended_ns or 0) / 1e9,
        verdicts={name: count for name, count in verdicts.items() if isinstance(count, int)},
        unjudged=len(run.summary.get("unjudged") or ()),
    )
