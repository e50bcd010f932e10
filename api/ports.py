"""What the API needs of the store and the probe log: all of it, and nothing more.

`storage.store.Store` is the store; tests bring one that lives in memory. Times are ns since the epoch (UTC).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

from storage.store.topology import TopologyFilter, TopologySpan
from storage.store.values import (
    Action,
    Incident,
    IncidentFilter,
    Maintenance,
    Purged,
    Reconciliation,
    Standing,
    StoredViolation,
    Token,
    View,
    ViolationCount,
    ViolationFilter,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from canary.probe.identity import Identity
    from storage.probe_log.windows import Window, WindowRows
    from storage.store.pages import Page

__all__ = [
    "Action",
    "Incident",
    "IncidentFilter",
    "Maintenance",
    "ProbeLog",
    "Purged",
    "Reconciliation",
    "Standing",
    "Store",
    "StoredViolation",
    "Token",
    "TopologyFilter",
    "TopologySpan",
    "View",
    "ViolationCount",
    "ViolationFilter",
]


class Store(Protocol):
    """The part of `storage.store.Store` that answers requests. Every method may raise StoreError."""

    def violations(self, wanted: ViolationFilter | None, cursor: str | None, limit: int, /) -> Page[StoredViolation]:
        """Return a page, newest first."""

    def violation(self, violation_id: str, /) -> StoredViolation | None:
        """Return one with its evidence, or None."""

    def acknowledge(self, violation_id: str, note: str | None = None, /) -> StoredViolation | None:
        """Mark one as acknowledged; None if there is none."""

    def violation_counts(self) -> Sequence[ViolationCount]:
        """Return the counts by cluster, kind and severity."""

    def standing(self) -> Sequence[Standing]:
        """Return what was ever found and still counts, grouped by cluster, kind, severity, mode, state and reason."""

    def incidents(self, wanted: IncidentFilter | None, cursor: str | None, limit: int, /) -> Page[Incident]:
        """Return a page, newest first."""

    def incident(self, incident_id: str, /) -> Incident | None:
        """Return one, or None."""

    def acknowledge_incident(self, incident_id: str, note: str | None = None, /) -> Incident | None:
        """Mark one and its violations as acknowledged; None if there is none."""

    def resolve_incident(
        self, incident_id: str, reason: Literal["lost", "planned", "false"], at_ns: int, note: str | None = None, /
    ) -> Incident | None:
        """Resolve one and all its violations; None if there is none."""

    def reconciliations(
        self, *, cluster: str | None = None, state: str | None = None, cursor: str | None = None, limit: int = 100
    ) -> Page[Reconciliation]:
        """Return a page, newest first."""

    def last_successes(self, now_ns: int, /) -> Sequence[Reconciliation]:
        """Return the last one of each cluster that ended well."""

    def reconciliation(self, reconciliation_id: str, /) -> Reconciliation | None:
        """Return one, or None."""

    def request_reconciliation(self, cluster: str, requested_by: str, at_ns: int, /) -> Reconciliation:
        """Ask for one."""

    def token(self, text: str, at_ns: int, /) -> Token | None:
        """Return what a token's text opens at this moment, or None."""

    def note_action(self, actor: str, action: str, target: str, at_ns: int, detail: Mapping[str, Any], /) -> Action:
        """Write down what somebody does."""

    def actions(self, cursor: str | None, limit: int, /) -> Page[Action]:
        """Return a page of what was done, newest first."""

    def plan_maintenance(
        self, cluster: str | None, begin_ns: int, end_ns: int, reason: str, requested_by: str, /
    ) -> Maintenance:
        """Plan a window."""

    def end_maintenance(self, maintenance_id: str, at_ns: int, /) -> Maintenance | None:
        """End a window now; None if there is none."""

    def maintenance(self, cursor: str | None, limit: int, /) -> Page[Maintenance]:
        """Return a page of windows, the latest beginning first."""

    def windows(self, since_ns: int, until_ns: int, /) -> Sequence[Maintenance]:
        """Return every window that holds at some time from ``since_ns`` to ``until_ns``."""

    def topology_spans(self, wanted: TopologyFilter, limit: int, /) -> Sequence[TopologySpan]:
        """Return the topology's timeline, oldest first, at most ``limit`` spans (the newest ones)."""

    def topology(self, wanted: TopologyFilter, cursor: str | None, limit: int, /) -> Page[TopologySpan]:
        """Return a page of the timeline, newest first."""

    def forget(self, cluster: str, at_ns: int, /) -> Purged | None:
        """Delete all of a cluster; None: there is nothing. May raise StillProbedError."""

    def clusters(self) -> Sequence[str]:
        """Return the names of clusters of which there is something to forget."""

    def views(self) -> Sequence[View]:
        """Return the last view of each runner."""


class ProbeLog(Protocol):
    """What the runners promised and saw, in Parquet, at most a minute old. May raise ProbeLogError."""

    def find(self, identity: Identity, /) -> Mapping[str, Any] | None:
        """Return what is known of one probe: ``probe`` and ``transaction`` (or None), ``polls``; None if nothing is."""

    def between(
        self, cluster: str, topic: str, partition: int, start: int, end: int, limit: int, /
    ) -> Sequence[Mapping[str, Any]]:
        """Return rows (offset, producer_id, generation, sequence, outcome, seen_by) of offsets in [start, end)."""

    def window(self, wanted: Window, /) -> WindowRows:
        """Return the rows of probes/, transactions/ and polls/ of a time."""
