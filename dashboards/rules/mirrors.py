"""Alerts about topics that are mirrored from another cluster; gaps have those of their kinds."""

from dashboards.boards.queries import gauge
from dashboards.rules.rule import UNLOOKED, Rule

_LINK = "cluster, source, topic"
_BEHIND = f"max by ({_LINK}) ({gauge('canary_mirror_recovery_point_seconds')})"
_OBJECTIVE = f"max by ({_LINK}) ({gauge('canary_mirror_recovery_point_objective_seconds')})"

MIRRORS = (
    Rule(
        name="CanaryMirrorBehind",
        notify=UNLOOKED,
        expression=f"{_BEHIND} > on ({_LINK}) {_OBJECTIVE}",
        hold="3m",
        keep="5m",
        summary="The mirror of {{ $labels.topic }} from {{ $labels.source }} is behind",
        meaning="A probe of the source that is older than the recovery point (recovery_point) is not in the mirrored "
        "topic yet. If the source were lost now, everything since then would be lost with it.",
        now="{{ $value | humanizeDuration }} behind, in {{ $labels.cluster }}.",
        advice=(
            "See whether MirrorMaker 2 runs, and its tasks (the status of its connectors, its log).",
            "GET /api/v1/mirrors says which partitions are behind, and how many probes wait.",
            "See whether the source retains its records longer than MirrorMaker 2 needs: what expires is lost to it.",
        ),
    ),
    Rule(
        name="CanaryMirrorUnknown",
        notify=UNLOOKED,
        expression=f"max by (cluster, source, topic) ({gauge('canary_mirror_unknown')}) > 0",
        hold="15m",
        summary="What the mirror of {{ $labels.topic }} from {{ $labels.source }} lacks is unknown",
        meaning="The topic in the source or its mirror in this cluster is not read to its end, or the source has no "
        "new probes: neither a gap nor how far the mirror is behind can be seen.",
        advice=(
            "GET /api/v1/mirrors says why (`unknown`).",
            "If it is a refusal, give the right to Read the topic in the source and the mirrored one here.",
            "If the source has no new probes, see whether a canary probes it.",
        ),
    ),
)
