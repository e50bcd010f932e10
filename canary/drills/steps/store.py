"""What happens to the canary's store: its file, or its PostgreSQL server (stage.postgres)."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
from dataclasses import dataclass
from typing import Final

from canary.drills.rig.postgres import Postgres
from canary.drills.rig.rig import Rig
from canary.drills.steps.step import Step, take
from canary.lab import LabError

_COPY: Final = "store.copy"


@dataclass(frozen=True, slots=True)
class CopyStore(Step):
    """A backup is made of the store, while the canary runs."""

    def take(self, rig: Rig) -> None:
        """Copy it, as the database's own backup does."""
        if rig.postgres is not None:
            rig.postgres.copy()
            return
        with (
            contextlib.closing(sqlite3.connect(rig.canary.store)) as store,
            contextlib.closing(sqlite3.connect(rig.directory / _COPY)) as copy,
        ):
            store.backup(copy)

    def __str__(self) -> str:
        """Say it."""
        return "the canary's store is backed up"


@dataclass(frozen=True, slots=True)
class PutStoreBack(Step):
    """The store of a canary that does not run is put back from the backup."""

    def take(self, rig: Rig) -> None:
        """Replace it."""
        for old in rig.canary.directory.glob("store.db*"):
            old.unlink()
        shutil.copyfile(rig.directory / _COPY, rig.canary.store)

    def __str__(self) -> str:
        """Say it."""
        return "the canary's store is put back from the backup"


@dataclass(frozen=True, slots=True)
class WhileStoreLocked(Step):
    """Steps are taken while somebody else holds the store's lock: nothing can be written to it."""

    steps: tuple[Step, ...]

    def take(self, rig: Rig) -> None:
        """Take the lock, and the steps, and give it back."""
        with contextlib.closing(sqlite3.connect(rig.canary.store, timeout=60, isolation_level=None)) as store:
            store.execute("BEGIN EXCLUSIVE")
            take(rig, self.steps)
            store.execute("ROLLBACK")
        rig.note("the store's lock is free again")

    def __str__(self) -> str:
        """Say it."""
        return "somebody else holds the lock of the canary's store"


@dataclass(frozen=True, slots=True)
class StopStore(Step):
    """The server ends."""

    def take(self, rig: Rig) -> None:
        """Stop it."""
        _server(rig).stop()

    def __str__(self) -> str:
        """Say it."""
        return "the server of the canary's store is stopped"


@dataclass(frozen=True, slots=True)
class StartStore(Step):
    """The server is back, with what it had."""

    def take(self, rig: Rig) -> None:
        """Start it."""
        _server(rig).start()

    def __str__(self) -> str:
        """Say it."""
        return "the server of the canary's store is started again"


@dataclass(frozen=True, slots=True)
class FailStoreOver(Step):
    """The copy takes the server's place: what was committed since is gone, as after an asynchronous replication."""

    def take(self, rig: Rig) -> None:
        """Put it in its place; clients find it at the same address."""
        _server(rig).put_back()

    def __str__(self) -> str:
        """Say it."""
        return "the server of the canary's store fails over, and its last transactions are gone"


@dataclass(frozen=True, slots=True)
class WhileStoreFrozen(Step):
    """Steps are taken while the server is frozen (SIGSTOP): connections open, and nothing answers."""

    steps: tuple[Step, ...]

    def take(self, rig: Rig) -> None:
        """Freeze it, take the steps, and let it go on."""
        with _server(rig).frozen():
            take(rig, self.steps)
        rig.note("the server of the canary's store goes on")

    def __str__(self) -> str:
        """Say it."""
        return "the server of the canary's store is frozen (SIGSTOP)"


@dataclass(frozen=True, slots=True)
class WhileStoreCrowded(Step):
    """Steps are taken while others have every connection that the server allows."""

    steps: tuple[Step, ...]

    def take(self, rig: Rig) -> None:
        """End the canary's connections, take them, take the steps, and let them go."""
        with _server(rig).crowded() as taken:
            rig.note(f"others have {taken} connections, and the canary's are ended")
            take(rig, self.steps)
        rig.note("the server of the canary's store has connections again")

    def __str__(self) -> str:
        """Say it."""
        return "others take every connection of the canary's store"


def _server(rig: Rig) -> Postgres:
    """Return the server of the store.

    Raises:
        LabError: there is none.
    """
    if rig.postgres is None:
        raise LabError("the stage of this drill has no server of a store")
    return rig.postgres
