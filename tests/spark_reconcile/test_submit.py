"""What the manifests of deploy/spark start: one entry point (test_kills.py submits it to a cluster)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy" / "spark"


def test_the_manifests_name_the_entry_point_and_its_image() -> None:
    for script in ("standalone.sh", "yarn.sh"):
        text = (DEPLOY / script).read_text()
        assert "canary_job.py" in text
        assert subprocess.run(["sh", "-n", DEPLOY / script], check=False).returncode == 0
    (job,) = (
        one for one in yaml.safe_load((DEPLOY / "kubernetes.yaml").read_text())["items"] if one["kind"] == "CronJob"
    )
    (driver,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    copied = "COPY canary_job.py entrypoint.sh /opt/canary/spark/" in (DEPLOY / "Dockerfile").read_text()
    assert copied
    assert "/opt/canary/spark/canary_job.py" in driver["args"]
    assert f"spark.kubernetes.container.image={driver['image']}" in driver["args"]
