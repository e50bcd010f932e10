"""What a metric is, and what was measured of it: of one series, or of many partitions at once."""

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

Fold = Literal["sum", "max", "min"]
_FOLDS: Final[dict[Fold, Callable[[float, float], float]]] = {"sum": operator.add, "max": max, "min": min}


class Measurement(NamedTuple):
    """The value of one series: ``labels`` in the order of the metric, without ``cluster``.

    Of a histogram ``value`` is the sum of the observations (base unit), and ``counts`` how many lie in each bucket, not
    cumulated, the last bucket being +Inf.
    """

    name: str
    labels: tuple[str, ...]
    value: float
    counts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Column:
    """One metric of many partitions.

    Attributes:
        labels: Those after topic and partition: a text that all have, or a text for each.
        values: In the order of the partitions; None: it has no such series. The last ones may lack.
        counts: Of a histogram.
    """

    name: str
    labels: tuple[str | tuple[str, ...], ...]
    values: tuple[float | None, ...]
    counts: tuple[tuple[int, ...] | None, ...] = ()

    def measurements(self, places: Sequence[tuple[str, str]]) -> Iterator[Measurement]:
        """Yield the series of the partitions, whose topics and numbers are ``places``."""
        for i, value in enumerate(self.values):
            if value is not None:
                labels = [label if isinstance(label, str) else label[i] for label in self.labels]
                counts = (self.counts[i] if self.counts else None) or ()
                yield Measurement(self.name, (*places[i], *labels), value, counts)


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        labels: In the order of Measurement.labels; ``cluster``, if it is one, comes first.
        buckets: A histogram's upper bounds, +Inf implied.
        source: Who measures it: the runner, or the API (of what it finds in the store, or of itself).
        runners: How one series that several runners of a cluster measure becomes one.
        partitions: How the partitions of a topic become one series, where there is one for each topic only.
        of_runner: The gauge is about the runner itself: it counts while the runner reports, though it may judge
            nothing. Every other gauge counts while its runner judges, and every counter for ever.
    """

    name: str
    type: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...]
    buckets: tuple[float, ...] = ()
    source: Literal["runner", "store", "api"] = "runner"
    runners: Fold = "sum"
    partitions: Fold = "sum"
    of_runner: bool = False
    added: int = 0
    """How many of the last labels earlier releases did not have."""

    def taken(self, one: Measurement) -> Measurement | None:
        """Return a runner's measurement with this metric's labels, None if its labels or buckets are other ones.

        A label that an earlier release did not have is empty, which is the same as none to Prometheus.
        """
        missing = len(self.labels) - 1 - len(one.labels)
        whole = one._replace(labels=(*one.labels, *[""] * missing)) if 0 < missing <= self.added else one
        return whole if self.holds(whole) else None

    def holds(self, one: Measurement) -> bool:
        """Return whether a runner's measurement has this metric's labels and buckets; another release's may not."""
        counts = len(self.buckets) + 1 if self.type == "histogram" else 0
        return self.source == "runner" and len(one.labels) + 1 == len(self.labels) and len(one.counts) == counts


def folded(one: Measurement, other: Measurement, how: Fold) -> Measurement:
    """Return two measurements of one series as one."""
    value = _FOLDS[how](one.value, other.value)
    counts = tuple(map(operator.add, one.counts, other.counts))
    return Measurement(one.name, one.labels, value, counts)
