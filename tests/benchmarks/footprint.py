"""What a canary that watches one cluster holds and costs to start: ``python -m tests.benchmarks.footprint [seconds]``.

Starts ``canary up`` (three brokers, three partitions), waits until probes of each partition are seen and then as long
as told. Prints one line of JSON with, for each process and for all of them (without the brokers), resident memory, the
share of it that is its own (PSS: a page that several processes map is divided among them), and CPU seconds until probes
were seen; and with what ``canary --help`` takes. Fails when the PSS is above the limits: that is what the machine would
have back if the process ended.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import psutil
from prometheus_client.parser import text_string_to_metric_families

from canary.lab.state import free_ports
from tests.support.waiting import until

LIMITS = {"all": 300.0, "run": 120.0, "serve": 90.0}
PARTS = ("up", "run", "serve", "schedule")
STEADY_S = 60.0
MIB = 2**20


def main(steady_s: float) -> int:
    """Measure, print and judge; return the exit status."""
    with tempfile.TemporaryDirectory() as directory:
        processes = lived(Path(directory), steady_s)
    everything = {name: round(sum(one[name] for one in processes.values()), 1) for name in processes["up"]}
    result: dict[str, Any] = {"seconds": steady_s, **processes, "all": everything, "help": asked_for_help()}
    missed = [
        f"{name} holds {result[name]['pss_mib']} MiB" for name in LIMITS if result[name]["pss_mib"] > LIMITS[name]
    ]
    sys.stdout.write(json.dumps({**result, "limits": LIMITS, "missed": missed}) + "\n")
    return bool(missed)


def lived(directory: Path, steady_s: float) -> dict[str, dict[str, float]]:
    """Run ``canary up`` in a directory for a while; return what each of its processes held at the end, and took."""
    (port,) = free_ports(1)
    base = f"http://127.0.0.1:{port}"
    with (directory / "log").open("wb") as log:
        up = subprocess.Popen(
            [sys.executable, "-m", "canary.cli", "up"],
            cwd=directory,
            env={**os.environ, "CANARY_API__PORT": str(port)},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        until(lambda: len(seen(base)) == 3, 120, "probes of three partitions")
        root = psutil.Process(up.pid)
        family = [root, *(one for one in root.children() if "canary.cli" in one.cmdline())]
        parts = {one.cmdline()[3]: one for one in family}
        taken = {part: sum(parts[part].cpu_times()[:2]) for part in PARTS}
        time.sleep(steady_s)  # what grows in the first minute has grown
        assert httpx.get(f"{base}/", timeout=60).status_code == 200
        held = {part: parts[part].memory_full_info() for part in PARTS}
        return {
            part: {
                "rss_mib": round(held[part].rss / MIB, 1),
                "pss_mib": round(held[part].pss / MIB, 1),
                "start_cpu_s": round(taken[part], 2),
            }
            for part in PARTS
        }
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


def asked_for_help(times: int = 5) -> dict[str, Any]:
    """Return the median CPU and wall seconds of ``canary --help``, and CPU seconds of Python that does nothing."""

    def cpu() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    def median(command: list[str]) -> tuple[float, float]:
        costs = []
        for _ in range(times):
            began, before = time.monotonic(), cpu()
            subprocess.run(command, check=True, capture_output=True)
            costs.append((cpu() - before, time.monotonic() - began))
        return statistics.median(c for c, _ in costs), statistics.median(w for _, w in costs)

    helped, wall = median([sys.executable, "-m", "canary.cli", "--help"])
    bare, _ = median([sys.executable, "-c", "pass"])
    return {"cpu_s": round(helped, 3), "wall_s": round(wall, 3), "python_cpu_s": round(bare, 3)}


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]) if len(sys.argv) > 1 else STEADY_S))
