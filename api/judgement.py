"""Is my data safe right now? One sentence, and the numbers behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from canary.metrics.statistics import loss_rate_upper_95

if TYPE_CHECKING:
    from collections.abc import Sequence

    from api.ports import ViolationCount
    from api.state import Knowledge
    from api.views import ClusterView

Level = Literal["safe", "watch", "unknown", "broken"]
"""From best to worst; "unknown" is worse than "watch": a canary that cannot see is no comfort."""

_ORDER: dict[Level, int] = {"safe": 0, "watch": 1, "unknown": 2, "broken": 3}

MEMORY_LOST = "memory-lost"
LATE_AFTER_S = 30.0
"""An acknowledged probe that nobody has read for so long is worth a sentence."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """``sentence`` is for people; ``level`` for colours and machines."""

    level: Level
    sentence: str

    @property
    def healthy(self) -> bool:
        """Whether nothing is wrong as far as anybody can tell."""
        return self.level in {"safe", "watch"}


def lost_writes(cluster: str, counts: Sequence[ViolationCount]) -> int:
    """Return how many lost writes of a cluster were ever found."""
    return sum(row.total for row in counts if row.cluster == cluster and row.kind == "lost-write")


def loss_bound(cluster: ClusterView, counts: Sequence[ViolationCount]) -> float | None:
    """Return the 95 % upper bound of the cluster's loss rate since probing began, None before the first ack."""
    acked = cluster.total("canary_probes_acked_total")
    return loss_rate_upper_95(min(lost_writes(cluster.name, counts), acked), acked)


def judge(cluster: ClusterView, knowledge: Knowledge) -> Judgement:
    """Judge one cluster."""
    critical = knowledge.open_by_severity(cluster.name, "critical")
    if critical:
        return Judgement("broken", _broken(cluster.name, critical, knowledge))
    cared = knowledge.under_care.get(cluster.name, 0)
    if cared:
        violations = "a critical violation" if cared == 1 else f"{cared:,} critical violations"
        return Judgement("broken", f"{cluster.name} has {violations}, acknowledged and not yet resolved.")
    blindness = _blindness(cluster) or _forgotten(cluster.name, knowledge)
    if blindness:
        return Judgement("unknown", blindness)
    worry = _worry(cluster, knowledge)
    if worry:
        return Judgement("watch", f"{cluster.name} has lost nothing, but {worry}.")
    return Judgement("safe", f"{cluster.name} has kept every write that it acknowledged.")


def _blindness(cluster: ClusterView) -> str | None:
    name = cluster.name
    if not cluster.runners:
        return f"Nobody has probed {name} yet."
    if not cluster.fresh:
        return f"The canary of {name} has not reported for {plain_duration(cluster.age_s or 0)}."
    if cluster.waiting_for:
        return f"The canary of {name} waits for {cluster.waiting_for}."
    if not cluster.total("canary_probes_acked_total"):
        return f"{name} has not acknowledged a probe yet."
    return None


def _forgotten(name: str, knowledge: Knowledge) -> str | None:
    """Return what the canary has forgotten and no reconciliation has looked at since; None if that is nothing."""
    for incident in knowledge.incidents:
        if (incident.cluster, incident.kind) == (name, MEMORY_LOST):
            return f"Of {name} {incident.summary}."
    if any(row.open for row in knowledge.counts if (row.cluster, row.kind) == (name, MEMORY_LOST)):
        return f"The canary of {name} has forgotten a part of what was acknowledged."
    return None


def _broken(name: str, critical: int, knowledge: Knowledge) -> str:
    lost = sum(row.open for row in knowledge.counts if row.cluster == name and row.kind == "lost-write")
    if lost:
        writes = "1 acknowledged write" if lost == 1 else f"{lost:,} acknowledged writes"
        return f"{name} has lost {writes}."
    violations = "1 critical violation" if critical == 1 else f"{critical:,} critical violations"
    return f"{name} has {violations} of its promises open."


def _worry(cluster: ClusterView, knowledge: Knowledge) -> str | None:
    warnings = knowledge.open_by_severity(cluster.name, "warning")
    if warnings:
        return "1 warning is open" if warnings == 1 else f"{warnings:,} warnings are open"
    leaderless = sum(1 for row in cluster.partitions if row.get("leader", -1) in {None, -1})
    if leaderless:
        return "1 partition has no leader" if leaderless == 1 else f"{leaderless} partitions have no leader"
    oldest = max(
        (value.value for (name, _), value in cluster.series.items() if name == "canary_unseen_oldest_seconds"),
        default=0,
    )
    if oldest > LATE_AFTER_S:
        return f"an acknowledged probe has waited {plain_duration(oldest)} to be read"
    under = sum(
        1 for (name, _), value in cluster.series.items() if name == "canary_partition_under_min_isr" and value.value
    )
    if under:
        return "1 partition is short of replicas" if under == 1 else f"{under} partitions are short of replicas"
    return None


def overall(judgements: Sequence[Judgement]) -> Judgement:
    """Return the one answer for all clusters: the worst one's."""
    if not judgements:
        return Judgement("unknown", "No cluster is being probed yet.")
    worst = max(judgements, key=lambda judgement: _ORDER[judgement.level])
    same = [judgement for judgement in judgements if judgement.level == worst.level]
    if len(same) == 1 or worst.level != "safe":
        return worst
    return Judgement("safe", f"All {len(same)} clusters have kept every write that they acknowledged.")


def plain_duration(seconds: float) -> str:
    """Return a duration for people: "14 s", "3 min", "2 h 5 min", "3 d 4 h"."""
    whole = int(seconds)
    if whole < 90:
        return f"{whole} s"
    if whole < 5400:
        return f"{whole // 60} min"
    if whole < 172800:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"
