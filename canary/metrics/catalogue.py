"""The metrics of CONTRACTS.md, one entry each."""

from functools import partial
from typing import Any

from canary.anomalies.online.meters import LATENCY_BUCKETS
from canary.metrics.metric import Metric
from canary.metrics.mirror_metrics import MIRROR_METRICS
from canary.metrics.proof_metrics import PROOF_METRICS
from canary.metrics.quorum_metrics import QUORUM_METRICS

_CLUSTER = ("cluster",)
_PARTITION = (*_CLUSTER, "topic", "partition")
_MODE = (*_PARTITION, "mode")
_LEADER, _COORDINATOR, _BROKER = (*_CLUSTER, "leader"), (*_CLUSTER, "coordinator"), (*_CLUSTER, "broker")
_GROUP, _TOPIC, _RUNNER = (*_CLUSTER, "group"), (*_CLUSTER, "topic"), (*_CLUSTER, "runner")
_CONSUMER, _RECEIVER = (*_PARTITION, "consumer"), ("receiver",)
_SEEN: dict[str, Any] = {"labels": (*_CONSUMER, "mode"), "added": 1}


def _counter(name: str, text: str, labels: tuple[str, ...] = _CLUSTER, **more: Any) -> Metric:
    return Metric(name, "counter", text, labels, **more)


def _histogram(name: str, text: str, labels: tuple[str, ...], **more: Any) -> Metric:
    return Metric(name, "histogram", text, labels, LATENCY_BUCKETS, **more)


def _gauge(name: str, text: str, labels: tuple[str, ...] = _CLUSTER, **more: Any) -> Metric:
    """A gauge describes the present, so that of several values the greatest, the worst as a rule, stands for all."""
    return Metric(name, "gauge", text, labels, **{"runners": "max", "partitions": "max"} | more)


_stored, _served = partial(_gauge, source="store"), partial(_gauge, source="api")
_told = partial(_counter, labels=_RECEIVER, source="store")


def _nightly(prefix: str, *texts: str) -> list[Metric]:
    names = "last_success_timestamp_seconds", "records", "unknown"
    return [_stored(f"{prefix}_{name}", text) for name, text in zip(names, texts, strict=True)]


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
            "Probes that were due and not sent: earlier ones had no outcome yet, the writer came too late, or the "
            "partition has not answered since the start.",
            _MODE,
        ),
        _counter(
            "canary_probes_late_total",
            "Probes among the skipped ones for which the writer came too late: the canary's fault, not the cluster's.",
            _MODE,
        ),
        _counter("canary_probes_seen_total", "Deliveries of our probes to a consumer.", **_SEEN),
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
            "For how long probes were due to the partition and none was acknowledged, 0 if the last one was.",
            (*_PARTITION, "leader"),
        ),
        _gauge(
            "canary_last_acknowledged_timestamp_seconds",
            "When the partition last acknowledged a probe; 0: never yet.",
            _PARTITION,
            partitions="min",
        ),
        *PROOF_METRICS,
        _histogram("canary_produce_latency_seconds", "Time from produce() to the acknowledgement.", _MODE),
        _histogram(
            "canary_end_to_end_latency_seconds", "Time from produce() to the first delivery to the consumer.", **_SEEN
        ),
        _histogram(
            "canary_transaction_latency_seconds", "Time from commit_transaction() to its return.", ("cluster", "mode")
        ),
        _histogram(
            "canary_leader_produce_latency_seconds",
            "Time from produce() to the acknowledgement, by the broker that led the partition throughout.",
            _LEADER,
        ),
        _histogram(
            "canary_leader_end_to_end_latency_seconds",
            "Time from produce() to the first delivery to the consumer read_uncommitted, by the partition's leader.",
            _LEADER,
        ),
        _counter(
            "canary_leader_failures_total",
            "Probes that were not written or whose outcome is unknown, by the partition's leader.",
            _LEADER,
        ),
        _histogram(
            "canary_group_commit_latency_seconds",
            "Time from a commit of offsets to its answer, by the group's coordinator.",
            _COORDINATOR,
        ),
        _counter(
            "canary_group_commit_failures_total",
            "Commits of offsets that were refused or not answered, by the group's coordinator.",
            _COORDINATOR,
        ),
        _histogram(
            "canary_transaction_commit_latency_seconds",
            "Time from commit_transaction() to its return, by the transaction coordinator.",
            _COORDINATOR,
        ),
        _counter(
            "canary_transaction_commit_failures_total",
            "Calls of commit_transaction() that were refused or not answered, by the transaction coordinator.",
            _COORDINATOR,
        ),
        _gauge("canary_broker_info", "Rack and address of a broker.", (*_BROKER, "rack", "host")),
        _gauge(
            "canary_broker_reachable",
            "1 while a live broker answers the watcher, 0 while it cannot be reached; no series where it is not asked.",
            _BROKER,
            runners="min",
        ),
        _histogram(
            "canary_broker_request_latency_seconds",
            "Round trip of the watcher's requests (metadata, offsets) to the broker, from the client's percentiles.",
            _BROKER,
        ),
        _counter("canary_broker_connects_total", "Attempts of the watcher to connect to the broker.", _BROKER),
        _counter("canary_broker_disconnects_total", "Connections of the watcher to the broker that ended.", _BROKER),
        _counter(
            "canary_broker_request_errors_total",
            "Requests of the watcher to the broker that were not sent, not answered in time, or not understood.",
            _BROKER,
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
        _counter(
            "canary_random_reads_total",
            "Reads of old records at a random place, by outcome: answered, or unanswered (then nothing is known).",
            ("cluster", "topic", "outcome"),
        ),
        _histogram(
            "canary_random_read_latency_seconds",
            "Time from the wish to read old records at a random place, with a fresh client, to the last of them.",
            ("cluster", "topic"),
        ),
        _gauge("canary_ledger_pending_rows", "Facts that wait to become durable.", runners="sum", of_runner=True),
        _counter("canary_ledger_errors_total", "Writes or fsyncs of the ledger that failed."),
        _gauge(
            "canary_suspects",
            "Suspicions that wait for confirmation: of a fresh re-read, or of which of two ids a topic has.",
            ("cluster", "kind"),
            runners="sum",
        ),
        _counter(
            "canary_unverified_expired_total",
            "Acknowledged probes that no consumer will read: retention removed them before, or the settings no longer "
            "want their partition probed.",
            _MODE,
        ),
        _gauge(
            "canary_brokers_without_probe",
            "Brokers that lead no probe partition, or coordinate no transaction of a probe.",
        ),
        _stored(
            "canary_runner_heartbeat_timestamp_seconds",
            "When the runner last made facts durable and judged them; 0 for a configured cluster without one so far.",
            _RUNNER,
        ),
        _stored("canary_clock_difference_seconds", "How far ahead of the API's a live runner's clock is.", _RUNNER),
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
            "One-sided 95 % upper bound (Clopper-Pearson) of the rate of lost among verified acknowledged probes.",
        ),
        _stored(
            "canary_verified_writes",
            "Acknowledged probes that were certainly read back by a read_committed consumer, or found lost.",
        ),
        _stored(
            "canary_objective_target_ratio", "Share of good events that the settings ask for.", ("cluster", "objective")
        ),
        _stored(
            "canary_objective_bound_seconds",
            "Within which an event must be over to be good; bucket: the label le of that bucket of its histogram.",
            ("cluster", "objective", "bucket"),
        ),
        _stored("canary_objective_window_seconds", "Over which time the objectives of the cluster hold."),
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
            "The longest time between two reconciliations by the schedule; no series where nobody asks for them.",
        ),
        _stored(
            "canary_probing_since_timestamp_seconds", "When probing began, as far as the runners' ledgers go back."
        ),
        _stored("canary_reconcile_verdicts", "Probes by verdict in the last reconciliation.", ("cluster", "verdict")),
        _stored("canary_reconcile_unjudged", "Partitions that the last reconciliation could not judge."),
        *_nightly(
            "canary_digest",
            "When digests of all partitions under digests.topics were last made; 0: never yet.",
            "Records under digests.topics that are known.",
            "Partitions and names under digests.topics of which the last night left unknown what they lost.",
        ),
        *_nightly(
            "canary_receipts",
            "When a night last checked receipts.url without anything unknown; 0: never yet.",
            "Records with a receipt that the last night found where they were.",
            "Receipts that the last night could not judge, and files that it could not read; 1 at least if it failed.",
        ),
        _stored(
            "canary_quiet",
            "1 while no alert fires for findings in the cluster (reason: shadow, or maintenance and shortly after).",
            ("cluster", "reason"),
        ),
        _stored("canary_audit_check_findings", "Findings of the audit, by check.", ("cluster", "check", "severity")),
        _stored(
            "canary_incident_begin_timestamp_seconds",
            "When that began which heads an incident that is not resolved; of a cluster's 100 worst ones.",
            ("cluster", "topic", "partition", "kind", "severity", "incident"),
        ),
        _stored(
            "canary_incident_info",
            "What such an incident is about, in words, for the texts of alerts; the worse, the higher.",
            ("cluster", "incident", "class", "summary"),
        ),
        _stored("canary_shards_missing", "Shares of the cluster's partitions that no live runner probes."),
        _gauge(
            "canary_certificate_expiry_timestamp_seconds",
            "When a certificate that the canary uses expires (its client's, those it trusts).",
            ("cluster", "certificate"),
        ),
        _gauge(
            "canary_group_lag_offsets",
            "Records that the group has not committed; of its first watch.group_partitions partitions.",
            (*_GROUP, "topic", "partition"),
            partitions="sum",
        ),
        _gauge(
            "canary_group_lag_seconds",
            "Age of the first record that the group has not committed, by when the log's end passed it.",
            (*_GROUP, "topic", "partition"),
        ),
        _gauge("canary_group_lag_offsets_sum", "Records that the group has not committed, in all partitions.", _GROUP),
        _gauge("canary_group_lag_seconds_max", "The greatest lag of the group in seconds, of all partitions.", _GROUP),
        _gauge(
            "canary_group_lag_seconds_at_least",
            "Partitions in which the first record that the group has not committed is older than the lag in seconds "
            "says: it was there before the canary began to look.",
            _GROUP,
        ),
        _gauge("canary_group_members", "Members of the group.", _GROUP),
        _gauge(
            "canary_group_partitions",
            "Partitions of the group by state: ok, stuck, unmoved, stopped, reset, expired, unknown.",
            (*_GROUP, "state"),
        ),
        _gauge("canary_group_partitions_left_out", "Partitions of the group without series of their own.", _GROUP),
        _gauge("canary_groups_left_out", "Groups that watch.groups matches beyond the number that is watched."),
        _gauge(
            "canary_groups_unknown",
            "Groups of which nothing is known now: refused, or no answer; at least 1 while it is not known which "
            "groups there are.",
        ),
        _gauge("canary_hanging_transactions", "Transactions that hang in partitions under watch.transactions."),
        _counter(
            "canary_replicas_compared_bytes_total",
            "Bytes read to compare the replicas of a topic under watch.replicas, from all replicas together.",
            _TOPIC,
        ),
        _gauge(
            "canary_replicas_compared_age_seconds",
            "For how long no pass over all partitions of the topic has ended that compares their replicas.",
            _TOPIC,
        ),
        _gauge(
            "canary_replicas_compared_to_offset",
            "The first offset that the last comparison of the partition's replicas did not reach.",
            _PARTITION,
        ),
        _gauge(
            "canary_replicas_divergent_ranges",
            "Ranges of offsets in which replicas of the topic differed when they were compared last.",
            _TOPIC,
        ),
        _gauge(
            "canary_replicas_unknown_partitions",
            "Partitions of which something could not be compared in the last pass, by reason: no-leader, not-in-sync, "
            "refused, unanswered, tiered, moved, unexplained, unreadable.",
            (*_TOPIC, "reason"),
        ),
        _gauge("canary_replicas_unknown", "1 while no replicas under watch.replicas can be compared."),
        _gauge("canary_transactions_unknown", "1 while hanging transactions cannot be looked for."),
        _gauge("canary_epochs_watched", "Partitions of topics under watch.epochs."),
        _gauge(
            "canary_epochs_unknown",
            "Of how many that somebody leads epochs or high watermark are not known now; at least 1 while nothing is.",
        ),
        *QUORUM_METRICS,
        *MIRROR_METRICS,
        _served(
            "canary_api_certificate_expiry_timestamp_seconds", "When the certificate that the API presents expires.", ()
        ),
        _served(
            "canary_api_info",
            "Where the pages are; missing while api.url is not set and api.host is a wildcard.",
            ("url",),
        ),
        _stored("canary_notifications_waiting", "Notifications of incidents that wait to be sent.", _RECEIVER),
        _stored(
            "canary_notifications_oldest_seconds",
            "How long the oldest of them has waited, or, beyond 30 s, for how long no process has looked for new ones.",
            _RECEIVER,
        ),
        _told("canary_notifications_failed_total", "Attempts to send a notification that failed."),
        _told("canary_notifications_dropped_total", "Notifications that were given up after a day."),
        _stored(
            "canary_notify_heartbeat_timestamp_seconds",
            "When a receiver of the kind heartbeat last answered a call; 0 if it never did.",
            _RECEIVER,
        ),
        _served("canary_api_store_up", "1 while the API reaches the store.", ()),
        _served(
            "canary_api_cluster_store_up",
            "1 while an API that serves the cluster reaches its store, 0 while it does not; missing without an API.",
        ),
        _served(
            "canary_api_store_writable",
            "1 while the store of the cluster takes writes of an API; missing while that is not known.",
        ),
        _served("canary_build_info", "Version of the canary.", ("version",)),
    )
}
"""Name to metric."""
