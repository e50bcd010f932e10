"""What benchmarks are told by: nothing that ran is left out, and a missed bound is an exit status."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from tests.benchmarks.measuring import ROOT, Figure, number, output, same

if TYPE_CHECKING:
    from pathlib import Path

BUSY = "import time\nwhile time.process_time() < 0.3: pass\n"
LEFT = f"""
import subprocess, sys
subprocess.Popen([sys.executable, "-c", {BUSY!r}])  # nobody waits for it
subprocess.run([sys.executable, "-c", {BUSY!r}])
"""


def test_cpu_of_processes_that_nobody_waits_for_counts() -> None:
    _, usage = output(["-c", LEFT])
    assert usage.cpu >= 0.6


def test_what_is_printed_and_how_it_ended_come_through() -> None:
    assert output(["-c", "print(7); raise SystemExit(3)"], statuses=(3,))[0] == b"7\n"


def test_a_figure_keeps_both_its_bounds() -> None:
    assert Figure("s", "w", 2.0, most=2.0, least=2.0).ok
    assert not Figure("s", "w", 2.1, most=2.0).ok
    assert not Figure("s", "w", 1.9, least=2.0).ok
    assert not same("s", "w", [1], [1], [2]).ok


def test_the_median_is_told_with_its_spread() -> None:
    row = str(Figure.of("s", "w", [3.0, 1.0, 2.0], "s", most=1.5))
    assert row == "| s | w | 2.00 s | 1.00 to 3.00 (3) | at most 1.50 | **missed** |"
    assert number(1_234_567.0) == "1,234,567"


def test_a_benchmark_exits_1_exactly_if_a_bound_is_missed(tmp_path: Path) -> None:
    module = tmp_path / "one.py"
    module.write_text(
        "from tests.benchmarks.measuring import Figure, command\n"
        "def measure(size: float = 1.0):\n    yield Figure('s', 'w', size, most=1.0)\n"
        "command(measure)\n"
    )
    for size, status in (("1", 0), ("2", 1)):
        ended = subprocess.run(
            [sys.executable, module, "--size", size], cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, check=False
        )
        assert ended.returncode == status
