"""What the API costs, against an empty FastAPI route and against prometheus-client, in turn on one machine.

The ratios are of the server's CPU, which a busy machine changes least; what it leaves are requests a second.
"""

from __future__ import annotations

import tempfile
import time
from typing import TYPE_CHECKING
from unittest.mock import patch

from prometheus_client import metrics

from api.knowledge.views import read_views
from storage.store import Store
from storage.store.values import View
from tests.benchmarks.api_asking import Load, Served, ask, serving
from tests.benchmarks.api_store import fill, wide_view
from tests.benchmarks.measuring import Figure, command, same
from tests.benchmarks.metrics_cost import cpu_ms, in_memory, ours, theirs

if TYPE_CHECKING:
    from collections.abc import Iterator

PATHS = ("/api/v1/clusters/prod/summary", "/api/v1/violations")


def measure(
    violations: int = 100_000, partitions: int = 1_000, requests: int = 2_000, rounds: int = 5
) -> Iterator[Figure]:
    """Ask the API over a full store, and render the metrics of many partitions."""
    with tempfile.TemporaryDirectory() as directory:
        url = f"sqlite:///{directory}/store.db"
        fill(url, violations)
        with Store.connect(url, timeout=5) as store:
            store.views.save("prod", "canary-0", time.time_ns() + 3600 * 10**9, wide_view(3))
        with serving(url) as served:
            for path in PATHS:
                yield from asked(served, path, requests, rounds)
    yield from rendered(partitions, rounds)


def asked(api: Served, path: str, requests: int, rounds: int) -> Iterator[Figure]:
    """Ask many times at once for a path, and for as many bytes of a route that has nothing to do."""
    size = ask(api, path, clients=1, requests=20).size
    pairs: list[tuple[Load, Load]] = []
    with serving("--empty", str(size)) as nothing:
        ask(nothing, "/empty", clients=50, requests=200)
        for _ in range(rounds):
            base = ask(nothing, "/empty", clients=50, requests=requests)
            pairs.append((base, ask(api, path, clients=50, requests=requests)))
    yield Figure.of(path, "CPU of a request", (own.cpu_us for _, own in pairs), "us")
    yield Figure.of(path, "requests", (own.per_second for _, own in pairs), "/s")
    yield Figure.of(path, "requests over an empty route's, by CPU", (b.cpu_us / o.cpu_us for b, o in pairs), least=0.6)
    tails = (own.percentile(99) / own.percentile(50) for _, own in pairs)
    yield Figure.of(path, "latency: 99th percentile over median", tails, most=5)


def rendered(partitions: int, rounds: int) -> Iterator[Figure]:
    """Render the metrics of so many partitions, and the same series from memory with prometheus-client."""
    subject = f"/metrics, {partitions:,} partitions"
    with patch.object(metrics, "_use_created", False):  # the same series on both sides
        view = wide_view(partitions)
        registry = in_memory(read_views([View("prod", "canary-0", time.time_ns(), view)], time.time_ns())["prod"])
        mine, others = (
            sorted(line for line in text.splitlines() if line.startswith(b"canary_p") and b"partition=" in line)
            for text in (ours(view), theirs(registry))
        )
        assert len(mine) > 20 * partitions
        yield same(subject, "series", mine, others)
        pairs = [(cpu_ms(lambda: theirs(registry), 2), cpu_ms(lambda: ours(view), 2)) for _ in range(rounds)]
    yield Figure.of(subject, "CPU", (own for _, own in pairs), "ms")
    yield Figure.of(subject, "CPU over prometheus-client's", (own / base for base, own in pairs), most=1.1)


if __name__ == "__main__":
    command(measure)
