"""Planned maintenance windows: violations found in one are recorded as planned."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from sqlalchemy import Connection, Select, delete, insert, select, update

from canary.threads import system
from storage.store.cursors import Page
from storage.store.database import Repository
from storage.store.models import MAINTENANCE
from storage.store.rows import value_of
from storage.store.values import Maintenance

_window = partial(value_of, Maintenance)


class Windows(Repository):
    """The planned windows."""

    def plan(self, cluster: str | None, begin_ns: int, end_ns: int, reason: str, requested_by: str) -> Maintenance:
        """Plan a window of one cluster (None: of all)."""
        window = Maintenance(system.token_hex(16), cluster, begin_ns, end_ns, reason, requested_by)
        with self._database.writing() as connection:
            connection.execute(insert(MAINTENANCE).values(asdict(window)))
        return window

    def end(self, maintenance_id: str, at_ns: int) -> Maintenance | None:
        """End a window at ``at_ns``; one that begins later is deleted, one that is over stays as it is.

        Returns None if there is no such window.
        """
        this = MAINTENANCE.c.id == maintenance_id
        query = select(MAINTENANCE).where(this)
        with self._database.writing() as connection:
            row = connection.execute(query).one_or_none()
            if row is None:
                return None
            if row.begin_ns >= at_ns:
                connection.execute(delete(MAINTENANCE).where(this))
                return _window(row)
            connection.execute(update(MAINTENANCE).where(this, MAINTENANCE.c.end_ns > at_ns).values(end_ns=at_ns))
            return _window(connection.execute(query).one())

    def page(self, cursor: str | None = None, limit: int = 100) -> Page[Maintenance]:
        """Return a page of windows, the latest beginning first."""
        return self._page(select(MAINTENANCE), MAINTENANCE.c.begin_ns, _window, cursor, limit)

    def between(self, since_ns: int, until_ns: int) -> list[Maintenance]:
        """Return every window that overlaps the time from ``since_ns`` to ``until_ns``, both included."""
        return self._all(_between(since_ns, until_ns), _window)


def covering(connection: Connection, cluster: str, times: Sequence[int]) -> Callable[[int], Maintenance | None]:
    """Return a function from a moment (one of ``times``, ns) to the window of ``cluster`` that covers it, or None."""
    windows = [
        window
        for window in map(_window, connection.execute(_between(min(times, default=0), max(times, default=0))))
        if window.cluster in {None, cluster}
    ]
    return lambda at_ns: next((window for window in windows if window.begin_ns <= at_ns < window.end_ns), None)


def _between(since_ns: int, until_ns: int) -> Select[Any]:
    return select(MAINTENANCE).where(MAINTENANCE.c.begin_ns <= until_ns, MAINTENANCE.c.end_ns > since_ns)
