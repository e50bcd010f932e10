"""A stamp of this process, by which a later one proves that this one has ended."""

import os
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_STATE, _THREADS, _STARTED = 0, 17, 19
_ENDED = "ZX"
"""States of a process that has ended and was not yet waited for by its parent."""


def stamp() -> str:
    """Return boot, pid namespace, time namespace, pid and start time of this process; empty where /proc does not tell.

    A ``/proc`` of another pid namespace numbers processes in its own way, so it does not tell.
    """
    own = os.getpid()
    try:
        if str(Path("/proc/self").readlink()) != str(own):
            return ""
        pids, clock = Path("/proc/self/ns/pid").readlink(), Path("/proc/self/ns/time")
        time = clock.readlink() if clock.is_symlink() else "none"  # since Linux 5.6
        return f"{_BOOT.read_text().strip()} {pids} {time} {own} {_stat(own)[_STARTED]}"
    except OSError:
        return ""


def doubt(stamped: str) -> str | None:
    """Return why the process with this stamp may be alive; None: it has ended, for certain.

    Only the boot and the pid namespace in which a process runs can look it up: to all others its pid is absent while
    it lives, or another process has it. Start times are those of a time namespace. Example: a canary in a container
    has pid 1, which the next container on the same machine gives to its own first process.
    """
    here, there = stamp().split(), stamped.split()
    if not here or len(here) != len(there):
        return "it is not known which process it is"
    if here[0] != there[0]:
        return "its process belongs to another machine, or to an earlier boot of this one"
    if here[1:3] != there[1:3]:
        return "its process belongs to another container"
    pid = int(there[3]) if there[3].isdecimal() and len(there[3]) < 10 else 0
    try:
        os.kill(pid, 0)  # asks, and signals nothing; /proc may hide processes of other users
    except ProcessLookupError:
        return None
    except PermissionError:
        pass
    try:
        stat = _stat(pid)
    except OSError:
        return f"its process {pid} is there, and /proc does not show since when"
    ended = stat[_STATE] in _ENDED and int(stat[_THREADS]) <= 1
    return None if ended or stat[_STARTED] != there[4] else f"its process {pid} is alive"


def _stat(pid: int) -> list[str]:
    """Return what /proc says of a process after its name, which may contain anything: proc(5), from field 3 on."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
