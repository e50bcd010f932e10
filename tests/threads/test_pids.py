"""A process of which it is not certain that it has ended counts as alive."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from canary.threads import pids
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

STAMPED = "import time; from canary.threads.pids import stamp; print(stamp(), flush=True); time.sleep(600)"
BOOT, PIDS, CLOCK, PID, STARTED = range(5)


@contextmanager
def other() -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Another process, and its stamp."""
    with subprocess.Popen([sys.executable, "-c", STAMPED], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().split()
        finally:
            process.kill()


def doubt(stamp: list[str], **changed: str) -> str | None:
    """Ask about a stamp that differs in the named words."""
    words = dict(zip(("boot", "pids", "clock", "pid", "started"), stamp, strict=True)) | changed
    return pids.doubt(" ".join(words.values()))


def test_a_process_that_was_killed_has_ended_also_while_nobody_waits_for_it() -> None:
    with other() as (process, stamp):
        assert doubt(stamp) == f"its process {process.pid} is alive"
        assert int(stamp[PID]) == process.pid
        process.kill()
        until(lambda: doubt(stamp) is None, 30, "its parent has not waited for it")
        process.wait()
        assert doubt(stamp) is None


def test_a_process_that_was_given_the_pid_of_another_is_not_that_one() -> None:
    own = pids.stamp().split()
    assert doubt(own) == f"its process {os.getpid()} is alive"
    assert doubt(own, started=str(int(own[STARTED]) - 1)) is None


@pytest.mark.parametrize("changed", ["boot", "pids", "clock"])
def test_an_absent_pid_proves_nothing_after_another_boot_and_in_another_container(changed: str) -> None:
    with other() as (process, stamp):
        process.kill()
        process.wait()
        assert doubt(stamp) is None
        reason = doubt(stamp, **{changed: "another"})
    assert reason in {
        "its process belongs to another machine, or to an earlier boot of this one",
        "its process belongs to another container",
    }


@pytest.mark.parametrize("stamp", ["", "torn", "a b c d e"])
def test_a_mark_that_says_nothing_proves_nothing(stamp: str) -> None:
    assert pids.doubt(stamp) is not None


def test_where_proc_numbers_processes_in_another_way_there_is_no_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    own = pids.stamp()
    monkeypatch.setattr(os, "getpid", lambda: 1)
    assert pids.stamp() == ""
    assert pids.doubt(own) == "it is not known which process it is"
