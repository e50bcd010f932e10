"""How many probes were unseen, and how slow writes were, in the last half hour: small pictures need no Prometheus.

A point is kept when the store is read (by a page, REST or Prometheus's scrape), at most one in ``STEP_S``. So each
process of the API has its own points, from its start on, and none of the times when nobody asked.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from threading import Lock
from typing import Final, NamedTuple

from api.knowledge.slowness import bound_within
from api.knowledge.views import ClusterView

STEP_S: Final = 10.0
POINTS: Final = 180
"""Half an hour of points: 40 kB for a cluster."""
QUANTILE: Final = 0.99
_LATENCY: Final = "canary_produce_latency_seconds"


class Point(NamedTuple):
    """What was known at ``at_s`` (monotonic); ``unseen`` None: no runner reported. ``latencies``: by bucket, so far."""

    at_s: float
    unseen: int | None
    latencies: tuple[int, ...]


class Trend(NamedTuple):
    """A row of values, oldest first, each with its age in s; None: not known."""

    ages: tuple[float, ...]
    values: tuple[float | None, ...]

    @property
    def most(self) -> float | None:
        """The greatest known value."""
        return max((one for one in self.values if one is not None), default=None)

    @property
    def now(self) -> float | None:
        """The newest value."""
        return self.values[-1] if self.values else None


@dataclass(slots=True)
class Trends:
    """The last points of each cluster."""

    _points: dict[str, deque[Point]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def note(self, clusters: Mapping[str, ClusterView], now_s: float) -> None:
        """Keep a point of each cluster that has none of the last STEP_S."""
        with self._lock:
            for name, view in clusters.items():
                points = self._points.setdefault(name, deque(maxlen=POINTS))
                if not points or now_s - points[-1].at_s >= STEP_S:
                    points.append(Point(now_s, view.unread, _latencies(view)))

    def unseen(self, name: str, now_s: float) -> Trend:
        """Return how many acknowledged probes were unread."""
        points = self._of(name)
        return Trend(tuple(now_s - one.at_s for one in points), tuple(one.unseen for one in points))

    def latency(self, name: str, now_s: float) -> Trend:
        """Return the 99th percentile of the produce latency between two points each, in s: its bucket's upper bound."""
        points = self._of(name)
        return Trend(
            tuple(now_s - after.at_s for _, after in pairwise(points)),
            tuple(bound_within(QUANTILE, _LATENCY, a.latencies, b.latencies) for a, b in pairwise(points)),
        )

    def _of(self, name: str) -> Sequence[Point]:
        with self._lock:
            return tuple(self._points.get(name, ()))


def _latencies(view: ClusterView) -> tuple[int, ...]:
    series = view.series.get(_LATENCY, {}).values()
    return tuple(map(sum, zip(*(one.counts for one in series if one.counts), strict=False)))
