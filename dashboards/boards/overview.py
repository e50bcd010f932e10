"""The fleet: is every cluster's data safe, and if not, where to look."""

from dashboards.boards.board import CLUSTER, CRITICAL, Panels, board, to_page
from dashboards.boards.panels import RED_FROM_ONE, describe, level, lines, number, rows, store_reachable, trend
from dashboards.boards.queries import HEARTBEAT, HERE, gauge, rate
from dashboards.rules.thresholds import DELAYED_S, SILENT_S, UNSEEN_S

UID = "kafka-durability-canary"


def dashboard() -> str:
    """Return the dashboard as Grafana's JSON."""
    return board(
        UID,
        "Kafka durability: overview",
        "Does Kafka keep the writes that it acknowledged? Every cluster at a glance.",
        variables=[CLUSTER],
        sections=[("Is my data safe?", _safe()), ("Each cluster", _clusters())],
        back="6h",
    )


def _safe() -> Panels:
    paged = "Critical ones only: anything above 0 has paged."
    gone = "Acknowledged and then not there any more. Never falls."
    worst = "The worst cluster's. Falls as probes are acknowledged and kept."
    found = "How many were found in each interval."
    lost = f'{HERE}, kind="lost-write"'
    return [
        level("Critical violations open", "canary_violations_open", CRITICAL, paged, steps=RED_FROM_ONE),
        level("Lost writes, ever", "canary_violations_total", lost, gone, steps=RED_FROM_ONE),
        level("Loss rate below (95 %)", "canary_loss_rate_upper_bound", HERE, worst, total="max", unit="percentunit"),
        number(
            "Oldest unseen probe",
            describe("canary_unseen_oldest_seconds", "Late is not lost; but look when it grows."),
            f"max({gauge('canary_unseen_oldest_seconds', HERE)})",
            unit="s",
            steps=[(None, "green"), (UNSEEN_S, "orange")],
        ),
        number(
            "Heartbeat of the slowest canary",
            describe("canary_runner_heartbeat_timestamp_seconds", "Its age. A silent canary proves nothing."),
            f"max(time() - max by (cluster) ({gauge(HEARTBEAT, HERE)}))",
            unit="s",
            steps=[(None, "green"), (DELAYED_S, "orange"), (SILENT_S, "red")],
        ),
        store_reachable(HERE),
        rows(
            "Open violations",
            describe("canary_violations_open", "By cluster and kind; the link leads to what is known of them."),
            f"sum by (cluster, kind, severity) ({gauge('canary_violations_open', HERE)}) > 0",
            value=("open", "short"),
            none=gauge("canary_violations_open", HERE),
            links={"kind": ("Incidents", "${canary}/incidents?cluster=${__data.fields.cluster}&kind=${__value.raw}")},
        ).links([to_page("Status page", "/")]),
        trend(
            "New violations", "canary_violations_total", HERE, found, by="cluster, kind", total="sum", above="> 0"
        ).links([to_page("Incidents", "/incidents")]),
    ]


def _clusters() -> Panels:
    board_of = ("This cluster", "/d/kafka-durability-cluster?${__url_time_range}&var-cluster=${__value.raw}")
    acked = f"sum by (cluster) ({rate('canary_probes_acked_total', HERE, '5m')})"
    return [
        rows(
            "Loss rate below (95 %)",
            describe("canary_loss_rate_upper_bound", "By cluster: what the probes so far can exclude."),
            gauge("canary_loss_rate_upper_bound", HERE),
            value=("loss rate below", "percentunit"),
            w=8,
            links={"cluster": board_of},
        ),
        rows(
            "Acknowledged probes a second",
            describe("canary_probes_acked_total", "Of the last five minutes, by cluster; 0 is an outage."),
            acked,
            value=("acknowledged/s", "short"),
            w=8,
            links={"cluster": board_of},
        ),
        rows(
            "Heartbeat of each canary",
            describe(HEARTBEAT, "Its age, by runner."),
            f"time() - {gauge(HEARTBEAT, HERE)}",
            value=("age", "s"),
            w=8,
            links={"cluster": board_of},
        ),
        trend(
            "Age of the oldest unseen probe",
            "canary_unseen_oldest_seconds",
            HERE,
            "By cluster.",
            total="max",
            limits=[(UNSEEN_S, "orange")],
        ),
        lines(
            "Acknowledged probes",
            describe("canary_probes_acked_total", "A second, by cluster."),
            [(acked, "{{cluster}}")],
            unit="ops",
        ),
    ]
