"""Fewer series: those of all partitions of a topic as one, for clusters with thousands of probed partitions."""

from typing import Final

from api.knowledge.views import Series
from canary.metrics import METRICS
from canary.metrics.metric import folded

ALL: Final = "*"
"""The label ``partition`` of a series that stands for all partitions of its topic."""


def by_topic(series: Series) -> Series:
    """Return the series with one for each topic in place of its partitions', folded as the metric says."""
    found: Series = {}
    for name, members in series.items():
        metric = METRICS[name]
        if "partition" not in metric.labels:
            found[name] = members
            continue
        place = metric.labels.index("partition") - 1  # a measurement has no label ``cluster``
        topics = found.setdefault(name, {})
        for labels, one in members.items():
            key = (*labels[:place], ALL, *labels[place + 1 :])
            topics[key] = folded(topics[key], one, metric.partitions) if key in topics else one._replace(labels=key)
    return found
