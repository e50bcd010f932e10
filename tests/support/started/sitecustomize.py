"""Runs at the start of every Python that tests start: a witness of stalls, and a file for what a crash has to say.

This folder is on their PYTHONPATH, and TESTS_WITNESS names the directory of what they write (tests.support.stalls).
Each process has a file of its own there, PID.stalls, with a line for each stall, and one that only a crash or SIGABRT
fills, PID.crash. A child that is forked begins anew.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import sys
import threading
import time
from pathlib import Path

TICK_S = 0.1
STALL_S = 1.0
"""A tick that comes this much later than it should is a stall."""
CROWD_S = 10.0
"""So long the machine is looked at before it counts as crowded."""
CROWDED = 4.0
"""With so many threads for each processor that want to run, on average, what is to be waited for may come late."""


class Witness(threading.Thread):
    """Ticks ten times a second, and writes down when that was not to be had."""

    def __init__(self, file: Path, *, crowds: bool = False) -> None:
        """Begin none yet.

        Args:
            file: of its lines: when a stall ended (s since the epoch), a tab, and words.
            crowds: whether it also watches how many threads of the machine want to run; one process does.
        """
        super().__init__(name="stall-witness", daemon=True)
        # Opened now: later there may be no descriptors left, which some tests are about.
        self._file = file.open("a", encoding="utf-8", buffering=1)
        self._load = os.open("/proc/loadavg", os.O_RDONLY) if crowds else None
        self._ended = threading.Event()

    def run(self) -> None:
        """Tick."""
        before, spent, wanted, ticks = time.monotonic(), time.process_time(), 0, 0
        processors = os.cpu_count() or 1
        while not self._ended.wait(TICK_S):
            now, used = time.monotonic(), time.process_time()
            late_s, ran_s = now - before - TICK_S, used - spent
            if late_s >= STALL_S and ran_s < late_s / 2:  # a process that ran has only kept this thread out
                self.note(f"did not get to run for {late_s:.1f} s")
            before, spent = now, used
            if self._load is not None:
                wanted, ticks = wanted + _running(self._load), ticks + 1
                if ticks >= CROWD_S / TICK_S:
                    if (each := wanted / ticks / processors) >= CROWDED:
                        self.note(f"shared each processor with {each:.0f} threads for {CROWD_S:g} s")
                    wanted = ticks = 0

    def note(self, words: str) -> None:
        """Write down a stall that ends now."""
        self._file.write(f"{time.time():.6f}\t{os.getpid()} ({ascii(sys.argv[:2])[-60:]} {words}\n")

    def stop(self) -> None:
        """End it."""
        self._ended.set()
        self.join()


def _running(load: int) -> int:
    """Return how many threads of this machine run or want to, of /proc/loadavg."""
    return int(os.pread(load, 100, 0).split()[3].partition(b"/")[0])


def begin(directory: Path) -> None:
    """Watch this process, and write down where it was if it crashes."""
    with contextlib.suppress(OSError):  # the session has ended, or this process is another user's: nobody watches
        _begin(directory)


def _begin(directory: Path) -> None:
    faulthandler.enable((directory / f"{os.getpid()}.crash").open("w", encoding="utf-8"))
    Witness(directory / f"{os.getpid()}.stalls").start()


if os.environ.get("TESTS_WITNESS"):
    _there = Path(os.environ["TESTS_WITNESS"])
    begin(_there)
    os.register_at_fork(after_in_child=lambda: begin(_there))
