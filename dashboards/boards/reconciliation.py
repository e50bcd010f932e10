"""Read again: what the nightly reconciliation and the scrubber conclude about what was promised."""

from dashboards.boards.board import CLUSTER, PLACE, TOPIC, Panels, board, to_page
from dashboards.boards.panels import (
    ORANGE_FROM_ONE,
    RED_FROM_ONE,
    describe,
    level,
    lines,
    median_and_worst,
    number,
    rows,
    trend,
)
from dashboards.boards.queries import HERE, gauge, increase
from dashboards.rules.thresholds import NIGHT_S, SCRUBBED_S

UID = "kafka-durability-reconciliation"
LAST = "canary_reconcile_last_success_timestamp_seconds"


def dashboard() -> str:
    """Return the dashboard as Grafana's JSON."""
    return board(
        UID,
        "Kafka durability: reconciliation",
        "What the nightly reconciliation and the scrubber, which read everything again, conclude about promises.",
        variables=[CLUSTER, TOPIC],
        sections=[
            ("Every night: promises against what the topics hold", _nightly()),
            (
                "Every night: digests of topics of applications",
                _besides(
                    "canary_digest",
                    ("Time since the last digests", "Their age."),
                    ("Records that are known", "Of which it is seen when one is gone."),
                    ("Partitions it could not read", "Whether they lost records since is unknown."),
                ),
            ),
            (
                "Every night: receipts of applications",
                _besides(
                    "canary_receipts",
                    ("Time since the last check of receipts", "Its age, of one without anything unknown."),
                    ("Records with a receipt that are there", "What is not there is a violation, or told."),
                    ("Receipts it could not judge", "Whether their records are there is unknown."),
                ),
            ),
            ("All the time", _scrubber()),
        ],
        back="7d",
    )


def _nightly() -> Panels:
    last = "Of the last one of each cluster."
    unproven = "Neither kept nor lost is proven for them."
    lost = f'{HERE}, verdict=~"lost|moved|early-expiry"'
    return [
        number(
            "How late the next reconciliation is",
            describe(LAST, "Of the worst cluster: its age without the time between two; below 0 none was due since."),
            f"max(time() - max by (cluster) ({gauge(LAST, HERE)}) - "
            f"max by (cluster) ({gauge('canary_reconcile_interval_seconds', HERE)}))",
            unit="s",
            steps=[(None, "green"), (NIGHT_S, "orange")],
            w=6,
        ),
        level("Lost, moved or expired early", "canary_reconcile_verdicts", lost, last, steps=RED_FROM_ONE, w=6),
        level("Partitions it could not judge", "canary_reconcile_unjudged", HERE, unproven, steps=ORANGE_FROM_ONE, w=6),
        number(
            "Expired before they were read",
            describe("canary_unverified_expired_total", "In the time shown."),
            f"sum({increase('canary_unverified_expired_total', HERE)})",
            steps=ORANGE_FROM_ONE,
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
            f"sum by (cluster, verdict) ({gauge('canary_reconcile_verdicts', HERE)})",
            value=("identities", "short"),
        ),
        trend(
            "Verdicts over time, without survived",
            "canary_reconcile_verdicts",
            f'{HERE}, verdict!="survived"',
            by="cluster, verdict",
            total="sum",
            w=24,
        ),
    ]


def _besides(prefix: str, age: tuple[str, str], records: tuple[str, str], unknown: tuple[str, str]) -> Panels:
    """Return the panels of what a night does besides, each with a title and words of its own."""
    made = f"{prefix}_last_success_timestamp_seconds"
    return [
        lines(
            age[0],
            describe(made, age[1]),
            [(f"time() - max by (cluster) ({gauge(made, HERE)})", "{{cluster}}")],
            unit="s",
        ),
        trend(records[0], f"{prefix}_records", HERE, records[1], total="max"),
        level(unknown[0], f"{prefix}_unknown", HERE, unknown[1], steps=ORANGE_FROM_ONE, w=6),
    ]


def _scrubber() -> Panels:
    least = "The least of each cluster's."
    oldest = "The oldest of each cluster's: within that time a loss is noticed."
    return [
        trend("Scrubber: how far", "canary_scrub_position_ratio", PLACE, least, total="min"),
        trend(
            "Scrubber: last finished",
            "canary_scrub_age_seconds",
            PLACE,
            oldest,
            total="max",
            limits=[(SCRUBBED_S, "orange")],
        ),
        lines(
            "Random reads of old records",
            describe("canary_random_reads_total", "Within an hour; of those without an answer nothing is known."),
            [
                (
                    f"sum by (cluster, outcome) ({increase('canary_random_reads_total', PLACE, '1h')})",
                    "{{cluster}} {{outcome}}",
                )
            ],
        ),
        median_and_worst("Random reads: how long they take", "canary_random_read_latency_seconds", PLACE, "cluster"),
    ]
