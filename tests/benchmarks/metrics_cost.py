"""What /metrics costs with 1,000 probed partitions, against prometheus-client rendering the same series from memory."""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from api.knowledge.views import read_views
from api.metrics.collect import render_text
from api.state import Knowledge
from canary.metrics import METRICS
from canary.settings.serving import ApiSettings
from storage.store.values import View

if TYPE_CHECKING:
    from collections.abc import Callable

    from api.knowledge.views import ClusterView

KINDS = {"counter": Counter, "gauge": Gauge, "histogram": Histogram}


def in_memory(cluster: ClusterView) -> CollectorRegistry:
    """Return a registry in which every series of ``cluster`` is a child that lives, as in any instrumented program."""
    registry = CollectorRegistry(auto_describe=False)
    for name, members in cluster.series.items():
        entry = METRICS[name]
        more = {"buckets": entry.buckets} if entry.type == "histogram" else {}
        metric = KINDS[entry.type](name, entry.help, entry.labels, registry=registry, **more)
        for labels, one in members.items():
            child = metric.labels(cluster.name, *labels)
            if isinstance(child, Histogram):
                for bucket, count in zip(child._buckets, one.counts, strict=True):
                    bucket.inc(count)
                child._sum.inc(one.value)
            elif isinstance(child, Counter):
                child.inc(one.value)
            else:
                child.set(one.value)
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
