"""Prometheus' text for the metrics of the catalogue, written straight from what runners published.

prometheus-client makes an object and a dictionary of labels for each line; a thousand probed partitions have seventy
thousand lines. It still renders the metrics of the process. Lines, order of labels and numbers are as it writes them;
tests compare both.
"""

import math
from collections.abc import Iterable, Mapping
from itertools import accumulate

from api.knowledge.views import Series
from canary.metrics import METRICS, Metric

Labels = tuple[str, ...]
Member = tuple[Labels, float, tuple[int, ...]]
"""All labels of a series, its value (of a histogram the sum), and a histogram's counts."""
_NONE: Mapping[str, Mapping[Labels, float]] = {}
_ESCAPED = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def exposition(
    clusters: Mapping[str, Series], others: Mapping[str, Mapping[Labels, float]] = _NONE, *, openmetrics: bool
) -> str:
    """Return all families in the catalogue's order; ``openmetrics``: as OpenMetrics, without its end.

    ``clusters``: what runners measure, by their cluster's name; ``others``: the other values, by metric and all labels.
    """
    lines: list[str] = []
    for entry in METRICS.values():
        members: list[Member] = [
            ((cluster, *labels), one.value, one.counts)
            for cluster, series in clusters.items()
            for labels, one in series.get(entry.name, {}).items()
        ]
        members += ((labels, value, ()) for labels, value in others.get(entry.name, {}).items())
        if members:
            lines.extend(_head(entry, openmetrics=openmetrics))
            write = _histogram if entry.type == "histogram" else _simple
            lines.extend(write(entry, members))
    return "\n".join([*lines, ""])


def _head(entry: Metric, *, openmetrics: bool) -> tuple[str, str]:
    name = entry.name
    if openmetrics and entry.type == "counter":
        name = name.removesuffix("_total")
    return (
        f"# HELP {name} {entry.help.translate(_ESCAPED) if openmetrics else entry.help}",
        f"# TYPE {name} {entry.type}",
    )


def _simple(entry: Metric, members: Iterable[Member]) -> Iterable[str]:
    template = f"{entry.name}{{{_template(entry.labels)}}}" if entry.labels else entry.name
    for labels, value, _ in members:
        yield f"{template % _escaped(labels)} {number(value)}"


def _histogram(entry: Metric, members: Iterable[Member]) -> Iterable[str]:
    template = _template(entry.labels)
    cut = sum(name < "le" for name in entry.labels)
    order = sorted(range(len(entry.labels)), key=lambda at: entry.labels[at])
    bounds = [*(repr(float(bound)) for bound in entry.buckets), "+Inf"]
    heads = [f"{entry.name}_bucket{{", f"{entry.name}_count{{", f"{entry.name}_sum{{"]
    for labels, value, counts in members:
        text = template % _escaped(labels)
        parts = [f'{entry.labels[at]}="{labels[at].translate(_ESCAPED)}"' for at in order]
        first, last = ",".join([*parts[:cut], ""]), "".join(f",{part}" for part in parts[cut:])
        total = 0
        for bound, total in zip(bounds, accumulate(counts), strict=True):
            yield f'{heads[0]}{first}le="{bound}"{last}}} {number(total)}'
        yield f"{heads[1]}{text}}} {number(total)}"
        yield f"{heads[2]}{text}}} {number(value)}"


def _template(labels: Labels) -> str:
    """Return label="%(n)s" for each label, in alphabetical order; `_escaped` fills it."""
    return ",".join(f'{name}="%({labels.index(name)})s"' for name in sorted(labels))


def _escaped(labels: Labels) -> dict[str, str]:
    return {_PLACES[at]: value.translate(_ESCAPED) for at, value in enumerate(labels)}


_PLACES = tuple(map(str, range(16)))


def number(value: float) -> str:
    """Return a number in Prometheus' notation."""
    if math.isfinite(value):
        return repr(float(value))
    return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
