"""What watching a large cluster costs, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.bench


def test_a_round_of_ten_thousand_partitions_costs_little_and_stores_nothing() -> None:
    assert subprocess.run([sys.executable, "-m", "tests.benchmarks.watching"], check=False).returncode == 0
