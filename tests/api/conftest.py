"""A real store on SQLite, filled as a runner would, and the application on top of it."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

import pytest

from api import create_app
from api.knowledge import writing
from api.metrics import collect
from storage.store import Store
from tests.api.serving import Client, ProbeLogFake, settings, view

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> float:
    """Let /metrics and trials of the store wait as long as a stalled machine takes; the seconds that /metrics waits."""
    shipped = collect.STORE_TIMEOUT_S
    monkeypatch.setattr(collect, "STORE_TIMEOUT_S", 60.0)
    monkeypatch.setattr(writing, "WAIT_S", 60.0)
    return shipped


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of an empty store, of which each test takes a copy: to migrate one takes longer than most tests."""
    path = tmp_path_factory.mktemp("migrated") / "store.db"
    with Store.connect(f"sqlite:///{path}", timeout=60) as empty:
        empty.upgrade()
    return path


@pytest.fixture
def store(tmp_path: Path, migrated: Path) -> Iterator[Store]:
    shutil.copy(migrated, tmp_path / "store.db")
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=60) as opened:
        yield opened


@pytest.fixture
def client(store: Store) -> Client:
    """The application over a store in which the runner of "prod" reported just now."""
    store.views.save("prod", "canary-0", time.time_ns(), view())
    return Client(create_app(settings("prod"), store, ProbeLogFake()))
