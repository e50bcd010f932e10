"""Rows into values, values into rows."""

import importlib
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from sqlalchemy import ColumnElement, Connection, Table

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Item = TypeVar("Item")
Value = TypeVar("Value", bound="DataclassInstance")


def value_of(kind: type[Value], row: Any, **others: Any) -> Value:
    """Return a ``kind`` with ``others`` and, for its remaining fields, the columns of ``row`` of the same names."""
    columns = (field.name for field in fields(kind) if field.name not in others)
    return kind(**others, **{name: getattr(row, name) for name in columns})


def matching(table: Table, wanted: object, *names: str) -> list[ColumnElement[bool]]:
    """Return conditions that the columns ``names`` equal the fields of ``wanted``; a field that is None has none."""
    return [table.c[name] == value for name in names if (value := getattr(wanted, name)) is not None]


def insert_or(connection: Connection, table: Table) -> Any:
    """Return the database's own INSERT, which has on_conflict_do_nothing and on_conflict_do_update."""
    dialect: Any = importlib.import_module(f"sqlalchemy.dialects.{connection.dialect.name}")  # loaded with the engine
    return dialect.insert(table)


def insert_missing(connection: Connection, table: Table, **row: Any) -> None:
    """Insert a row unless there is one with its primary key."""
    statement = insert_or(connection, table).values(row)
    connection.execute(statement.on_conflict_do_nothing(index_elements=list(table.primary_key)))


def chunks(items: Iterable[Item], size: int = 500) -> Iterator[list[Item]]:
    """Yield ``items`` in lists of at most ``size``."""
    iterator = iter(items)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk
