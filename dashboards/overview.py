"""The overview: is every cluster's data safe, and if not, where to look."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from grafana_foundation_sdk.builders import dashboard as builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard

from dashboards.panels import GREEN_UNTIL, SOURCE, describe, lines, number, row, rows
from dashboards.queries import gauge, increase, quantile, rate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from grafana_foundation_sdk.cog.builder import Builder

HEARTBEAT = "canary_runner_heartbeat_timestamp_seconds"
SENT = "canary_probes_sent_total"
UID = "kafka-durability-canary"
HERE = 'cluster=~"$cluster"'
PLACE = f'{HERE}, topic=~"$topic"'


def overview() -> str:
    """Return the dashboard as Grafana's JSON."""
    board = (
        builder.Dashboard("Kafka durability canary")
        .uid(UID)
        .description("Does Kafka keep the writes that it acknowledged? Made from code; do not edit by hand.")
        .tags(["kafka", "durability", "canary"])
        .readonly()
        .refresh("10s")
        .time("now-1h", "now")
        .timezone("utc")
        .tooltip(dashboard.DashboardCursorSync.CROSSHAIR)
        .with_variable(builder.DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(_variable("cluster", "Cluster", f"label_values({HEARTBEAT}, cluster)"))
        .with_variable(_variable("topic", "Topic", f"label_values({SENT}{{{HERE}}}, topic)"))
        .annotation(
            builder.AnnotationQuery()
            .name("New violations")
            .datasource(SOURCE)
            .enable(True)
            .icon_color("red")
            .expr(f"sum by (cluster, kind) ({increase('canary_violations_total', HERE, '1m')}) > 0")
        )
    )
    for title, panels in _sections():
        board.with_row(row(title))
        for panel in panels:
            board.with_panel(panel)
    return json.dumps(board.build(), cls=JSONEncoder, indent=2, sort_keys=True) + "\n"


def _variable(name: str, label: str, query: str) -> builder.QueryVariable:
    return (
        builder.QueryVariable(name)
        .label(label)
        .datasource(SOURCE)
        .query(query)
        .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .multi(True)
        .include_all(True)
        .all_value(".*")
    )


def _sections() -> Iterator[tuple[str, list[Builder[dashboard.Panel]]]]:
    yield "Is my data safe?", _safe()
    yield "Probes", _probes()
    yield "How long it takes", _latencies()
    yield "The cluster", _cluster()
    yield "Read again: scrubber and nightly reconciliation", _reread()
    yield "The canary itself", _itself()


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
            (f"max({gauge('canary_unseen_oldest_seconds', PLACE)})", ""),
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
            describe("canary_violations_open", "By cluster and kind; the status page has each with its evidence."),
            (f"sum by (cluster, kind, severity) ({gauge('canary_violations_open', HERE)}) > 0", ""),
        ),
        lines(
            "New violations",
            describe("canary_violations_total", "How many were found in each interval."),
            [
                (
                    f"sum by (cluster, kind) ({increase('canary_violations_total', HERE, '$__rate_interval')}) > 0",
                    "{{cluster}} {{kind}}",
                )
            ],
        ),
    ]


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
        lines(
            "Findings of the audit",
            describe("canary_audit_findings"),
            [(f"sum by (cluster, severity) ({gauge('canary_audit_findings', HERE)})", "{{cluster}} {{severity}}")],
            w=12,
        ),
    ]


def _behind() -> str:
    by = "cluster, topic, partition"
    end = f"max by ({by}) ({gauge('canary_log_end_offset', PLACE)})"
    position = f"max by ({by}, consumer) ({gauge('canary_consumer_position', PLACE)})"
    return f"clamp_min({end} - on ({by}) group_right() {position}, 0)"


def _reread() -> list[Builder[dashboard.Panel]]:
    return [
        lines(
            "Scrubber: how far",
            describe("canary_scrub_position_ratio"),
            [(f"min by (cluster) ({gauge('canary_scrub_position_ratio', PLACE)})", "{{cluster}}")],
            unit="percentunit",
            w=6,
        ),
        lines(
            "Scrubber: last finished",
            describe("canary_scrub_age_seconds"),
            [(f"max by (cluster) ({gauge('canary_scrub_age_seconds', PLACE)})", "{{cluster}}")],
            unit="s",
            w=6,
        ),
        lines(
            "Time since the last reconciliation",
            describe("canary_reconcile_last_success_timestamp_seconds", "Its age."),
            [
                (
                    f"time() - max by (cluster) ({gauge('canary_reconcile_last_success_timestamp_seconds', HERE)})",
                    "{{cluster}}",
                )
            ],
            unit="s",
            w=6,
        ),
        lines(
            "Partitions it could not judge",
            describe("canary_reconcile_unjudged"),
            [(f"max by (cluster) ({gauge('canary_reconcile_unjudged', HERE)})", "{{cluster}}")],
            w=6,
        ),
        rows(
            "Verdicts of the last reconciliation",
            describe("canary_reconcile_verdicts"),
            (f"sum by (cluster, verdict) ({gauge('canary_reconcile_verdicts', HERE)})", ""),
            w=24,
            h=7,
        ),
    ]


def _itself() -> list[Builder[dashboard.Panel]]:
    return [
        lines(
            "Facts that wait for the disk",
            describe("canary_ledger_pending_rows", "The canary believes only what is durable."),
            [(gauge("canary_ledger_pending_rows", HERE), "{{cluster}}")],
            w=6,
        ),
        lines(
            "Ledger errors",
            describe("canary_ledger_errors_total", "In each interval."),
            [(increase("canary_ledger_errors_total", HERE, "$__rate_interval"), "{{cluster}}")],
            w=6,
        ),
        lines(
            "Suspicions",
            describe("canary_suspects"),
            [(f"sum by (cluster, kind) ({gauge('canary_suspects', HERE)})", "{{cluster}} {{kind}}")],
            w=6,
        ),
        rows("Version", describe("canary_build_info", "By replica."), ("canary_build_info", ""), w=6),
    ]
