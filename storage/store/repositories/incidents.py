"""Incidents: violations of one place and time, under the worst of them."""

from collections.abc import Collection
from typing import Any, Literal

from sqlalchemy import Connection, Select, func, select, update

from storage.store.cursors import Page
from storage.store.database import Repository
from storage.store.models import INCIDENTS, VIOLATIONS
from storage.store.repositories.findings.heads import changing, incident_of, rank_of
from storage.store.repositories.violations import acknowledge_where, reopen_where
from storage.store.rows import matching
from storage.store.values import Incident, IncidentFilter


class Incidents(Repository):
    """The incidents. `repositories.findings.recording` opens and extends them."""

    def page(self, wanted: IncidentFilter | None = None, cursor: str | None = None, limit: int = 100) -> Page[Incident]:
        """Return a page of incidents, newest first."""
        return self._page(_where(wanted), INCIDENTS.c.first_ns, incident_of, cursor, limit)

    def worst(self, each: int, wanted: IncidentFilter | None = None) -> tuple[list[Incident], dict[str, int]]:
        """Return the incidents that are not resolved, the worst first, and how many each cluster has.

        Of a cluster that has more than ``each`` the mildest are left out, and of those that are alike the oldest.
        """
        order = rank_of(INCIDENTS).desc(), INCIDENTS.c.head_ns.desc(), INCIDENTS.c.id
        nth = func.row_number().over(partition_by=INCIDENTS.c.cluster, order_by=order).label("nth")
        of = func.count().over(partition_by=INCIDENTS.c.cluster).label("of")
        unresolved = INCIDENTS.c.state != "resolved"
        ranked = _where(wanted).with_only_columns(INCIDENTS.c.id, nth, of).where(unresolved).subquery()
        which = INCIDENTS.join(ranked, ranked.c.id == INCIDENTS.c.id)  # narrowed to the clusters that may be seen
        query = select(INCIDENTS, ranked.c.of).select_from(which).where(ranked.c.nth <= each).order_by(*order)
        with self._database.reading() as connection:
            rows = connection.execute(query).all()
        return [incident_of(row) for row in rows], {row.cluster: row.of for row in rows}

    def get(self, incident_id: str) -> Incident | None:
        """Return one incident (for its violations see ViolationFilter.incident_id), or None."""
        return self._one(select(INCIDENTS).where(INCIDENTS.c.id == incident_id), incident_of)

    def missing(self, ids: Collection[str]) -> list[str]:
        """Return those of some ids that no incident has."""
        with self._database.reading() as connection:
            return _missing(connection, ids)

    def acknowledge(self, incident_id: str, note: str | None = None) -> Incident | None:
        """Acknowledge an open incident and its open violations, with a note. None if there is none.

        A resolved one stays as it is.
        """
        this = INCIDENTS.c.id == incident_id
        with changing(self._database, INCIDENTS, [incident_id]) as connection:
            connection.execute(update(INCIDENTS).where(this, INCIDENTS.c.state != "resolved").values(note=note))
            acknowledge_where(connection, VIOLATIONS.c.incident_id == incident_id, note)
        return self.get(incident_id)

    def resolve(
        self, incident_id: str, reason: Literal["lost", "planned", "false"], at_ns: int, note: str | None = None
    ) -> Incident | None:
        """Resolve an incident and all of its violations at once. None if there is none.

        A condition that still holds stays resolved until it ends; when it holds another time it is open again.
        """
        self.resolve_all([incident_id], reason, at_ns, note)
        return self.get(incident_id)

    def resolve_all(
        self,
        ids: Collection[str],
        reason: Literal["lost", "planned", "false"],
        at_ns: int,
        note: str | None = None,
    ) -> list[str]:
        """Resolve incidents as `resolve` does, all or none; return the ids of those that do not exist: none is then."""
        these = INCIDENTS.c.id.in_(ids)
        with changing(self._database, INCIDENTS, ids) as connection:
            if missing := _missing(connection, ids):
                return missing
            connection.execute(update(INCIDENTS).where(these).values(note=note))
            resolved = {"state": "resolved", "reason": reason, "closed_ns": at_ns}
            connection.execute(update(VIOLATIONS).where(VIOLATIONS.c.incident_id.in_(ids)).values(resolved))
        return []

    def reopen(self, incident_id: str, note: str | None = None) -> int:
        """Open those violations of an incident again that a person resolved; return how many; of 0 nothing changes.

        A condition that has ended meanwhile stays resolved: nobody would end it.
        """
        with changing(self._database, INCIDENTS, [incident_id]) as connection:
            return reopen_where(connection, incident_id, VIOLATIONS.c.incident_id == incident_id, note)


def _where(wanted: IncidentFilter | None) -> Select[Any]:
    wanted = wanted or IncidentFilter()
    same = matching(INCIDENTS, wanted, "cluster", "topic", "partition", "severity", "state")
    query = select(INCIDENTS).where(*same)
    if wanted.kind is not None:
        held = VIOLATIONS.c.incident_id == INCIDENTS.c.id, VIOLATIONS.c.kind == wanted.kind
        query = query.where(select(VIOLATIONS.c.id).where(*held).exists())
    if wanted.since_ns is not None:
        query = query.where(INCIDENTS.c.last_ns >= wanted.since_ns)
    if wanted.until_ns is not None:
        query = query.where(INCIDENTS.c.first_ns <= wanted.until_ns)
    return query


def _missing(connection: Connection, ids: Collection[str]) -> list[str]:
    return sorted(set(ids) - set(connection.scalars(select(INCIDENTS.c.id).where(INCIDENTS.c.id.in_(ids)))))
