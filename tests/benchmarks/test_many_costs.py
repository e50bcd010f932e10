"""What a thousand partitions cost one runner, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.bench


def test_a_thousand_partitions_are_published_and_snapshotted_within_their_limits() -> None:
    assert subprocess.run([sys.executable, "-m", "tests.benchmarks.many"], check=False).returncode == 0
