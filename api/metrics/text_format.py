"""Prometheus' text for the many series that runners measure, written straight from their views.

prometheus-client makes an object and a dictionary of labels for each line; with a thousand probed partitions there are
seventy thousand lines. The few other families are still its business (`api.metrics`). Lines, order of labels and
numbers are as it writes them, which the tests hold against its own parser and its own rendering.
"""

from __future__ import annotations

import math
from itertools import accumulate
from typing import TYPE_CHECKING

from canary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from api.views import Series, Value
    from canary.metrics import Metric

_ESCAPED = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def exposition(clusters: Mapping[str, Mapping[Series, Value]], *, openmetrics: bool) -> str:
    """Return the families of what runners measure, in the catalogue's order; series by the name of their cluster.

    A view with labels that the catalogue does not know (an older or newer runner's) is left out.
    """
    members: dict[str, list[tuple[tuple[str, ...], Value]]] = {}
    for cluster, series in clusters.items():
        for (name, own), value in series.items():
            if len(own) + 1 == len(METRICS[name].labels):
                members.setdefault(name, []).append(((cluster, *own), value))
    lines: list[str] = []
    for entry in METRICS.values():
        if entry.source == "runner" and entry.name in members:
            lines.extend(_head(entry, openmetrics=openmetrics))
            write = _histogram if entry.type == "histogram" else _simple
            lines.extend(write(entry, members[entry.name]))
    return "\n".join([*lines, ""])


def _head(entry: Metric, *, openmetrics: bool) -> tuple[str, str]:
    name = entry.name
    if openmetrics and entry.type == "counter":
        name = name.removesuffix("_total")
    return (
        f"# HELP {name} {entry.help.translate(_ESCAPED) if openmetrics else entry.help}",
        f"# TYPE {name} {entry.type}",
    )


def _simple(entry: Metric, members: Iterable[tuple[tuple[str, ...], Value]]) -> Iterable[str]:
    template = _template(entry.labels)
    for labels, value in members:
        yield f"{entry.name}{{{template % _escaped(labels)}}} {number(value.value)}"


def _histogram(entry: Metric, members: Iterable[tuple[tuple[str, ...], Value]]) -> Iterable[str]:
    template = _template(entry.labels)
    cut = sum(name < "le" for name in entry.labels)
    order = sorted(range(len(entry.labels)), key=lambda at: entry.labels[at])
    bounds = [*(repr(float(bound)) for bound in entry.buckets), "+Inf"]
    heads = [f"{entry.name}_bucket{{", f"{entry.name}_count{{", f"{entry.name}_sum{{"]
    for labels, value in members:
        if len(value.counts) != len(bounds):
            continue
        text = template % _escaped(labels)
        parts = [f'{entry.labels[at]}="{labels[at].translate(_ESCAPED)}"' for at in order]
        first, last = ",".join([*parts[:cut], ""]), "".join(f",{part}" for part in parts[cut:])
        total = 0
        for bound, total in zip(bounds, accumulate(value.counts), strict=True):
            yield f'{heads[0]}{first}le="{bound}"{last}}} {number(total)}'
        yield f"{heads[1]}{text}}} {number(total)}"
        yield f"{heads[2]}{text}}} {number(value.value)}"


def _template(labels: tuple[str, ...]) -> str:
    """Return label="%(n)s" for each label, in alphabetical order, to be filled by `_escaped`."""
    return ",".join(f'{name}="%({labels.index(name)})s"' for name in sorted(labels))


def _escaped(labels: tuple[str, ...]) -> dict[str, str]:
    return {_PLACES[at]: value.translate(_ESCAPED) for at, value in enumerate(labels)}


_PLACES = tuple(map(str, range(16)))


def number(value: float) -> str:
    """Return a number as Prometheus reads it."""
    if math.isfinite(value):
        return repr(float(value))
    return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")
