"""A process and all that it started."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    import subprocess


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill (-9) a process and all that it started, whatever session that is in, at once; fine when it is gone."""
    if process.poll() is None:
        kill_family(psutil.Process(process.pid))
    process.wait()


def kill_family(root: psutil.Process) -> None:
    """Kill (-9) a process and all that it started.

    Raises:
        psutil.NoSuchProcess: it is gone.
    """
    root.suspend()  # it starts nothing any more
    family = [root, *root.children(recursive=True)]
    for harm in (psutil.Process.suspend, psutil.Process.kill):  # so that none of them sees another one end
        for one in family:
            with suppress(psutil.NoSuchProcess):
                harm(one)
