"""What the routes share: the settings, the store behind bounded calls, and what it knows at this moment."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from api.ports import ViolationFilter
from api.reconciled import Reconciled, last_successes
from api.views import ClusterView, read_views

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from starlette.requests import Request

    from api.calls import Calls
    from api.ports import ProbeLog, Store, ViolationCount

UNDER_CARE = ViolationFilter(severity="critical", state="acknowledged")


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What the store held at one moment."""

    at_ns: int
    clusters: dict[str, ClusterView]
    counts: Sequence[ViolationCount]
    reconciliations: Sequence[Reconciled]
    under_care: Mapping[str, int]
    """Critical violations that are acknowledged and not resolved, by cluster."""

    def open_by_severity(self, cluster: str, severity: str) -> int:
        """Return how many violations of a cluster are open."""
        return sum(row.open for row in self.counts if row.cluster == cluster and row.severity == severity)


@dataclass(frozen=True, slots=True)
class State:
    """The application's own; ``configured`` are the clusters of the settings; ``process_metrics`` beside our own."""

    store: Store
    probe_log: ProbeLog
    calls: Calls
    log_calls: Calls
    configured: tuple[str, ...]
    now_ns: Callable[[], int] = time.time_ns
    process_metrics: bool = True

    async def knowledge(self, *, within: float | None = None) -> Knowledge:
        """Return what the store knows now.

        Raises:
            UnavailableError: the store does not answer in time (``within`` so many seconds; default as for every call).
        """
        if within is None:
            return await self.calls(self._read)
        return await self.calls.within(within, self._read)

    def _read(self) -> Knowledge:
        now_ns = self.now_ns()
        return Knowledge(
            now_ns,
            read_views(self.store.views(), now_ns, self.configured),
            self.store.violation_counts(),
            last_successes(self.store.reconciliations(state="succeeded", limit=200).items),
            Counter(row.cluster for row in self.store.violations(UNDER_CARE, None, 1000).items),
        )


def state_of(request: Request) -> State:
    """Return the state of the application that serves ``request``."""
    return cast("State", request.app.state.canary)
