"""The scheduler's child processes: each in a session of its own, and ended with the scheduler."""

import ctypes
import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

GRACE_S: Final = 10.0
"""How long a child may take to stop by itself."""
_PR_SET_PDEATHSIG: Final = 1


def child(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a process, in a session of its own, that ends with this one."""
    parent = os.getpid()
    libc = ctypes.CDLL(None, use_errno=True)

    def die_with_parent() -> None:
        os.setsid()
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(0)

    return subprocess.Popen(  # noqa: S603  # ourselves
        command,
        preexec_fn=die_with_parent,  # noqa: PLW1509  # two system calls and one of libc
    )


def end(process: subprocess.Popen[bytes]) -> None:
    """End a child and everything it started: SIGTERM, after GRACE_S SIGKILL."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
    kill(process)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a child and all that it started or left: a JVM whose Python ended while it started never ends by itself."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
