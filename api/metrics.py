"""/metrics: the catalogue of `canary.metrics`, rendered from what the store holds at this moment.

Nothing but the last rendering is kept between two scrapes, for a second (api.metrics_cache; ARCHITECTURE decision 10),
so every replica says the same and nothing stale is shown: when the store does not answer in time, only
``canary_api_store_up 0`` and the process's own metrics are.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass
from importlib.metadata import version
from itertools import accumulate
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.responses import Response

from api.calls import UnavailableError
from api.cardinality import by_topic
from api.judgement import loss_bound
from api.state import State, state_of
from canary.anomalies.catalogue import CATALOGUE
from canary.metrics import METRICS
from canary.watching.certificates import file_expiry_s

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from prometheus_client.metrics_core import Metric as Family

    from api.state import Knowledge
    from api.views import ClusterView
    from canary.metrics import Metric
    from canary.settings.serving import ApiSettings

STORE_TIMEOUT_S = 1.5
"""Together with rendering this stays below the 2 s in which /metrics answers whatever happens."""

Labels = tuple[str, ...]

router = APIRouter(include_in_schema=False)


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Render all metrics, in the format the scraper prefers."""
    state = state_of(request)
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    memory = state.rendered
    async with memory.lock:  # scrapes at one moment share one rendering
        at, text = memory.texts.get(content_type, (float("-inf"), b""))
        if time.monotonic() - at >= state.api.metrics_cache:
            try:
                knowledge = await state.knowledge(within=STORE_TIMEOUT_S)
            except UnavailableError:
                knowledge = None
            text = await asyncio.to_thread(lambda: encode(_registry(knowledge, state)))
            if knowledge is None:
                memory.texts.clear()
            else:
                memory.texts[content_type] = (time.monotonic(), text)
    return Response(text, headers={"Content-Type": content_type})


def _registry(knowledge: Knowledge | None, state: State) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Snapshot(knowledge, state.api))
    if state.process_metrics:
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
    return registry


@dataclass(frozen=True, eq=False)
class _Snapshot(Collector):
    """Gives the families of one moment; ``knowledge`` is None when the store does not answer."""

    knowledge: Knowledge | None
    settings: ApiSettings

    def collect(self) -> Iterable[Family]:
        yield from families(self.knowledge, self.settings)


def families(knowledge: Knowledge | None, settings: ApiSettings) -> Iterator[Family]:
    """Return every metric family that has a series, in the catalogue's order."""
    coarse = settings.cardinality == "topic"
    values = _stored(knowledge) if knowledge else {}
    values["canary_api_store_up"] = {(): 1.0 if knowledge else 0.0}
    values["canary_build_info"] = {(version("kafka-durability-canary"),): 1.0}
    values["canary_api_info"] = {(settings.address,): 1.0}
    expiry_s = file_expiry_s(settings.tls.certificate) if settings.tls else None
    if expiry_s is not None:
        values["canary_api_certificate_expiry_timestamp_seconds"] = {(): expiry_s}
    measured = _measured(knowledge.clusters.values(), coarse=coarse) if knowledge else {}
    for entry in METRICS.values():
        if entry.name in values:
            yield _family(entry, values[entry.name])
        elif entry.name in measured:
            yield measured[entry.name]


def _family(entry: Metric, values: Mapping[Labels, float]) -> Family:
    family: CounterMetricFamily | GaugeMetricFamily
    kind = CounterMetricFamily if entry.type == "counter" else GaugeMetricFamily
    family = kind(entry.name, entry.help, labels=entry.labels)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family


def _measured(clusters: Iterable[ClusterView], *, coarse: bool) -> dict[str, Family]:
    """Return the families of what runners measure."""
    families: dict[str, CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily] = {}
    for cluster in clusters:
        series = by_topic(cluster.series) if coarse else cluster.series
        for (name, own), value in series.items():
            entry, labels = METRICS[name], (cluster.name, *own)
            if entry.source != "runner" or len(labels) != len(entry.labels):
                continue
            family = families.get(name)
            if family is None:
                families[name] = family = _empty(entry)
            if isinstance(family, HistogramMetricFamily):
                bounds = [*(format_bound(bound) for bound in entry.buckets), "+Inf"]
                buckets = list(zip(bounds, accumulate(value.counts), strict=True))
                family.add_metric(labels, buckets, value.value)
            else:
                family.add_metric(labels, value.value)
    return dict(families)


def _empty(entry: Metric) -> CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily:
    if entry.type == "histogram":
        return HistogramMetricFamily(entry.name, entry.help, labels=entry.labels)
    if entry.type == "counter":
        return CounterMetricFamily(entry.name, entry.help, labels=entry.labels)
    return GaugeMetricFamily(entry.name, entry.help, labels=entry.labels)


def format_bound(bound: float) -> str:
    """Return a bucket's bound as Prometheus clients write it ("1.0", not "1")."""
    return repr(float(bound))


def _stored(knowledge: Knowledge) -> dict[str, dict[Labels, float]]:
    """Return the values that come from the store, by metric and labels."""
    values: dict[str, dict[Labels, float]] = defaultdict(dict)
    for cluster in knowledge.clusters.values():
        for runner in cluster.runners:
            heartbeats = values["canary_runner_heartbeat_timestamp_seconds"]
            heartbeats[cluster.name, runner.name] = runner.at_ns / 1e9
        for kind, severity in zero_series():
            values["canary_violations_total"][cluster.name, kind, severity] = 0.0
            values["canary_violations_open"][cluster.name, kind, severity] = 0.0
        bound = loss_bound(cluster, knowledge.counts)
        if bound is not None:
            values["canary_loss_rate_upper_bound"][(cluster.name,)] = bound
        values["canary_shards_missing"][(cluster.name,)] = float(cluster.shards_missing)
        for check, severity, count in cluster.audited:
            values["canary_audit_check_findings"][cluster.name, check, severity] = float(count)
    values["canary_incident_begin_timestamp_seconds"] = {
        (row.cluster, row.topic, _or_empty(row.partition), row.kind, row.severity, row.id): row.first_ns / 1e9
        for row in knowledge.incidents
    }
    for cluster_name, reason in sorted(knowledge.quiet):
        values["canary_quiet"][cluster_name, reason] = 1.0
    for row in knowledge.counts:
        values["canary_violations_total"][row.cluster, row.kind, row.severity] = float(row.total)
        values["canary_violations_open"][row.cluster, row.kind, row.severity] = float(row.open)
    _reconciled(knowledge, values)
    return dict(values)


def _reconciled(knowledge: Knowledge, values: dict[str, dict[Labels, float]]) -> None:
    for run in knowledge.reconciliations:
        values["canary_reconcile_last_success_timestamp_seconds"][(run.cluster,)] = run.ended_s
        values["canary_reconcile_unjudged"][(run.cluster,)] = float(run.unjudged)
        for verdict, count in run.verdicts.items():
            values["canary_reconcile_verdicts"][run.cluster, verdict] = float(count)


def _or_empty(number: int | None) -> str:
    return "" if number is None else str(number)


def zero_series() -> Sequence[tuple[str, str]]:
    """Return every (kind, severity) that exists from the start at 0, so that increase() sees the first violation."""
    return [(anomaly.name, severity) for anomaly in CATALOGUE.values() for severity in anomaly.severities]
