"""Bring the tables up to date, by the Alembic migrations packaged here; safe when several processes begin at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError

from storage.store.errors import StoreError

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from storage.store.database import Database


def upgrade(database: Database) -> None:
    """Run every migration that is missing, all in one transaction.

    Raises:
        StoreError: the database cannot be reached, refuses, or was made by a later version.
    """
    if current(database) == newest():
        return
    config = _config()
    with database.writing(serial="migrate") as connection:
        config.attributes["connection"] = connection
        try:
            command.upgrade(config, "head")
        except CommandError as error:
            raise StoreError(
                f"the store {database.name} was made by a later version ({error}); run that version or restore a backup"
            ) from None


def newest() -> str | None:
    """Return the revision that this version of the canary makes."""
    return ScriptDirectory.from_config(_config()).get_current_head()


def current(database: Database) -> str | None:
    """Return the revision of the tables, None if there are none.

    Raises:
        StoreError: the database cannot be reached.
    """
    with database.reading() as connection:
        return _revision(connection)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", "storage.store:migrations")
    return config


def _revision(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()
