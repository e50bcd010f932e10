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
from typing import TYPE_CHECKING, Final

from fastapi import APIRouter, Request
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.responses import Response

from api.calls import UnavailableError
from api.cardinality import by_topic
from api.exposition import exposition
from api.judgement import loss_bound
from api.state import state_of
from canary.anomalies.catalogue import CATALOGUE
from canary.metrics import METRICS
from canary.watching.certificates import file_expiry_s

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from prometheus_client.metrics_core import Metric as Family

    from api.state import Knowledge
    from canary.metrics import Metric
    from canary.settings.serving import ApiSettings

STORE_TIMEOUT_S = 1.5
"""Together with rendering this stays below the 2 s in which /metrics answers whatever happens."""

END: Final = b"# EOF\n"
"""What ends a text of OpenMetrics."""

Labels = tuple[str, ...]

router = APIRouter(include_in_schema=False)


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Render all metrics, in the format the scraper prefers."""
    state = state_of(request)
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    memory, asked = state.rendered, time.monotonic()
    async with memory.lock:  # scrapes at one moment share one rendering, also one of a store that does not answer
        until, text = memory.texts.get(content_type, (float("-inf"), b""))
        if asked >= until:
            try:
                knowledge = await state.knowledge(within=STORE_TIMEOUT_S)
            except UnavailableError:
                knowledge = None
            own = state.process_metrics
            text = await asyncio.to_thread(render_text, knowledge, state.api, encode, content_type, own=own)
            if knowledge is None:
                memory.texts.clear()
            kept_s = 0.0 if knowledge is None else state.api.metrics_cache
            memory.texts[content_type] = (time.monotonic() + kept_s, text)
    return Response(text, headers={"Content-Type": content_type})


def render_text(
    knowledge: Knowledge | None,
    settings: ApiSettings,
    encode: Callable[[CollectorRegistry], bytes] = generate_latest,
    content_type: str = "text/plain",
    *,
    own: bool = False,
) -> bytes:
    """Return what a scraper gets; ``own``: the process's own metrics, too."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Snapshot(knowledge, settings))
    if own:
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
    few = encode(registry)
    if knowledge is None:
        return few
    coarse = settings.cardinality == "topic"
    series = {
        name: by_topic(cluster.series) if coarse else cluster.series for name, cluster in knowledge.clusters.items()
    }
    openmetrics = content_type.startswith("application/openmetrics-text")
    many = exposition(series, openmetrics=openmetrics).encode()
    return few.removesuffix(END) + many + END if openmetrics else few + many


@dataclass(frozen=True, eq=False)
class _Snapshot(Collector):
    """Gives the families of one moment; ``knowledge`` is None when the store does not answer."""

    knowledge: Knowledge | None
    settings: ApiSettings

    def collect(self) -> Iterable[Family]:
        yield from families(self.knowledge, self.settings)


def families(knowledge: Knowledge | None, settings: ApiSettings) -> Iterator[Family]:
    """Return every metric family that has a series and is not measured by runners, in the catalogue's order."""
    values = _stored(knowledge) if knowledge else {}
    values["canary_api_store_up"] = {(): 1.0 if knowledge else 0.0}
    values["canary_build_info"] = {(version("kafka-durability-canary"),): 1.0}
    if settings.address is not None:
        values["canary_api_info"] = {(settings.address,): 1.0}
    expiry_s = file_expiry_s(settings.tls.certificate) if settings.tls else None
    if expiry_s is not None:
        values["canary_api_certificate_expiry_timestamp_seconds"] = {(): expiry_s}
    for entry in METRICS.values():
        if values.get(entry.name):
            yield _family(entry, values[entry.name])


def _family(entry: Metric, values: Mapping[Labels, float]) -> Family:
    family: CounterMetricFamily | GaugeMetricFamily
    kind = CounterMetricFamily if entry.type == "counter" else GaugeMetricFamily
    family = kind(entry.name, entry.help, labels=entry.labels)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family


def _stored(knowledge: Knowledge) -> dict[str, dict[Labels, float]]:
    """Return the values that come from the store, by metric and labels."""
    values: dict[str, dict[Labels, float]] = defaultdict(dict)
    for cluster in knowledge.clusters.values():
        for runner in cluster.runners:
            heartbeats = values["canary_runner_heartbeat_timestamp_seconds"]
            heartbeats[cluster.name, runner.name] = runner.at_ns / 1e9
        if not cluster.runners:  # as old as can be: somebody has to be told
            values["canary_runner_heartbeat_timestamp_seconds"][cluster.name, ""] = 0.0
        for kind, severity in zero_series():
            values["canary_violations_total"][cluster.name, kind, severity] = 0.0
            values["canary_violations_open"][cluster.name, kind, severity] = 0.0
        bound = loss_bound(cluster, knowledge.standing)
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
    for cluster in knowledge.clusters.values():
        if cluster.since_ns is not None:
            values["canary_probing_since_timestamp_seconds"][(cluster.name,)] = cluster.since_ns / 1e9
        if cluster.night_s is not None:
            values["canary_reconcile_interval_seconds"][(cluster.name,)] = cluster.night_s
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
