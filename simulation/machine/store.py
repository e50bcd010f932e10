"""The canary's own store on a database in memory that is away, forgets to answer, is slow, or is put back.

Repositories, tables and SQL are the product's; only the database beneath them is another one, and the view that a
runner saves every second is written by a statement that is ready (a tenth of the time).
"""

from __future__ import annotations

import functools
import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import orjson
from sqlalchemy import Connection, create_engine, event, make_url, select, update
from sqlalchemy.pool import StaticPool

from simulation.machine.schedule import Killed, Process, Schedule
from storage.store import Store, StoreError, migrating
from storage.store.database import Database, _json
from storage.store.models import LEASES
from storage.store.repositories.views import Views

Hook = Callable[[str, Literal["before", "after"]], None]
_SAVE = (
    "INSERT INTO views (cluster, runner, at_ns, view) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (cluster, runner) DO UPDATE SET at_ns = excluded.at_ns, view = excluded.view"
)


class MemoryDatabase(Database):
    """An SQLite database in memory; one transaction at a time."""

    def __init__(self) -> None:
        self._url = make_url("sqlite:///world/store.db")
        self.name = self._url.render_as_string()
        self.is_sqlite = True
        raw = self.raw = sqlite3.connect(":memory:", isolation_level=None)
        raw.execute("PRAGMA foreign_keys=ON")
        self._engine = create_engine(
            "sqlite://",
            creator=lambda: raw,
            poolclass=StaticPool,
            hide_parameters=True,
            json_serializer=_json,
            json_deserializer=orjson.loads,
        )
        self._connection = self._engine.connect()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Give a connection that reads."""
        with self._translated(), self._connection.begin():
            self.raw.execute("BEGIN")
            yield self._connection

    @contextmanager
    def writing(self, *, serial: str | Collection[str] = ()) -> Iterator[Connection]:  # noqa: ARG002  # there is one writer
        """Give a connection whose transaction is committed at the end."""
        with self._translated(), self._connection.begin():
            self.raw.execute("BEGIN")
            yield self._connection

    def close(self) -> None:
        """Close the database."""
        self._connection.close()
        super().close()
        self.raw.close()


@functools.cache
def migrated() -> bytes:
    """Return a database with all tables, and nothing in them."""
    database = MemoryDatabase()
    migrating.upgrade(database)
    content = database.raw.serialize()
    database.close()
    return content


class LyingDatabase(MemoryDatabase):
    """Its transactions do what the ``LyingStore`` wants."""

    def __init__(self, lying: LyingStore) -> None:
        super().__init__()
        self._lying = lying
        event.listen(self._connection, "before_execute", self._before_execute)

    def _before_execute(self, *_: object) -> None:
        self._lying.step("statement", "before")

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Give a connection that reads, or fail."""
        lying = self._lying
        lying.ask()
        with super().reading() as connection:
            yield connection
        lying.answer()

    @contextmanager
    def writing(self, *, serial: str | Collection[str] = ()) -> Iterator[Connection]:
        """Give a connection whose transaction is committed at the end, or not, or without an answer."""
        lying = self._lying
        lying.ask()
        with super().writing(serial=serial) as connection:
            yield connection
            lying.step("commit", "before")
        lying.step("commit", "after")
        lying.answer()

    def close(self) -> None:
        """Leave the database as it is: other processes use it, too."""


class ReadyViews(Views):
    """Views that are saved without SQLAlchemy's making of the statement."""

    def save(self, cluster: str, runner: str, at_ns: int, view: bytes) -> None:
        """Save a view by a statement that is compiled already."""
        with self._database.writing() as connection:
            connection.exec_driver_sql(_SAVE, (cluster, runner, at_ns, view))


class LyingStore:
    """What all processes have as their store; the process of a call is the one whose task runs.

    Nothing goes wrong with calls outside of any task. A transaction of a process that dies is rolled back unless it has
    been committed. ``on_step`` is called before each statement, and before and after each commit; it may kill the
    process there.

    Args:
        schedule: whose tasks call; None: all calls are those of ``owner``.
        dice: for what goes wrong by chance.
    """

    def __init__(self, schedule: Schedule | None = None, dice: random.Random | None = None) -> None:
        self.owner = Process("owner of the store")
        self.on_step: Hook | None = None
        self.away = False
        """Whether every call fails."""
        self.refused = 0.0
        """The part of calls that fail and do nothing."""
        self.unanswered = 0.0
        """The part of calls that fail although they did what was asked."""
        self.delay_s = 0.0
        """How long a call takes at most, in virtual seconds: before or after it does what was asked."""
        self.seen: Counter[str] = Counter()
        """Calls so far, and what went wrong with them."""
        self.damaged: list[float] = []
        """When it came to hold something else than it had been told to keep."""
        self._schedule = schedule
        self._dice = dice or random.Random(0)  # to be repeated, not to be secret
        self._late_s = 0.0
        self._database = LyingDatabase(self)
        self._database.raw.deserialize(migrated())
        self.store = Store(self._database)
        self.store.views = ReadyViews(self._database)

    def heal(self) -> None:
        """Let nothing go wrong any more."""
        self.away = False
        self.unanswered = self.refused = self.delay_s = 0.0

    def is_well(self) -> bool:
        """Whether nothing goes wrong now."""
        return not (self.away or self.refused or self.unanswered or self.delay_s)

    def backup(self) -> bytes:
        """Return a copy of the database."""
        return self._database.raw.serialize()

    def restore(self, backup: bytes) -> None:
        """Put a copy back. Not within a transaction."""
        self.damaged.append(0.0 if self._schedule is None else self._schedule.now)
        self._database.raw.deserialize(backup)

    def wipe(self) -> None:
        """Lose all rows."""
        self.restore(migrated())

    def drop_tables(self) -> None:
        """Lose the tables, too."""
        empty = sqlite3.connect(":memory:")
        empty.executescript("CREATE TABLE a (b); DROP TABLE a")  # what was never written to cannot be copied
        self.restore(empty.serialize())
        empty.close()

    def take_leases(self, holder: str = "another") -> list[str]:
        """Let another holder have every lease, as one that has waited long enough; return their names."""
        with MemoryDatabase.writing(self._database) as connection:
            names = list(connection.scalars(select(LEASES.c.name).order_by(LEASES.c.name)))
            connection.execute(update(LEASES).values(holder=holder, counter=LEASES.c.counter + 1, released=False))
        return names

    def close(self) -> None:
        """Forget the database."""
        MemoryDatabase.close(self._database)

    # Within

    def ask(self) -> None:
        """Begin a call.

        Raises:
            StoreError: the call fails, and nothing is done.
        """
        late_s = 0.0
        if self._is_real:
            self.seen["calls"] += 1
            if self.delay_s:
                late_s = self.delay_s * self._dice.random()
                if self._dice.random() < 0.5:
                    self._pause(late_s)
                    late_s = 0.0
            if self.away or (self.refused and self._dice.random() < self.refused):
                self._fail("refused", "connection refused")
        self._late_s = late_s

    def answer(self) -> None:
        """End a call.

        Raises:
            StoreError: the call fails though all was done.
        """
        if self._is_real:
            if self._late_s:
                self._pause(self._late_s)
            if self.unanswered and self._dice.random() < self.unanswered:
                self._fail("unanswered", "server closed the connection unexpectedly")

    def step(self, name: str, when: Literal["before", "after"]) -> None:
        """Let the process die here."""
        if self.on_step is not None and self._is_real:
            self.on_step(name, when)
            self._is_real  # noqa: B018  # it may have been killed

    @property
    def _is_real(self) -> bool:
        """Whether a process of the world calls, and no test; a dead one calls nothing."""
        task = self._schedule.current if self._schedule is not None else None
        if (self.owner if task is None else task.process).dead:
            raise Killed
        return task is not None or self._schedule is None

    def _pause(self, seconds: float) -> None:
        schedule = self._schedule
        if schedule is not None:
            due = schedule.now + seconds
            while schedule.now < due:
                schedule.park(due)
        self.seen["late"] += 1

    def _fail(self, what: str, words: str) -> Any:
        self.seen[what] += 1
        raise StoreError(f"the store {self._database.name} does not answer: {words}")
