"""Stores with all their tables, without migrating each: what the first migration ran, is run again."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from sqlalchemy import event

from storage.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

_ran: dict[bool, list[tuple[str, Any]]] = {}
"""By whether it is SQLite: the statements of a migration from nothing, with their parameters."""


@contextmanager
def opened(url: str, *, timeout: float = 60.0) -> Iterator[Store]:
    """Connect to the store at ``url``, an empty database, and bring its tables up to date."""
    with Store.connect(url, timeout=timeout) as store:
        upgrade(store)
        yield store


def upgrade(store: Store) -> None:
    """Do to an empty database what `Store.upgrade` does; Alembic's own part in that is nine tenths of the CPU."""
    database = store._database
    if database.is_sqlite in _ran:
        with database.writing() as connection:
            for statement, parameters in _ran[database.is_sqlite]:
                connection.exec_driver_sql(statement, parameters or None)
        return
    ran: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        if not statement.lstrip().startswith(("BEGIN", "PRAGMA", "SELECT")):
            ran.append((statement, parameters))

    event.listen(database._writing, "before_cursor_execute", note)
    try:
        store.upgrade()
    finally:
        event.remove(database._writing, "before_cursor_execute", note)
    _ran[database.is_sqlite] = ran
