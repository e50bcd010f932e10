"""The INSERT … ON CONFLICT of the database at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy.dialects import postgresql, sqlite

if TYPE_CHECKING:
    from sqlalchemy import Connection


def insert_or(connection: Connection, table: Any) -> Any:
    """Return an insert into ``table`` that has on_conflict_do_nothing and on_conflict_do_update."""
    dialect: Any = postgresql if connection.dialect.name == "postgresql" else sqlite
    return dialect.insert(table)
