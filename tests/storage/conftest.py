from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from storage.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database, of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/deep/store.db"
    url: str = request.getfixturevalue("postgres").database()
    return url


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """A migrated store."""
    with Store.connect(store_url, timeout=60) as connected:
        connected.upgrade()
        yield connected
