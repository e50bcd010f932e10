"""One cluster: what its probes live through, how long it takes, and how its replicas stand."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboards.board import CLUSTER, HERE, PLACE, TOPIC, Variable, board, to_page
from dashboards.panels import describe, lines, rows
from dashboards.queries import gauge, increase, quantile, rate

if TYPE_CHECKING:
    from grafana_foundation_sdk.cog.builder import Builder
    from grafana_foundation_sdk.models import dashboard

UID = "kafka-durability-cluster"
ONE_CLUSTER = Variable("cluster", "Cluster", CLUSTER.query, many=False)


def cluster() -> str:
    """Return the dashboard as Grafana's JSON."""
    return board(
        UID,
        "Kafka durability: cluster",
        "One cluster: what its probes live through, how long it takes, and how its replicas stand.",
        variables=[ONE_CLUSTER, TOPIC],
        sections=[
            ("Probes", _probes()),
            ("How long it takes", _latencies()),
            ("The cluster", _cluster()),
            ("How it is set", _audit()),
        ],
        back="1h",
    )


def _probes() -> list[Builder[dashboard.Panel]]:
    outcomes = ("sent", "acked", "failed", "indeterminate")
    return [
        lines(
            "Outcomes of probes",
            "Probes a second: handed to the client, acknowledged, definitely not written, and nobody can say.",
            [(f"sum ({rate(f'canary_probes_{outcome}_total', PLACE)})", outcome) for outcome in outcomes],
            unit="ops",
        ),
        lines(
            "Deliveries",
            describe(
                "canary_probes_seen_total", "A second, by consumer; each should keep up with what is acknowledged."
            ),
            [(f"sum by (cluster, consumer) ({rate('canary_probes_seen_total', PLACE)})", "{{cluster}} {{consumer}}")],
            unit="ops",
        ),
        lines(
            "Unseen probes",
            describe("canary_unseen_probes", "Rises during an outage, and must fall again."),
            [(f"sum by (cluster, consumer) ({gauge('canary_unseen_probes', PLACE)})", "{{cluster}} {{consumer}}")],
        ),
        lines(
            "Age of the oldest unseen probe",
            describe("canary_unseen_oldest_seconds"),
            [
                (
                    f"max by (cluster, consumer) ({gauge('canary_unseen_oldest_seconds', PLACE)})",
                    "{{cluster}} {{consumer}}",
                )
            ],
            unit="s",
        ),
        lines(
            "Stalled consumers",
            describe("canary_consumer_stalled"),
            [(f"sum by (cluster, consumer) ({gauge('canary_consumer_stalled', PLACE)})", "{{cluster}} {{consumer}}")],
            w=8,
        ),
        lines(
            "Records that are not ours",
            describe("canary_foreign_records_total", "A second."),
            [(f"sum by (cluster) ({rate('canary_foreign_records_total', PLACE)})", "{{cluster}}")],
            unit="ops",
            w=8,
        ),
        lines(
            "Expired before anybody read them",
            describe(
                "canary_unverified_expired_total", "In each interval: nobody can say any more whether they were kept."
            ),
            [
                (
                    f"sum by (cluster) ({increase('canary_unverified_expired_total', PLACE, '$__rate_interval')})",
                    "{{cluster}}",
                )
            ],
            w=8,
        ),
    ]


def _latencies() -> list[Builder[dashboard.Panel]]:
    panels: list[Builder[dashboard.Panel]] = []
    for title, name, selector in (
        ("Acknowledged within", "canary_produce_latency_seconds", PLACE),
        ("Readable within", "canary_end_to_end_latency_seconds", PLACE),
        ("Transactions committed within", "canary_transaction_latency_seconds", HERE),
    ):
        quantiles = ((0.5, "median"), (0.99, "99 %"))
        panels.append(
            lines(
                title,
                describe(name, "Median and 99th percentile."),
                [(quantile(q, name, selector, "cluster"), f"{{{{cluster}}}} {label}") for q, label in quantiles],
                unit="s",
                w=8,
            )
        )
    return panels


def _cluster() -> list[Builder[dashboard.Panel]]:
    place = "{{cluster}} {{topic}}-{{partition}}"
    return [
        lines(
            "In-sync replicas", describe("canary_partition_isr"), [(gauge("canary_partition_isr", PLACE), place)], w=8
        ),
        lines(
            "Partitions under min.insync.replicas",
            describe("canary_partition_under_min_isr", "How many: writes to them are refused."),
            [(f"sum by (cluster) ({gauge('canary_partition_under_min_isr', PLACE)})", "{{cluster}}")],
            w=8,
        ),
        lines(
            "Leader epoch",
            describe("canary_leader_epoch", "Each step is an election."),
            [(gauge("canary_leader_epoch", PLACE), place)],
            w=8,
            floor=None,
        ),
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
            [
                (_behind(), f"{place} {{{{consumer}}}}"),
            ],
            w=8,
        ),
        lines(
            "Unclean elections and regressions",
            "In each interval: leaders elected from outside the in-sync replicas, and logs whose end went backwards.",
            [
                (
                    f"sum by (cluster) ({increase('canary_unclean_elections_total', PLACE, '$__rate_interval')})",
                    "{{cluster}} unclean",
                ),
                (
                    f"sum by (cluster) ({increase('canary_offset_regressions_total', PLACE, '$__rate_interval')})",
                    "{{cluster}} regressions",
                ),
            ],
            w=8,
        ),
        lines(
            "Brokers without a probe",
            describe("canary_brokers_without_probe", "What they alone would lose, nobody would see."),
            [(gauge("canary_brokers_without_probe", HERE), "{{cluster}}")],
            w=12,
        ),
    ]


def _behind() -> str:
    by = "cluster, topic, partition"
    end = f"max by ({by}) ({gauge('canary_log_end_offset', PLACE)})"
    position = f"max by ({by}, consumer) ({gauge('canary_consumer_position', PLACE)})"
    return f"clamp_min({end} - on ({by}) group_right() {position}, 0)"


def _audit() -> list[Builder[dashboard.Panel]]:
    return [
        lines(
            "Findings of the audit",
            describe("canary_audit_findings", "By severity; critical ones make losses possible."),
            [(f"sum by (cluster, severity) ({gauge('canary_audit_findings', HERE)})", "{{severity}}")],
        ),
        rows(
            "Findings by check",
            describe("canary_audit_check_findings", "`canary audit` says of each what to set, and why."),
            (f"sum by (check, severity) ({gauge('canary_audit_check_findings', HERE)})", ""),
            value="findings",
        ).links([to_page("Findings in full", "/api/v1/audit?cluster=${cluster}")]),
    ]
