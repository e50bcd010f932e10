"""One live runner of a name: a takeover without waiting needs proof that the holder's process has ended."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from structlog.testing import capture_logs

from canary.runner.supervision import lease
from canary.runner.supervision.lease import LeaseRenewer, TakenError, claim
from canary.threads import pids
from storage.store import Store
from tests.support import stores
from tests.support.contexts import context
from tests.support.waiting import in_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NEVER_S = 1e9
HOLDS = """
import sys, time
from pathlib import Path
from canary.runner.supervision.lease import claim
from storage.store import Store
from tests.support.contexts import context
with Store.connect(sys.argv[1], timeout=60) as store:
    print(claim(context(store), Path(sys.argv[2])), flush=True)
    time.sleep(600)
"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.connect(f"sqlite:///{tmp_path}/store.db", timeout=60) as store:
        stores.upgrade(store)
        yield store


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    found = tmp_path / "ledger"
    found.mkdir()
    return found


@contextmanager
def holding(tmp_path: Path, directory: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the lease, and does not renew it."""
    command = [sys.executable, "-c", HOLDS, f"sqlite:///{tmp_path}/store.db", str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().strip() == (directory / "holder").read_text().split()[0]
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("copy", [shutil.copy2, os.link], ids=["copy", "same-inodes"])
def test_a_copy_of_a_live_runners_ledger_does_not_take_its_lease(
    store: Store, directory: Path, copy: Callable[[str, str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "_RENEW_S", 0.1)
    holder = claim(context(store), directory)
    assert holder is not None
    lost = list[bool]()
    renewer = LeaseRenewer(store, "c", "r", holder, lambda: lost.append(True))
    renewer.start()
    try:
        restored = directory.with_name("restored")
        shutil.copytree(directory, restored, copy_function=copy)
        with capture_logs() as logged, pytest.raises(TakenError):
            claim(context(store), restored)
        (held,) = [one for one in logged if one["event"] == "lease_held"]
        assert held["why"] == f"its process {os.getpid()} is alive"
        assert store.leases.renew("runner/c/r", holder), "it goes on"
        assert lost == []
    finally:
        in_time(renewer.stop(60))


def test_a_runner_that_was_killed_is_succeeded_at_once(store: Store, tmp_path: Path, directory: Path) -> None:
    with holding(tmp_path, directory) as process:
        process.kill()
        process.wait()
        with capture_logs() as logged:
            assert claim(context(store), directory, watch_s=NEVER_S) is not None
    assert logged == []


def test_a_runner_that_is_killed_while_it_is_watched_is_succeeded_at_once(
    store: Store, tmp_path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with holding(tmp_path, directory) as process:
        doubt = pids.doubt

        def killed_then(stamp: str) -> str | None:
            found = doubt(stamp)
            process.kill()
            return found

        monkeypatch.setattr(pids, "doubt", killed_then)
        with capture_logs() as logged:
            assert claim(context(store), directory, watch_s=NEVER_S) is not None
    assert [one["why"] for one in logged] == [f"its process {process.pid} is alive"]


@pytest.mark.parametrize("noted", ["another boot", "another ledger", "none", "of an earlier version"])
def test_a_runner_of_which_it_is_not_certain_that_it_ended_is_watched(
    noted: str, store: Store, tmp_path: Path, directory: Path
) -> None:
    with holding(tmp_path, directory) as process:
        process.kill()
    note = directory / "holder"
    holder, boot, *rest = note.read_text().split()
    if noted == "none":
        note.unlink()
    else:
        changed = {
            "another boot": [holder, boot[::-1], *rest],
            "another ledger": [holder[::-1], boot, *rest],
            "of an earlier version": [holder],
        }
        note.write_text(" ".join(changed[noted]))
    with capture_logs() as logged:
        assert claim(context(store), directory, watch_s=0.1) is not None
    (held,) = logged
    assert (held["event"], bool(held["why"])) == ("lease_held", True)
