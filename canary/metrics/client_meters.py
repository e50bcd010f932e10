"""What the runner's clients measure of single brokers: no facts, as nothing is judged by them.

Each series has one label, the id of a broker (or ``UNKNOWN``). Counters go on where the last view of the process before
left them. What belongs to a broker that left the cluster is forgotten an hour later, its gauges at once.
"""

from collections.abc import Collection, Iterable
from typing import Final, Literal

from canary.anomalies.online.meters import Histogram, observe
from canary.metrics.catalogue import METRICS
from canary.metrics.metric import Measurement

UNKNOWN: Final = "unknown"
"""The label of what a coordinator measured that is not known."""
MEASURED: Final = frozenset(
    {
        "canary_group_commit_latency_seconds",
        "canary_group_commit_failures_total",
        "canary_transaction_commit_latency_seconds",
        "canary_transaction_commit_failures_total",
        "canary_broker_reachable",
        "canary_broker_request_latency_seconds",
        "canary_broker_connects_total",
        "canary_broker_disconnects_total",
        "canary_broker_request_errors_total",
    }
)


class ClientMeters:
    """Counters, gauges and histograms by metric and broker. Each series is written by one thread at a time."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, str], float | Histogram] = {}

    def count(self, name: str, broker: str, n: float = 1) -> None:
        """Let a counter rise."""
        self._values[name, broker] = self._values.get((name, broker), 0) + n  # type: ignore[operator]

    def observe(self, name: str, broker: str, *seconds: float) -> None:
        """Count observations."""
        histogram = self._values.setdefault((name, broker), Histogram())
        for one in seconds:
            observe(histogram, one)  # type: ignore[arg-type]

    def committed(self, of: Literal["group", "transaction"], coordinator: str, seconds: float | None) -> None:
        """Count a commit by the seconds that it took; None: it failed. Both series are there from the first one on."""
        self.observe(f"canary_{of}_commit_latency_seconds", coordinator, *(() if seconds is None else (seconds,)))
        self.count(f"canary_{of}_commit_failures_total", coordinator, seconds is None)

    def set(self, name: str, broker: str, value: float | None) -> None:
        """Set a gauge; None: it is not known."""
        if value is None:
            self._values.pop((name, broker), None)
        else:
            self._values[name, broker] = value

    def resume(self, last: Iterable[Measurement]) -> None:
        """Go on from what a process before published last."""
        for one in last:
            if one.name not in MEASURED or METRICS[one.name].type == "gauge":
                continue
            if METRICS[one.name].holds(one):
                kept = Histogram(list(one.counts), one.value) if one.counts else one.value
                self._values[one.name, one.labels[0]] = kept

    def measured(self, members: Collection[str], live: Collection[str]) -> list[Measurement]:
        """Return every series, and forget those of brokers that are no ``members`` any more.

        Without any member the cluster is not known yet, and nothing is forgotten. ``live`` are the members that the
        cluster names now: only of these there are gauges.
        """
        found: list[Measurement] = []
        for (name, broker), value in list(self._values.items()):
            if members and broker not in members and broker != UNKNOWN:
                self._values.pop((name, broker), None)
            elif isinstance(value, Histogram):
                found.append(Measurement(name, (broker,), value.sum, tuple(value.counts)))
            elif METRICS[name].type == "counter" or broker in live:
                found.append(Measurement(name, (broker,), value))
        return found
