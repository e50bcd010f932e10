"""Real processes that cost little: forked from one that has imported what they need."""

from __future__ import annotations

import contextlib
import faulthandler
import multiprocessing
import os
import signal
import subprocess
import sys
from multiprocessing import forkserver
from threading import BrokenBarrierError
from typing import TYPE_CHECKING, Any, cast

import psutil

from canary.drills.rig.installation import Installation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.context import ForkServerProcess
    from pathlib import Path

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["tests.support.preloaded"])
_SERVER: Any = forkserver._forkserver  # nothing else knows its process
_BEGUN = Installation.begun
_END_S = 10.0
_UNKNOWN = 255
"""The exit status of a process whose end nobody has told."""
begins_under: dict[str, str] | None = None
"""What the session's environment says to Python (of_python); None: no session, and each canary is started whole."""
_PATIENCE_S = 120
_LATE = 75
"""The exit status of a process that waited in vain for the others to begin."""


def begun(work: Callable[..., None], *arguments: Any, daemon: bool = False) -> tuple[ForkServerProcess, Connection]:
    """Start ``work`` in a process of its own, with a connection by which it says what it has to say.

    Args:
        work: a function of a module, which the process imports; it is given the connection first.
        *arguments: what else it is given.
        daemon: it ends with this process, and forks none itself.
    """
    heard, said = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=work, args=(said, *arguments), daemon=daemon)
    process.start()
    said.close()  # the process alone has it: its end is the end of what is heard
    return process, heard


class Command:
    """``canary ARGUMENTS`` in a process of its own, as ``subprocess.Popen`` starts it, without its imports.

    Attributes:
        args: the command.
        pid: of the process, which leads a session.
        returncode: None while it runs.
    """

    def __init__(self, arguments: Sequence[str], log: Path, environment: Mapping[str, str]) -> None:
        self.args = ["canary", *arguments]
        self._process, heard = begun(_canary, self.args, log, dict(environment), daemon=True)
        heard.recv()  # its session is there
        heard.close()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        return self.poll()

    def poll(self) -> int | None:
        status = self._process.exitcode
        if status == _UNKNOWN and psutil.pid_exists(self.pid):
            raise ChildProcessError(f"the process that {self.args} was forked from has died, and it lives")
        return status

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit status.

        Raises:
            subprocess.TimeoutExpired: it still runs.
        """
        self._process.join(timeout)
        if (status := self.poll()) is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return status

    def send_signal(self, what: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, what)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def _canary(said: Connection, command: list[str], log: Path, environment: dict[str, str]) -> None:
    os.setsid()
    with log.open("ab") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.environ.clear()
    os.environ.update(environment)
    if not faulthandler.is_enabled():
        faulthandler.enable()
    sys.argv = command
    said.send(None)
    said.close()
    from canary.cli.__main__ import run  # noqa: PLC0415  # nobody else needs it

    run()


def canary(started: Installation, arguments: list[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Do what ``Installation.begun`` does; so does that where Python or its loader is told something by this test."""
    if begins_under is None or of_python(environment) != begins_under:
        return _BEGUN(started, arguments, environment)
    return cast("subprocess.Popen[bytes]", Command(arguments, started.log, environment))


def of_python(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what an environment says to Python and its loader, but for what each canary is told."""
    told = (name for name in environment if name.startswith(("PYTHON", "LD_")))
    return {name: environment[name] for name in told if name not in {"PYTHONFAULTHANDLER", "PYTHONDONTWRITEBYTECODE"}}


def spent_s() -> float:
    """Return the CPU-seconds of the process from which others are forked, and of those that have ended."""
    pid = _SERVER._forkserver_pid
    return sum(psutil.Process(pid).cpu_times()[:4]) if pid is not None and psutil.pid_exists(pid) else 0.0


def stop() -> None:
    """End the process from which others are forked, and what is left of these; what they spent is this process's."""
    if (pid := _SERVER._forkserver_pid) is None:
        return
    with contextlib.suppress(psutil.NoSuchProcess):
        server = psutil.Process(pid)
        left = server.children(recursive=True)
        for one in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        psutil.wait_procs(left, _END_S)  # it reaps them, and so has their costs
        os.close(_SERVER._forkserver_alive_fd)  # which tells it to end
        try:
            server.wait(_END_S)
        except psutil.TimeoutExpired:
            server.kill()
            server.wait(_END_S)
    _SERVER._forkserver_pid = _SERVER._forkserver_alive_fd = _SERVER._forkserver_address = None


def until_the_end(heard: Connection) -> Iterator[Any]:
    """Yield what a process says from here on, until it ends."""
    try:
        while True:
            yield heard.recv()
    except EOFError:
        return


def at_once(work: Callable[..., Any], *arguments: Any, count: int = 2) -> list[Any]:
    """Run ``work`` in several processes, all of which begin together; return what each returned.

    Raises:
        NotInTimeError: one did not begin, or end, in time.
    """
    from tests.support.waiting import in_time, joined  # noqa: PLC0415  # each process would load it, too

    gate = FORKS.Barrier(count)
    running = [begun(_answer, gate, work, arguments) for _ in range(count)]
    answers = [answer for _, heard in running for answer in until_the_end(heard)]
    for process, _ in running:
        joined(process, _PATIENCE_S)
    statuses = [process.exitcode for process, _ in running]
    in_time(_LATE not in statuses, "the beginning of all processes")
    assert statuses == [0] * count
    return answers


def _answer(said: Connection, gate: Any, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        gate.wait(_PATIENCE_S)
    except BrokenBarrierError:
        sys.exit(_LATE)
    said.send(work(*arguments))
