"""CPU and memory of a process and of everything it starts."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]


@dataclass
class Usage:
    """CPU seconds and peak bytes of a process and everything it started, sampled while it runs."""

    cpu: float = 0.0
    peak: int = 0
    seconds: float = 0.0
    _per_process: dict[tuple[int, float], float] = field(default_factory=dict)

    def watch(self, process: subprocess.Popen[str], done: threading.Event) -> None:
        """Sample until the process has ended."""
        began = time.monotonic()
        root = psutil.Process(process.pid)
        while not done.wait(0.2):
            memory = 0
            try:
                family = [root, *root.children(recursive=True)]
            except psutil.Error:
                break
            for one in family:
                try:
                    times = one.cpu_times()
                    self._per_process[one.pid, one.create_time()] = times.user + times.system
                    memory += one.memory_full_info().pss
                except psutil.Error:
                    continue
            self.peak = max(self.peak, memory)
        self.cpu = sum(self._per_process.values())
        self.seconds = time.monotonic() - began


def run(command: list[str]) -> tuple[dict[str, object], Usage]:
    """Run a Python module and return what it prints as JSON on its last line, and what it took."""
    usage, done = Usage(), threading.Event()
    with subprocess.Popen([sys.executable, *command], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        watcher = threading.Thread(target=usage.watch, args=(process, done))
        watcher.start()
        text, _ = process.communicate()
        done.set()
        watcher.join()
    if process.returncode:
        raise SystemExit(f"{command} ended with status {process.returncode}")
    return json.loads(text.strip().splitlines()[-1]), usage
