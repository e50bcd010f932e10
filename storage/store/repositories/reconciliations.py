"""Reconciliations: requested through the API, by a person or on schedule; claimed and finished by one scheduler."""

import gzip
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, case, delete, func, insert, or_, select, update

from canary.threads import system
from storage.store.cursors import Page
from storage.store.database import Repository, one_of
from storage.store.models import RECONCILIATIONS, REPORTS
from storage.store.rows import value_of
from storage.store.values import Reconciliation

AHEAD_NS: Final = 3_600 * 10**9
"""A time more than this later than now was written by a clock that was ahead."""
TRIES: Final = 3
"""A night that fails, or a run that is interrupted, is tried so often."""
KEPT_REPORTS: Final = 30
"""The reports of so many reconciliations of a cluster are kept."""
LARGEST_REPORT: Final = 4 * 2**20
"""A report is kept if it is not larger than so many bytes, gzipped."""

_reconciliation = partial(value_of, Reconciliation)


class Reconciliations(Repository):
    """The reconciliations, running, finished and to come."""

    def request(self, cluster: str, requested_by: str, at_ns: int) -> Reconciliation:
        """Request a reconciliation of ``cluster``; a request that is still waiting is returned instead of a new one."""
        pending = RECONCILIATIONS.c.cluster == cluster, RECONCILIATIONS.c.state == "requested"
        with self._database.writing(serial=f"reconciliations {cluster}") as connection:
            waiting = connection.execute(select(RECONCILIATIONS).where(*pending).limit(1)).one_or_none()
            if waiting is not None:
                return _reconciliation(waiting)
            values: dict[str, Any] = {"bounds": {}, "summary": {}, "verdicts": {}}
            values |= {"id": system.token_hex(16), "cluster": cluster, "state": "requested"}
            values |= {"requested_by": requested_by, "requested_ns": at_ns}
            made = insert(RECONCILIATIONS).values(values).returning(RECONCILIATIONS)
            return _reconciliation(connection.execute(made).one())

    def claim(self, holder: str, at_ns: int, clusters: Collection[str] | None = None) -> Reconciliation | None:
        """Start the oldest request of ``clusters`` (None: of any); None: there is none, or another was quicker.

        One that ``holder`` runs already is claimed again: the answer to its first claim was lost on the way.
        """
        claimable = or_(
            RECONCILIATIONS.c.state == "requested",
            and_(RECONCILIATIONS.c.state == "running", RECONCILIATIONS.c.holder == holder),
        )
        with self._database.writing() as connection:
            oldest = connection.execute(
                select(RECONCILIATIONS.c.id)
                .where(claimable, *_of(clusters))
                .order_by(RECONCILIATIONS.c.requested_ns, RECONCILIATIONS.c.id)
                .limit(1)
            ).scalar_one_or_none()
            if oldest is None:
                return None
            claiming = update(RECONCILIATIONS).where(RECONCILIATIONS.c.id == oldest, claimable)
            claimed = claiming.values(state="running", holder=holder, started_ns=at_ns).returning(RECONCILIATIONS)
            return one_of(connection, claimed, _reconciliation)

    def progress(self, reconciliation_id: str, holder: str, words: str) -> bool:
        """Store how far a running one is; False: ``holder`` does not run it (any more)."""
        return self._update_running(reconciliation_id, holder, {"progress": words})

    def finish(
        self,
        reconciliation_id: str,
        holder: str,
        at_ns: int,
        *,
        error: str | None = None,
        bounds: Mapping[str, Any] | None = None,
        summary: Mapping[str, Any] | None = None,
        verdicts: Mapping[str, Any] | None = None,
        report: str | None = None,
    ) -> bool:
        """End a running one, failed if there is an ``error``; False: ``holder`` does not run it (any more)."""
        values = {
            "state": "succeeded" if error is None else "failed",
            "ended_ns": at_ns,
            "error": error,
            "bounds": dict(bounds or {}),
            "summary": dict(summary or {}),
            "verdicts": dict(verdicts or {}),
            "report": report,
            "progress": None,
        }
        return self._update_running(reconciliation_id, holder, values)

    def interrupt(self, reconciliation_id: str, holder: str, at_ns: int, why: str) -> bool:
        """Let a running one, whose process is ended, begin again; False: ``holder`` does not run it (any more).

        One that was interrupted TRIES times has failed: it may be what ends the processes.
        """
        return self._update_running(reconciliation_id, holder, _interrupted(at_ns, why))

    def abandon(self, holder: str, at_ns: int, clusters: Collection[str] | None = None) -> int:
        """Interrupt those of ``clusters`` (None: of all) that other processes left running; return how many.

        For the holder of the clusters' leases only: the other processes are dead then.
        """
        with self._database.writing() as connection:
            ended = connection.execute(
                update(RECONCILIATIONS)
                .where(RECONCILIATIONS.c.state == "running", RECONCILIATIONS.c.holder != holder, *_of(clusters))
                .values(_interrupted(at_ns, "the process that ran it ended"))
            )
        return int(ended.rowcount)

    def page(
        self,
        cluster: str | None = None,
        state: str | None = None,
        cursor: str | None = None,
        limit: int = 100,
        now_ns: int | None = None,
    ) -> Page[Reconciliation]:
        """Return a page of reconciliations, newest first; with ``now_ns``, without those of a clock that was ahead."""
        query = select(RECONCILIATIONS)
        if cluster is not None:
            query = query.where(RECONCILIATIONS.c.cluster == cluster)
        if state is not None:
            query = query.where(RECONCILIATIONS.c.state == state)
        if now_ns is not None:
            query = query.where(RECONCILIATIONS.c.requested_ns <= now_ns + AHEAD_NS)
        return self._page(query, RECONCILIATIONS.c.requested_ns, _reconciliation, cursor, limit)

    def last_successes(self, now_ns: int) -> list[Reconciliation]:
        """Return the last reconciliation of each cluster that succeeded, by the cluster's name.

        One that ended more than AHEAD_NS from now does not count: a clock that was ahead dated it, and it would hide
        that the next ones are missing.
        """
        succeeded = RECONCILIATIONS.c.state == "succeeded"
        last = (
            select(RECONCILIATIONS.c.cluster, func.max(RECONCILIATIONS.c.ended_ns).label("ended_ns"))
            .where(succeeded, RECONCILIATIONS.c.ended_ns <= now_ns + AHEAD_NS)
            .group_by(RECONCILIATIONS.c.cluster)
            .subquery()
        )
        same = RECONCILIATIONS.c.cluster == last.c.cluster, RECONCILIATIONS.c.ended_ns == last.c.ended_ns
        query = select(RECONCILIATIONS).join(last, and_(succeeded, *same))
        found = self._all(query.order_by(RECONCILIATIONS.c.cluster), _reconciliation)
        return list({one.cluster: one for one in found}.values())

    def get(self, reconciliation_id: str) -> Reconciliation | None:
        """Return one reconciliation, or None."""
        return self._one(select(RECONCILIATIONS).where(RECONCILIATIONS.c.id == reconciliation_id), _reconciliation)

    def keep_report(self, reconciliation_id: str, page: bytes) -> bool:
        """Keep the report of a reconciliation (HTML), so that every API can show it; False: it is too large."""
        packed = gzip.compress(page)
        if len(packed) > LARGEST_REPORT:
            return False
        this = RECONCILIATIONS.c.id == reconciliation_id
        with self._database.writing() as connection:
            cluster = connection.scalars(select(RECONCILIATIONS.c.cluster).where(this)).one()
            connection.execute(delete(REPORTS).where(REPORTS.c.reconciliation_id == reconciliation_id))
            row = {"reconciliation_id": reconciliation_id, "cluster": cluster, "page": packed}
            connection.execute(insert(REPORTS).values(row))
            newest = (
                select(RECONCILIATIONS.c.id)
                .where(RECONCILIATIONS.c.cluster == cluster)
                .order_by(RECONCILIATIONS.c.requested_ns.desc(), RECONCILIATIONS.c.id.desc())
                .limit(KEPT_REPORTS)
            )
            old = REPORTS.c.reconciliation_id.not_in(newest)
            connection.execute(delete(REPORTS).where(REPORTS.c.cluster == cluster, old))
        return True

    def report(self, reconciliation_id: str) -> bytes | None:
        """Return the report of a reconciliation (HTML); None: none is kept."""
        query = select(REPORTS).where(REPORTS.c.reconciliation_id == reconciliation_id)
        return self._one(query, lambda row: gzip.decompress(row.page))

    def _update_running(self, reconciliation_id: str, holder: str, values: dict[str, Any]) -> bool:
        with self._database.writing() as connection:
            updated = connection.execute(
                update(RECONCILIATIONS)
                .where(
                    RECONCILIATIONS.c.id == reconciliation_id,
                    RECONCILIATIONS.c.state == "running",
                    RECONCILIATIONS.c.holder == holder,
                )
                .values(values)
            )
        return updated.rowcount == 1


def _interrupted(at_ns: int, why: str) -> dict[str, Any]:
    again = RECONCILIATIONS.c.interrupted < TRIES - 1
    return {
        "state": case((again, "requested"), else_="failed"),
        "holder": case((again, None), else_=RECONCILIATIONS.c.holder),
        "ended_ns": case((again, None), else_=at_ns),
        "error": case((again, None), else_=f"it was begun {TRIES} times, and at last: {why}"),
        "progress": None,
        "interrupted": RECONCILIATIONS.c.interrupted + 1,
    }


def _of(clusters: Collection[str] | None) -> list[ColumnElement[bool]]:
    return [] if clusters is None else [RECONCILIATIONS.c.cluster.in_(clusters)]
