"""A real store on SQLite, filled as a runner would, and the application on top of it."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, Any

import pytest

from api import create_app
from api.knowledge import writing
from api.metrics import collect
from storage.store import Store
from tests.api.serving import Client, ProbeLogFake, settings, view

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx
    from fastapi import FastAPI


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
    """The application over a store in which the runner of "prod" has reported just now, whenever it is asked."""
    return Reported(create_app(settings("prod"), store, ProbeLogFake()), store)


class Reported(Client):
    """A client whose runner lives: what it stored is stored again before each question, unless a test replaced it."""

    def __init__(self, app: FastAPI, store: Store) -> None:
        super().__init__(app)
        self._store = store
        self._saved_ns = self._report()

    def _report(self) -> int:
        now_ns = time.time_ns()
        self._store.views.save("prod", "canary-0", now_ns, view())
        return now_ns

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        is_old = time.time_ns() - self._saved_ns > 10**9
        if is_old and self._store.views.saved_ns("prod", "canary-0") == self._saved_ns:
            self._saved_ns = self._report()
        return super().ask(method, path, **more)
