"""The tables of version 0.1.0: brought up to today's and taken back, with all that it knew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import JSON, Boolean, Integer, LargeBinary, MetaData, Table, insert, inspect, select

from storage.store import Store, StoreError
from storage.store.migrating import newest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Column, Connection

FIRST_VERSION = "0004"
"""The revision of version 0.1.0's tables."""


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """A store as version 0.1.0 left it, with a row in each of its tables."""
    with Store.connect(store_url, timeout=60) as connected:
        connected.upgrade()
        connected.downgrade(FIRST_VERSION)
        with connected._database.writing() as connection:
            for table in tables(connection):
                connection.execute(insert(table), {one.name: some(one) for one in table.columns})
        yield connected


def tables(connection: Connection) -> list[Table]:
    metadata = MetaData()
    metadata.reflect(connection)
    return [table for table in metadata.sorted_tables if table.name != "alembic_version"]


def some(column: Column[Any]) -> Any:
    """Return a value for a column."""
    if isinstance(column.type, JSON):
        return [] if column.name == "sightings" else {}
    if isinstance(column.type, Boolean):
        return False
    if isinstance(column.type, Integer):
        return 7
    if isinstance(column.type, LargeBinary):
        return b"7"
    if column.name == "reason" and column.nullable:
        return None  # of what is open
    return {"state": "open", "kind": "lost-write", "severity": "critical"}.get(column.name, "seven")


def content(store: Store) -> dict[str, list[dict[str, Any]]]:
    with store._database.reading() as connection:
        return {
            table.name: [dict(row) for row in connection.execute(select(table)).mappings()]
            for table in tables(connection)
        }


def indexes(store: Store) -> dict[str, set[str | None]]:
    with store._database.reading() as connection:
        return {
            table.name: {one["name"] for one in inspect(connection).get_indexes(table.name)}
            for table in tables(connection)
        }


def test_what_the_first_version_knew_is_there_after_an_upgrade_and_after_the_way_back(store: Store) -> None:
    before, indexed = content(store), indexes(store)
    assert set(before) >= {"violations", "reconciliations", "tokens", "leases", "maintenance", "actions"}
    assert all(len(rows) == 1 for rows in before.values())
    for _ in range(2):
        store.upgrade()
        assert store.current() == newest()
        after = content(store)
        for table, (row,) in before.items():
            (same,) = after[table]
            assert row.items() <= same.items(), table
        (violation,) = store.violations.page().items
        assert (violation.offset, violation.count) == (7, 1)
        (reconciliation,) = store.reconciliations.page().items
        assert reconciliation.interrupted == 0
        (token,) = store.tokens.all()
        assert token.clusters is None, "it was for all clusters"
        store.tokens.create("limited", "read", 1, None, ["prod"])
        store.downgrade(FIRST_VERSION)
        assert store.current() == FIRST_VERSION
        assert content(store) == before
        assert indexes(store) == indexed


def test_a_store_is_taken_back_to_where_it_was_and_nowhere_else(store: Store) -> None:
    for wrong in ("0005", "0000", "", "base", "-1", "head", "4"):
        with pytest.raises(
            StoreError, match=rf"revision {FIRST_VERSION} .* name one of 0001, 0002, 0003, {FIRST_VERSION}$"
        ):
            store.downgrade(wrong)
    store.downgrade(FIRST_VERSION)
    assert store.current() == FIRST_VERSION


def test_an_empty_store_has_no_way_back(store_url: str) -> None:
    with Store.connect(store_url, timeout=60) as empty, pytest.raises(StoreError, match="it has no tables"):
        empty.downgrade("0001")
