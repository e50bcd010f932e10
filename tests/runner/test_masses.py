"""The largest loss is told however often the canary is killed while it is being told."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from canary.runner.publishing import snapshot
from canary.runner.publishing.flusher import Flusher
from storage.ledger import Ledger
from storage.store import Store
from storage.store.values import ViolationCount
from tests.support import stores
from tests.support.contexts import context
from tests.support.massive import MANY, Massive, cut, knowing
from tests.support.steps import steps

if TYPE_CHECKING:
    from pathlib import Path

    from canary import facts as f


def cut_before_it_was_flushed(directory: Path, n: int) -> None:
    """Leave the ledger of a canary that knew ``n`` probes, saw them cut off, and was killed before the store heard."""
    bench = knowing(n)
    with Ledger(directory / "alive") as ledger:
        ledger.seal(snapshot.seal(bench.tracker, ()))

        def fold(*facts: f.Fact) -> None:
            ledger.append(facts)
            Massive.fold(bench, *facts)

        bench.fold = fold  # type: ignore[method-assign]
        cut(bench)
        shutil.copytree(directory / "alive", directory / "killed")
    assert sum(violation.count for violation in bench.said if violation.kind == "lost-write") == n


def replay(directory: Path, store: Store) -> None:
    """Begin where it was killed: fold what the ledger holds, and give the store what was found."""
    with Ledger(directory / "killed") as ledger:
        recovery = ledger.recover()
        tracker, undelivered, _, _ = snapshot.unseal(recovery.state)
        flusher = Flusher(context(store, runner="canary-0"))
        flusher.violations(undelivered)
        for batch in recovery.facts:
            tracker.fold(batch)
            flusher.violations(tracker.drain().violations)
        assert flusher.flush()


def test_ten_million_lost_at_once_are_told_after_a_kill_and_counted_once(tmp_path: Path) -> None:
    work = []
    for n in (100, MANY):
        directory = tmp_path / str(n)
        cut_before_it_was_flushed(directory, n)
        with Store.connect(f"sqlite:///{directory}/store.db", timeout=5) as store:
            stores.upgrade(store)
            work.append(steps(lambda directory=directory, store=store: replay(directory, store)))  # type: ignore[misc]
            replay(directory, store)  # killed once more, before the next snapshot
            lost = [(row.offset, row.last_offset) for row in store.violations.page().items if row.kind == "lost-write"]
            assert lost == [(10, n + 9)]
            assert ViolationCount("c", "lost-write", "critical", n, n) in store.violations.counts()
    assert work[1] < 1.1 * work[0], "what telling a loss takes does not grow with it"
