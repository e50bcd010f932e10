"""One partition, or a few: its log, its replicas, its readers, in detail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboards.board import CLUSTER, NUMBER, PARTITION, TOPIC, Variable, board, to_page
from dashboards.panels import describe, lines
from dashboards.queries import gauge, increase, quantile, rate

if TYPE_CHECKING:
    from grafana_foundation_sdk.cog.builder import Builder
    from grafana_foundation_sdk.models import dashboard

UID = "kafka-durability-partition"
WHERE = "{{topic}}-{{partition}}"


def partition() -> str:
    """Return the dashboard as Grafana's JSON."""
    return board(
        UID,
        "Kafka durability: partition",
        "One partition, or a few: the log, the replicas, the readers.",
        variables=[Variable("cluster", "Cluster", CLUSTER.query, many=False), TOPIC, NUMBER],
        sections=[("The log", _log()), ("Its replicas", _replicas()), ("Its readers", _readers())],
        back="1h",
    )


def _log() -> list[Builder[dashboard.Panel]]:
    outcomes = ("sent", "acked", "failed", "indeterminate")
    return [
        lines(
            "First and end offset",
            describe("canary_log_end_offset", "It must never go back; the first offset follows retention."),
            [
                (gauge("canary_log_end_offset", PARTITION), f"{WHERE} end"),
                (gauge("canary_log_start_offset", PARTITION), f"{WHERE} start"),
            ],
            floor=None,
        ).links([to_page("Violations here", "/api/v1/violations?cluster=${cluster}&topic=${topic}")]),
        lines(
            "Outcomes of probes",
            "Probes a second: handed to the client, acknowledged, definitely not written, and nobody can say.",
            [(f"sum ({rate(f'canary_probes_{outcome}_total', PARTITION)})", outcome) for outcome in outcomes],
            unit="ops",
        ),
        lines(
            "Ends that went back",
            describe("canary_offset_regressions_total", "In each interval."),
            [(increase("canary_offset_regressions_total", PARTITION, "$__rate_interval"), WHERE)],
        ),
        lines(
            "Acknowledged within",
            describe("canary_produce_latency_seconds", "Median and 99th percentile."),
            [
                (quantile(q, "canary_produce_latency_seconds", PARTITION, "topic, partition"), f"{WHERE} {label}")
                for q, label in ((0.5, "median"), (0.99, "99 %"))
            ],
            unit="s",
        ),
    ]


def _replicas() -> list[Builder[dashboard.Panel]]:
    return [
        lines(
            "In-sync replicas",
            describe("canary_partition_isr", "One alone is one failure away from a loss."),
            [(gauge("canary_partition_isr", PARTITION), WHERE)],
            w=8,
        ),
        lines(
            "Under min.insync.replicas",
            describe("canary_partition_under_min_isr"),
            [(gauge("canary_partition_under_min_isr", PARTITION), WHERE)],
            w=8,
        ),
        lines(
            "Leader epoch and unclean elections",
            "Each step of the epoch is an election; unclean ones, in each interval, lose what the new leader has not.",
            [
                (gauge("canary_leader_epoch", PARTITION), f"{WHERE} epoch"),
                (increase("canary_unclean_elections_total", PARTITION, "$__rate_interval"), f"{WHERE} unclean"),
            ],
            w=8,
            floor=None,
        ),
    ]


def _readers() -> list[Builder[dashboard.Panel]]:
    reader = f"{WHERE} {{{{consumer}}}}"
    return [
        lines(
            "Position",
            describe("canary_consumer_position"),
            [(gauge("canary_consumer_position", PARTITION), reader)],
            w=8,
            floor=None,
        ),
        lines(
            "Unseen probes",
            describe("canary_unseen_probes"),
            [(gauge("canary_unseen_probes", PARTITION), reader)],
            w=8,
        ),
        lines(
            "Age of the oldest unseen probe",
            describe("canary_unseen_oldest_seconds"),
            [(gauge("canary_unseen_oldest_seconds", PARTITION), reader)],
            unit="s",
            w=8,
        ),
        lines(
            "Stalled",
            describe("canary_consumer_stalled"),
            [(gauge("canary_consumer_stalled", PARTITION), reader)],
            w=8,
        ),
        lines(
            "Readable within",
            describe("canary_end_to_end_latency_seconds", "The 99th percentile."),
            [
                (
                    quantile(0.99, "canary_end_to_end_latency_seconds", PARTITION, "topic, partition, consumer"),
                    reader,
                )
            ],
            unit="s",
            w=8,
        ),
        lines(
            "Scrubber: how far, and how long ago",
            describe("canary_scrub_position_ratio", "And the age of the last finished round, in seconds."),
            [
                (gauge("canary_scrub_position_ratio", PARTITION), f"{WHERE} ratio"),
                (gauge("canary_scrub_age_seconds", PARTITION), f"{WHERE} age"),
            ],
            w=8,
        ),
    ]
