"""The metrics of CONTRACTS.md, one entry each."""

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, NamedTuple

from canary.anomalies.online.meters import LATENCY_BUCKETS

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

    def holds(self, one: Measurement) -> bool:
        """Return whether a runner's measurement has this metric's labels and buckets; another release's may not."""
        counts = len(self.buckets) + 1 if self.type == "histogram" else 0
        return self.source == "runner" and len(one.labels) + 1 == len(self.labels) and len(one.counts) == counts


def folded(one: Measurement, other: Measurement, how: Fold) -> Measurement:
    """Return two measurements of one series as one."""
    value = _FOLDS[how](one.value, other.value)
    counts = tuple(map(operator.add, one.counts, other.counts))
    return Measurement(one.name, one.labels, value, counts)


_CLUSTER = ("cluster",)
_PARTITION = (*_CLUSTER, "topic", "partition")
_MODE = (*_PARTITION, "mode")
_CONSUMER = (*_PARTITION, "consumer")


def _counter(name: str, text: str, labels: tuple[str, ...] = _CLUSTER, **more: Any) -> Metric:
    return Metric(name, "counter", text, labels, **more)


def _histogram(name: str, text: str, labels: tuple[str, ...]) -> Metric:
    return Metric(name, "histogram", text, labels, LATENCY_BUCKETS)


def _gauge(name: str, text: str, labels: tuple[str, ...] = _CLUSTER, **more: Any) -> Metric:
    """A gauge describes the present, so that of several values the greatest, the worst as a rule, stands for all."""
    return Metric(name, "gauge", text, labels, **{"runners": "max", "partitions": "max"} | more)


_stored = partial(_gauge, source="store")

METRICS: dict[str, Metric] = {
    metric.name: metric
    for metric in (
        _counter("canary_probes_sent_total", "Probes handed to the client.", _MODE),
        _counter("canary_probes_acked_total", "Probes that the cluster acknowledged.", _MODE),
        _counter("canary_probes_failed_total", "Probes that were definitely not written.", _MODE),
        _counter(
            "canary_probes_indeterminate_total", "Probes with an unknown outcome: they may be in the log or not.", _MODE
        ),
        _counter(
            "canary_probes_skipped_total",
            "Probes that were due and not sent: earlier ones had no outcome yet, or the writer came too late.",
            _MODE,
        ),
        _counter("canary_probes_seen_total", "Deliveries of our probes to a consumer.", _CONSUMER),
        _counter(
            "canary_foreign_records_total",
            "Deliveries of records that are not ours (another canary's, a mirror's, others): counted, not judged.",
            _CONSUMER,
        ),
        _gauge(
            "canary_unseen_probes",
            "Probes acknowledged and not yet read by the consumer.",
            _CONSUMER,
            runners="sum",
            partitions="sum",
        ),
        _gauge("canary_unseen_oldest_seconds", "Age of the oldest unseen probe, 0 if none.", _CONSUMER),
        _gauge(
            "canary_unacknowledged_seconds",
            "For how long probes were sent to the partition and none was acknowledged, 0 if the last one was.",
            (*_PARTITION, "leader"),
        ),
        _histogram("canary_produce_latency_seconds", "Time from produce() to the acknowledgement.", _MODE),
        _histogram(
            "canary_end_to_end_latency_seconds", "Time from produce() to the first delivery to the consumer.", _CONSUMER
        ),
        _histogram(
            "canary_transaction_latency_seconds", "Time from commit_transaction() to its return.", ("cluster", "mode")
        ),
        _gauge("canary_consumer_position", "Next offset the consumer will read.", _CONSUMER),
        _gauge("canary_log_start_offset", "First offset of the log.", _PARTITION, partitions="min"),
        _gauge("canary_log_end_offset", "End offset of the log (exclusive).", _PARTITION),
        _gauge(
            "canary_consumer_stalled",
            "1 while the consumer makes no progress although there is something to read.",
            _CONSUMER,
        ),
        _gauge("canary_partition_isr", "Number of in-sync replicas.", _PARTITION, partitions="min"),
        _gauge("canary_partition_under_min_isr", "1 while the ISR is below min.insync.replicas.", _PARTITION),
        _gauge("canary_leader_epoch", "Leader epoch of the partition.", _PARTITION),
        _counter(
            "canary_unclean_elections_total",
            "Elections outside the last known ISR: of a leader that lasts 2 s, or proven by a loss.",
            _PARTITION,
        ),
        _counter("canary_offset_regressions_total", "Times that the end of a log went backwards.", _PARTITION),
        _gauge("canary_audit_findings", "Findings of the configuration audit.", ("cluster", "severity")),
        _gauge(
            "canary_scrub_position_ratio",
            "How far the scrubber is through what is retained.",
            _PARTITION,
            partitions="min",
        ),
        _gauge("canary_scrub_age_seconds", "Age of the last finished scrub.", _PARTITION),
        _gauge("canary_ledger_pending_rows", "Facts that wait to become durable.", runners="sum", of_runner=True),
        _counter("canary_ledger_errors_total", "Writes or fsyncs of the ledger that failed."),
        _gauge(
            "canary_suspects",
            "Suspicions that wait for confirmation (a fresh re-read, two equal topic ids).",
            ("cluster", "kind"),
            runners="sum",
        ),
        _counter(
            "canary_unverified_expired_total",
            "Acknowledged probes that retention removed before any consumer had read them.",
            _MODE,
        ),
        _gauge(
            "canary_brokers_without_probe",
            "Brokers that lead no probe partition, or coordinate no transaction of a probe.",
        ),
        _stored(
            "canary_runner_heartbeat_timestamp_seconds",
            "When the runner last made facts durable and judged them; 0 for a configured cluster without one so far.",
            ("cluster", "runner"),
        ),
        _gauge(
            "canary_part_failing",
            "1 while a part of a runner cannot work: the ledger, the probe log, the queue, or a thread.",
            ("cluster", "part"),
            of_runner=True,
        ),
        _counter(
            "canary_violations_total",
            "Records in violations found so far, each counted once.",
            ("cluster", "kind", "severity"),
            source="store",
        ),
        _stored(
            "canary_violations_open", "Records in violations that are not resolved.", ("cluster", "kind", "severity")
        ),
        _stored(
            "canary_loss_rate_upper_bound",
            "One-sided 95 % upper bound (Clopper-Pearson) of the rate of lost among acknowledged probes.",
        ),
        _stored(
            "canary_drill_last_success_timestamp_seconds",
            "When the last drill ended that was found and came back from the pager; 0: none yet. Only of a cluster "
            "whose mode drill is on.",
        ),
        _stored(
            "canary_drill_detection_seconds",
            "How long it took in that drill from when a direct client could know to the canary's report.",
        ),
        _stored(
            "canary_drill_page_seconds",
            "How long it took in that drill from when a direct client could know to the pager's webhook.",
        ),
        _stored("canary_reconcile_last_success_timestamp_seconds", "When the last successful reconciliation ended."),
        _stored(
            "canary_reconcile_interval_seconds",
            "The longest time between two reconciliations by the schedule; no series without a schedule.",
        ),
        _stored(
            "canary_probing_since_timestamp_seconds", "When probing began, as far as the runners' ledgers go back."
        ),
        _stored("canary_reconcile_verdicts", "Probes by verdict in the last reconciliation.", ("cluster", "verdict")),
        _stored("canary_reconcile_unjudged", "Partitions that the last reconciliation could not judge."),
        _stored(
            "canary_quiet",
            "1 while no alert fires for findings in the cluster (reason: shadow, or maintenance and shortly after).",
            ("cluster", "reason"),
        ),
        _stored(
            "canary_audit_check_findings",
            "Findings of the configuration audit, by check.",
            ("cluster", "check", "severity"),
        ),
        _stored(
            "canary_incident_begin_timestamp_seconds",
            "When an incident that is not resolved began; of the newest ones.",
            ("cluster", "topic", "partition", "kind", "severity", "incident"),
        ),
        _stored("canary_shards_missing", "Shares of the cluster's partitions that no live runner probes."),
        _gauge(
            "canary_certificate_expiry_timestamp_seconds",
            "When a certificate that the canary uses expires (its client's, those it trusts).",
            ("cluster", "certificate"),
        ),
        _gauge(
            "canary_api_certificate_expiry_timestamp_seconds",
            "When the certificate that the API presents expires.",
            (),
            source="api",
        ),
        _gauge(
            "canary_api_info",
            "Where the pages are; missing while api.url is not set and api.host is a wildcard.",
            ("url",),
            source="api",
        ),
        _gauge("canary_api_store_up", "1 while the API reaches the store.", (), source="api"),
        _gauge("canary_build_info", "Version of the canary.", ("version",), source="api"),
    )
}
"""Name to metric."""
