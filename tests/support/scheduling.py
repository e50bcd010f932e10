"""A scheduler at work, in this process or in one that may be killed."""

from __future__ import annotations

import socketserver
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.support.families import kill
from tests.support.waiting import joined

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
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


_ASKS = """
import socket, sys
with socket.socket(socket.AF_UNIX) as asked:
    asked.connect({address!r})
    asked.sendall("\\0".join(sys.argv[1:]).encode())
    asked.shutdown(socket.SHUT_WR)
    assert asked.recv(1), "it was not done"
"""


@contextmanager
def light_child(work: Callable[[Mapping[str, str]], None]) -> Iterator[str]:
    """Yield a program that lets ``work`` be done in this process with the options it is given, and ends.

    A child that imported the store to write a row would cost twenty times as much CPU.
    """

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            words = self.rfile.read().decode().split("\0")
            work(dict(zip(words[::2], words[1::2], strict=True)))
            self.wfile.write(b"1")

    with tempfile.TemporaryDirectory() as folder:
        address = f"{folder}/socket"  # the path of a test's folder may be too long for one
        with socketserver.ThreadingUnixStreamServer(address, Handler) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield _ASKS.format(address=address)
            finally:
                server.shutdown()
                thread.join(60)


@contextmanager
def pod(config: Path, store_url: str) -> Iterator[subprocess.Popen[bytes]]:
    """Let a scheduler, whose nights do not wait for the log, run in a process of its own; kill it in the end."""
    process = subprocess.Popen([sys.executable, "-c", _SCHEDULES, str(config), store_url], stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        kill(process)
