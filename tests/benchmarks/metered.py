"""Run a command, wait for all that it started, and say what they took: ``python -I -S metered.py FILE COMMAND...``.

What loses its parent is handed to this process (a subreaper), so the kernel's account of its children is complete:
no process is too short to be seen, and none is left out because its parent did not wait for it. ``FILE`` gets CPU
seconds and the most KiB that any one process held. Standard library only: it starts in a few milliseconds.
"""

import ctypes
import os
import resource
import signal
import sys

_PR_SET_CHILD_SUBREAPER = 36


def main() -> int:
    """Run it; return its exit status."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    child = os.fork()
    if not child:
        os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606  # no shell is wanted
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda given, _: os.kill(child, given))
    status = 0
    while True:
        try:
            ended, how = os.wait()
        except ChildProcessError:
            break
        if ended == child:
            status = os.waitstatus_to_exitcode(how)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(sys.argv[1], "w", encoding="ascii") as file:  # noqa: PTH123  # pathlib takes longer than all of this
        file.write(f"{used.ru_utime + used.ru_stime} {used.ru_maxrss}")
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main())
