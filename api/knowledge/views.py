"""What the runners know, as they stored it: one *view* a runner, put together by cluster.

A view is JSON (see `ClusterView`); at most a second old while its runner lives. Counters and histograms of several
runners of one cluster are summed, whether or not the runner still lives (a counter never goes back). Gauges speak of
now: only those of live runners count, and of two that speak of the same series the greater.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson
import structlog

from canary.metrics import METRICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from api.ports import View

log = structlog.get_logger(__name__)

FRESH_S = 8.0
"""A runner is fresh so long after it judged last: it judges at least once a second, and stores that once a second."""
OWN_GAUGES = frozenset({"canary_part_failing", "canary_ledger_pending_rows"})
"""Gauges that speak of the runner itself: they count while it reports, though it may judge nothing."""
ADDED_GAUGES = frozenset({"canary_unseen_probes", "canary_suspects", "canary_ledger_pending_rows"})
"""Gauges that count things of one runner alone, so that the cluster's is the sum."""

Series = tuple[str, tuple[str, ...]]
"""Metric name and labels (without ``cluster``)."""
WITHOUT: Series = ("canary_brokers_without_probe", ())


@dataclass(slots=True)
class Value:
    """Of one series: the value (a histogram's sum) and a histogram's counts per bucket, not cumulated."""

    value: float
    counts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RunnerState:
    """One runner: its name, when it judged last (ns since the epoch), how long that is ago (s), what it waits for."""

    name: str
    at_ns: int
    age_s: float
    waiting_for: str | None
    shard: tuple[int, int] = (0, 1)
    """Which share of the cluster's partitions it probes, of how many."""
    told_s: float = 0.0
    """How long ago it stored its view, in s."""
    troubles: tuple[tuple[str, bool], ...] = ()
    """What kept it from its work then: in words, and whether losses may go unnoticed meanwhile."""

    @property
    def fresh(self) -> bool:
        """Whether the runner judges, as far as its view tells."""
        return self.age_s <= FRESH_S

    @property
    def reports(self) -> bool:
        """Whether its process lives."""
        return self.fresh or self.told_s <= FRESH_S

    @property
    def blind(self) -> str | None:
        """Why losses may go unnoticed by this runner, as it says itself."""
        return "; ".join(words for words, blind in self.troubles if blind and self.reports) or None


@dataclass(slots=True)
class ClusterView:
    """All that the runners of one cluster know; ``partitions`` and ``topics`` from the freshest view of each."""

    name: str
    cluster_id: str | None = None
    runners: list[RunnerState] = field(default_factory=list)
    series: dict[Series, Value] = field(default_factory=dict)
    partitions: list[dict[str, Any]] = field(default_factory=list)
    topics: list[dict[str, Any]] = field(default_factory=list)
    since_ns: int | None = None
    night_s: float | None = None
    """The longest time between two reconciliations by the clock, as the newest view says; None: there are none."""
    suspects: int = 0
    audited: list[tuple[str, str, int]] = field(default_factory=list)
    """(check, severity, findings) of the last audit."""
    leaders: set[int] = field(default_factory=set)
    brokers: int = 0
    """Of a cluster that runners share: who leads a probe partition, and how many brokers there are."""

    @property
    def shares(self) -> int:
        """Into how many shares runners divide the partitions (while none lives: divided); nobody ever probed: 0."""
        live = [runner for runner in self.runners if runner.fresh]
        return max((runner.shard[1] for runner in live or self.runners), default=0)

    @property
    def shards_missing(self) -> int:
        """How many shares of the partitions no live runner probes."""
        return len(set(range(self.shares)) - {runner.shard[0] for runner in self.runners if runner.fresh})

    @property
    def unjudged(self) -> int:
        """How many shares of the partitions no runner judges that sees what it needs for that."""
        judging = {runner.shard[0] for runner in self.runners if runner.fresh and not runner.blind}
        return len(set(range(self.shares)) - judging)

    @property
    def fresh(self) -> bool:
        """Whether any runner lives."""
        return any(runner.fresh for runner in self.runners)

    @property
    def judges(self) -> bool:
        """Whether runners judge all partitions, and see what they need for that."""
        return bool(self.shares) and not self.unjudged

    @property
    def troubles(self) -> list[str]:
        """What live runners cannot do now, in words."""
        return [words for runner in self.runners if runner.reports for words, _ in runner.troubles]

    @property
    def age_s(self) -> float | None:
        """Seconds since any runner judged, None if none ever did."""
        return min((runner.age_s for runner in self.runners), default=None)

    @property
    def waiting_for(self) -> str | None:
        """What keeps a live runner from probing, None if nothing does."""
        return next((runner.waiting_for for runner in self.runners if runner.fresh and runner.waiting_for), None)

    def total(self, name: str) -> int:
        """Return the sum of all series of a counter or gauge."""
        return int(sum(value.value for (metric, _), value in self.series.items() if metric == name))


def read_views(rows: Iterable[View], now_ns: int, configured: Sequence[str] = ()) -> dict[str, ClusterView]:
    """Return the view of each cluster, by name: those in ``rows`` and in ``configured``.

    A view that cannot be read is left out (and logged): the cluster then looks as if that runner had not reported.
    """
    clusters = {name: ClusterView(name) for name in configured}
    for row in sorted(rows, key=lambda row: (row.cluster, -row.at_ns)):
        view = clusters.setdefault(row.cluster, ClusterView(row.cluster))
        try:
            content = orjson.loads(row.view)
            age_s = max(0.0, (now_ns - row.at_ns) / 1e9)
            share, shares = content.get("shard") or (0, 1)
            told_s = max(0.0, (now_ns - content.get("told_ns", row.at_ns)) / 1e9)
            troubles = tuple((words, blind) for words, blind in content.get("troubles", ()))
            waiting_for = content["waiting_for"]
            runner = RunnerState(row.runner, row.at_ns, age_s, waiting_for, (share, shares), told_s, troubles)
            _merge(view, content, runner)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            log.warning("view_unreadable", cluster=row.cluster, runner=row.runner, error=repr(error))
    for view in clusters.values():
        if view.brokers:  # each runner knows the leaders of its own share
            view.series[WITHOUT] = Value(max(view.brokers - len(view.leaders), 0))
    return dict(sorted(clusters.items()))


def _merge(view: ClusterView, content: dict[str, Any], runner: RunnerState) -> None:
    if content["version"] != 1:
        raise ValueError(f"view of version {content['version']}, this API reads version 1")
    view.cluster_id = view.cluster_id or content.get("cluster_id")
    since = content.get("since_ns")
    if since is not None:
        view.since_ns = since if view.since_ns is None else min(view.since_ns, since)
    for name, labels, value, *counts in content["measurements"]:
        metric = METRICS.get(name)
        counts_now = runner.fresh or (runner.reports and name in OWN_GAUGES)
        if metric is None or (metric.type == "gauge" and not counts_now):
            continue
        _add(view.series, name, tuple(str(label) for label in labels), Value(value, tuple(counts[0]) if counts else ()))
        if runner.shard[1] > 1 and (name, tuple(labels)) == WITHOUT:
            leaders = {row["leader"] for row in content["partitions"]} - {None, -1}
            view.leaders |= leaders
            view.brokers = max(view.brokers, int(value) + len(leaders))
    if not view.runners:
        view.night_s = content.get("night_s")
    view.runners.append(runner)
    if not view.audited and content.get("audit"):
        found = Counter((one["check"], one["severity"]) for one in content["audit"]["findings"])
        view.audited = [(check, severity, count) for (check, severity), count in sorted(found.items())]
    if not runner.fresh and view.partitions:
        return
    view.suspects += content.get("suspects") or 0
    known = {(row["topic"], row["partition"]) for row in view.partitions}
    view.partitions += [row for row in content["partitions"] if (row["topic"], row["partition"]) not in known]
    view.partitions.sort(key=lambda row: (row["topic"], row["partition"]))
    named = {row["topic"] for row in view.topics}
    view.topics += [row for row in content["topics"] if row["topic"] not in named]


def _add(series: dict[Series, Value], name: str, labels: tuple[str, ...], new: Value) -> None:
    old = series.get((name, labels))
    if old is None:
        series[name, labels] = new
    elif METRICS[name].type == "gauge" and name not in ADDED_GAUGES:
        old.value = max(old.value, new.value)
    else:
        old.value += new.value
        old.counts = tuple(a + b for a, b in zip(old.counts, new.counts, strict=True))
