"""Read again: what the nightly reconciliation and the scrubber say of what was promised."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboards.board import CLUSTER, HERE, PLACE, TOPIC, board, to_page
from dashboards.panels import describe, lines, number, rows
from dashboards.queries import gauge, increase

if TYPE_CHECKING:
    from grafana_foundation_sdk.cog.builder import Builder
    from grafana_foundation_sdk.models import dashboard

UID = "kafka-durability-reconciliation"
LAST = "canary_reconcile_last_success_timestamp_seconds"


def reconciliation() -> str:
    """Return the dashboard as Grafana's JSON."""
    return board(
        UID,
        "Kafka durability: reconciliation",
        "What the nightly reconciliation and the scrubber, which read everything again, say of what was promised.",
        variables=[CLUSTER, TOPIC],
        sections=[("Every night: promises against what the topics hold", _nightly()), ("All the time", _scrubber())],
        back="7d",
    )


def _nightly() -> list[Builder[dashboard.Panel]]:
    lost = f'{HERE}, verdict=~"lost|moved|early-expiry"'
    return [
        number(
            "Age of the oldest last one",
            describe(LAST, "The age of the worst cluster's."),
            (f"max(time() - {gauge(LAST, HERE)})", ""),
            unit="s",
            steps=[(None, "green"), (93_600, "orange"), (129_600, "red")],
            w=6,
        ),
        number(
            "Lost, moved or expired early",
            describe("canary_reconcile_verdicts", "Of the last one of each cluster."),
            (f"sum({gauge('canary_reconcile_verdicts', lost)})", ""),
            steps=[(None, "green"), (1, "red")],
            w=6,
        ),
        number(
            "Partitions it could not judge",
            describe("canary_reconcile_unjudged", "They are no proof of anything."),
            (f"sum({gauge('canary_reconcile_unjudged', HERE)})", ""),
            steps=[(None, "green"), (1, "orange")],
            w=6,
        ),
        number(
            "Expired before anybody read them",
            describe("canary_unverified_expired_total", "In the time shown."),
            (f"sum({increase('canary_unverified_expired_total', HERE)})", ""),
            steps=[(None, "green"), (1, "orange")],
            w=6,
        ),
        lines(
            "Time since the last reconciliation",
            describe(LAST, "Its age."),
            [(f"time() - max by (cluster) ({gauge(LAST, HERE)})", "{{cluster}}")],
            unit="s",
        ).links([to_page("All reconciliations", "/api/v1/reconciliations")]),
        rows(
            "Verdicts of the last one",
            describe(
                "canary_reconcile_verdicts", "By cluster; anything but survived, expired and pending is a question."
            ),
            (f"sum by (cluster, verdict) ({gauge('canary_reconcile_verdicts', HERE)})", ""),
            value="identities",
        ),
        lines(
            "Verdicts over time, without survived",
            describe("canary_reconcile_verdicts"),
            [
                (
                    f"sum by (cluster, verdict) ({_questions()})",
                    "{{cluster}} {{verdict}}",
                )
            ],
            w=24,
        ),
    ]


def _questions() -> str:
    others = f'{HERE}, verdict!="survived"'
    return gauge("canary_reconcile_verdicts", others)


def _scrubber() -> list[Builder[dashboard.Panel]]:
    return [
        lines(
            "Scrubber: how far",
            describe("canary_scrub_position_ratio", "The least of each cluster's."),
            [(f"min by (cluster) ({gauge('canary_scrub_position_ratio', PLACE)})", "{{cluster}}")],
            unit="percentunit",
        ),
        lines(
            "Scrubber: last finished",
            describe("canary_scrub_age_seconds", "The oldest of each cluster's: within that time a loss is noticed."),
            [(f"max by (cluster) ({gauge('canary_scrub_age_seconds', PLACE)})", "{{cluster}}")],
            unit="s",
        ),
    ]
