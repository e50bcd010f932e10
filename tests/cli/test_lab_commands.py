import json
import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from canary.cli import progress
from tests.support.command import canary


def process(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = "from canary.cli import main; main()"
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)


def test_no_lab_is_a_line_with_a_remedy(tmp_path: Path) -> None:
    done = process("lab", "status", "--directory", str(tmp_path / "none"))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("canary: no lab in")
    assert "canary lab up" in done.stderr


def test_a_property_without_a_value_is_refused(tmp_path: Path) -> None:
    done = canary("lab", "up", "--directory", str(tmp_path), "--set", "min.insync.replicas")
    assert done.status == 2
    assert "KEY=VALUE" in done.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.kafka
def test_up_leaves_a_cluster_running_that_down_stops(tmp_path: Path) -> None:
    place = ("--directory", str(tmp_path / "lab"))
    try:
        up = process("lab", "up", *place, "--brokers", "1", "--set", "num.io.threads=3", "--json")
        assert up.returncode == 0, up.stderr
        shown = json.loads(up.stdout)
        assert [node["state"] for node in shown["nodes"]] == ["running", "running"]
        assert "num.io.threads=3" in (tmp_path / "lab" / "broker-1" / "server.properties").read_text().splitlines()
        assert process("lab", "status", *place).returncode == 0
    finally:
        down = process("lab", "down", *place, "--json")
    assert [node["state"] for node in json.loads(down.stdout)["nodes"]] == ["stopped", "stopped"]
    assert process("lab", "status", *place).returncode == 3


def test_progress_without_a_terminal_is_a_line_now_and_then() -> None:
    with capture_logs() as logs, progress.shown(terminal=False) as report:
        for done in range(101):
            report("fetching", done, 100)
        report("starting", 3, 3)
    assert [(entry["what"], entry["done"]) for entry in logs] == [("fetching", 0), ("fetching", 100), ("starting", 3)]
