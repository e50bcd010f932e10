"""`canary reconcile --master yarn` on a real YARN, from HDFS and from S3: to the byte the files of a run without it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fsspec
import pytest

from spark_reconcile.errors import BadInputError
from spark_reconcile.tables.writing import Folder
from storage.probe_log.shipping import try_out
from tests.spark_reconcile.one_night import planted
from tests.support.executors import dies_at_work
from tests.support.families import kill
from tests.support.hadoop import Hadoop, hadoop
from tests.support.reconciled import files
from tests.support.s3 import object_store
from tests.support.waiting import BUSY, until

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[2]
RUN_S = 120.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hadoop]:
    with hadoop(tmp_path_factory.mktemp("hadoop")) as running:
        yield running


@pytest.fixture(scope="module")
def expected(night: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of a run on this machine, which finds what was planted."""
    folder = tmp_path_factory.mktemp("here")
    assert ended(reconciling(folder, str(night), str(folder / "out")), folder) == 1
    summary = json.loads((folder / "out" / "summary.json").read_text())
    assert {name: summary[name] for name in ("verdicts", "anomalies")} == {
        name: planted(night)[name] for name in ("verdicts", "anomalies")
    }
    return files(str(folder / "out"))


@pytest.fixture(scope="module")
def on_hdfs(night: Path, cluster: Hadoop) -> str:
    """The night's URL on HDFS."""
    url = f"{cluster.http}/night"
    filesystem, root = fsspec.core.url_to_fs(url)
    filesystem.put(f"{night}/", root, recursive=True)
    return url


def operators(folder: Path, cluster: Hadoop, more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of an operator's configuration: two executors, both there before the first task."""
    import pyspark  # noqa: PLC0415  # only here

    quick = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    properties = {
        "spark.yarn.jars": f"local:{Path(pyspark.__file__).parent}/jars/*",
        "spark.yarn.am.memory": "384m",
        "spark.yarn.am.extraJavaOptions": quick,
        "spark.driver.extraJavaOptions": quick,
        "spark.executor.extraJavaOptions": quick,
        "spark.executor.instances": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "600s",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.yarn.appMasterEnv.SPARK_LOCAL_IP": "127.0.0.1",
        **{f"spark.executorEnv.{name}": value for name, value in {"SPARK_LOCAL_IP": "127.0.0.1", **more}.items()},
    }
    for name in ("conf", "events"):
        (folder / name).mkdir()
    (folder / "conf" / "spark-defaults.conf").write_text("".join(f"{key} {properties[key]}\n" for key in properties))
    return {
        "HADOOP_CONF_DIR": str(cluster.conf),
        "SPARK_CONF_DIR": str(folder / "conf"),
        "SPARK_LOCAL_IP": "127.0.0.1",
        **more,
    }


def started(folder: Path, command: list[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    with (folder / "job.log").open("wb") as log:
        return subprocess.Popen(
            command, cwd=ROOT, env=os.environ | dict(environment), stdout=log, stderr=log, start_new_session=True
        )


def reconciling(
    folder: Path, night: str, out: str, *more: str, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start the command that everyone types."""
    words = ["reconcile", "--probe-log", f"{night}/log", "--dump", f"{night}/dump", "--out", out, *more]
    return started(folder, [sys.executable, "-m", "canary.cli", *words], environment or {})


def ended(job: subprocess.Popen[bytes], folder: Path) -> int:
    """Return a job's exit status; one that hangs is killed."""
    try:
        status = job.wait(BUSY * RUN_S)
    finally:
        kill(job)
    assert status in {0, 1}, (folder / "job.log").read_text(errors="replace")[-4000:]
    return status


def events(folder: Path) -> list[dict[str, Any]]:
    (log,) = (folder / "events").iterdir()
    return [json.loads(line) for line in log.read_text().splitlines()]


def described(folder: Path) -> None:
    """Assert that the event log has the canary's words for application, jobs and stages, and executors' tasks."""
    told = events(folder)
    (application,) = (one for one in told if one["Event"] == "SparkListenerApplicationStart")
    assert application["App Name"] == "canary reconcile"
    work = [
        one["Properties"] for one in told if one["Event"] in {"SparkListenerJobStart", "SparkListenerStageSubmitted"}
    ]
    assert {one.get("spark.jobGroup.id") for one in work} == {"reconcile"}
    words = {one.get("spark.job.description") for one in work}
    assert "reconcile: settle 12 ranges" in words
    assert all(word.startswith("reconcile: ") for word in words)
    assert "driver" not in {one["Task Info"]["Executor ID"] for one in told if one["Event"] == "SparkListenerTaskEnd"}


def test_hdfs_keeps_files_whole_and_says_what_it_does_not_do(cluster: Hadoop) -> None:
    filesystem, root = fsspec.core.url_to_fs(f"{cluster.http}/small")
    for content in (b"first", b"second"):
        filesystem.pipe_file(f"{root}/file", content)
        assert filesystem.cat_file(f"{root}/file") == content
    assert filesystem.ls(root) == [f"{root}/file"]
    with pytest.raises(OSError, match="none"):
        filesystem.mv(f"{root}/none", f"{root}/file")
    with pytest.raises(OSError, match="refused"):
        fsspec.filesystem("webhdfs", host="127.0.0.1", port=1).isdir("/")
    try_out(f"{cluster.http}/small")
    for url in (cluster.http.replace("//", "//not-"), "webhdfs://127.0.0.1:1"):
        with pytest.raises(BadInputError, match=r"/out: cannot be written .*([Pp]ermission denied|refused)"):
            Folder(f"{url}/out").begin()


def test_a_night_on_s3_leaves_what_it_leaves_here(
    expected: dict[str, bytes],
    night: Path,
    cluster: Hadoop,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    long: bool,
) -> None:
    """In the long form on YARN, whose executors are given the keys by the operator's configuration."""
    with object_store("canary") as keys:
        for name, value in keys.items():
            monkeypatch.setenv(name, value)
        fsspec.filesystem("s3", skip_instance_cache=True).put(f"{night}/", "canary/night", recursive=True)
        where = ("--master", "yarn") if long else ()
        environment = operators(tmp_path, cluster, keys) if long else keys
        job = reconciling(tmp_path, "s3://canary/night", "s3://canary/out", *where, environment=environment)
        assert ended(job, tmp_path) == 1
        assert files("s3://canary/out") == expected


def test_a_night_on_hdfs_leaves_what_it_leaves_here_though_a_container_is_killed_in_the_middle(
    expected: dict[str, bytes], on_hdfs: str, cluster: Hadoop, tmp_path: Path
) -> None:
    out = f"{cluster.http}/out/killed"

    def dies() -> bool:
        logs = cluster.containers.glob
        running = cluster.executors().items()
        return any(dies_at_work(one, log) for name, one in running for log in logs(f"*/{name}/stderr"))

    job = reconciling(tmp_path, on_hdfs, out, "--master", "yarn", environment=operators(tmp_path, cluster, {}))
    try:
        until(dies, RUN_S, "an executor has a range", step_s=0.02)
    finally:
        status = ended(job, tmp_path)
    assert status == 1
    assert any(one["Event"] == "SparkListenerExecutorRemoved" for one in events(tmp_path))
    assert any(
        one["Event"] == "SparkListenerTaskEnd" and one["Task End Reason"]["Reason"] == "ExecutorLostFailure"
        for one in events(tmp_path)
    )
    assert files(out) == expected
    described(tmp_path)


def test_what_the_script_submits_needs_nothing_of_its_machine(
    expected: dict[str, bytes], on_hdfs: str, cluster: Hadoop, tmp_path: Path
) -> None:
    import pyspark  # noqa: PLC0415  # only here

    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    with tarfile.open(tmp_path / "canary.tar.gz", "w:gz") as archive:  # of the environment only what names it
        archive.add(python, "bin/python")
    out = f"{cluster.http}/out/script"
    environment = operators(tmp_path, cluster, {}) | {
        "ARCHIVE": str(tmp_path / "canary.tar.gz"),
        "EXECUTORS": "2",
        "PATH": f"{Path(pyspark.__file__).parent / 'bin'}:{os.environ['PATH']}",
    }
    script = [str(ROOT / "deploy/spark/yarn.sh"), f"{on_hdfs}/log", f"{on_hdfs}/dump", out]
    assert ended(started(tmp_path, script, environment), tmp_path) == 1
    assert files(out) == expected
    described(tmp_path)
