"""Deleting: what was over long ago, by age; a decommissioned cluster, when a person asks for it.

What a sentence, a metric or an alert is computed from is kept for ever: totals, views (counters never go back), each
cluster's last good reconciliation, and critical violations that a person resolved.
"""

from sqlalchemy import ColumnElement, Connection, Table, and_, delete, func, insert, not_, or_, select

from storage.store.database import Repository
from storage.store.errors import StoreError
from storage.store.models import (
    CLUSTERS,
    DRILLS,
    FORGOTTEN,
    INCIDENTS,
    LEASES,
    MAINTENANCE,
    NOTIFICATIONS,
    RECONCILIATIONS,
    REPORTS,
    TOPOLOGY,
    VIEWS,
    VIOLATION_TOTALS,
    VIOLATIONS,
)
from storage.store.repositories.findings import heads
from storage.store.repositories.leases import runner_lease, scheduler_lease
from storage.store.repositories.violations import loss
from storage.store.values import Purged

LIVE_NS = 15 * 10**9
"""A runner is alive if it reported at most so long ago and has not released its lease."""
_NAMED = (VIEWS, VIOLATION_TOTALS, RECONCILIATIONS)
_OF_OTHERS = (NOTIFICATIONS, REPORTS)
"""Tables whose rows belong to an incident or a reconciliation."""


class StillProbedError(StoreError):
    """A runner probes the cluster. Exit status 2."""

    def __init__(self, cluster: str, runner: str) -> None:
        super().__init__(f"runner {runner} probes {cluster} at this moment; stop it first", 2)


class Retention(Repository):
    """Deletes what is over, and clusters."""

    def purge(self, cluster: str, before_ns: int, most: int = 2000) -> Purged:
        """Delete what of ``cluster`` was over before ``before_ns``; all counts 0: there is no more.

        At most ``most`` rows of each kind, so that other transactions wait only briefly.

        A violation is deleted only if it was resolved and last seen before, and is neither a confirmed loss nor a
        critical one that a person resolved as planned. The ids and records of those that a person resolved are kept
        as forgotten: seen again they are neither new nor counted twice. A condition that holds again is new. An
        incident is deleted after its last violation.
        """
        with self._database.writing(serial=heads.serial_of(cluster)) as connection:
            violations = _purge_violations(connection, cluster, before_ns, most)
            incidents = _delete(
                connection,
                INCIDENTS,
                most,
                INCIDENTS.c.cluster == cluster,
                INCIDENTS.c.state == "resolved",
                INCIDENTS.c.last_ns < before_ns,
                not_(select(VIOLATIONS.c.id).where(VIOLATIONS.c.incident_id == INCIDENTS.c.id).exists()),
            )
            succeeded = and_(RECONCILIATIONS.c.cluster == cluster, RECONCILIATIONS.c.state == "succeeded")
            last_good = select(func.max(RECONCILIATIONS.c.ended_ns)).where(succeeded).scalar_subquery()
            reconciliations = _delete(
                connection,
                RECONCILIATIONS,
                most,
                RECONCILIATIONS.c.cluster == cluster,
                RECONCILIATIONS.c.ended_ns < before_ns,
                or_(RECONCILIATIONS.c.state != "succeeded", RECONCILIATIONS.c.ended_ns < last_good),
            )
            orphaned = ~select(INCIDENTS.c.id).where(INCIDENTS.c.id == NOTIFICATIONS.c.incident_id).exists()
            _delete(connection, NOTIFICATIONS, most, NOTIFICATIONS.c.cluster == cluster, orphaned)
            over = TOPOLOGY.c.cluster == cluster, TOPOLOGY.c.until_ns < before_ns
            return Purged(violations, incidents, reconciliations, _delete(connection, TOPOLOGY, most, *over))

    def forget(self, cluster: str, at_ns: int) -> Purged | None:
        """Delete all that is shown, counted or alerted on of a cluster; None: there is nothing of it.

        Its producers and their generations stay. Identities would stay unique without them (each start has a random
        producer id), but if a cluster of that name comes back, the probes left in its topics are recognised as ours.

        Raises:
            StillProbedError: a live runner probes it.
        """
        with self._database.writing(serial=heads.serial_of(cluster)) as connection:
            views = connection.execute(select(VIEWS.c.runner, VIEWS.c.at_ns).where(VIEWS.c.cluster == cluster)).all()
            leases = [runner_lease(cluster, view.runner) for view in views if at_ns - view.at_ns < LIVE_NS]
            held = select(LEASES.c.name).where(LEASES.c.name.in_(leases), LEASES.c.released.is_(False))
            if name := connection.scalars(held.limit(1)).first():
                raise StillProbedError(cluster, name.removeprefix(runner_lease(cluster, "")))
            deleted = {
                table: connection.execute(delete(table).where(table.c.cluster == cluster)).rowcount
                for table in (*_NAMED, *_OF_OTHERS, VIOLATIONS, FORGOTTEN, INCIDENTS, TOPOLOGY, MAINTENANCE, DRILLS)
            }
            connection.execute(delete(LEASES).where(LEASES.c.name == scheduler_lease(cluster)))
            known = connection.execute(delete(CLUSTERS).where(CLUSTERS.c.name == cluster)).rowcount
        if not known and not any(deleted.values()):
            return None
        return Purged(*(deleted[table] for table in (VIOLATIONS, INCIDENTS, RECONCILIATIONS, TOPOLOGY)))

    def clusters(self) -> list[str]:
        """Return the names of the clusters that `forget` finds something of."""
        with self._database.reading() as connection:
            names: set[str] = set(connection.scalars(select(CLUSTERS.c.name)))
            for table in _NAMED:
                names.update(connection.scalars(select(table.c.cluster).distinct()))
        return sorted(names)


def _purge_violations(connection: Connection, cluster: str, before_ns: int, most: int) -> int:
    condition = or_(
        VIOLATIONS.c.ended_ns.is_not(None),  # one whose end was seen; of others the evidence has its beginning
        VIOLATIONS.c.evidence["since_ns"].as_string().is_not(None),
    )
    over = (
        VIOLATIONS.c.cluster == cluster,
        VIOLATIONS.c.state == "resolved",
        VIOLATIONS.c.closed_ns < before_ns,
        VIOLATIONS.c.last_seen_ns < before_ns,
        not_(or_(loss(), and_(VIOLATIONS.c.severity == "critical", VIOLATIONS.c.reason == "planned"))),
    )
    kept = [VIOLATIONS.c[column.name] for column in FORGOTTEN.c]
    judged = connection.execute(select(*kept).where(*over, not_(condition)).limit(most)).mappings().all()
    if judged:
        connection.execute(insert(FORGOTTEN), [dict(row) for row in judged])
    deleted = _delete(connection, VIOLATIONS, most, VIOLATIONS.c.id.in_([row["id"] for row in judged]))
    return deleted + _delete(connection, VIOLATIONS, most, *over, condition)


def _delete(connection: Connection, table: Table, most: int, *where: ColumnElement[bool]) -> int:
    old = select(table.c.id).where(*where).limit(most)
    return int(connection.execute(delete(table).where(table.c.id.in_(old))).rowcount)
