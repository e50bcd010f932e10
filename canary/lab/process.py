"""Processes that outlive the Python that started them: pid files, signals, and waiting for an end.

After a crash or a reboot a pid may belong to another program, which a lab must never signal. So the pid file holds the
process's start time too (clock ticks since boot, field 22 of /proc/PID/stat), and the command line must mention the
file that only this node is started with.
"""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from canary.lab import launch
from canary.lab.errors import LabError

_spawner = ThreadPoolExecutor(max_workers=1, thread_name_prefix="lab-spawner")
"""Starts the children that die with this process: for the kernel the parent is a thread, and this one lives until the
interpreter ends."""

_children: dict[int, subprocess.Popen[bytes]] = {}
"""Children that this process has to reap, by pid."""


@dataclass(frozen=True, slots=True)
class ProcessFile:
    """The pid file of one node ("PID STARTTIME"); only its process has ``marker`` among its arguments."""

    path: Path
    marker: str

    def find(self) -> int | None:
        """Return the pid of the live process of this file; None if there is none, or another program has its pid."""
        try:
            pid, started = (int(word) for word in self.path.read_text().split())
        except (FileNotFoundError, ValueError):  # ValueError: cut short by a crash
            return None
        child = _children.get(pid)
        if child is not None and child.poll() is not None:
            del _children[pid]
        stat = _stat(pid)
        alive = stat is not None and stat[0] not in "ZX" and stat[1] == started
        return pid if alive and self.marker in _arguments(pid) else None

    def write(self, pid: int) -> None:
        """Write a process that was just started; atomic, so that no reader sees half a number."""
        stat = _stat(pid)
        if stat is None:
            raise LabError(f"process {pid} ended as soon as it was started; see console.log in {self.path.parent}")
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(f"{pid} {stat[1]}\n")
        temporary.replace(self.path)


def _stat(pid: int) -> tuple[str, int] | None:
    """Return the state (one letter) and the start time of a process that the kernel knows."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(")") + 2 :].split()  # the name may hold spaces and parentheses
    return fields[0], int(fields[19])


def _arguments(pid: int) -> list[str]:
    """Return a process's command line; while it is in the middle of exec(), the kernel shows none, so look again."""
    deadline = time.monotonic() + 1
    while True:
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
        except (FileNotFoundError, ProcessLookupError):
            return []
        if words != [""] or time.monotonic() > deadline:
            return words
        time.sleep(0.001)  # exec() raises no event when it is done


def spawn(
    command: Sequence[str],
    *,
    cwd: Path,
    console: Path,
    die_with_parent: bool,
    environment: Mapping[str, str] | None = None,
) -> int:
    """Start a program in a session of its own (Ctrl-C on the terminal does not reach it) and return its pid.

    Its stdout and stderr are appended to ``console``; ``die_with_parent`` kills it (-9) however this process ends.
    ``environment`` is added to this process's own.
    """
    words = list(command)
    if die_with_parent:
        words = [sys.executable, "-I", "-S", str(Path(launch.__file__)), str(os.getpid()), *words]

    def start() -> int:
        with console.open("ab") as out:
            child = subprocess.Popen(  # noqa: S603  # the command is ours
                words,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )
        _children[child.pid] = child
        return child.pid

    return _spawner.submit(start).result() if die_with_parent else start()


def send(pid: int, number: signal.Signals) -> None:
    """Signal a process; one that is already gone is fine."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        _children.pop(pid, None)


def wait_for_end(pid: int, timeout: float) -> bool:
    """Wait until a process is gone (for a child: reaped); False if it still runs after ``timeout`` seconds."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        ended = bool(poll.poll(timeout * 1000))
    finally:
        os.close(descriptor)
    child = _children.pop(pid, None) if ended else None
    if child is not None:
        child.wait()
    return ended


def state(pid: int) -> str:
    """Return "running", "paused" (SIGSTOP) or "stopped" (gone)."""
    stat = _stat(pid)
    if stat is None or stat[0] in "ZX":
        return "stopped"
    return "paused" if stat[0] in "Tt" else "running"


def resident_bytes(pid: int) -> int:
    """Return the resident memory of a process in bytes; 0 when it is gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
