"""The canary itself: is it looking, and can it be believed?"""

from dashboards.boards.board import CLUSTER, Panels, board, to_page
from dashboards.boards.panels import (
    ORANGE_FROM_ONE,
    RED_FROM_ONE,
    describe,
    level,
    lines,
    number,
    rows,
    store_reachable,
    trend,
)
from dashboards.boards.queries import HEARTBEAT, HERE, gauge, least, one
from dashboards.rules.thresholds import DELAYED_S, EXPIRES_S, PENDING_ROWS, PROVEN_S, SILENT_S

UID = "kafka-durability-canary-itself"
_WRITABLE = "canary_api_store_writable"
_CALLED = "canary_notify_heartbeat_timestamp_seconds"
_PROVEN = "canary_drill_last_success_timestamp_seconds"


def dashboard() -> str:
    """Return the dashboard as Grafana's JSON."""
    return board(
        UID,
        "Kafka durability: the canary itself",
        "Is the canary looking, and can it be believed? A silent canary proves nothing.",
        variables=[CLUSTER],
        sections=[("Is it looking?", _looking()), ("Its memory", _memory()), ("Its processes", _processes())],
        back="6h",
        folded=("Its processes",),
    )


def _looking() -> Panels:
    unjudged = "Each runner of a cluster judges the partitions of its share."
    unnoticed = "A loss on them alone would go unnoticed."
    late = "In each interval; objectives do not hold them against the cluster."
    confirmed = "They are confirmed or dropped within seconds; many that stay are trouble."
    written = "Each API tries it once a minute. If not, nothing that runners find arrives, and they keep it."
    return [
        store_reachable(HERE),
        number(
            "Heartbeat of the slowest canary",
            describe(HEARTBEAT, "Its age."),
            f"max(time() - max by (cluster) ({gauge(HEARTBEAT, HERE)}))",
            unit="s",
            steps=[(None, "green"), (DELAYED_S, "orange"), (SILENT_S, "red")],
        ),
        level("Shares without a runner", "canary_shards_missing", HERE, unjudged, steps=RED_FROM_ONE),
        level("Brokers without a probe", "canary_brokers_without_probe", HERE, unnoticed, steps=ORANGE_FROM_ONE),
        number(
            "Clusters whose alerts are silenced",
            describe("canary_quiet", "How many."),
            f"count(max by (cluster) ({gauge('canary_quiet', HERE)})) or 0 * max({gauge(HEARTBEAT, HERE)})",
            steps=ORANGE_FROM_ONE,
        ),
        number(
            "First certificate to expire",
            describe("canary_certificate_expiry_timestamp_seconds", "Or the API's own: in how long."),
            f"min({_certificates()}) - time()",
            unit="s",
            steps=[(None, "orange"), (EXPIRES_S, "green")],
        ),
        lines(
            "Age of each runner's heartbeat",
            describe(HEARTBEAT, "A runner judges at least once a second and stores the time."),
            [(f"time() - {gauge(HEARTBEAT, HERE)}", "{{cluster}} {{runner}}")],
            unit="s",
            limits=[(SILENT_S, "red")],
        ).links([to_page("Is it ready", "/readyz")]),
        trend("Probes for which it came too late", "canary_probes_late_total", HERE, late, total="sum"),
        trend("Suspicions", "canary_suspects", HERE, confirmed, by="cluster, kind", total="sum"),
        number(
            "Alarm last proven",
            describe(_PROVEN, "How long ago, of the worst cluster; only of clusters that are drilled."),
            f"max(time() - max by (cluster) ({gauge(_PROVEN, HERE)}))",
            unit="s",
            steps=[(None, "green"), (PROVEN_S, "orange")],
            w=8,
        ),
        level("Store takes writes", _WRITABLE, "", written, total="max", steps=[(None, "red"), (1, "green")], w=4),
        lines(
            "The last drill that proved it",
            describe("canary_drill_detection_seconds", "And canary_drill_page_seconds: until the pager had it."),
            [
                (f"max by (cluster) ({gauge('canary_drill_detection_seconds', HERE)})", "{{cluster}} found"),
                (f"max by (cluster) ({gauge('canary_drill_page_seconds', HERE)})", "{{cluster}} paged"),
            ],
            unit="s",
        ).links([to_page("All drills", "/api/v1/drills")]),
    ]


def _certificates() -> str:
    of_clusters = gauge("canary_certificate_expiry_timestamp_seconds", HERE)
    return f"{of_clusters} or {least('canary_api_certificate_expiry_timestamp_seconds')}"


def _memory() -> Panels:
    unknown = "In each interval: whether they were kept until then is unknown."
    return [
        trend(
            "Facts not yet durable",
            "canary_ledger_pending_rows",
            HERE,
            "The canary judges only durable facts.",
            w=8,
            limits=[(PENDING_ROWS, "orange")],
        ),
        trend("Ledger errors", "canary_ledger_errors_total", HERE, "In each interval.", w=8),
        trend("Expired before they were read", "canary_unverified_expired_total", HERE, unknown, total="sum", w=8),
        rows(
            "Parts of the canary that do not work",
            describe("canary_part_failing", "Each is tried again by itself."),
            f"max by (cluster, part) ({gauge('canary_part_failing', HERE)}) > 0",
            value=("failing", "short"),
            none=gauge("canary_part_failing", HERE),
        ),
        rows(
            "Findings of the audit by severity",
            describe("canary_audit_findings", "How the probed clusters are set; critical ones make losses possible."),
            f"sum by (cluster, severity) ({gauge('canary_audit_findings', HERE)})",
            value=("findings", "short"),
        ),
        rows(
            "Findings of the audit by check",
            describe("canary_audit_check_findings", "`canary audit` names for each what to set, and why."),
            f"sum by (cluster, check, severity) ({gauge('canary_audit_check_findings', HERE)})",
            value=("findings", "short"),
            none=gauge("canary_audit_findings", HERE),
        ).links([to_page("Findings in full", "/api/v1/audit")]),
    ]


def _processes() -> Panels:
    api = "and on (instance, job) canary_build_info"
    return [
        lines(
            "CPU of each API",
            "Cores in use; /metrics is rendered once a second however many ask.",
            [(f"rate(process_cpu_seconds_total[$__rate_interval]) {api}", "{{instance}}")],
            w=8,
        ),
        lines(
            "Memory of each API",
            "Resident memory of each API process.",
            [(f"process_resident_memory_bytes {api}", "{{instance}}")],
            unit="bytes",
            w=8,
        ),
        rows("Version", describe("canary_build_info", "By replica."), "canary_build_info", w=4, hidden=("Value",)),
        rows(
            "Address",
            describe(
                "canary_api_info", "Links of alerts and dashboards lead there; set api.url if it is wrong or missing."
            ),
            one("canary_api_info"),
            w=4,
            hidden=("Value",),
        ),
        trend(
            "Clocks of runners",
            "canary_clock_difference_seconds",
            HERE,
            "Retention, planned windows and pages go by clocks: check time synchronisation on that machine.",
            by="cluster, runner",
        ),
        trend("Notifications waiting", "canary_notifications_waiting", "", by="receiver", total="max", w=6),
        trend("Oldest notification", "canary_notifications_oldest_seconds", "", by="receiver", total="max", w=6),
        trend("Failed attempts", "canary_notifications_failed_total", "", by="receiver", total="max", w=6),
        trend("Notifications given up", "canary_notifications_dropped_total", "", by="receiver", total="max", w=6),
        lines(
            "Age of each heartbeat's last call",
            describe(_CALLED, "It is called each minute while all is well."),
            [(f"time() - max by (receiver) ({gauge(_CALLED)})", "{{receiver}}")],
            unit="s",
        ),
    ]
