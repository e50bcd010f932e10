"""One cluster: what its probes live through, how long it takes, and the state of its replicas."""

from dashboards.boards.board import ONE_CLUSTER, PLACE, TOPIC, Panels, board, to_page
from dashboards.boards.panels import (
    PER_INTERVAL,
    describe,
    heatmap,
    legend,
    lines,
    median_and_worst,
    outcomes,
    rows,
    trend,
)
from dashboards.boards.queries import HERE, gauge, increase
from dashboards.rules.thresholds import UNSEEN_S

UID = "kafka-durability-cluster"
_READER = "cluster, consumer"
_OF_COORDINATORS = "canary_transaction_commit_latency_seconds"
_PARTITION = "cluster, topic, partition"
_VERIFIED = "canary_mode_verified_until_timestamp_seconds"


def dashboard() -> str:
    """Return the dashboard as Grafana's JSON."""
    return board(
        UID,
        "Kafka durability: cluster",
        "One cluster: what its probes live through, how long it takes, and the state of its replicas.",
        variables=[ONE_CLUSTER, TOPIC],
        sections=[
            ("Probes", _probes()),
            ("How long it takes", _latencies()),
            ("Who is slow", _who()),
            ("The cluster", _cluster()),
            ("Elections and controllers", _elections()),
            ("How it is set", _audit()),
        ],
        back="1h",
        folded=("Elections and controllers", "How it is set"),
    )


def _probes() -> Panels:
    keep_up = "A second, by consumer; each should keep up with what is acknowledged."
    falls = "Rises during an outage, and must fall again."
    unknown = "In each interval: whether they were kept until then is unknown."
    return [
        outcomes(PLACE),
        trend("Deliveries", "canary_probes_seen_total", PLACE, keep_up, by=_READER, total="sum", unit="ops"),
        trend("Unseen probes", "canary_unseen_probes", PLACE, falls, by=_READER, total="sum"),
        trend(
            "Age of the oldest unseen probe",
            "canary_unseen_oldest_seconds",
            PLACE,
            by=_READER,
            total="max",
            limits=[(UNSEEN_S, "orange")],
        ),
        trend("Stalled consumers", "canary_consumer_stalled", PLACE, by=_READER, total="sum", w=8),
        trend(
            "Records that are not ours",
            "canary_foreign_records_total",
            PLACE,
            "A second.",
            total="sum",
            unit="ops",
            w=8,
        ),
        trend("Expired before they were read", "canary_unverified_expired_total", PLACE, unknown, total="sum", w=8),
    ]


def _latencies() -> Panels:
    took = (
        ("Acknowledged within", "canary_produce_latency_seconds", PLACE),
        ("Readable within", "canary_end_to_end_latency_seconds", PLACE),
        ("Transactions committed within", "canary_transaction_latency_seconds", HERE),
    )
    return [
        *(median_and_worst(title, name, where, "cluster", w=8) for title, name, where in took),
        *(
            heatmap(f"{title}: distribution", name, where, "How many of each interval, by bucket.", w=8)
            for title, name, where in took
        ),
    ]


def _who() -> Panels:
    beside = "Of all together: one that is slow by itself is a second band."
    unanswered = "In each interval, by coordinator; a rebalance is none."
    return [
        *(
            panel
            for title, name, by in (
                ("Acknowledged within, by leader", "canary_leader_produce_latency_seconds", "leader"),
                ("Read within, by leader", "canary_leader_end_to_end_latency_seconds", "leader"),
                ("Offsets committed within, by coordinator", "canary_group_commit_latency_seconds", "coordinator"),
                ("Transactions committed within, by coordinator", _OF_COORDINATORS, "coordinator"),
                ("Requests answered within, by broker", "canary_broker_request_latency_seconds", "broker"),
            )
            for panel in (median_and_worst(title, name, HERE, by), heatmap(f"{title}: all", name, HERE, beside))
        ),
        trend("Failures by leader", "canary_leader_failures_total", HERE, "In each interval.", by="leader", w=8),
        trend("Failed group commits", "canary_group_commit_failures_total", HERE, unanswered, by="coordinator", w=8),
        trend("Failed commits", "canary_transaction_commit_failures_total", HERE, unanswered, by="coordinator", w=8),
        trend("Reachable brokers", "canary_broker_reachable", HERE, by="broker", total="min", w=8),
        lines(
            "Connections begun and ended",
            "In each interval, by broker: of the watcher's client. Many of one broker alone are that broker's.",
            [
                (increase(f"canary_broker_{one}_total", HERE, PER_INTERVAL), f"{{{{broker}}}} {one}")
                for one in ("connects", "disconnects")
            ],
            w=8,
        ),
        trend("Failed requests", "canary_broker_request_errors_total", HERE, "In each interval.", by="broker", w=8),
        rows(
            "Brokers",
            describe("canary_broker_info", "Also of those that left within an hour."),
            gauge("canary_broker_info", HERE),
            hidden=("cluster", "instance", "pod"),
        ),
    ]


def _cluster() -> Panels:
    place = legend(_PARTITION)
    refused = "How many: writes to them are refused."
    unnoticed = "A loss on them alone would go unnoticed."
    election = "Each step is an election."
    return [
        trend("In-sync replicas", "canary_partition_isr", PLACE, by=_PARTITION, w=8),
        trend(
            "Partitions under min.insync.replicas", "canary_partition_under_min_isr", PLACE, refused, total="sum", w=8
        ),
        trend("Leader epoch", "canary_leader_epoch", PLACE, election, by=_PARTITION, w=8, floor=None),
        lines(
            "Log: first and end offset",
            "Where each probe log begins and ends. The end must never go back.",
            [
                (gauge("canary_log_end_offset", PLACE), f"{place} end"),
                (gauge("canary_log_start_offset", PLACE), f"{place} start"),
            ],
            w=8,
            floor=None,
        ),
        lines(
            "Position of consumers behind the end",
            describe("canary_consumer_position", "As distance from the end of the log."),
            [(_behind(), f"{place} {{{{consumer}}}}")],
            w=8,
        ),
        lines(
            "Unclean elections and regressions",
            "In each interval: leaders elected from outside the in-sync replicas, and logs whose end went backwards.",
            [
                (f"sum by (cluster) ({increase(name, PLACE, PER_INTERVAL)})", f"{{{{cluster}}}} {word}")
                for name, word in (
                    ("canary_unclean_elections_total", "unclean"),
                    ("canary_offset_regressions_total", "regressions"),
                )
            ],
            w=8,
        ),
        trend("Brokers without a probe", "canary_brokers_without_probe", HERE, unnoticed),
        trend("Partitions without an acknowledged probe", "canary_mode_silent", HERE, by="topic, mode", total="max"),
        lines(
            "Not verified for",
            describe(_VERIFIED, "How long ago that was: while a mode writes, a few seconds."),
            [(f"time() - (min by (topic, mode) ({gauge(_VERIFIED, HERE)}) > 0)", "{{mode}} {{topic}}")],
            unit="s",
        ),
    ]


def _elections() -> Panels:
    watched = "Of topics under watch.epochs."
    by = "cluster, node"
    return [
        trend("Partitions whose epochs are watched", "canary_epochs_watched", HERE, watched, total="max", w=8),
        trend("Of them not known", "canary_epochs_unknown", HERE, watched, total="max", w=8),
        trend("Quorum not known", "canary_quorum_unknown", HERE, total="max", w=8),
        trend("Leading controller", "canary_quorum_leader", HERE, total="max", w=6, floor=None),
        trend("Epoch of the quorum", "canary_quorum_epoch", HERE, "Each step is an election.", w=6, floor=None),
        trend("Controllers: lag", "canary_quorum_voter_lag", HERE, "In entries.", by=by, total="max", w=6),
        trend("Controllers: behind for", "canary_quorum_voter_behind_seconds", HERE, by=by, total="max", w=6),
    ]


def _behind() -> str:
    end = f"max by ({_PARTITION}) ({gauge('canary_log_end_offset', PLACE)})"
    position = f"max by ({_PARTITION}, consumer) ({gauge('canary_consumer_position', PLACE)})"
    return f"clamp_min({end} - on ({_PARTITION}) group_right() {position}, 0)"


def _audit() -> Panels:
    return [
        lines(
            "Findings of the audit",
            describe("canary_audit_findings", "By severity; critical ones make losses possible."),
            [(f"sum by (cluster, severity) ({gauge('canary_audit_findings', HERE)})", "{{severity}}")],
        ),
        rows(
            "Findings by check",
            describe("canary_audit_check_findings", "`canary audit` names for each what to set, and why."),
            f"sum by (cluster, check, severity) ({gauge('canary_audit_check_findings', HERE)})",
            hidden=("cluster",),
            value=("findings", "short"),
            none=gauge("canary_audit_findings", HERE),
        ).links([to_page("Findings in full", "/api/v1/audit?cluster=${cluster}")]),
    ]
