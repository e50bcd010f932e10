"""Reconciliations: asked for by the API, a person or the clock; claimed and finished by one scheduler."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from sqlalchemy import and_, func, insert, or_, select, update

from storage.store.models import ReconciliationRow
from storage.store.pages import Page, read_page
from storage.store.values import Reconciliation

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sqlalchemy import ColumnElement, Connection


def request(connection: Connection, cluster: str, requested_by: str, at_ns: int) -> Reconciliation:
    """Ask for a reconciliation; a request of this cluster that nobody began yet is enough for both."""
    waiting = connection.execute(
        select(ReconciliationRow.__table__)
        .where(ReconciliationRow.cluster == cluster, ReconciliationRow.state == "requested")
        .limit(1)
    ).one_or_none()
    if waiting is not None:
        return _reconciliation(waiting)
    reconciliation_id = secrets.token_hex(16)
    values: dict[str, Any] = {"bounds": {}, "summary": {}, "verdicts": {}}
    values |= {"id": reconciliation_id, "cluster": cluster, "state": "requested"}
    values |= {"requested_by": requested_by, "requested_ns": at_ns}
    made = connection.execute(insert(ReconciliationRow).values(values).returning(ReconciliationRow.__table__)).one()
    return _reconciliation(made)


def claim(connection: Connection, holder: str, at_ns: int, clusters: Collection[str] | None) -> Reconciliation | None:
    """Turn the oldest request running and ours; None: there is none, or another scheduler was quicker.

    One that is ours already is claimed again: the answer to its claim was lost on the way.
    """
    claimable = or_(
        ReconciliationRow.state == "requested",
        and_(ReconciliationRow.state == "running", ReconciliationRow.holder == holder),
    )
    oldest = connection.execute(
        select(ReconciliationRow.id)
        .where(claimable, *_of(clusters))
        .order_by(ReconciliationRow.requested_ns, ReconciliationRow.id)
        .limit(1)
    ).scalar_one_or_none()
    if oldest is None:
        return None
    claimed = connection.execute(
        update(ReconciliationRow)
        .where(ReconciliationRow.id == oldest, claimable)
        .values(state="running", holder=holder, started_ns=at_ns)
    )
    return get(connection, oldest) if claimed.rowcount == 1 else None


def progress(connection: Connection, reconciliation_id: str, holder: str, words: str) -> bool:
    """Say how far it is; False: it is not ours (any more)."""
    return _update_ours(connection, reconciliation_id, holder, {"progress": words})


def finish(
    connection: Connection,
    reconciliation_id: str,
    holder: str,
    *,
    at_ns: int,
    error: str | None,
    bounds: Mapping[str, Any],
    summary: Mapping[str, Any],
    verdicts: Mapping[str, Any],
    report: str | None,
) -> bool:
    """End it: failed if there is an ``error``, else succeeded. False: it is not ours (any more)."""
    values = {
        "state": "succeeded" if error is None else "failed",
        "ended_ns": at_ns,
        "error": error,
        "bounds": dict(bounds),
        "summary": dict(summary),
        "verdicts": dict(verdicts),
        "report": report,
        "progress": None,
    }
    return _update_ours(connection, reconciliation_id, holder, values)


def abandon(connection: Connection, holder: str, at_ns: int, clusters: Collection[str] | None) -> int:
    """Fail every one that another process than ``holder`` left running; return how many. For who leads the clusters."""
    ended = connection.execute(
        update(ReconciliationRow)
        .where(ReconciliationRow.state == "running", ReconciliationRow.holder != holder, *_of(clusters))
        .values(state="failed", ended_ns=at_ns, error="the process that ran it ended", progress=None)
    )
    return int(ended.rowcount)


def get(connection: Connection, reconciliation_id: str) -> Reconciliation | None:
    """Return one, or None."""
    query = select(ReconciliationRow.__table__).where(ReconciliationRow.id == reconciliation_id)
    row = connection.execute(query).one_or_none()
    return None if row is None else _reconciliation(row)


def list_page(
    connection: Connection, cluster: str | None, state: str | None, until_ns: int | None, cursor: str | None, limit: int
) -> Page[Reconciliation]:
    """Return a page, newest first."""
    query = select(ReconciliationRow.__table__)
    if cluster is not None:
        query = query.where(ReconciliationRow.cluster == cluster)
    if state is not None:
        query = query.where(ReconciliationRow.state == state)
    if until_ns is not None:
        query = query.where(ReconciliationRow.requested_ns <= until_ns)
    keys = (ReconciliationRow.requested_ns, ReconciliationRow.id)
    return read_page(connection, query, keys, cursor=cursor, limit=limit, make=_reconciliation)


def last_successes(connection: Connection, until_ns: int) -> list[Reconciliation]:
    """Return the last one of each cluster that ended well, until then, by the cluster's name."""
    last = (
        select(ReconciliationRow.cluster, func.max(ReconciliationRow.ended_ns).label("ended_ns"))
        .where(ReconciliationRow.state == "succeeded", ReconciliationRow.ended_ns <= until_ns)
        .group_by(ReconciliationRow.cluster)
        .subquery()
    )
    query = select(ReconciliationRow.__table__).join(
        last,
        and_(
            ReconciliationRow.state == "succeeded",
            ReconciliationRow.cluster == last.c.cluster,
            ReconciliationRow.ended_ns == last.c.ended_ns,
        ),
    )
    rows = connection.execute(query.order_by(ReconciliationRow.cluster))
    return list({row.cluster: _reconciliation(row) for row in rows}.values())


def _of(clusters: Collection[str] | None) -> list[ColumnElement[bool]]:
    return [] if clusters is None else [ReconciliationRow.cluster.in_(clusters)]


def _update_ours(connection: Connection, reconciliation_id: str, holder: str, values: dict[str, Any]) -> bool:
    updated = connection.execute(
        update(ReconciliationRow)
        .where(
            ReconciliationRow.id == reconciliation_id,
            ReconciliationRow.state == "running",
            ReconciliationRow.holder == holder,
        )
        .values(values)
    )
    return updated.rowcount == 1


def _reconciliation(row: Any) -> Reconciliation:
    return Reconciliation(**{name: getattr(row, name) for name in Reconciliation.__slots__})
