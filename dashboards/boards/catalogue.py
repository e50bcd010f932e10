"""Every dashboard, by its file's name."""

from collections.abc import Mapping

from dashboards.boards import applications, cluster, incident, itself, objectives, overview, partition, reconciliation


def boards() -> Mapping[str, str]:
    """Return each dashboard's JSON by its uid, which is its file's name too; the one to begin with first."""
    return {
        one.UID: one.dashboard()
        for one in (overview, objectives, cluster, partition, applications, incident, reconciliation, itself)
    }
