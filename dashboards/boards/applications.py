"""Groups of applications, transactions that hang, and replicas compared: as far as the settings' watch names them."""

from dashboards.boards.board import HERE, ONE_CLUSTER, Panels, board, to_page
from dashboards.boards.panels import describe, lines, rows, trend
from dashboards.boards.queries import gauge, rate

UID = "kafka-durability-applications"
_GROUP = "cluster, group"
_ILL = 'state=~"stuck|unmoved|expired|reset|unknown"'


def dashboard() -> str:
    """Return the dashboard as Grafana's JSON."""
    return board(
        UID,
        "Kafka durability: applications",
        "The consumer groups of applications that are watched, transactions that hang, and replicas that differ.",
        variables=[ONE_CLUSTER],
        sections=[
            ("Groups", _groups()),
            ("Partitions", _partitions()),
            ("Replicas compared", _replicas()),
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
    place = "group, topic, partition"
    return [
        rows(
            "Furthest behind, in seconds",
            describe("canary_group_lag_seconds"),
            f"topk(50, max by ({place}) ({gauge('canary_group_lag_seconds', HERE)}) > 0)",
            value=("behind", "s"),
        ).links([to_page("Groups in full", "/api/v1/groups?cluster=${cluster}")]),
        rows(
            "Furthest behind, in records",
            describe("canary_group_lag_offsets"),
            f"topk(50, max by ({place}) ({gauge('canary_group_lag_offsets', HERE)}) > 0)",
            value=("records", "short"),
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
    ]
