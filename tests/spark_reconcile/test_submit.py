"""spark-submit and the one entry point: what the manifests of deploy/spark start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
import yaml

from tests.generators import reconciliation_oracle as oracle
from tests.generators.reconciliation_full import full_night

if TYPE_CHECKING:
    from collections.abc import Callable

DEPLOY = Path(__file__).parents[2] / "deploy" / "spark"


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_a_submitted_job_finds_what_the_command_finds_and_ends_with_its_status(written: Callable[..., Path]) -> None:
    night = full_night()
    root = written(night)
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    options = ["--master", "local[1]", "--driver-memory", "512m", "--conf", "spark.driver.host=127.0.0.1"]
    folders: list[str | Path] = ["--probe-log", root / "log", "--dump", root / "dump", "--out", root / "out"]
    done = subprocess.run(
        [submit, *options, DEPLOY / "canary_job.py", "reconcile", *folders],
        env=os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 1, done.stderr[-2000:]
    summary = json.loads((root / "out" / "summary.json").read_text())
    expected: dict[str, Any] = oracle.verdicts(night)
    assert summary["anomalies"] == expected["anomalies"]
    assert summary["verdicts"] == expected["counts"]


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
