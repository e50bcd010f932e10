"""The INSERT … ON CONFLICT of the database at hand."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlalchemy import Connection


def insert_or(connection: Connection, table: Any) -> Any:
    """Return an insert into ``table`` that has on_conflict_do_nothing and on_conflict_do_update."""
    dialect: Any = importlib.import_module(f"sqlalchemy.dialects.{connection.dialect.name}")  # loaded with the engine
    return dialect.insert(table)
