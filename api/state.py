"""What the routes share: the settings, the store behind bounded calls, and what it knows at this moment."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

from api.ports import IncidentFilter, ViolationFilter
from api.reconciled import Reconciled, last_successes
from api.survived import Survived
from api.views import ClusterView, read_views

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from starlette.requests import Request

    from api.calls import Calls
    from api.ports import Incident, ProbeLog, Store, StoredViolation, ViolationCount
    from canary.settings.serving import ApiSettings

AFTER_NS = 6 * 60 * 10**9
"""So long after a planned window its findings are still new to the rules, which look back five minutes."""
ALERT_TEST = "alert-test"
"""The kind that `canary alert test` records."""
OPEN_INCIDENTS = 100
"""So many incidents, the newest, have a series of their own."""
UNDER_CARE = ViolationFilter(severity="critical", state="acknowledged")


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What the store held at one moment."""

    at_ns: int
    clusters: dict[str, ClusterView]
    counts: Sequence[ViolationCount]
    reconciliations: Sequence[Reconciled]
    under_care: Mapping[str, int]
    """Records of critical violations that are acknowledged and not resolved, by cluster."""
    quiet: frozenset[tuple[str, str]] = frozenset()
    """(cluster, "shadow" or "maintenance"): what is found there now is recorded and alarms nobody."""
    incidents: Sequence[Incident] = ()
    """Those that are not resolved, newest first."""

    def open_by_severity(self, cluster: str, severity: str) -> int:
        """Return how many violations of a cluster are open; a test of the alarm is none."""
        return sum(
            row.open
            for row in self.counts
            if row.cluster == cluster and row.severity == severity and row.kind != ALERT_TEST
        )


@dataclass(slots=True)
class Streams:
    """What the open streams of events share: the last look at the newest violations."""

    open: int = 0
    looked: float = float("-inf")
    rows: list[StoredViolation] = field(default_factory=list)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True)
class Rendered:
    """The last rendering of /metrics by content type, and when (monotonic, s)."""

    texts: dict[str, tuple[float, bytes]] = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True)
class Remembered:
    """What the probes have lived through, as it was a while ago."""

    looked: float = float("-inf")
    value: Survived = field(default_factory=Survived)


@dataclass(frozen=True, slots=True)
class State:
    """The application's own; ``configured`` are the clusters of the settings; ``process_metrics`` beside our own."""

    store: Store
    probe_log: ProbeLog
    calls: Calls
    log_calls: Calls
    configured: tuple[str, ...]
    api: ApiSettings
    now_ns: Callable[[], int] = time.time_ns
    process_metrics: bool = True
    streams: Streams = field(default_factory=Streams)
    rendered: Rendered = field(default_factory=Rendered)
    survived: Remembered = field(default_factory=Remembered)

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
        clusters = read_views(self.store.views(), now_ns, self.configured)
        return Knowledge(
            now_ns,
            clusters,
            self.store.violation_counts(),
            last_successes(self.store.reconciliations(state="succeeded", limit=200).items),
            self._under_care(),
            frozenset(self._quiet(clusters, now_ns)),
            self._incidents(),
        )

    def _under_care(self) -> Counter[str]:
        counts: Counter[str] = Counter()
        for row in self.store.violations(UNDER_CARE, None, 1000).items:
            if row.kind != ALERT_TEST:
                counts[row.cluster] += row.count
        return counts

    def _incidents(self) -> list[Incident]:
        found = [
            row
            for state in ("open", "acknowledged")
            for row in self.store.incidents(IncidentFilter(state=state), None, OPEN_INCIDENTS).items
        ]
        return sorted(found, key=lambda row: -row.first_ns)[:OPEN_INCIDENTS]

    def _quiet(self, clusters: Iterable[str], now_ns: int) -> Iterator[tuple[str, str]]:
        windows = [
            window
            for window in self.store.maintenance(None, 200).items
            if window.begin_ns <= now_ns < window.end_ns + AFTER_NS
        ]
        for cluster in clusters:
            if cluster in self.api.shadow:
                yield cluster, "shadow"
            if any(window.cluster in {None, cluster} for window in windows):
                yield cluster, "maintenance"


def state_of(request: Request) -> State:
    """Return the state of the application that serves ``request``."""
    return cast("State", request.app.state.canary)
