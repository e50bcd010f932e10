"""What a canary that watches one cluster holds, costs to start, and costs when it does nothing.

``canary up`` with three brokers, three partitions, API and scheduler; the brokers count apart. Memory is held by each
process after a minute at the default rate (PSS: what the machine would have back if it ended). The fixed cost is what
all processes take with probes an hour apart, so that none falls into the time watched: everything that is done by the
clock, whatever is probed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import astuple, dataclass
from functools import reduce
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import psutil
from prometheus_client.parser import text_string_to_metric_families

from canary.lab.state import free_ports
from tests.benchmarks.measuring import MIB, ROOT, Figure, command, cpu_s, output
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_MIB = {"all": 300.0, "run": 120.0, "serve": 90.0}
MOST_IDLE = 2.0
"""In % of a core."""
PARTS = ("up", "run", "serve", "schedule")
WARM_S = 20.0


def measure(steady: float = 60.0) -> Iterator[Figure]:
    """Live once at the default rate, and once without probes; ask for help."""
    after = f"{steady:.0f} s at the default rate"
    for part, took in lived(steady).items():
        if part != "all":
            yield Figure(part, "CPU to start", took.start_s, "CPU-s")
        yield Figure(part, f"PSS after {after}", took.pss / MIB, "MiB", most=MOST_MIB.get(part))
        yield Figure(part, "RSS", took.rss / MIB, "MiB")
    for part, took in lived(steady, CANARY_CLUSTERS__0__MODES__IDEMPOTENT__INTERVAL="1h").items():
        most = MOST_IDLE if part == "all" else None
        yield Figure(part, "fixed cost", took.steady_s / steady * 100, "% of a core", most=most)
    helped, python = asked_for_help()
    yield Figure.of("help", "canary --help", helped, "CPU-s")
    yield Figure.of("help", "Python that does nothing", python, "CPU-s")


@dataclass(frozen=True, slots=True)
class Took:
    """Bytes held at the end; CPU seconds until probes were seen, and from then on."""

    rss: int
    pss: int
    start_s: float
    steady_s: float

    def __add__(self, other: Took) -> Took:
        """Return what both took."""
        mine, theirs = astuple(self), astuple(other)
        return Took(*(a + b for a, b in zip(mine, theirs, strict=True)))


def lived(steady_s: float, **environment: str) -> dict[str, Took]:
    """Run ``canary up`` for a while; return what each of its processes took, and all of them."""
    (port,) = free_ports(1)
    base = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as directory, (Path(directory) / "log").open("wb") as log:
        up = subprocess.Popen(
            [sys.executable, "-m", "canary.cli", "up"],
            cwd=directory,
            env={**os.environ, "PYTHONPATH": str(ROOT), "CANARY_API__PORT": str(port), **environment},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            until(lambda: len(seen(base)) == 3, 120, "probes of three partitions")
            root = psutil.Process(up.pid)
            family = [root, *(one for one in root.children() if "canary.cli" in one.cmdline())]
            parts = {one.cmdline()[3]: one for one in family}
            started = {part: cpu_s([parts[part]]) for part in PARTS}
            warm = min(WARM_S, steady_s)
            time.sleep(warm)  # what is done once after the start is no fixed cost
            before = {part: cpu_s([parts[part]]) for part in PARTS}
            time.sleep(steady_s)  # what grows in the first minute has grown
            steady = {part: cpu_s([parts[part]]) - before[part] for part in PARTS}
            assert httpx.get(f"{base}/", timeout=60).status_code == 200
            held = {part: parts[part].memory_full_info() for part in PARTS}
            took = {part: Took(held[part].rss, held[part].pss, started[part], steady[part]) for part in PARTS}
            return {**took, "all": reduce(add, took.values())}
        finally:
            up.send_signal(signal.SIGINT)
            up.wait(120)


def seen(base: str) -> set[str]:
    """Return the partitions of which probes were seen."""
    text = httpx.get(f"{base}/metrics", timeout=60).text
    return {
        sample.labels["partition"]
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "canary_probes_seen_total" and sample.value > 0
    }


def asked_for_help(times: int = 5) -> tuple[list[float], list[float]]:
    """Return CPU seconds of ``canary --help``, and of Python that does nothing."""
    commands = (["-m", "canary.cli", "--help"], ["-c", "pass"])
    helped, python = ([output(command)[1].cpu for _ in range(times)] for command in commands)
    return helped, python


if __name__ == "__main__":
    command(measure)
