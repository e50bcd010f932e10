"""A store that answers and takes no write says so, and is not taken for one that cannot be reached."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import create_engine, select, text

from storage.store import Store, StoreError
from storage.store.database import Database
from storage.store.errors import UnwritableError
from storage.store.models import LEASES
from tests.support.disk import small_disk
from tests.support.stores import opened

if TYPE_CHECKING:
    from pathlib import Path

    from canary.drills.rig.postgres import Postgres


def refused(store: Store) -> str:
    """What a store says that answers and takes no write."""
    store.ping()
    with pytest.raises(UnwritableError) as caught:
        store.leases.try_write()
    assert str(caught.value) == f"the store {store.name} takes no write: {caught.value.reason}"
    return caught.value.reason


def hurried(store: Store, setting: str) -> None:
    """Set the only pooled connection, so that it waits for no lock."""
    with store._database.reading() as connection:
        connection.exec_driver_sql(setting)
        connection.commit()


def test_trials_of_all_processes_are_one_row(store: Store) -> None:
    with store._database.reading() as connection:
        before = len(connection.execute(select(LEASES)).all())
    for _ in range(3):
        store.leases.try_write()
    with store._database.reading() as connection:
        assert len(connection.execute(select(LEASES)).all()) == before + 1


def test_a_locked_sqlite_takes_no_write_and_then_does(tmp_path: Path) -> None:
    with opened(f"sqlite:///{tmp_path}/store.db") as store:
        hurried(store, "PRAGMA busy_timeout=10")
        with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            assert refused(store) == "database is locked"
            other.execute("ROLLBACK")
            store.leases.try_write()


def test_a_full_disk_of_sqlite_takes_no_write(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small") as disk, opened(f"sqlite:///{disk.path}/store.db") as store:
        store.leases.try_write()
        disk.fill()
        assert refused(store) == "database or disk is full"
        disk.empty()
        store.leases.try_write()


def test_a_read_only_sqlite_takes_no_write(tmp_path: Path) -> None:
    with opened(f"sqlite:///{tmp_path}/store.db") as store:
        hurried(store, "PRAGMA query_only=ON")
        assert refused(store) == "attempt to write a readonly database"


@pytest.mark.postgres
def test_a_postgresql_that_is_read_only_or_locked_takes_no_write(postgres: Postgres) -> None:
    url = postgres.database()
    with opened(url) as store, closing(create_engine(store._database._url).connect()) as other:
        store.leases.try_write()
        name = store._database._url.database
        other.execute(text("LOCK TABLE leases"))
        hurried(store, "SET lock_timeout = 10")
        assert "lock timeout" in refused(store)
        other.rollback()
        other.execute(text(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on'))
        other.commit()
        store.close()  # a new connection has the new default
        assert refused(store) == "cannot execute INSERT in a read-only transaction"


def test_a_postgresql_that_refuses_connections_is_not_reached() -> None:
    store = Store(Database("postgresql+psycopg://canary:secret@127.0.0.1:1/canary"))
    with pytest.raises(StoreError, match="does not answer") as caught:
        store.leases.try_write()
    assert not isinstance(caught.value, UnwritableError)
    assert "secret" not in str(caught.value)
