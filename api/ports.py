"""What the API needs of the store and the probe log: all of it, and nothing more.

`storage.store.Store` is the store; tests bring one that lives in memory. Times are ns since the epoch (UTC).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Protocol

from storage.store.values import (
    Incident,
    IncidentFilter,
    Reconciliation,
    StoredViolation,
    View,
    ViolationCount,
    ViolationFilter,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from canary.probe.identity import Identity
    from storage.store.pages import Page

__all__ = [
    "Incident",
    "IncidentFilter",
    "ProbeLog",
    "Reconciliation",
    "Store",
    "StoredViolation",
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

    def reconciliation(self, reconciliation_id: str, /) -> Reconciliation | None:
        """Return one, or None."""

    def request_reconciliation(self, cluster: str, requested_by: str, at_ns: int, /) -> Reconciliation:
        """Ask for one."""

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
