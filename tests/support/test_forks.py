"""A forked canary is what ``subprocess.Popen`` would start: its status, its signals, its log, its environment."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from tests.support import costs, forks

if TYPE_CHECKING:
    from pathlib import Path


def test_a_forked_command_has_a_session_a_log_and_a_status_of_its_own(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = forks.Command(["check", "--nothing"], log, os.environ)
    assert process.wait(60) == process.poll() == process.returncode == 2
    assert "No such option: --nothing" in log.read_text()


def test_a_forked_command_sees_the_environment_that_it_is_given_and_ends_when_it_is_told_to(tmp_path: Path) -> None:
    log = tmp_path / "log"
    settings = {"CANARY_STORE__URL": f"sqlite:///{tmp_path}/none/store.db", "CANARY_API__PORT": "0", "HOME": "/"}
    process = forks.Command(["serve"], log, settings)
    assert os.getsid(process.pid) == process.pid
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL
    process.send_signal(signal.SIGKILL)  # it is gone: nobody else is


def test_two_forks_do_not_draw_the_same_and_what_they_spend_is_counted() -> None:
    before = costs.cpu_s()
    (first, spent), (second, also_spent) = forks.at_once(drawn)
    assert first != second
    assert costs.cpu_s() - before > 0.9 * (spent + also_spent) > 0.2


def drawn() -> tuple[float, float]:
    began = time.process_time()
    sum(range(20_000_000))
    return random.random(), time.process_time() - began  # noqa: S311  # no secret
