"""Planned windows, in one transaction of the caller's."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from sqlalchemy import delete, insert, select, update

from storage.store.models import MaintenanceRow
from storage.store.pages import Page, read_page
from storage.store.values import Maintenance

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sqlalchemy import Connection


def plan(
    connection: Connection, cluster: str | None, begin_ns: int, end_ns: int, reason: str, requested_by: str
) -> Maintenance:
    """Add a window."""
    window = Maintenance(uuid.uuid4().hex, cluster, begin_ns, end_ns, reason, requested_by)
    connection.execute(
        insert(MaintenanceRow).values(
            id=window.id,
            cluster=cluster,
            begin_ns=begin_ns,
            end_ns=end_ns,
            reason=reason,
            requested_by=requested_by,
        )
    )
    return window


def end(connection: Connection, maintenance_id: str, at_ns: int) -> Maintenance | None:
    """End a window now; one that has not begun is deleted, one that is over stays as it was. None: there is none."""
    row = connection.execute(select(MaintenanceRow.__table__).where(MaintenanceRow.id == maintenance_id)).one_or_none()
    if row is None:
        return None
    this = MaintenanceRow.id == maintenance_id
    if row.begin_ns >= at_ns:
        connection.execute(delete(MaintenanceRow).where(this))
        return _window(row)
    connection.execute(update(MaintenanceRow).where(this, MaintenanceRow.end_ns > at_ns).values(end_ns=at_ns))
    return _window(connection.execute(select(MaintenanceRow.__table__).where(this)).one())


def list_page(connection: Connection, cursor: str | None, limit: int) -> Page[Maintenance]:
    """Return a page of windows, the latest beginning first."""
    query = select(MaintenanceRow.__table__)
    keys = (MaintenanceRow.begin_ns, MaintenanceRow.id)
    return read_page(connection, query, keys, cursor=cursor, limit=limit, make=_window)


def covering(connection: Connection, cluster: str, times: Sequence[int]) -> Callable[[int], Maintenance | None]:
    """Return what tells the window of ``cluster`` that a moment (of ``times``, ns) lies in, or None."""
    windows = [
        window
        for window in between(connection, min(times, default=0), max(times, default=0))
        if window.cluster in {None, cluster}
    ]
    return lambda at_ns: next((window for window in windows if window.begin_ns <= at_ns < window.end_ns), None)


def between(connection: Connection, since_ns: int, until_ns: int) -> list[Maintenance]:
    """Return every window that holds at some time from ``since_ns`` to ``until_ns``, both included."""
    query = select(MaintenanceRow.__table__).where(
        MaintenanceRow.begin_ns <= until_ns, MaintenanceRow.end_ns > since_ns
    )
    return [_window(row) for row in connection.execute(query)]


def _window(row: Any) -> Maintenance:
    return Maintenance(row.id, row.cluster, row.begin_ns, row.end_ns, row.reason, row.requested_by)
