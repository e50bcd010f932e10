"""What a canary holds in memory, in processes of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.bench


def test_a_canary_of_three_partitions_holds_at_most_300_mib() -> None:
    assert subprocess.run([sys.executable, "-m", "tests.benchmarks.footprint"], check=False).returncode == 0
