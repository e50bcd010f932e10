"""An incident: what is open, when it was found, and what the cluster did around that time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboards.board import CLUSTER, HERE, Variable, board, to_page
from dashboards.panels import GREEN_UNTIL, describe, lines, number, rows, words
from dashboards.queries import gauge, increase

if TYPE_CHECKING:
    from grafana_foundation_sdk.cog.builder import Builder
    from grafana_foundation_sdk.models import dashboard

UID = "kafka-durability-incident"
BEGAN = "canary_incident_begin_timestamp_seconds"
STEPS = """**1.** Open the incident's page: it has the evidence, what else was exposed, and what to do first.
**2.** Do not restart, reassign or clean up anything before you have read it: copies may survive on brokers that left.
**3.** Acknowledge it there, so that others know; resolve it with a reason when it is dealt with."""


def incident() -> str:
    """Return the dashboard as Grafana's JSON."""
    return board(
        UID,
        "Kafka durability: incident",
        "What is open, when it was found, and what the cluster did around that time.",
        variables=[Variable("cluster", "Cluster", CLUSTER.query, many=False)],
        sections=[("What is open", _open()), ("Around it", _around())],
        back="1h",
    )


def _open() -> list[Builder[dashboard.Panel]]:
    return [
        words("What to do", "The order in which to go about it.", STEPS),
        number(
            "Incidents",
            describe(BEGAN, "How many."),
            (f"count({gauge(BEGAN, HERE)}) or vector(0)", ""),
            steps=GREEN_UNTIL["any"],
        ),
        number(
            "Critical violations open",
            describe("canary_violations_open", "Neither acknowledged nor resolved."),
            (_critical(), ""),
            steps=GREEN_UNTIL["any"],
        ),
        rows(
            "Incidents that are not resolved",
            describe(BEGAN, "Each leads to its page, with timeline, evidence and exposure."),
            (f"{gauge(BEGAN, HERE)} * 1000", ""),
            w=16,
            h=5,
            hidden=("cluster",),
            value="began",
            unit="dateTimeAsIso",
            links={"incident": ("The incident's page", "${canary}/incidents/${__value.raw}")},
        ),
        lines(
            "New violations",
            describe("canary_violations_total", "In each interval, by kind; the first cause comes first."),
            [
                (
                    f"sum by (kind) ({increase('canary_violations_total', HERE, '$__rate_interval')}) > 0",
                    "{{kind}}",
                )
            ],
        ).links([to_page("Incidents of this cluster", "/incidents?cluster=${cluster}")]),
        lines(
            "Open violations",
            describe("canary_violations_open", "By kind."),
            [(f"sum by (kind) ({gauge('canary_violations_open', HERE)}) > 0", "{{kind}}")],
        ),
    ]


def _critical() -> str:
    critical = f'{HERE}, severity="critical"'
    return f"sum({gauge('canary_violations_open', critical)})"


def _around() -> list[Builder[dashboard.Panel]]:
    place = "{{topic}}-{{partition}}"
    panels: list[tuple[str, str, str, str]] = [
        ("In-sync replicas", "canary_partition_isr", "Who was missing when it happened.", place),
        ("Leader epoch", "canary_leader_epoch", "Each step is an election.", place),
        ("End of each log", "canary_log_end_offset", "A step down is a loss.", place),
        ("Unseen probes", "canary_unseen_probes", "What readers were missing.", f"{place} {{{{consumer}}}}"),
    ]
    made = [
        lines(title, describe(name, more), [(gauge(name, HERE), legend)], floor=None)
        for title, name, more, legend in panels
    ]
    outcomes = ("acked", "failed", "indeterminate")
    made.append(
        lines(
            "Outcomes of probes",
            "In each interval: what producers were told around that time.",
            [
                (f"sum ({increase(f'canary_probes_{outcome}_total', HERE, '$__rate_interval')})", outcome)
                for outcome in outcomes
            ],
        )
    )
    made.append(
        lines(
            "Suspicions",
            describe("canary_suspects", "They become violations, or nothing."),
            [(f"sum by (kind) ({gauge('canary_suspects', HERE)})", "{{kind}}")],
        )
    )
    return list(made)
