"""Executors of Spark's, which tests kill in the middle of their work."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

from tests.support.families import kill_family

if TYPE_CHECKING:
    from pathlib import Path


def dies_at_work(executor: psutil.Process, said: Path, host: psutil.Process | None = None) -> bool:
    """Kill an executor while it settles a range, which the second stage does; False when it is at none.

    It is not left frozen: others would wait for what they fetch from it until it counts as lost, two minutes.

    Args:
        executor: its JVM.
        said: what it logs.
        host: the process that is killed with all that it started; None: the executor's.
    """
    with suppress(psutil.NoSuchProcess):
        executor.suspend()  # so that it is not done with the range meanwhile
        tasks = re.findall(r"(Running|Finished) task \S+ in stage 1\.0 ", said.read_text(errors="replace"))
        if tasks.count("Running") > tasks.count("Finished"):
            kill_family(host or executor)
            return True
        executor.resume()
    return False


def is_executor(process: psutil.Process) -> bool:
    """Return whether a process is an executor's JVM."""
    with suppress(psutil.Error):  # it has ended
        return process.name() == "java" and any("CoarseGrainedExecutorBackend" in word for word in process.cmdline())
    return False
