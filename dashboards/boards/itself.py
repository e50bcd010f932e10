"""The canary itself: is it looking, and can it be believed?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboards.board import CLUSTER, HEARTBEAT, HERE, board, to_page
from dashboards.panels import GREEN_UNTIL, describe, lines, number, rows
from dashboards.queries import gauge, increase, one

if TYPE_CHECKING:
    from grafana_foundation_sdk.cog.builder import Builder
    from grafana_foundation_sdk.models import dashboard

UID = "kafka-durability-canary-itself"


def itself() -> str:
    """Return the dashboard as Grafana's JSON."""
    return board(
        UID,
        "Kafka durability: the canary itself",
        "Is the canary looking, and can it be believed? A silent canary proves nothing.",
        variables=[CLUSTER],
        sections=[("Is it looking?", _looking()), ("Its memory", _memory()), ("Its processes", _processes())],
        back="6h",
    )


def _looking() -> list[Builder[dashboard.Panel]]:
    return [
        number(
            "Store reachable",
            describe("canary_api_store_up", "Without the store /metrics shows nothing else; probing goes on."),
            (f"max({gauge('canary_api_store_up')})", ""),
            steps=[(None, "red"), (1, "green")],
        ),
        number(
            "Last word of the slowest canary",
            describe(HEARTBEAT, "Its age."),
            (f"max(time() - max by (cluster) ({gauge(HEARTBEAT, HERE)}))", ""),
            unit="s",
            steps=[(None, "green"), (15, "orange"), (45, "red")],
        ),
        number(
            "Shares nobody probes",
            describe("canary_shards_missing", "Each runner of a cluster judges the partitions of its share."),
            (f"sum({gauge('canary_shards_missing', HERE)})", ""),
            steps=GREEN_UNTIL["any"],
        ),
        number(
            "Brokers without a probe",
            describe("canary_brokers_without_probe", "What they alone would lose, nobody would see."),
            (f"sum({gauge('canary_brokers_without_probe', HERE)})", ""),
            steps=GREEN_UNTIL["some"],
        ),
        number(
            "Clusters that page nobody now",
            describe("canary_quiet", "How many."),
            (f"count(max by (cluster) ({gauge('canary_quiet', HERE)})) or vector(0)", ""),
            steps=GREEN_UNTIL["some"],
        ),
        number(
            "First certificate to expire",
            describe("canary_certificate_expiry_timestamp_seconds", "Or the API's own: in how long."),
            (f"min({_certificates()}) - time()", ""),
            unit="s",
            steps=[(None, "red"), (604_800, "orange"), (2_592_000, "green")],
        ),
        lines(
            "Age of each runner's last word",
            describe(HEARTBEAT, "A runner judges at least once a second, and stores that."),
            [(f"time() - {gauge(HEARTBEAT, HERE)}", "{{cluster}} {{runner}}")],
            unit="s",
        ).links([to_page("Is it ready", "/readyz")]),
        lines(
            "Suspicions",
            describe("canary_suspects", "They are confirmed or dropped within seconds; many that stay are trouble."),
            [(f"sum by (cluster, kind) ({gauge('canary_suspects', HERE)})", "{{cluster}} {{kind}}")],
        ),
    ]


def _certificates() -> str:
    of_clusters = gauge("canary_certificate_expiry_timestamp_seconds", HERE)
    return f"{of_clusters} or {gauge('canary_api_certificate_expiry_timestamp_seconds')}"


def _memory() -> list[Builder[dashboard.Panel]]:
    return [
        lines(
            "Facts that wait for the disk",
            describe("canary_ledger_pending_rows", "The canary believes only what is durable."),
            [(gauge("canary_ledger_pending_rows", HERE), "{{cluster}}")],
            w=8,
        ),
        lines(
            "Ledger errors",
            describe("canary_ledger_errors_total", "In each interval."),
            [(increase("canary_ledger_errors_total", HERE, "$__rate_interval"), "{{cluster}}")],
            w=8,
        ),
        lines(
            "Expired before anybody read them",
            describe(
                "canary_unverified_expired_total", "In each interval: nobody can say any more whether they were kept."
            ),
            [
                (
                    f"sum by (cluster) ({increase('canary_unverified_expired_total', HERE, '$__rate_interval')})",
                    "{{cluster}}",
                )
            ],
            w=8,
        ),
        rows(
            "Parts of the canary that do not work",
            describe("canary_part_failing", "Each is tried again by itself."),
            (f"max by (cluster, part) ({gauge('canary_part_failing', HERE)}) > 0", ""),
            value="failing",
        ),
        rows(
            "Findings of the audit by severity",
            describe("canary_audit_findings", "How the probed clusters are set; critical ones make losses possible."),
            (f"sum by (cluster, severity) ({gauge('canary_audit_findings', HERE)})", ""),
            value="findings",
        ),
        rows(
            "Findings of the audit by check",
            describe("canary_audit_check_findings", "`canary audit` says of each what to set, and why."),
            (f"sum by (cluster, check, severity) ({gauge('canary_audit_check_findings', HERE)})", ""),
            value="findings",
        ).links([to_page("Findings in full", "/api/v1/audit")]),
    ]


def _processes() -> list[Builder[dashboard.Panel]]:
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
        rows(
            "Version", describe("canary_build_info", "By replica."), ("canary_build_info", ""), w=4, hidden=("Value",)
        ),
        rows(
            "Address",
            describe(
                "canary_api_info", "Links of alerts and dashboards lead there; set api.url if it is wrong or missing."
            ),
            (one("canary_api_info"), ""),
            w=4,
            hidden=("Value",),
        ),
    ]
