"""What librdkafka's statistics of the watcher say of each broker: round trips, connections, whether it answers.

The watcher asks every leader each second, and nothing of what it asks waits on purpose, as a fetch does. So its round
trips are those of a broker's network, request queue and disk.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson

from canary.metrics.client_meters import ClientMeters
from canary.threads import system

INTERVAL_S: Final = 2.0
_SILENT_US: Final = 5_000_000
"""A broker that owes an answer and has sent nothing for so long (µs) is not reached, though it is connected."""
_TRYING_S: Final = 30.0
"""For how long after the last attempt to connect a broker counts as tried: attempts are seconds apart."""
_PERCENTILES: Final = ((0.5, "p50"), (0.75, "p75"), (0.9, "p90"), (0.95, "p95"), (0.99, "p99"), (1.0, "max"))
_COUNTERS: Final = {
    "canary_broker_connects_total": ("connects",),
    "canary_broker_disconnects_total": ("disconnects",),
    "canary_broker_request_errors_total": ("txerrs", "rxerrs", "req_timeouts"),
}


def observed(meters: ClientMeters) -> dict[str, Any]:
    """Return the properties with which a client counts into ``meters``."""
    return {"statistics.interval.ms": int(INTERVAL_S * 1000), "stats_cb": BrokerStatistics(meters)}


class BrokerStatistics:
    """The ``stats_cb`` of one client."""

    def __init__(self, meters: ClientMeters) -> None:
        self._meters = meters
        self._last: dict[tuple[str, str], int] = {}
        self._tried_s: dict[str, float] = {}

    def __call__(self, statistics: str) -> None:
        """Take the statistics (JSON) of the last interval."""
        for one in orjson.loads(statistics)["brokers"].values():
            if one["nodeid"] >= 0 and one["source"] != "logical":
                self._take(str(one["nodeid"]), one)

    def _take(self, broker: str, one: Mapping[str, Any]) -> None:
        risen = {name: self._risen(broker, name, sum(one[part] for part in of)) for name, of in _COUNTERS.items()}
        for name, n in risen.items():
            self._meters.count(name, broker, n)
        self._meters.observe("canary_broker_request_latency_seconds", broker, *round_trips(one["rtt"]))
        silent = one["waitresp_cnt"] > 0 and one["rxidle"] > _SILENT_US
        reached = one["state"] == "UP" and not silent
        now = system.monotonic()
        if not reached and (silent or one["state"] not in {"UP", "INIT"} or risen["canary_broker_connects_total"]):
            self._tried_s[broker] = now
        tried = now - self._tried_s.get(broker, -_TRYING_S) < _TRYING_S
        self._meters.set("canary_broker_reachable", broker, 1 if reached else 0 if tried else None)

    def _risen(self, broker: str, name: str, value: int) -> int:
        """Return by how much a counter rose; one that fell began anew."""
        last = self._last.get((broker, name), 0)
        self._last[broker, name] = value
        return value - last if value >= last else value


def round_trips(window: Mapping[str, int]) -> Iterator[float]:
    """Yield, in s, as many round trips as there were in a window: each as long as the percentile above it.

    Those beyond the client's own range, which are in no percentile, take as long as the longest.
    """
    beyond = window["outofrange"]
    within = window["cnt"] - beyond
    for rank in range(1, within + 1):
        yield window[next(name for share, name in _PERCENTILES if rank <= share * within)] / 1e6
    for _ in range(beyond):
        yield window["max"] / 1e6
