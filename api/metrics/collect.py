"""/metrics: the catalogue of `canary.metrics`, rendered from what the store holds at this moment.

Only the last rendering is kept, for a second (api.metrics_cache; ARCHITECTURE decision 10), so that every replica shows
the same, and nothing stale. While the store does not answer in time, ``canary_api_store_up 0`` and the process's own
metrics are all there is.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from importlib.metadata import version
from typing import Final

from fastapi import APIRouter, Request
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.exposition import choose_encoder
from starlette.responses import Response

from api.judgement.durability import durability
from api.knowledge.views import ClusterView
from api.metrics.cardinality import by_topic
from api.metrics.text_format import Labels, exposition
from api.state import Knowledge, Shared
from api.store_calls import UnavailableError
from canary.anomalies.catalogue import CATALOGUE
from canary.anomalies.policy import rank
from canary.settings.serving import ApiSettings
from canary.watching.audit.certificates import file_expiry_s
from canary.workloads.catalogue import WORKLOADS

STORE_TIMEOUT_S = 1.5
"""Leaves time to render within the 2 s in which /metrics always answers."""

MOST_WORDS: Final = 200
"""At most so many characters of an incident's summary are a label."""

_KINDS: list[tuple[str, str]] = [(one.name, severity) for one in CATALOGUE.values() for severity in one.severities]
"""Every (kind, severity): each has a series from the start, at 0, so that increase() sees the first violation."""

_VERSION = version("kafka-durability-canary")
"""Of what runs. At a scrape there may be another one on the disk, or none for a moment: it is being upgraded."""

REHEARSES = next(one.name for one in WORKLOADS.values() if one.rehearses)
"""The mode whose topic drills of a live cluster may harm."""

router = APIRouter(include_in_schema=False)


@router.get("/metrics")
async def metrics(request: Request, state: Shared) -> Response:
    """Render all metrics, in the format the scraper prefers."""
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    memory, asked = state.rendered, time.monotonic()
    async with memory.lock:  # concurrent scrapes share one rendering, also while the store does not answer
        until, text = memory.texts.get(content_type, (float("-inf"), b""))
        if asked >= until:
            try:
                knowledge = await state.knowledge(within=STORE_TIMEOUT_S)
            except UnavailableError:
                knowledge = None
            memory.clusters = tuple(knowledge.clusters) if knowledge else memory.clusters or state.configured
            rendering = partial(render_text, own=state.process_metrics, served=memory.clusters)
            text = await asyncio.to_thread(rendering, knowledge, state.api, encode, content_type)
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
    served: Iterable[str] = (),
) -> bytes:
    """Return the text for a scraper; ``own``: with the process's own metrics; ``served``: clusters it answers for."""
    openmetrics = content_type.startswith("application/openmetrics-text")
    clusters = knowledge.clusters if knowledge else {}
    coarse = settings.cardinality == "topic"
    series = {name: by_topic(cluster.series) if coarse else cluster.series for name, cluster in clusters.items()}
    ours = exposition(series, _found(knowledge, settings, served), openmetrics=openmetrics).encode()
    registry = CollectorRegistry(auto_describe=False)
    if own:
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
    return ours + encode(registry)


def _found(knowledge: Knowledge | None, settings: ApiSettings, served: Iterable[str]) -> dict[str, dict[Labels, float]]:
    """Return the values that runners do not measure, by metric and labels."""
    values = _stored(knowledge) if knowledge else {}
    up = 1.0 if knowledge else 0.0
    values["canary_api_store_up"] = {(): up}
    values["canary_api_cluster_store_up"] = {(cluster,): up for cluster in served}
    writes = knowledge.writes.takes if knowledge else False
    if writes is not None:
        values["canary_api_store_writable"] = {(cluster,): float(writes) for cluster in served}
    values["canary_build_info"] = {(_VERSION,): 1.0}
    if settings.address is not None:
        values["canary_api_info"] = {(settings.address,): 1.0}
    expiry_s = file_expiry_s(settings.tls.certificate) if settings.tls else None
    if expiry_s is not None:
        values["canary_api_certificate_expiry_timestamp_seconds"] = {(): expiry_s}
    return values


def _stored(knowledge: Knowledge) -> dict[str, dict[Labels, float]]:
    """Return the values that come from the store, by metric and labels."""
    values: dict[str, dict[Labels, float]] = defaultdict(dict)
    for cluster in knowledge.clusters.values():
        _of_runners(cluster, values)
        for kind, severity in _KINDS:
            values["canary_violations_total"][cluster.name, kind, severity] = 0.0
            values["canary_violations_open"][cluster.name, kind, severity] = 0.0
        kept = durability(cluster, knowledge.groups)
        values["canary_verified_writes"][(cluster.name,)] = float(kept.verified)
        if kept.upper_95 is not None:
            values["canary_loss_rate_upper_bound"][(cluster.name,)] = kept.upper_95
        values["canary_shards_missing"][(cluster.name,)] = float(cluster.shards_missing)
        for check, severity, count in cluster.audited:
            values["canary_audit_check_findings"][cluster.name, check, severity] = float(count)
    for one in knowledge.incidents:
        partition = "" if one.partition is None else str(one.partition)
        labels = (one.cluster, one.topic, partition, one.kind, one.severity, one.id)
        words = one.summary[:MOST_WORDS]
        values["canary_incident_info"][one.cluster, one.id, one.class_, words] = float(rank(one.kind, one.severity))
        values["canary_incident_begin_timestamp_seconds"][labels] = (one.head_ns or one.first_ns) / 1e9
    for cluster_name, reason in sorted(knowledge.quiet):
        values["canary_quiet"][cluster_name, reason] = 1.0
    for row in knowledge.counts:
        values["canary_violations_total"][row.cluster, row.kind, row.severity] = float(row.total)
        values["canary_violations_open"][row.cluster, row.kind, row.severity] = float(row.open)
    _asked(knowledge, values)
    _reconciled(knowledge, values)
    _drilled(knowledge, values)
    _notified(knowledge, values)
    return dict(values)


def _of_runners(cluster: ClusterView, values: dict[str, dict[Labels, float]]) -> None:
    for runner in cluster.runners:
        labels = cluster.name, runner.name
        values["canary_runner_heartbeat_timestamp_seconds"][labels] = runner.at_ns / 1e9
        if runner.reports:
            values["canary_clock_difference_seconds"][labels] = runner.clock_s
    if not cluster.runners:  # as old as can be, so that an alert fires
        values["canary_runner_heartbeat_timestamp_seconds"][cluster.name, ""] = 0.0


def _asked(knowledge: Knowledge, values: dict[str, dict[Labels, float]]) -> None:
    """Add the objectives of each cluster, for rules that know no settings."""
    for cluster in knowledge.clusters.values():
        for one in cluster.objectives:
            values["canary_objective_target_ratio"][cluster.name, one.name] = one.target
            values["canary_objective_window_seconds"][(cluster.name,)] = one.window_s
            if one.bound_s is not None:
                values["canary_objective_bound_seconds"][cluster.name, one.name, repr(float(one.bound_s))] = one.bound_s


_PARTS: Final = {"digests": ("canary_digest", "unknown_partitions"), "receipts": ("canary_receipts", "unknown")}
"""What a night does besides: in the summary of a reconciliation, with its metrics, and where the unknown is."""


def _reconciled(knowledge: Knowledge, values: dict[str, dict[Labels, float]]) -> None:
    for cluster in knowledge.clusters.values():
        if cluster.since_ns is not None:
            values["canary_probing_since_timestamp_seconds"][(cluster.name,)] = cluster.since_ns / 1e9
        if cluster.night_due_s is not None:
            values["canary_reconcile_interval_seconds"][(cluster.name,)] = cluster.night_due_s
    for run in knowledge.reconciliations:
        values["canary_reconcile_last_success_timestamp_seconds"][(run.cluster,)] = (run.ended_ns or 0) / 1e9
        values["canary_reconcile_unjudged"][(run.cluster,)] = float(len(run.summary.get("unjudged") or ()))
        for part, (prefix, unknown) in _PARTS.items():
            if (found := run.summary.get(part)) is not None:
                succeeded_s = (found.get("succeeded_ns") or 0) / 1e9
                values[f"{prefix}_last_success_timestamp_seconds"][(run.cluster,)] = succeeded_s
                values[f"{prefix}_unknown"][(run.cluster,)] = float(found.get(unknown, 0))
                if "records" in found:
                    values[f"{prefix}_records"][(run.cluster,)] = float(found["records"])
        for verdict, count in (run.verdicts or run.summary.get("verdicts") or {}).items():
            if isinstance(count, int):
                values["canary_reconcile_verdicts"][run.cluster, verdict] = float(count)


def _drilled(knowledge: Knowledge, values: dict[str, dict[Labels, float]]) -> None:
    """Add what the last proof of the alarm took, of clusters that have the mode for it."""
    for cluster in knowledge.clusters.values():
        if any(labels[-1] == REHEARSES for labels in cluster.series.get("canary_probes_sent_total", ())):
            values["canary_drill_last_success_timestamp_seconds"][(cluster.name,)] = 0.0
    for run in knowledge.proofs:
        known_ns = run.knowable_ns or run.began_ns
        values["canary_drill_last_success_timestamp_seconds"][(run.cluster,)] = (run.ended_ns or 0) / 1e9
        values["canary_drill_detection_seconds"][(run.cluster,)] = max((run.detected_ns or 0) - known_ns, 0) / 1e9
        values["canary_drill_page_seconds"][(run.cluster,)] = max((run.paged_ns or 0) - known_ns, 0) / 1e9


def _notified(knowledge: Knowledge, values: dict[str, dict[Labels, float]]) -> None:
    for one in knowledge.receivers:
        values["canary_notifications_waiting"][(one.name,)] = float(one.waiting)
        values["canary_notifications_oldest_seconds"][(one.name,)] = one.untold_s(knowledge.at_ns)
        values["canary_notifications_failed_total"][(one.name,)] = float(one.failed)
        values["canary_notifications_dropped_total"][(one.name,)] = float(one.dropped)
    for one in knowledge.called:
        values["canary_notify_heartbeat_timestamp_seconds"][(one.name,)] = one.looked_ns / 1e9
