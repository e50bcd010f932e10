import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from canary.lab import process
from canary.lab.process import ProcessFile

SLEEPER = [sys.executable, "-c", "import signal; signal.pause()"]


@pytest.fixture
def sleeper(tmp_path: Path) -> Iterator[int]:
    pid = process.spawn(
        [*SLEEPER, "marker-of-the-sleeper"], cwd=tmp_path, console=tmp_path / "console.log", die_with_parent=False
    )
    yield pid
    process.send(pid, signal.SIGKILL)
    assert process.wait_for_end(pid, 30)


def test_a_pid_file_finds_the_process_it_was_written_for(tmp_path: Path, sleeper: int) -> None:
    file = ProcessFile(tmp_path / "pid", marker="marker-of-the-sleeper")
    file.write(sleeper)
    assert file.find() == sleeper


def test_a_stranger_with_the_same_pid_is_not_ours(tmp_path: Path, sleeper: int) -> None:
    file = ProcessFile(tmp_path / "pid", marker="marker-of-the-sleeper")
    file.write(sleeper)
    pid, started = file.path.read_text().split()
    file.path.write_text(f"{pid} {int(started) - 1}\n")  # the number was given out again later
    assert file.find() is None


def test_a_process_that_runs_something_else_is_not_ours(tmp_path: Path, sleeper: int) -> None:
    file = ProcessFile(tmp_path / "pid", marker="another-lab/server.properties")
    file.write(sleeper)
    assert file.find() is None


@pytest.mark.parametrize("content", ["", "12", "no numbers", "99999999 1"])
def test_a_damaged_or_old_pid_file_vouches_for_nothing(tmp_path: Path, content: str) -> None:
    file = ProcessFile(tmp_path / "pid", marker="x")
    file.path.write_text(content)
    assert file.find() is None


def test_an_ended_child_that_nobody_reaped_is_gone(tmp_path: Path) -> None:
    pid = process.spawn(
        [sys.executable, "-c", "pass", "m"], cwd=tmp_path, console=tmp_path / "c", die_with_parent=False
    )
    file = ProcessFile(tmp_path / "pid", marker="m")
    file.write(pid)
    assert process.wait_for_end(pid, 30)
    assert file.find() is None
    assert process.state(pid) == "stopped"


def test_a_child_dies_with_its_parent_even_when_that_is_killed(tmp_path: Path) -> None:
    parent = textwrap.dedent(f"""
        import os, signal, threading
        from pathlib import Path
        from canary.lab import process
        def start():
            pid = process.spawn({SLEEPER!r}, cwd=Path("."), console=Path("console.log"), die_with_parent=True)
            Path("child").write_text(str(pid))
        thread = threading.Thread(target=start)  # the thread that asks may end; the child has to stay
        thread.start()
        thread.join()
        os.kill({os.getpid()}, 0)
        print("started", flush=True)
        signal.pause()
    """)
    with subprocess.Popen([sys.executable, "-c", parent], cwd=tmp_path, stdout=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"started\n"
        child = psutil.Process(int((tmp_path / "child").read_text()))
        assert child.is_running()
        running.kill()
    assert process.wait_for_end(child.pid, 30)
