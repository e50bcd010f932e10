"""One engine for SQLite or PostgreSQL, and one kind of error.

SQLite: WAL, synchronous=FULL (a committed generation survives a power cut), 10 s busy timeout, foreign keys on. A
writing transaction begins IMMEDIATE: it waits for the lock at its start, where the busy timeout applies; in the middle
SQLite would refuse at once.
PostgreSQL: psycopg 3, READ COMMITTED. Connections are tested before use; connecting, waiting for a lock and running a
statement have time limits, so that a dead database delays a caller for seconds only.
"""

import copy
import json
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import orjson
from sqlalchemy import (
    URL,
    Column,
    Connection,
    Engine,
    Executable,
    Select,
    create_engine,
    event,
    func,
    make_url,
    text,
    tuple_,
)
from sqlalchemy.exc import ArgumentError, DataError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import QueuePool

from canary.extras import require
from storage.store.cursors import MAX_LIMIT, Excerpt, Page, decode, encode
from storage.store.errors import BadValueError, StoreError, UnwritableError
from storage.store.visibility import narrowed

T = TypeVar("T")

_WRITING = "canary_writing"
_CONNECT_S = 5
_STATEMENT_MS = 30_000
_LOCK_MS = 10_000
_NO_WRITE = (
    *("SQLITE_BUSY", "SQLITE_FULL", "SQLITE_READONLY"),
    *("25006", "53100", "55P03"),  # read-only, full disk, a lock that was not given in time
)
"""With which a database says that it takes no write: beginnings of SQLite's names of errors, PostgreSQL's SQLSTATEs."""


class Database:
    """The database at a URL, opened at first use; safe for several threads."""

    def __init__(self, url: str) -> None:
        self._url = _parse(url)
        self.name = self._url.render_as_string(hide_password=True)
        self.is_sqlite = self._url.get_backend_name() == "sqlite"
        self._engine = _sqlite(self._url) if self.is_sqlite else _postgresql(self._url)
        self._writing = self._engine.execution_options(**{_WRITING: True})

    def of(self, clusters: frozenset[str]) -> "Database":
        """Return this database for a principal that may see ``clusters`` only (`storage.store.visibility`)."""
        limited = copy.copy(self)
        limited._engine = self._engine.execution_options()  # noqa: SLF001  # its own, of this class

        @event.listens_for(limited._engine, "before_execute", retval=True)  # noqa: SLF001  # the same
        def narrow(
            _connection: Connection, statement: Executable, several: Any, one: Any, _options: Any
        ) -> tuple[Executable, Any, Any]:
            return narrowed(statement, clusters), several, one

        limited._writing = limited._engine.execution_options(**{_WRITING: True})  # noqa: SLF001  # the same
        return limited

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Run the body in a transaction that only reads.

        Raises:
            StoreError: the database cannot be reached or refuses.
        """
        with self._translated(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def writing(self, *, serial: str | Collection[str] = ()) -> Iterator[Connection]:
        """Run the body in a transaction that is committed at its end and rolled back on an exception.

        Those with the same word ``serial``, or one of several, run one after the other, across processes.

        Raises:
            StoreError: the database cannot be reached or refuses.
        """
        with self._translated(), self._writing.begin() as connection:
            words = [] if self.is_sqlite else [serial] if isinstance(serial, str) else sorted(serial)
            for word in words:  # SQLite has one writer anyway
                connection.execute(text("SELECT pg_advisory_xact_lock(hashtextextended(:word, 7363))"), {"word": word})
            yield connection

    def close(self) -> None:
        """Close every pooled connection."""
        self._engine.dispose()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except DataError as error:
            raise BadValueError(f"the store cannot hold such a value: {error.orig}") from None
        except SQLAlchemyError as error:
            words = self._words(error)
            if _refuses(error):
                raise UnwritableError(self.name, words) from None
            raise StoreError(f"the store {self.name} {_fault(error, words)}") from None
        except OSError as error:
            raise StoreError(f"the store {self.name} cannot be used: {error.strerror or error}") from None

    def _words(self, error: SQLAlchemyError) -> str:
        """Return the driver's message on one line, without statement, parameters or password."""
        origin = getattr(error, "orig", None) or error
        words = re.sub(r"\s+", " ", str(origin)).strip()
        if self._url.password:
            words = words.replace(str(self._url.password), "***")
        return words[:400] or type(origin).__name__


def _fault(error: SQLAlchemyError, words: str) -> str:
    if "no such table" in words or "UndefinedTable" in type(getattr(error, "orig", None)).__name__:
        return f"has no tables yet or old ones ({words[:200]}); run: canary db upgrade"
    return f"does not answer: {words}"


def _refuses(error: SQLAlchemyError) -> bool:
    """Return whether the database has answered that it takes no write now."""
    origin = getattr(error, "orig", None)
    code = getattr(origin, "sqlite_errorname", None) or getattr(origin, "sqlstate", None) or ""
    return code.startswith(_NO_WRITE)


def one_of(connection: Connection, query: Executable, make: Callable[[Any], T]) -> T | None:
    """Return what ``make`` makes of the only row that ``query`` gives, None without one."""
    row = connection.execute(query).one_or_none()
    return None if row is None else make(row)


class Repository:
    """A family of tables in a database. Every public method runs one transaction and may raise StoreError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def _one(self, query: Select[Any], make: Callable[[Any], T]) -> T | None:
        """Return what ``make`` makes of the only row of ``query``, None without one."""
        with self._database.reading() as connection:
            return one_of(connection, query, make)

    def _all(self, query: Select[Any], make: Callable[[Any], T]) -> list[T]:
        """Return what ``make`` makes of each row of ``query``."""
        with self._database.reading() as connection:
            return [make(row) for row in connection.execute(query)]

    def _excerpt(self, query: Select[Any], make: Callable[[Any], T], limit: int) -> Excerpt[T]:
        """Return what ``make`` makes of the first ``limit`` rows of ``query``, which is of one table."""
        counted = query.order_by(None).with_only_columns(func.count(), maintain_column_froms=True)
        with self._database.reading() as connection:
            rows = connection.execute(query.limit(limit)).all()
            total = len(rows) if len(rows) < limit else connection.execute(counted).scalar_one()
        return Excerpt([make(row) for row in rows], max(total, len(rows)))

    def _page(
        self, query: Select[Any], at: Column[Any], make: Callable[[Any], T], cursor: str | None, limit: int
    ) -> Page[T]:
        """Return what ``make`` makes of ``limit`` (1 to 1000) rows of ``query``, newest first by ``at`` (ns) and id.

        Raises:
            BadCursorError: ``cursor`` is not from this list.
        """
        keys = at, at.table.c.id
        limit = max(1, min(limit, MAX_LIMIT))
        with self._database.reading() as connection:
            if cursor is not None:
                query = query.where(tuple_(*keys) < tuple_(*decode(cursor)))
            rows = connection.execute(query.order_by(*(key.desc() for key in keys)).limit(limit + 1)).all()
        next_cursor = encode(*(getattr(rows[limit - 1], key.key) for key in keys)) if len(rows) > limit else None
        return Page([make(row) for row in rows[:limit]], next_cursor)


def _parse(url: str) -> URL:
    try:
        parsed = make_url(url)
        dialect = parsed.get_dialect().name
    except (ArgumentError, NoSuchModuleError, ValueError, ImportError):
        raise StoreError(
            "store.url is no database URL that is understood; use sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME",
            2,
        ) from None
    if dialect == "postgresql":
        return parsed.set(drivername="postgresql+psycopg")
    if dialect != "sqlite":
        raise StoreError(f"store.url names {dialect}; use sqlite:///FILE or postgresql+psycopg://USER@HOST/NAME", 2)
    if not parsed.database or parsed.database == ":memory:":
        raise StoreError("store.url names an SQLite database in memory; name a file: sqlite:///var/canary/store.db", 2)
    return parsed


def _json(value: object) -> str:
    """Return JSON; values without a JSON form (in evidence) become their text, NaN becomes null."""
    option = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY
    try:
        return orjson.dumps(value, default=str, option=option).decode()
    except TypeError:  # a lone surrogate, an integer above 64 bits
        mended = json.dumps(value, default=str, ensure_ascii=False).encode("utf-8", "replace")
        return orjson.dumps(json.loads(mended, parse_int=_integer)).decode()


def _integer(digits: str) -> int | str:
    return int(digits) if abs(int(digits)) < 2**63 else digits


def _postgresql(url: URL) -> Engine:
    require("postgres", "store.url (postgresql://…)")
    engine = create_engine(
        url,
        pool_pre_ping=True,
        pool_timeout=_CONNECT_S,
        pool_size=5,
        max_overflow=10,
        hide_parameters=True,
        json_serializer=_json,
        json_deserializer=orjson.loads,
        connect_args={
            "client_encoding": "utf8",  # of a database without an encoding (SQL_ASCII) psycopg returns bytes otherwise
            "connect_timeout": _CONNECT_S,
            "keepalives_idle": 5,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "tcp_user_timeout": 10_000,
        },
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        with connection.cursor() as cursor:  # SET, because poolers refuse options=
            cursor.execute(f"SET statement_timeout = {_STATEMENT_MS}")
            cursor.execute(f"SET lock_timeout = {_LOCK_MS}")
        connection.commit()

    return engine


def _sqlite(url: URL) -> Engine:
    file = Path(str(url.database))
    engine = create_engine(
        url,
        poolclass=QueuePool,
        hide_parameters=True,
        json_serializer=_json,
        json_deserializer=orjson.loads,
        connect_args={"timeout": 10},
    )

    @event.listens_for(engine, "do_connect")
    def make_directory(*_: object) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # the driver begins no transactions; "begin" below does
        cursor = connection.cursor()
        for pragma in ("busy_timeout=10000", "journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writing = connection.get_execution_options().get(_WRITING, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine
