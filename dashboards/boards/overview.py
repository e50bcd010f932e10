"""The fleet: is every cluster's data safe, and if not, where to look."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboards.board import CLUSTER, HEARTBEAT, HERE, board, to_page
from dashboards.panels import GREEN_UNTIL, describe, lines, number, rows
from dashboards.queries import gauge, increase, rate

if TYPE_CHECKING:
    from grafana_foundation_sdk.cog.builder import Builder
    from grafana_foundation_sdk.models import dashboard

UID = "kafka-durability-canary"


def overview() -> str:
    """Return the dashboard as Grafana's JSON."""
    return board(
        UID,
        "Kafka durability: overview",
        "Does Kafka keep the writes that it acknowledged? Every cluster at a glance.",
        variables=[CLUSTER],
        sections=[("Is my data safe?", _safe()), ("Each cluster", _clusters())],
        back="6h",
    )


def _safe() -> list[Builder[dashboard.Panel]]:
    critical = f'{HERE}, severity="critical"'
    lost = f'{HERE}, kind="lost-write"'
    return [
        number(
            "Critical violations open",
            describe("canary_violations_open", "Critical ones only: anything above 0 has paged somebody."),
            (f"sum({gauge('canary_violations_open', critical)})", ""),
            steps=GREEN_UNTIL["any"],
        ),
        number(
            "Lost writes, ever",
            describe("canary_violations_total", "Acknowledged and then not there any more. Never falls."),
            (f"sum({gauge('canary_violations_total', lost)})", ""),
            steps=GREEN_UNTIL["any"],
        ),
        number(
            "Loss rate below (95 %)",
            describe("canary_loss_rate_upper_bound", "The worst cluster's. Falls as probes are acknowledged and kept."),
            (f"max({gauge('canary_loss_rate_upper_bound', HERE)})", ""),
            unit="percentunit",
        ),
        number(
            "Oldest unseen probe",
            describe("canary_unseen_oldest_seconds", "Late is not lost; but look when it grows."),
            (f"max({gauge('canary_unseen_oldest_seconds', HERE)})", ""),
            unit="s",
            steps=[(None, "green"), (30, "orange"), (300, "red")],
        ),
        number(
            "Last word of the slowest canary",
            describe("canary_runner_heartbeat_timestamp_seconds", "Its age. A silent canary proves nothing."),
            (f"max(time() - max by (cluster) ({gauge(HEARTBEAT, HERE)}))", ""),
            unit="s",
            steps=[(None, "green"), (15, "orange"), (60, "red")],
        ),
        number(
            "Store reachable",
            describe("canary_api_store_up", "Without the store /metrics shows nothing else; probing goes on."),
            (f"max({gauge('canary_api_store_up')})", ""),
            steps=[(None, "red"), (1, "green")],
        ),
        rows(
            "Open violations",
            describe("canary_violations_open", "By cluster and kind; the link leads to what is known of them."),
            (f"sum by (cluster, kind, severity) ({gauge('canary_violations_open', HERE)}) > 0", ""),
            value="open",
            links={"kind": ("Incidents", "${canary}/incidents?cluster=${__data.fields.cluster}&kind=${__value.raw}")},
        ).links([to_page("Status page", "/")]),
        lines(
            "New violations",
            describe("canary_violations_total", "How many were found in each interval."),
            [
                (
                    f"sum by (cluster, kind) ({increase('canary_violations_total', HERE, '$__rate_interval')}) > 0",
                    "{{cluster}} {{kind}}",
                )
            ],
        ).links([to_page("Incidents", "/incidents")]),
    ]


def _clusters() -> list[Builder[dashboard.Panel]]:
    board_of = ("This cluster", "/d/kafka-durability-cluster?${__url_time_range}&var-cluster=${__value.raw}")
    acked = f"sum by (cluster) ({rate('canary_probes_acked_total', HERE, '5m')})"
    return [
        rows(
            "Loss rate below (95 %)",
            describe("canary_loss_rate_upper_bound", "By cluster: what was not seen to be lost is no proof of more."),
            (gauge("canary_loss_rate_upper_bound", HERE), ""),
            value="loss rate below",
            unit="percentunit",
            w=8,
            links={"cluster": board_of},
        ),
        rows(
            "Acknowledged probes a second",
            describe("canary_probes_acked_total", "Of the last five minutes, by cluster; 0 is an outage."),
            (acked, ""),
            value="acknowledged/s",
            w=8,
            links={"cluster": board_of},
        ),
        rows(
            "Last word of each canary",
            describe(HEARTBEAT, "Its age, by runner."),
            (f"time() - {gauge(HEARTBEAT, HERE)}", ""),
            value="age",
            unit="s",
            w=8,
            links={"cluster": board_of},
        ),
        lines(
            "Age of the oldest unseen probe",
            describe("canary_unseen_oldest_seconds", "By cluster."),
            [(f"max by (cluster) ({gauge('canary_unseen_oldest_seconds', HERE)})", "{{cluster}}")],
            unit="s",
            w=12,
        ),
        lines(
            "Acknowledged probes",
            describe("canary_probes_acked_total", "A second, by cluster."),
            [(acked, "{{cluster}}")],
            unit="ops",
            w=12,
        ),
    ]
