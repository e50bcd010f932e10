"""Counters and latencies of the probed partitions."""

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import NamedTuple

LATENCY_BUCKETS = (0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds in seconds; +Inf is implied."""


class Reading(NamedTuple):
    """What was last known of a quantity, and when; ``known_ns`` is 0 where that is not known."""

    known_ns: int
    value: int


@dataclass(slots=True)
class Histogram:
    """Observations by bucket (LATENCY_BUCKETS and +Inf, not cumulated) and their sum in seconds."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BUCKETS) + 1))
    sum: float = 0.0


@dataclass(slots=True)
class Meters:
    """Counters of one (topic, partition). They outlive incarnations, restarts and everything else."""

    sent: dict[str, int] = field(default_factory=dict)
    acked: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    indeterminate: dict[str, int] = field(default_factory=dict)
    skipped: dict[str, int] = field(default_factory=dict)
    late: dict[str, int] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)
    foreign: dict[str, int] = field(default_factory=dict)
    unverified: dict[str, int] = field(default_factory=dict)
    produce_latency: dict[str, Histogram] = field(default_factory=dict)
    delivery_latency: dict[str, Histogram] = field(default_factory=dict)
    regressions: int = 0
    promised_ns: dict[str, int] = field(default_factory=dict)
    """By mode: when a write was promised last (acknowledged, or its transaction committed), or a group's offset."""
    unread_ns: dict[str, int] = field(default_factory=dict)
    """By mode: when the first promise was made that no tail consumer had been given, since one was given any.

    What a group was promised it is given when it is answered that offset, or a later one.
    """
    given_ns: dict[str, int] = field(default_factory=dict)
    """By mode: when a tail consumer was given a probe last."""
    unverified_ns: dict[str, int] = field(default_factory=dict)
    """By mode: when a promise was counted in ``unverified`` last."""


@dataclass(slots=True)
class RandomReads:
    """What came of the random reads of one topic, and how long those took that were answered."""

    answered: int = 0
    unanswered: int = 0
    latency: Histogram = field(default_factory=Histogram)


@dataclass(slots=True)
class LeaderMeters:
    """Counters of the writes to one leader, of all partitions while it led them."""

    produce_latency: Histogram = field(default_factory=Histogram)
    delivery_latency: Histogram = field(default_factory=Histogram)
    failures: int = 0
    """Probes that failed, or whose outcome is unknown."""


def count(counter: dict[str, int], name: str, n: int) -> None:
    """Add ``n`` to the count of ``name``."""
    counter[name] = counter.get(name, 0) + n


def observe(histogram: Histogram, seconds: float) -> None:
    """Count one observation."""
    histogram.counts[bisect_left(LATENCY_BUCKETS, seconds)] += 1
    histogram.sum += seconds
