"""The metrics of CONTRACTS.md, one entry each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from canary.anomalies.online.state import LATENCY_BUCKETS


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. ``labels`` are in the order of Measurement.labels; ``cluster``, where it is one, stands first."""

    name: str
    type: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...]
    buckets: tuple[float, ...] = ()
    source: Literal["runner", "store", "api"] = "runner"


@dataclass(frozen=True, slots=True)
class Measurement:
    """A value of one series: ``labels`` without ``cluster`` (whoever renders knows it), in the order of the metric.

    For a histogram ``value`` is the sum of observations (base unit) and ``counts`` the number in each bucket, not
    cumulated, the last one being +Inf.
    """

    name: str
    labels: tuple[str, ...]
    value: float
    counts: tuple[int, ...] = ()


_PARTITION = ("cluster", "topic", "partition")

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("canary_probes_sent_total", "counter", "Probes handed to the client.", (*_PARTITION, "mode")),
        Metric("canary_probes_acked_total", "counter", "Probes that the cluster acknowledged.", (*_PARTITION, "mode")),
        Metric(
            "canary_probes_failed_total", "counter", "Probes that were definitely not written.", (*_PARTITION, "mode")
        ),
        Metric(
            "canary_probes_indeterminate_total",
            "counter",
            "Probes whose outcome nobody can say: they may be in the log or not.",
            (*_PARTITION, "mode"),
        ),
        Metric(
            "canary_probes_seen_total", "counter", "Deliveries of our probes to a consumer.", (*_PARTITION, "consumer")
        ),
        Metric(
            "canary_foreign_records_total",
            "counter",
            "Deliveries of records that are not ours (another canary's, a mirror's, anything else): counted, silent.",
            (*_PARTITION, "consumer"),
        ),
        Metric(
            "canary_unseen_probes",
            "gauge",
            "Probes acknowledged and not yet read by the consumer.",
            (*_PARTITION, "consumer"),
        ),
        Metric(
            "canary_unseen_oldest_seconds",
            "gauge",
            "Age of the oldest unseen probe, 0 if none.",
            (*_PARTITION, "consumer"),
        ),
        Metric(
            "canary_unacknowledged_seconds",
            "gauge",
            "For how long probes were sent to the partition and none was acknowledged, 0 if the last one was.",
            (*_PARTITION, "leader"),
        ),
        Metric(
            "canary_produce_latency_seconds",
            "histogram",
            "Time from produce() to the acknowledgement.",
            (*_PARTITION, "mode"),
            LATENCY_BUCKETS,
        ),
        Metric(
            "canary_end_to_end_latency_seconds",
            "histogram",
            "Time from produce() to the first delivery to the consumer.",
            (*_PARTITION, "consumer"),
            LATENCY_BUCKETS,
        ),
        Metric(
            "canary_transaction_latency_seconds",
            "histogram",
            "Time from commit_transaction() to its return.",
            ("cluster", "mode"),
            LATENCY_BUCKETS,
        ),
        Metric("canary_consumer_position", "gauge", "Next offset the consumer will read.", (*_PARTITION, "consumer")),
        Metric("canary_log_start_offset", "gauge", "First offset of the log.", _PARTITION),
        Metric("canary_log_end_offset", "gauge", "End offset of the log (exclusive).", _PARTITION),
        Metric(
            "canary_consumer_stalled",
            "gauge",
            "1 while the consumer makes no progress though there is something to progress to.",
            (*_PARTITION, "consumer"),
        ),
        Metric("canary_partition_isr", "gauge", "Number of in-sync replicas.", _PARTITION),
        Metric("canary_partition_under_min_isr", "gauge", "1 while the ISR is below min.insync.replicas.", _PARTITION),
        Metric("canary_leader_epoch", "gauge", "Leader epoch of the partition.", _PARTITION),
        Metric(
            "canary_unclean_elections_total",
            "counter",
            "Elections outside the last known ISR: of a leader for 2 s, or proven by a loss.",
            _PARTITION,
        ),
        Metric("canary_offset_regressions_total", "counter", "Times that the end of a log went backwards.", _PARTITION),
        Metric("canary_audit_findings", "gauge", "Findings of the configuration audit.", ("cluster", "severity")),
        Metric("canary_scrub_position_ratio", "gauge", "How far the scrubber is through what is retained.", _PARTITION),
        Metric("canary_scrub_age_seconds", "gauge", "Age of the last finished scrub.", _PARTITION),
        Metric("canary_ledger_pending_rows", "gauge", "Facts that wait to become durable.", ("cluster",)),
        Metric("canary_ledger_errors_total", "counter", "Writes or fsyncs of the ledger that failed.", ("cluster",)),
        Metric(
            "canary_suspects",
            "gauge",
            "Suspicions that wait for confirmation (a fresh re-read, two equal topic ids).",
            ("cluster", "kind"),
        ),
        Metric(
            "canary_unverified_expired_total",
            "counter",
            "Acknowledged probes that retention removed before any consumer had read them.",
            (*_PARTITION, "mode"),
        ),
        Metric(
            "canary_brokers_without_probe",
            "gauge",
            "Brokers that lead no probe partition, or whose transactions no probe meets.",
            ("cluster",),
        ),
        Metric(
            "canary_runner_heartbeat_timestamp_seconds",
            "gauge",
            "When the runner last made facts durable and judged them; 0 of a configured cluster that no runner has "
            "probed yet.",
            ("cluster", "runner"),
            source="store",
        ),
        Metric(
            "canary_part_failing",
            "gauge",
            "1 while a part of a runner cannot work: a ledger or probe log that cannot be written, a full queue, a "
            "thread that ends again and again.",
            ("cluster", "part"),
        ),
        Metric(
            "canary_violations_total",
            "counter",
            "Records that violations were ever found of, each once.",
            ("cluster", "kind", "severity"),
            source="store",
        ),
        Metric(
            "canary_violations_open",
            "gauge",
            "Records of violations not yet resolved.",
            ("cluster", "kind", "severity"),
            source="store",
        ),
        Metric(
            "canary_loss_rate_upper_bound",
            "gauge",
            "One-sided 95 % upper bound (Clopper-Pearson) of the rate of lost among acknowledged probes.",
            ("cluster",),
            source="store",
        ),
        Metric(
            "canary_reconcile_last_success_timestamp_seconds",
            "gauge",
            "When the last reconciliation ended well.",
            ("cluster",),
            source="store",
        ),
        Metric(
            "canary_reconcile_interval_seconds",
            "gauge",
            "The longest time between two reconciliations by the schedule that is set; no series without one.",
            ("cluster",),
            source="store",
        ),
        Metric(
            "canary_probing_since_timestamp_seconds",
            "gauge",
            "When probing began, as far as runners remember.",
            ("cluster",),
            source="store",
        ),
        Metric(
            "canary_reconcile_verdicts",
            "gauge",
            "Identities by verdict in the last reconciliation.",
            ("cluster", "verdict"),
            source="store",
        ),
        Metric(
            "canary_reconcile_unjudged",
            "gauge",
            "Partitions that the last reconciliation could not judge.",
            ("cluster",),
            source="store",
        ),
        Metric(
            "canary_quiet",
            "gauge",
            "1 while what is found in the cluster alarms nobody (reason: shadow, or maintenance and shortly after).",
            ("cluster", "reason"),
            source="store",
        ),
        Metric(
            "canary_audit_check_findings",
            "gauge",
            "Findings of the configuration audit, by check.",
            ("cluster", "check", "severity"),
            source="store",
        ),
        Metric(
            "canary_incident_begin_timestamp_seconds",
            "gauge",
            "When an incident began that is not resolved; the newest ones.",
            ("cluster", "topic", "partition", "kind", "severity", "incident"),
            source="store",
        ),
        Metric(
            "canary_shards_missing",
            "gauge",
            "Shares of the cluster's partitions that no live runner probes.",
            ("cluster",),
            source="store",
        ),
        Metric(
            "canary_certificate_expiry_timestamp_seconds",
            "gauge",
            "When a certificate expires that the canary uses (its client's, those it trusts).",
            ("cluster", "certificate"),
        ),
        Metric(
            "canary_api_certificate_expiry_timestamp_seconds",
            "gauge",
            "When the certificate expires that the API shows.",
            (),
            source="api",
        ),
        Metric(
            "canary_api_info",
            "gauge",
            "Where people reach the pages; missing where api.url is not set and api.host is a wildcard.",
            ("url",),
            source="api",
        ),
        Metric("canary_api_store_up", "gauge", "1 while the API reaches the store.", (), source="api"),
        Metric("canary_build_info", "gauge", "Version of the canary.", ("version",), source="api"),
    )
}
"""Name to metric."""


def metric(name: str) -> Metric:
    """Return the metric called ``name``.

    Raises:
        KeyError: there is no such metric.
    """
    return METRICS[name]
