"""What /metrics costs with 1,000 probed partitions, against prometheus-client rendering the same series from memory."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from api.metrics import render_text
from api.state import Knowledge
from api.views import read_views
from canary.metrics import METRICS
from canary.settings.serving import ApiSettings
from storage.store.values import View

if TYPE_CHECKING:
    from collections.abc import Callable

    from api.views import ClusterView

KINDS = {"counter": Counter, "gauge": Gauge, "histogram": Histogram}


def in_memory(cluster: ClusterView) -> CollectorRegistry:
    """Return a registry in which every series of ``cluster`` is a child that lives, as in any instrumented program."""
    registry = CollectorRegistry(auto_describe=False)
    made: dict[str, Counter | Gauge | Histogram] = {}
    for (name, labels), value in cluster.series.items():
        entry = METRICS[name]
        if name not in made:
            more = {"buckets": entry.buckets} if entry.type == "histogram" else {}
            made[name] = KINDS[entry.type](name, entry.help, entry.labels, registry=registry, **more)
        child = made[name].labels(cluster.name, *labels)
        if isinstance(child, Histogram):
            for bucket, count in zip(child._buckets, value.counts, strict=True):
                bucket.inc(count)
            child._sum.inc(value.value)
        elif isinstance(child, Counter):
            child.inc(value.value)
        else:
            child.set(value.value)
    return registry


def ours(view: bytes) -> bytes:
    """Render a scrape from what the store holds, nothing remembered."""
    now = time.time_ns()
    clusters = read_views([View("prod", "canary-0", now, view)], now)
    return render_text(Knowledge(now, clusters, (), ()), ApiSettings.model_validate({}))


def cpu_ms(action: Callable[[], object], times: int) -> float:
    """Return the least CPU (ms) that ``action`` took, of so many times."""
    best = float("inf")
    for _ in range(times):
        gc.collect()
        began = time.process_time()
        action()
        best = min(best, time.process_time() - began)
    return best * 1e3


def theirs(registry: CollectorRegistry) -> bytes:
    """Render a scrape as prometheus-client does."""
    return generate_latest(registry)
