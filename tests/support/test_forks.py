"""A forked canary is what ``subprocess.Popen`` would start: its status, its signals, its log, its environment."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from canary.drills.rig.installation import Installation
from tests.support import costs, forks

ROOT = Path(__file__).parents[2]


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


LEAVES = """
import os, sys, time
from tests.support import forks

def leaves(said):
    if os.fork() == 0:
        os.setsid()
        said.send(os.getpid())
        time.sleep(600)

if __name__ == "__main__":
    forks.FORKS.set_forkserver_preload([])
    process, heard = forks.begun(leaves)
    print(heard.recv())
    forks.stop()
    forks.stop()
"""


def test_what_is_left_does_not_keep_a_session_from_ending(tmp_path: Path) -> None:
    (tmp_path / "leaves.py").write_text(LEAVES)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    told = tmp_path / "told"
    with told.open("w") as output:
        done = subprocess.run(
            [sys.executable, str(tmp_path / "leaves.py")], env=environment, stdout=output, timeout=60, check=False
        )
    with contextlib.suppress(ProcessLookupError):  # its parent had not ended yet
        os.kill(int(told.read_text()), signal.SIGKILL)
    assert done.returncode == 0


def test_a_canary_is_started_whole_where_a_test_tells_python_something(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []
    monkeypatch.setattr(forks, "_BEGUN", lambda *_: begun.append("whole"))
    monkeypatch.setattr(forks, "Command", lambda *_: begun.append("forked"))
    monkeypatch.setattr(Installation, "begun", forks.canary)
    installation = Installation(tmp_path, [], parts=("run",))
    installation.start()
    installation.environment = {"CANARY_OF_MINE": "1"}
    installation.start()
    assert begun == ["forked", "forked"]
    installation.environment = {"LD_PRELOAD": "/clock.so"}
    installation.start()
    installation.environment = {}
    monkeypatch.setenv("PYTHONPATH", "/of/this/test")
    installation.start()
    assert begun[2:] == ["whole", "whole"]


def test_two_forks_do_not_draw_the_same_and_what_they_spend_is_counted() -> None:
    before = costs.cpu_s()
    (first, spent), (second, also_spent) = forks.at_once(drawn)
    assert first != second
    assert costs.cpu_s() - before > 0.9 * (spent + also_spent) > 0.2


def drawn() -> tuple[float, float]:
    began = time.process_time()
    sum(range(20_000_000))
    return random.random(), time.process_time() - began  # noqa: S311  # no secret
