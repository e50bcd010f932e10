"""Groups of applications, hanging transactions, replicas compared and mirrors: as far as the settings name them."""

from typing import Any

from dashboards.boards.board import ONE_CLUSTER, Panels, board, to_page
from dashboards.boards.panels import describe, lines, rows, trend
from dashboards.boards.queries import HERE, gauge, rate

UID = "kafka-durability-applications"
_GROUP = "cluster, group"
_LINK = "cluster, source, topic"
_ILL = 'state=~"stuck|unmoved|expired|reset|unknown"'


def dashboard() -> str:
    """Return the dashboard as Grafana's JSON."""
    return board(
        UID,
        "Kafka durability: applications",
        "The consumer groups of applications that are watched, hanging transactions, replicas, and mirrored topics.",
        variables=[ONE_CLUSTER],
        sections=[
            ("Groups", _groups()),
            ("Partitions", _partitions()),
            ("Replicas compared", _replicas()),
            ("Mirrors", _mirrors()),
            ("What is not seen", _unknown()),
        ],
        back="3h",
    )


def _groups() -> Panels:
    return [
        trend("Lag in seconds", "canary_group_lag_seconds_max", HERE, by=_GROUP, total="max", unit="s"),
        trend("Lag in records", "canary_group_lag_offsets_sum", HERE, by=_GROUP, total="max"),
        lines(
            "Partitions that are not well",
            describe("canary_group_partitions", "A stopped group, which has no members, is well."),
            [(f"sum by (cluster, group, state) ({gauge('canary_group_partitions', f'{HERE}, {_ILL}')}) > 0", _LEGEND)],
        ),
        trend("Members", "canary_group_members", HERE, by=_GROUP, total="max", w=6),
        trend("Transactions that hang", "canary_hanging_transactions", HERE, total="max", w=6),
    ]


_LEGEND = "{{group}} {{state}}"


def _partitions() -> Panels:
    place = "cluster, group, topic, partition"
    more: Any = {"hidden": ("cluster",), "none": f"{gauge('canary_groups_unknown', HERE)} == 0"}
    return [
        rows(
            "Furthest behind, in seconds",
            describe("canary_group_lag_seconds"),
            f"topk(50, max by ({place}) ({gauge('canary_group_lag_seconds', HERE)}) > 0)",
            value=("behind", "s"),
            **more,
        ).links([to_page("Groups in full", "/api/v1/groups?cluster=${cluster}")]),
        rows(
            "Furthest behind, in records",
            describe("canary_group_lag_offsets"),
            f"topk(50, max by ({place}) ({gauge('canary_group_lag_offsets', HERE)}) > 0)",
            value=("records", "short"),
            **more,
        ),
    ]


def _replicas() -> Panels:
    topic = "cluster, topic"
    return [
        trend("Ranges in which replicas differ", "canary_replicas_divergent_ranges", HERE, by=topic, total="max", w=8),
        trend(
            "Since the last whole comparison",
            "canary_replicas_compared_age_seconds",
            HERE,
            by=topic,
            total="max",
            unit="s",
            w=8,
        ),
        lines(
            "Read to compare",
            describe("canary_replicas_compared_bytes_total"),
            [(f"sum by ({topic}) ({rate('canary_replicas_compared_bytes_total', HERE)})", "{{topic}}")],
            unit="Bps",
            w=8,
        ),
        rows(
            "Compared up to",
            describe("canary_replicas_compared_to_offset"),
            f"max by (topic, partition) ({gauge('canary_replicas_compared_to_offset', HERE)})",
            value=("offset", "short"),
        ),
    ]


def _mirrors() -> Panels:
    behind = f"max by ({_LINK}) ({gauge('canary_mirror_recovery_point_seconds', HERE)})"
    bound = f"max by ({_LINK}) ({gauge('canary_mirror_recovery_point_objective_seconds', HERE)})"
    age = f"time() - max by ({_LINK}) ({gauge('canary_mirror_last_probe_timestamp_seconds', HERE)})"
    return [
        lines(
            "Recovery point",
            describe("canary_mirror_recovery_point_seconds"),
            [
                (behind, "{{source}} {{topic}}"),
                (bound, "{{source}} {{topic}}: at most"),
                (age, "{{source}} {{topic}}: the newest one is so old"),
            ],
            unit="s",
        ),
        trend("Probes that wait", "canary_mirror_waiting_probes", HERE, by=_LINK, total="max", w=6),
        trend("Probes that are missing", "canary_mirror_missing_probes", HERE, by=_LINK, total="max", w=6),
        lines(
            "Records of mirrored topics, by what they were",
            describe("canary_mirror_records_total"),
            [(f"sum by ({_LINK}, outcome) ({rate('canary_mirror_records_total', HERE)})", "{{topic}} {{outcome}}")],
        ),
        trend("A failover would skip", "canary_mirror_failover_skips", HERE, by=f"{_LINK}, group", total="max", w=6),
        trend("It would give again", "canary_mirror_failover_rereads", HERE, by=f"{_LINK}, group", total="max", w=6),
    ]


def _unknown() -> Panels:
    return [
        trend("Groups of which nothing is known", "canary_groups_unknown", HERE, total="max", w=8),
        trend("Transactions cannot be looked for", "canary_transactions_unknown", HERE, total="max", w=8),
        trend("No replicas can be compared", "canary_replicas_unknown", HERE, total="max", w=8),
        trend(
            "Partitions not compared in full",
            "canary_replicas_unknown_partitions",
            HERE,
            by="cluster, topic, reason",
            total="max",
            w=8,
        ),
        trend("Groups that are left out", "canary_groups_left_out", HERE, total="max", w=8),
        trend("Partitions without series", "canary_group_partitions_left_out", HERE, by=_GROUP, total="max", w=8),
        trend(
            "Partitions whose lag in seconds is a lower bound",
            "canary_group_lag_seconds_at_least",
            HERE,
            by=_GROUP,
            total="max",
            unit="short",
        ),
        trend("What mirrors lack is unknown", "canary_mirror_unknown", HERE, by=_LINK, total="max"),
        trend("Translated offsets are unknown", "canary_mirror_translation_unknown", HERE, by=_LINK, total="max"),
    ]
