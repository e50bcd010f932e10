"""Bring the tables up to date with the Alembic migrations in this package; safe for concurrent processes.

Alembic is loaded only by a process that has something to migrate.
"""

from importlib.resources import files
from typing import Literal

from sqlalchemy import Connection, inspect, select, text

from canary.footprint import hidden
from storage.store.database import Database
from storage.store.errors import BadValueError, StoreError
from storage.store.models import INCIDENTS
from storage.store.repositories.findings import heads

_VERSIONS = files("storage.store") / "migrations" / "versions"


def upgrade(database: Database) -> None:
    """Run every migration that is missing, all in one transaction.

    Raises:
        StoreError: the database cannot be reached, refuses, or was made by a later version.
    """
    if current(database) == newest():
        return
    with database.writing(serial="migrate") as connection:
        if _revision(connection) != newest():  # another process may have been quicker
            _migrate(connection, database.name, "upgrade", "head")
            unresolved = select(INCIDENTS.c.id).where(INCIDENTS.c.state != "resolved")
            heads.follow(connection, connection.scalars(unresolved).all())  # what it says of them may have changed


def downgrade(database: Database, revision: str) -> None:
    """Take the migrations after ``revision`` back, all in one transaction; what only they can keep is forgotten.

    Raises:
        BadValueError: the store never was at ``revision``.
        StoreError: the database cannot be reached, refuses, or was made by a later version.
    """
    with database.writing(serial="migrate") as connection:
        now = _revision(connection)
        known = [one for one in sorted(_revisions()) if now and one <= now]
        if revision not in known:
            remedy = f"name one of {', '.join(known)}" if known else "it has no tables"
            raise BadValueError(
                f"the store {database.name} is at revision {now} and cannot go back to {revision!r}: {remedy}"
            )
        _migrate(connection, database.name, "downgrade", revision)


def newest() -> str:
    """Return the revision of this version of the canary: the number of the last migration's file."""
    return max(_revisions())


def _revisions() -> set[str]:
    return {file.name[1:5] for file in _VERSIONS.iterdir() if file.name.startswith("m")}


def current(database: Database) -> str | None:
    """Return the revision of the tables, None if there are none.

    Raises:
        StoreError: the database cannot be reached.
    """
    with database.reading() as connection:
        return _revision(connection)


def _migrate(connection: Connection, name: str, way: Literal["upgrade", "downgrade"], revision: str) -> None:
    with hidden("pygments"):  # Mako loads a hundred lexers of it
        from alembic import command  # noqa: PLC0415  # 7 MiB, and needed once in a version's life
        from alembic.config import Config  # noqa: PLC0415
        from alembic.util.exc import CommandError  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", "storage.store:migrations")
    config.attributes["connection"] = connection
    try:
        getattr(command, way)(config, revision)
    except CommandError as error:
        raise StoreError(
            f"the store {name} was made by a later version ({error}); run that version or restore a backup"
        ) from None


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return found
