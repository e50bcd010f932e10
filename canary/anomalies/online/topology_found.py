"""A violation at a place of any topic, ours or not, with what is known of the topology around it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from canary.anomalies import policy
from canary.anomalies.violation import Violation

if TYPE_CHECKING:
    from canary.anomalies.online.scope import Scope
    from canary.anomalies.online.state import State
    from canary.anomalies.online.topology_state import Place

_AROUND_NS = 10 * 60 * 10**9


def violation(
    scope: Scope,
    kind: str,
    name: str,
    partition: int | None,
    offset: int | None,
    summary: str,
    *,
    severity: str | None = None,
    evidence: dict[str, Any] | None = None,
) -> Violation:
    """Return a violation at a place of any topic, with what is known around it."""
    state = scope.state
    ours = state.topics.get(name)
    if ours is not None:
        return scope.violation(
            kind, ours, partition, offset, None, summary, severity=severity, evidence=evidence, by="watch"
        )
    evidence = dict(evidence or {})
    known = state.topology.topics.get(name)
    place = known.partitions.get(partition) if known is not None and partition is not None else None
    if known is not None and place is not None:
        evidence.setdefault("partition_state", {**_place_json(place), "min_insync_replicas": known.min_isr})
    if errors := errors_around(state):
        evidence.setdefault("client_errors", errors)
    evidence.setdefault("cluster_events", events_around(state))
    return Violation(
        kind=kind,
        severity=severity or policy.severity(kind, probed=False),  # type: ignore[arg-type]  # plain values within the engine
        topic=name,
        topic_id=(known.topic_id if known is not None else None) or "",
        partition=partition,
        offset=offset,
        identity=None,
        mode=None,
        at_ns=state.now_ns,
        by="watch",
        summary=summary,
        evidence=evidence,
    )


def events_around(state: State) -> list[dict[str, Any]]:
    """Return what brokers and controller did in the last ten minutes, oldest first."""
    return [event for event in state.topology.events if event["at_ns"] >= state.now_ns - _AROUND_NS]


def errors_around(state: State) -> list[dict[str, Any]]:
    """Return what clients were told in the last ten minutes, oldest first."""
    return [error for error in state.errors if error["at_ns"] >= state.now_ns - _AROUND_NS]


def _place_json(place: Place) -> dict[str, Any]:
    return {
        "leader": place.leader,
        "isr": list(place.isr),
        "replicas": list(place.replicas),
        "leader_epoch": place.epoch,
        "last_isr": list(place.last_isr),
        "since_ns": place.at_ns,
    }
