"""One cluster: what its probes live through, how long it takes, and the state of its replicas."""

from dashboards.boards.board import HERE, ONE_CLUSTER, PLACE, TOPIC, Panels, board, to_page
from dashboards.boards.panels import PER_INTERVAL, describe, legend, lines, median_and_worst, outcomes, rows, trend
from dashboards.boards.queries import gauge, increase

UID = "kafka-durability-cluster"
_READER = "cluster, consumer"
_PARTITION = "cluster, topic, partition"


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
            ("The cluster", _cluster()),
            ("How it is set", _audit()),
        ],
        back="1h",
    )


def _probes() -> Panels:
    keep_up = "A second, by consumer; each should keep up with what is acknowledged."
    falls = "Rises during an outage, and must fall again."
    unknown = "In each interval: whether they were kept until then is unknown."
    return [
        outcomes(PLACE),
        trend("Deliveries", "canary_probes_seen_total", PLACE, keep_up, by=_READER, total="sum", unit="ops"),
        trend("Unseen probes", "canary_unseen_probes", PLACE, falls, by=_READER, total="sum"),
        trend("Age of the oldest unseen probe", "canary_unseen_oldest_seconds", PLACE, by=_READER, total="max"),
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
    return [
        median_and_worst("Acknowledged within", "canary_produce_latency_seconds", PLACE, "cluster", w=8),
        median_and_worst("Readable within", "canary_end_to_end_latency_seconds", PLACE, "cluster", w=8),
        median_and_worst("Transactions committed within", "canary_transaction_latency_seconds", HERE, "cluster", w=8),
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
            f"sum by (check, severity) ({gauge('canary_audit_check_findings', HERE)})",
            value=("findings", "short"),
        ).links([to_page("Findings in full", "/api/v1/audit?cluster=${cluster}")]),
    ]
