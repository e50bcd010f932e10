"""What the metrics say of the last reconciliation of each cluster that ended well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from api.ports import Reconciliation


@dataclass(frozen=True, slots=True)
class Reconciled:
    """``ended_s``: s since the epoch; ``verdicts``: identities by verdict; ``unjudged``: how many partitions."""

    cluster: str
    ended_s: float
    verdicts: Mapping[str, int]
    unjudged: int


def last_successes(runs: Iterable[Reconciliation]) -> list[Reconciled]:
    """Return the last one of each cluster that ended well."""
    last: dict[str, Reconciliation] = {}
    for run in runs:
        if run.state == "succeeded" and run.ended_ns is not None:
            known = last.get(run.cluster)
            if known is None or run.ended_ns > (known.ended_ns or 0):
                last[run.cluster] = run
    return [_reconciled(run) for run in last.values()]


def _reconciled(run: Reconciliation) -> Reconciled:
    verdicts = run.verdicts or run.summary.get("verdicts") or {}
    return Reconciled(
        cluster=run.cluster,
        ended_s=(run.ended_ns or 0) / 1e9,
        verdicts={name: count for name, count in verdicts.items() if isinstance(count, int)},
        unjudged=len(run.summary.get("unjudged") or ()),
    )
