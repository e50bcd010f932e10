"""Fewer series: those of all partitions of a topic as one, for clusters with thousands of probed partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from api.views import ADDED_GAUGES, Value
from canary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from api.views import Series

ALL: Final = "*"
"""The label ``partition`` of what was put together."""
LOWEST: Final = frozenset({"canary_partition_isr", "canary_scrub_position_ratio", "canary_log_start_offset"})
"""Gauges of which the lowest is the worst."""


def by_topic(series: Mapping[Series, Value]) -> dict[Series, Value]:
    """Return the series with one for each topic in place of its partitions': counters summed, gauges the worst one."""
    found: dict[Series, Value] = {}
    for (name, labels), value in series.items():
        metric = METRICS[name]
        own = metric.labels[1:]  # without the cluster
        if "partition" not in own:
            found[name, labels] = value
            continue
        place = own.index("partition")
        key = (name, (*labels[:place], ALL, *labels[place + 1 :]))
        before = found.get(key)
        if before is None:
            found[key] = Value(value.value, value.counts)
        elif metric.type == "gauge" and name not in ADDED_GAUGES:
            before.value = (min if name in LOWEST else max)(before.value, value.value)
        else:
            before.value += value.value
            before.counts = tuple(a + b for a, b in zip(before.counts, value.counts, strict=True))
    return found
