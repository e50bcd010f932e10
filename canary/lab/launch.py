"""Become another program that dies with the process that asked for it.

Run as ``python -I -S launch.py <parent pid> <program> <argument>...``. Linux delivers the parent-death signal when the
*thread* that created the child ends, so the caller keeps that thread for as long as it lives itself
(canary.lab.process does). A file of its own, with nothing of the package imported, because running Python code
between fork and exec of a process with threads can deadlock, and because it has to start in a few milliseconds.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask the kernel for SIGKILL at the parent's death, then exec."""
    parent = int(sys.argv[1])
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        sys.exit(f"prctl(PR_SET_PDEATHSIG): {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:  # it died before we could ask
        sys.exit("the process that started this is gone")
    os.execv(sys.argv[2], sys.argv[2:])  # noqa: S606  # no shell is wanted


if __name__ == "__main__":
    main()
