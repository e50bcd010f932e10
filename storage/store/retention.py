"""What the store forgets: what is long over, by itself; a cluster that is not there any more, when a person says so.

What a sentence, a metric or an alert rests on stays for ever: totals, views (counters never go back), each cluster's
last good reconciliation, and critical violations that a person resolved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, delete, func, insert, not_, or_, select

from storage.store.errors import StoreError
from storage.store.leases import runner_lease
from storage.store.models import (
    ClusterRow,
    ForgottenRow,
    IncidentRow,
    LeaseRow,
    MaintenanceRow,
    ReconciliationRow,
    TopologyRow,
    ViewRow,
    ViolationRow,
    ViolationTotalRow,
)
from storage.store.standing import loss
from storage.store.values import Purged

if TYPE_CHECKING:
    from sqlalchemy import ColumnElement, Connection

LIVE_NS = 15 * 10**9
"""A runner that reported so lately, and has not given its lease back, lives."""
_NAMED = (ViewRow, ViolationTotalRow, ReconciliationRow)


class StillProbedError(StoreError):
    """A runner probes the cluster. Exit status 2."""

    def __init__(self, cluster: str, runner: str) -> None:
        super().__init__(f"runner {runner} probes {cluster} at this moment; stop it first", 2)


def purge(connection: Connection, cluster: str, before_ns: int, most: int) -> Purged:
    """Delete what of ``cluster`` was over before ``before_ns``, at most so many rows of each kind.

    A violation goes only when it was resolved and seen last before, and is neither a confirmed loss nor a critical one
    that a person resolved as planned. The id and records of others that a person resolved stay: seen again they are
    neither new nor counted twice. A condition that holds again is new. An incident goes with its last violation.

    The caller's transaction must be the only one that records for this cluster (Database.writing(serial=...)).
    """
    condition = or_(
        ViolationRow.ended_ns.is_not(None),  # whoever saw others end may be gone
        ViolationRow.__table__.c.evidence["since_ns"].as_string().is_not(None),
    )
    over = (
        ViolationRow.cluster == cluster,
        ViolationRow.state == "resolved",
        ViolationRow.closed_ns < before_ns,
        ViolationRow.last_seen_ns < before_ns,
        not_(or_(loss(), and_(ViolationRow.severity == "critical", ViolationRow.reason == "planned"))),
    )
    kept = [getattr(ViolationRow, column.name) for column in ForgottenRow.__table__.c]
    judged = connection.execute(select(*kept).where(*over, not_(condition)).limit(most)).mappings().all()
    if judged:
        connection.execute(insert(ForgottenRow), [dict(row) for row in judged])
    violations = _delete(connection, ViolationRow, most, ViolationRow.id.in_([row["id"] for row in judged]))
    violations += _delete(connection, ViolationRow, most, *over, condition)
    incidents = _delete(
        connection,
        IncidentRow,
        most,
        IncidentRow.cluster == cluster,
        IncidentRow.state == "resolved",
        IncidentRow.last_ns < before_ns,
        not_(select(ViolationRow.id).where(ViolationRow.incident_id == IncidentRow.id).exists()),
    )
    succeeded = and_(ReconciliationRow.cluster == cluster, ReconciliationRow.state == "succeeded")
    last_good = select(func.max(ReconciliationRow.ended_ns)).where(succeeded).scalar_subquery()
    reconciliations = _delete(
        connection,
        ReconciliationRow,
        most,
        ReconciliationRow.cluster == cluster,
        ReconciliationRow.ended_ns < before_ns,
        or_(ReconciliationRow.state != "succeeded", ReconciliationRow.ended_ns < last_good),
    )
    changes = _delete(connection, TopologyRow, most, TopologyRow.cluster == cluster, TopologyRow.until_ns < before_ns)
    return Purged(violations, incidents, reconciliations, changes)


def forget(connection: Connection, cluster: str, at_ns: int) -> Purged | None:
    """Delete all that is shown, counted or alarmed of a cluster; None: there is nothing of it.

    Its producers and their generations stay. No identity would be used twice without them (each start has a random
    producer id of its own), but if a cluster of that name comes back, what is left in its topics is known for ours.

    Raises:
        StillProbedError: a runner of it lives.
    """
    views = connection.execute(select(ViewRow.runner, ViewRow.at_ns).where(ViewRow.cluster == cluster)).all()
    leases = [runner_lease(cluster, view.runner) for view in views if at_ns - view.at_ns < LIVE_NS]
    held = select(LeaseRow.name).where(LeaseRow.name.in_(leases), LeaseRow.released.is_(False))
    if name := connection.scalars(held.limit(1)).first():
        raise StillProbedError(cluster, name.removeprefix(runner_lease(cluster, "")))
    deleted = {
        table: connection.execute(delete(table).where(table.__table__.c.cluster == cluster)).rowcount
        for table in (*_NAMED, ViolationRow, ForgottenRow, IncidentRow, TopologyRow, MaintenanceRow)
    }
    known = connection.execute(delete(ClusterRow).where(ClusterRow.name == cluster)).rowcount
    if not known and not any(deleted.values()):
        return None
    return Purged(*(deleted[table] for table in (ViolationRow, IncidentRow, ReconciliationRow, TopologyRow)))


def clusters(connection: Connection) -> list[str]:
    """Return the names of clusters of which there is something to forget."""
    names: set[str] = set(connection.scalars(select(ClusterRow.name)))
    for table in _NAMED:
        names.update(connection.scalars(select(table.__table__.c.cluster).distinct()))
    return sorted(names)


def _delete(connection: Connection, table: Any, most: int, *where: ColumnElement[bool]) -> int:
    old = select(table.id).where(*where).limit(most)
    return int(connection.execute(delete(table).where(table.id.in_(old))).rowcount)
