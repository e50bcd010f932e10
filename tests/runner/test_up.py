"""`canary up`, as `make run` starts it: everything with one command, and nothing left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import httpx
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from canary.lab.state import free_ports
from tests.support.process import START_S
from tests.support.waiting import in_time

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kafka


def _family(pid: int) -> list[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def _alive(processes: list[psutil.Process]) -> list[str]:
    return [
        " ".join(process.cmdline())[:100]
        for process in processes
        if process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    ]


def _samples(base: str, name: str) -> dict[str, float]:
    """Return the sum of a metric by partition."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(httpx.get(f"{base}/metrics", timeout=60).text):
        for sample in family.samples:
            if sample.name == name:
                key = sample.labels.get("partition", "")
                found[key] = found.get(key, 0.0) + sample.value
    return found


@pytest.mark.timeout(600)
def test_up_shows_rising_counts_of_three_brokers_and_ctrl_c_leaves_nothing_behind(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    log = tmp_path / "log"
    with log.open("wb") as output:
        up = subprocess.Popen(
            [sys.executable, "-m", "canary.cli", "up"],
            cwd=tmp_path,
            env={**os.environ, "CANARY_API__PORT": str(port)},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    base = f"http://127.0.0.1:{port}"
    family: list[psutil.Process] = []
    try:
        deadline = time.monotonic() + 2 * START_S
        while len([n for n in _seen(base).values() if n > 20]) < 3:
            assert up.poll() is None, log.read_text()
            in_time(time.monotonic() < deadline, log.read_text())
            time.sleep(0.5)  # asked over HTTP: there is no event to wait for
        assert f"{base}/" in log.read_text()
        leaders = {p["leader"] for p in httpx.get(f"{base}/api/v1/clusters/lab/partitions", timeout=60).json()["items"]}
        assert leaders == {1, 2, 3}
        assert sum(_samples(base, "canary_violations_total").values()) == 0
        page = httpx.get(f"{base}/clusters/lab", timeout=60).text
        assert re.search(r"durability-canary", page)
        before = _seen(base)
        while any(n <= before[p] for p, n in _seen(base).items()):
            in_time(time.monotonic() < deadline, "what is waited for")
            time.sleep(0.5)
        family = _family(up.pid)
        assert len([p for p in family if "java" in p.name()]) == 4
        os.killpg(up.pid, signal.SIGINT)  # what a terminal's Ctrl-C does
        assert up.wait(60) == 0, log.read_text()
        psutil.wait_procs(family, timeout=15)
        assert _alive(family) == []
        assert "Traceback" not in log.read_text()
    finally:
        for process in family or _family(up.pid):
            if process.is_running():
                process.kill()


def _seen(base: str) -> dict[str, float]:
    try:
        return _samples(base, "canary_probes_seen_total")
    except httpx.TransportError:
        return {}
