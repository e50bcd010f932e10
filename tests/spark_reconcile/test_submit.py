"""What the scripts of deploy/spark start: one entry point (test_kills.py submits it to a cluster)."""

from __future__ import annotations

import subprocess
from pathlib import Path

DEPLOY = Path(__file__).parents[2] / "deploy" / "spark"


def test_the_scripts_name_the_entry_point() -> None:
    for script in ("standalone.sh", "yarn.sh"):
        text = (DEPLOY / script).read_text()
        assert "canary_job.py" in text
        assert subprocess.run(["sh", "-n", DEPLOY / script], check=False).returncode == 0
