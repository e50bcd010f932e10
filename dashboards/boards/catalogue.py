"""Every dashboard, by its file's name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dashboards import cluster, incident, itself, overview, partition, reconciliation

if TYPE_CHECKING:
    from collections.abc import Mapping


def boards() -> Mapping[str, str]:
    """Return each dashboard's JSON by its uid, which is its file's name too; the one to begin with first."""
    return {
        overview.UID: overview.overview(),
        cluster.UID: cluster.cluster(),
        partition.UID: partition.partition(),
        incident.UID: incident.incident(),
        reconciliation.UID: reconciliation.reconciliation(),
        itself.UID: itself.itself(),
    }
