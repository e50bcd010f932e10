"""Which brokers answer slowly beside the others: the one definition of that, for the page and for the alert rules.

A broker is compared by the watcher's requests, and not by the writes that it leads: with acks=all each leader waits for
a slow follower. For example, broker 2 is frozen for 2 s of every 5: writes take 2 s at all leaders, though broker 2
leads nothing, and only requests to broker 2 itself take 2 s.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from threading import Lock
from typing import Final, NamedTuple

from canary.metrics import METRICS, Measurement

REQUESTS: Final = "canary_broker_request_latency_seconds"
SLOW_S: Final = 0.5
TIMES: Final = 4
"""So many times the median of those that are not slow."""
SHARE: Final = 0.9
"""More than one in ten is slow."""
WINDOW_S: Final = 120
LEAST: Final = 20
"""A broker of which fewer requests are known within the window is not compared: it may lead nothing, or be new."""

Counts = tuple[int, ...]


class SlowBroker(NamedTuple):
    """SHARE of the requests to ``broker`` are answered within ``within_s``, of those to the others ``others_s``."""

    broker: str
    within_s: float
    others_s: float


def slow_among(within_s: Mapping[str, float]) -> list[SlowBroker]:
    """Return the brokers that are slow beside the others; [] while more than half are: then it is no broker's fault."""
    slow = {broker: seconds for broker, seconds in within_s.items() if seconds > SLOW_S}
    if not slow or 2 * len(slow) > len(within_s):
        return []
    others_s = median(seconds for broker, seconds in within_s.items() if broker not in slow)
    return [SlowBroker(one, seconds, others_s) for one, seconds in sorted(slow.items()) if seconds > TIMES * others_s]


def bound_within(share: float, name: str, before: Counts, after: Counts) -> float | None:
    """Return the bound of a histogram's bucket below which ``share`` of what it took between two counts lies.

    None: it took nothing, or a runner began anew.
    """
    if len(before) != len(after):
        return None
    counts = [late - early for early, late in zip(before, after, strict=True)]
    total = sum(counts)
    if total <= 0 or min(counts) < 0:
        return None
    reached, bounds = 0, METRICS[name].buckets
    for bound, count in zip((*bounds, bounds[-1]), counts, strict=False):
        reached += count
        if reached >= share * total:
            return bound
    return None


@dataclass(slots=True)
class Requests:
    """How the brokers of each cluster have answered in the last WINDOW_S, as far as the store was read."""

    _points: dict[str, deque[tuple[float, dict[str, Counts]]]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def slow(self, cluster: str, series: Mapping[tuple[str, ...], Measurement], now_s: float) -> Sequence[SlowBroker]:
        """Note what runners have measured of REQUESTS so far, by broker, and return the slow brokers of a cluster."""
        after = {labels[0]: one.counts for labels, one in series.items() if one.counts}
        with self._lock:
            points = self._points.setdefault(cluster, deque())
            while len(points) > 1 and now_s - points[1][0] >= WINDOW_S:
                points.popleft()
            if not points or now_s - points[-1][0] >= WINDOW_S / 12:
                points.append((now_s, after))
            before = points[0][1]
        known = {
            broker: bound_within(SHARE, REQUESTS, before[broker], counts)
            for broker, counts in after.items()
            if broker in before and sum(counts) - sum(before[broker]) >= LEAST
        }
        return slow_among({broker: seconds for broker, seconds in known.items() if seconds is not None})
