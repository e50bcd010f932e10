"""Two runners over one store that is put back from before one of them registered its producers."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from canary import facts as f
from canary.anomalies.online import Tracker
from canary.metrics.published import Published
from canary.runner.cluster.clients import ClusterClients
from canary.runner.cluster.identities import Identities
from canary.runner.publishing.flusher import Flusher
from storage.store import Store
from tests.support import stores
from tests.support.contexts import context

if TYPE_CHECKING:
    from pathlib import Path

S = 10**9
TOPIC = "probes"
TAIL = "read_committed"


class Inbox:
    def __init__(self) -> None:
        self.facts: list[f.Fact] = []

    def put(self, facts: list[f.Fact]) -> None:
        self.facts += facts


class Reader:
    """A runner with a new ledger that reads what its sibling writes."""

    def __init__(self, store: Store) -> None:
        self.tracker = Tracker()
        self.now_ns = 100 * S
        self.said: list[str] = []
        self._inbox = Inbox()
        clock = SimpleNamespace(now_ns=lambda: self.now_ns)
        shared = context(store, runner="new", inbox=self._inbox, clock=clock)
        self._clients: Any = SimpleNamespace(_watcher=None, probes={}, _context=shared)
        self.take(f.RunnerStarted(self.now_ns, "new", "1"))

    def take(self, *facts: f.Fact) -> None:
        self.tracker.fold(facts)
        findings = self.tracker.drain()
        self.said += [one.kind for one in findings.violations]
        ClusterClients.act_on(self._clients, findings)
        answers, self._inbox.facts = self._inbox.facts, []
        if answers:
            self.take(*answers)

    def read(self, who: tuple[int, int], start: int, end: int) -> None:
        self.take(*(f.Polled(self.now_ns, TAIL, TAIL, TOPIC, 0, n, *who, n) for n in range(start, end)))

    def wait(self, seconds: int) -> None:
        for _ in range(seconds):
            self.now_ns += S
            self.take(f.Tick(self.now_ns))


@pytest.mark.parametrize("lives", [True, False])
def test_what_a_live_sibling_writes_is_no_phantom_after_the_store_was_put_back(tmp_path: Path, *, lives: bool) -> None:
    path = tmp_path / "store.db"
    with Store.connect(f"sqlite:///{path}", timeout=60) as store:
        stores.upgrade(store)
        with (
            contextlib.closing(sqlite3.connect(path)) as now,
            contextlib.closing(sqlite3.connect(tmp_path / "backup.db")) as backup,
        ):
            now.backup(backup)
            sibling = context(store, runner="sibling", inbox=Inbox())
            writes = Identities(sibling, ("home", "id"), TOPIC, "plain", None)
            who = writes.producer_id, writes.generation
            shown = Published(now_ns=1, ordinal=1, judged_ns=time.time_ns())
            flusher = Flusher(sibling, latest=lambda: shown)
            assert flusher.flush()
            assert store.identities.generation(who[0]) == who[1]
            backup.backup(now)
        assert store.identities.generation(who[0]) is None
        reader = Reader(store)
        reader.read(who, 0, 20)
        if lives:
            assert flusher.flush()
        reader.wait(5)
        reader.read(who, 20, 40)
        reader.wait(100)
    assert set(reader.said) == (set() if lives else {"phantom"})
    assert reader.tracker.state.doubts == {}
