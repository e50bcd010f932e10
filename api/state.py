"""What the routes share: the settings, the store behind bounded calls, and what it knows at this moment."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast

from api.calls import UnavailableError
from api.ports import IncidentFilter
from api.reconciled import Reconciled, reconciled
from api.survived import Survived
from api.views import ClusterView, read_views
from storage.probe_log.errors import NothingThereError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from starlette.requests import Request

    from api.calls import Calls
    from api.ports import Incident, ProbeLog, Standing, Store, StoredViolation, ViolationCount
    from canary.settings.serving import ApiSettings

P = ParamSpec("P")
T = TypeVar("T")
E = TypeVar("E")

AFTER_NS = 6 * 60 * 10**9
"""So long after a planned window its findings are still new to the rules, which look back five minutes."""
SHIPPED_NS = 3 * 60 * 10**9
"""So long after probing began the probe log holds something: a segment is a minute old at most when it is shipped."""
ALERT_TEST = "alert-test"
"""The kind that `canary alert test` records."""
OPEN_INCIDENTS = 100
"""So many incidents, the newest, have a series of their own."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What the store held at one moment."""

    at_ns: int
    clusters: dict[str, ClusterView]
    counts: Sequence[ViolationCount]
    reconciliations: Sequence[Reconciled]
    standing: Sequence[Standing] = ()
    """What was ever found and still counts."""
    quiet: frozenset[tuple[str, str]] = frozenset()
    """(cluster, "shadow" or "maintenance"): what is found there now is recorded and alarms nobody."""
    incidents: Sequence[Incident] = ()
    """Those that are not resolved, newest first."""


@dataclass(slots=True)
class Streams:
    """What the open streams of events share: the last look at the newest violations."""

    open: int = 0
    looked: float = float("-inf")
    rows: list[StoredViolation] = field(default_factory=list)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True)
class Rendered:
    """The last rendering of /metrics by content type, and whom it serves: who asked before then (monotonic, s)."""

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

    async def ask_log(
        self, cluster: str | None, empty: E, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs
    ) -> T | E:
        """Return what the probe log answers; ``empty`` while runners (of ``cluster``) cannot have shipped anything yet.

        Raises:
            UnavailableError: it does not answer, or holds nothing where it should: runners write to another place.
        """
        try:
            return await self.log_calls(function, *args, **kwargs)
        except NothingThereError:
            knowledge = await self.knowledge()
            since = [view.since_ns for view in knowledge.clusters.values() if cluster in {None, view.name}]
            if min((ns for ns in since if ns is not None), default=knowledge.at_ns) > knowledge.at_ns - SHIPPED_NS:
                return empty
            of = "" if cluster is None else f" of cluster {cluster}"
            raise UnavailableError(
                "probe log",
                f"it holds nothing{of} where the API reads it: probe_log.url has to name where the runner writes it",
            ) from None

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
            [reconciled(run) for run in self.store.last_successes(now_ns)],
            [row for row in self.store.standing() if row.kind != ALERT_TEST],
            frozenset(self._quiet(clusters, now_ns)),
            self._incidents(),
        )

    def _incidents(self) -> list[Incident]:
        found = [
            row
            for state in ("open", "acknowledged")
            for row in self.store.incidents(IncidentFilter(state=state), None, OPEN_INCIDENTS).items
        ]
        return sorted(found, key=lambda row: -row.first_ns)[:OPEN_INCIDENTS]

    def _quiet(self, clusters: Iterable[str], now_ns: int) -> Iterator[tuple[str, str]]:
        windows = self.store.windows(now_ns - AFTER_NS, now_ns)
        for cluster in clusters:
            if cluster in self.api.shadow:
                yield cluster, "shadow"
            if any(window.cluster in {None, cluster} for window in windows):
                yield cluster, "maintenance"


def state_of(request: Request) -> State:
    """Return the state of the application that serves ``request``."""
    return cast("State", request.app.state.canary)
