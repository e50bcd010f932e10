"""What the routes share: settings, the store and the probe log behind bounded calls, and the present knowledge."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, TypeVar, cast

from fastapi import Depends
from starlette.requests import Request

from api.knowledge.evidence import Survived
from api.knowledge.heartbeats import Heartbeats
from api.knowledge.slowness import REQUESTS, Requests
from api.knowledge.trends import Trends
from api.knowledge.views import ClusterView, read_views
from api.knowledge.writing import UNKNOWN, Writing, Written
from api.principal import principal_of
from api.store_calls import Calls, UnavailableError
from canary.anomalies.policy import REHEARSALS
from canary.settings.serving import ApiSettings
from storage.probe_log.errors import NothingThereError
from storage.store.receivers import Receiver
from storage.store.store import Store
from storage.store.values import DrillRun, Incident, Reconciliation, StoredViolation, ViolationCount, ViolationGroup

if TYPE_CHECKING:
    from storage.probe_log.reading import ProbeLogReader

T = TypeVar("T")
E = TypeVar("E")

AFTER_NS = 6 * 60 * 10**9
"""Alert rules look back five minutes: so long after a planned window its findings are still quiet."""
SHIPPED_NS = 3 * 60 * 10**9
"""So long after probing began the probe log has files: segments are shipped when at most a minute old."""
OPEN_INCIDENTS = 100
"""At most so many incidents of a cluster, the worst ones, have a series in /metrics."""
MOST_LIMITED = 100
"""At most so many sets of clusters, to which principals are limited, are remembered with what was last read of them."""


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What the store held at one moment."""

    at_ns: int
    clusters: dict[str, ClusterView]
    counts: Sequence[ViolationCount]
    reconciliations: Sequence[Reconciliation]
    groups: Sequence[ViolationGroup] = ()
    """Groups of violations that count."""
    quiet: frozenset[tuple[str, str]] = frozenset()
    """(cluster, "shadow" or "maintenance"): its new findings are recorded without an alert."""
    incidents: Sequence[Incident] = ()
    """The unresolved ones, the worst first; of each cluster at most OPEN_INCIDENTS."""
    incident_totals: Mapping[str, int] = field(default_factory=dict)
    """How many each cluster has."""
    proofs: Sequence[DrillRun] = ()
    """Each cluster's last drill that was found and came back from the pager."""
    receivers: Sequence[Receiver] = ()
    """Who is told of incidents by the canary itself."""
    called: Sequence[Receiver] = ()
    """Receivers of the kind heartbeat."""
    writes: Written = UNKNOWN
    """Whether the store takes writes of the API."""


@dataclass(slots=True)
class Streams:
    """What the open event streams share: the newest violations, as last read; ``open``: one of each stream."""

    open: set[object] = field(default_factory=set)
    looked: float = float("-inf")
    rows: list[StoredViolation] = field(default_factory=list)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True)
class Rendered:
    """The last /metrics by content type; each serves requests that came before its time (monotonic, s)."""

    texts: dict[str, tuple[float, bytes]] = field(default_factory=dict)
    clusters: tuple[str, ...] = ()
    """The clusters that the store knew last."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True)
class Remembered:
    """What the probes survived, as last computed."""

    looked: float = float("-inf")
    value: Survived = field(default_factory=Survived)


@dataclass(frozen=True, slots=True)
class State:
    """The state of one application. ``configured``: the clusters in the settings; ``notified``: the receivers there.

    ``called``: those of the kind heartbeat.
    """

    store: Store
    probe_log: Callable[[], ProbeLogReader]
    calls: Calls
    log_calls: Calls
    writing: Writing
    configured: tuple[str, ...]
    api: ApiSettings
    notified: tuple[str, ...] = ()
    scheduled: Callable[[], frozenset[str]] = frozenset
    """Returns the clusters that schedulers lead or have led, of the whole store: a lease is of no cluster."""
    called: tuple[str, ...] = ()
    now_ns: Callable[[], int] = time.time_ns
    began_ns: int = field(default_factory=time.time_ns)
    monotonic: Callable[[], float] = time.monotonic
    process_metrics: bool = True
    streams: Streams = field(default_factory=Streams)
    rendered: Rendered = field(default_factory=Rendered)
    survived: Remembered = field(default_factory=Remembered)
    heartbeats: Heartbeats = field(default_factory=Heartbeats)
    requests: Requests = field(default_factory=Requests)
    trends: Trends = field(default_factory=Trends)
    """By cluster; shared by all principals, as a page shows those of the clusters in its own knowledge only."""
    limited: OrderedDict[frozenset[str], State] = field(default_factory=OrderedDict)

    def of(self, clusters: frozenset[str] | None) -> State:
        """Return the state for a principal that may see ``clusters`` only (None: all): nothing else is in it.

        What it remembers of the store is its own, so that answers to others are never given to it.
        """
        if clusters is None:
            return self
        known = self.limited.pop(clusters, None) or replace(
            self,
            store=self.store.of(clusters),
            probe_log=lambda: self.probe_log().of(clusters),
            configured=tuple(name for name in self.configured if name in clusters),
            notified=(),
            called=(),
            streams=Streams(open=self.streams.open),
            rendered=Rendered(),
            survived=Remembered(),
        )
        self.limited[clusters] = known
        if len(self.limited) > MOST_LIMITED:
            self.limited.popitem(last=False)
        return known

    async def ask_log(self, cluster: str | None, empty: E, question: Callable[[ProbeLogReader], T]) -> T | E:
        """Return the probe log's answer; ``empty`` while no runner (of ``cluster``) can have shipped anything.

        Raises:
            UnavailableError: it does not answer, or is empty although it should not: runners write to another place.
        """
        try:
            return await self.log_calls(lambda: question(self.probe_log()))
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
        """Return what the store holds now.

        Raises:
            UnavailableError: the store does not answer ``within`` so many seconds (None: the usual limit).
        """
        known = await (self.calls(self._read) if within is None else self.calls.within(within, self._read))
        writes = await self.writing.look(suspected=any(view.unheard for view in known.clusters.values()))
        for view in known.clusters.values():
            view.writes = writes
        return replace(known, writes=writes)

    def _read(self) -> Knowledge:
        now_ns = self.now_ns()
        heard = partial(self.heartbeats.heard, now_s=self.monotonic())
        clusters = read_views(self.store.views.all(), now_ns, self.configured, heard, self.scheduled())
        self.trends.note(clusters, self.monotonic())
        for view in clusters.values():
            view.slow = self.requests.slow(view.name, view.series.get(REQUESTS, {}), self.monotonic())
        return Knowledge(
            now_ns,
            clusters,
            self.store.violations.counts(),
            self.store.reconciliations.last_successes(now_ns),
            [row for row in self.store.violations.groups() if row.kind not in REHEARSALS],
            frozenset(self._quiet(clusters, now_ns)),
            *self.store.incidents.worst(OPEN_INCIDENTS),
            self.store.drills.last_proofs(),
            self._receivers(self.notified, self.began_ns),
            self._receivers(self.called, 0),
        )

    def _receivers(self, names: Sequence[str], unknown_ns: int) -> list[Receiver]:
        """Return receivers of the settings; one that no process knows was last looked at or called at that time."""
        if not names:
            return []
        known = {one.name: one for one in self.store.notifications.receivers(names)}
        return [known.get(name) or Receiver(name, unknown_ns, unknown_ns, 0, 0) for name in names]

    def _quiet(self, clusters: Iterable[str], now_ns: int) -> Iterator[tuple[str, str]]:
        windows = self.store.maintenance.between(now_ns - AFTER_NS, now_ns)
        for cluster in clusters:
            if cluster in self.api.shadow:
                yield cluster, "shadow"
            if any(window.cluster in {None, cluster} for window in windows):
                yield cluster, "maintenance"


async def state_of(request: Request) -> State:  # asynchronous: FastAPI would call a plain function in a thread
    """Return the state of the application that serves ``request``, as far as its sender may see it."""
    return cast("State", request.app.state.canary).of(principal_of(request).clusters)


Shared = Annotated[State, Depends(state_of)]
"""The parameter of a route that gives it the state. Nothing else leads to the store: so no route shows too much."""
