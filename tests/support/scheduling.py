"""A scheduler at work, in this process or in one that may be killed."""

from __future__ import annotations

import subprocess
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.support.families import kill
from tests.support.waiting import joined

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from spark_reconcile.nightly.scheduler import Scheduler

_SCHEDULES = """
import sys, threading
from canary.settings import load
from spark_reconcile.nightly.scheduler import Scheduler
from storage.store import Store
config, url = sys.argv[1:]
with Store.connect(url, timeout=60) as store:
    Scheduler(load(config, {}), store, ["--config", config, "--settle", "0"]).run(threading.Event())
"""


@contextmanager
def at_work(scheduler: Scheduler) -> Iterator[None]:
    """Let it run in a thread of its own; it has ended when this has."""
    stopping = threading.Event()
    thread = threading.Thread(target=scheduler.run, args=(stopping,))
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        joined(thread)


@contextmanager
def pod(config: Path, store_url: str) -> Iterator[subprocess.Popen[bytes]]:
    """Let a scheduler, whose nights do not wait for the log, run in a process of its own; kill it in the end."""
    process = subprocess.Popen([sys.executable, "-c", _SCHEDULES, str(config), store_url], stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        kill(process)
