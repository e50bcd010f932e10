"""What pages show of clusters: the worst first, each with its pictures and quiet times; and a cluster's own page."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from api.judgement.safety import ORDER, Judgement, judge
from api.knowledge.trends import Trend
from api.knowledge.views import ClusterView
from api.pages.rendering import missing, render, unavailable
from api.rest.clusters import Summary, summarise
from api.state import Knowledge, Shared, State
from api.store_calls import UnavailableError
from canary.metrics.published import PartitionView
from storage.store.values import Maintenance

router = APIRouter(include_in_schema=False, default_response_class=HTMLResponse)

AHEAD_NS = 24 * 3600 * 10**9
"""Planned windows that begin within so long are shown."""
LATE_S = 10.0
"""An acknowledged probe that is unread for longer makes its partition unwell."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A cluster as pages show it. ``windows``: those that are planned now or soon."""

    view: ClusterView
    judgement: Judgement
    summary: Summary
    unseen: Trend
    latency: Trend
    shadow: bool
    windows: tuple[Maintenance, ...]
    now_ns: int

    @property
    def well(self) -> bool:
        """Whether a line says all that there is to say."""
        return self.judgement.level == "safe"

    @property
    def planned(self) -> bool:
        """Whether a planned window has begun and not ended."""
        return any(one.begin_ns <= self.now_ns < one.end_ns for one in self.windows)

    @property
    def consumers(self) -> list[str]:
        """The names of the consumers."""
        return sorted({name for row in self.view.partitions for name in row.consumers})

    @property
    def unwell(self) -> list[PartitionView]:
        """The partitions that need a look."""
        return [row for row in self.view.partitions if _unwell(row)]


def _unwell(row: PartitionView) -> bool:
    waits = any(one.stalled or one.oldest_unseen_s > LATE_S for one in row.consumers.values())
    return row.leader in {None, -1} or len(row.isr) < len(row.replicas) or waits


async def shown(state: State, knowledge: Knowledge, views: Iterable[ClusterView]) -> list[Shown]:
    """Return clusters of ``knowledge``, the worst first.

    Raises:
        UnavailableError: the store does not answer.
    """
    now_s = state.monotonic()
    windows = await state.calls(state.store.maintenance.between, knowledge.at_ns, knowledge.at_ns + AHEAD_NS)
    found = [_shown(view, knowledge, state, windows, now_s) for view in views]
    return sorted(found, key=lambda one: (-ORDER.index(one.judgement.level), one.view.name))


def _shown(
    view: ClusterView, knowledge: Knowledge, state: State, windows: Sequence[Maintenance], now_s: float
) -> Shown:
    return Shown(
        view,
        judge(view, knowledge),
        summarise(view, knowledge),
        state.trends.unseen(view.name, now_s),
        state.trends.latency(view.name, now_s),
        (view.name, "shadow") in knowledge.quiet,
        tuple(one for one in windows if one.cluster in {None, view.name}),
        knowledge.at_ns,
    )


@router.get("/clusters/{name}")
async def cluster(state: Shared, name: str) -> HTMLResponse:
    """Show one cluster with all of its partitions, its unresolved incidents and its last reconciliation."""
    try:
        knowledge = await state.knowledge()
        if name not in knowledge.clusters:
            return missing(f"cluster called {name}")
        (found,) = await shown(state, knowledge, [knowledge.clusters[name]])
    except UnavailableError as error:
        return unavailable(error, refresh=5)
    own: dict[str, Any] = {
        "incidents": [row for row in knowledge.incidents if row.cluster == name],
        "incident_total": knowledge.incident_totals.get(name, 0),
        "reconciliation": next((row for row in knowledge.reconciliations if row.cluster == name), None),
    }
    return render("cluster.html", refresh=0, cluster=found, findings=sum(one[2] for one in found.view.audited), **own)
