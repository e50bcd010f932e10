"""Whatever is killed: the verdicts and the store are those of one clean run, and nothing is there twice."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from canary.errors import UserError
from spark_reconcile.job import driver
from storage.store import Store
from tests.benchmarks import reconcile_data
from tests.spark_reconcile import one_night
from tests.spark_reconcile.one_night import planted, verdicts
from tests.support.executors import dies_at_work, is_executor
from tests.support.families import kill
from tests.support.waiting import in_time, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]


def settings(folder: Path, night: Path) -> None:
    """Let a folder have a store and a ledger of its own, and the night's log and dump."""
    folder.mkdir()
    (folder / "dump").symlink_to(night / "dump")
    (folder / "canary.yaml").write_text(
        f"store: {{url: 'sqlite:///{folder}/store.db'}}\n"
        "clusters: [{name: c, kafka: {bootstrap.servers: 127.0.0.1:1}}]\n"
        f"ledger: {{directory: {folder}/ledger}}\nprobe_log: {{url: {night}/log}}\n"
    )
    with Store.connect(f"sqlite:///{folder}/store.db", timeout=5) as store:
        store.upgrade()


def claimed(folder: Path) -> str:
    """Return the one row of the store, running again if it was ended."""
    with Store.connect(f"sqlite:///{folder}/store.db", timeout=5) as store:
        for known in store.reconciliations.page("c").items:
            return known.id
        store.reconciliations.request("c", "test", 10**18)
        row = store.reconciliations.claim("me", 10**18)
        assert row is not None
        return row.id


def begun(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.spark_reconcile.one_night", str(folder), claimed(folder)]
    return subprocess.Popen(command, cwd=ROOT, start_new_session=True)


def ends(process: subprocess.Popen[bytes]) -> None:
    assert process.wait(360) == 0  # 40 s on an idle machine


def left(folder: Path) -> dict[str, Any]:
    """Return what a run left: verdicts, summary, and the whole of what the store says of violations."""
    with Store.connect(f"sqlite:///{folder}/store.db", timeout=5) as store:
        rows, cursor = [], None
        while True:
            page = store.violations.page(limit=500, cursor=cursor)
            rows += page.items
            cursor = page.next_cursor
            if cursor is None:
                break
        (run,) = store.reconciliations.page("c").items
        assert run.state == "succeeded"
    out = folder / "reconciliations" / "c" / run.id / "out"
    assert not (out / "_work").exists()
    assert not (out.parent / "dump").exists()
    found = {
        row.id: (
            row.kind,
            row.partition,
            row.offset,
            row.identity,
            row.state,
            len(row.sightings),
            row.first_seen_ns,
            row.count,
        )
        for row in rows
    }
    assert len(found) == len(rows)
    summary = {name: value for name, value in run.summary.items() if name not in {"seconds", "new"}}
    return {"verdicts": verdicts(out), "summary": summary, "bounds": run.bounds, "violations": found}


def torn(folder: Path, seeded: random.Random) -> bool:
    """Begin a job and kill it at a random moment, while it writes ranges or records violations.

    Returns:
        Whether it was killed: a quick job may end first.
    """
    out = folder / "reconciliations" / "c" / claimed(folder) / "out"
    before = set((out / "_work").glob("*.parquet"))  # of a killed run
    (out / "summary.json").unlink(missing_ok=True)  # of a run that was recording
    process = begun(folder)
    parts, more_s = seeded.randint(1, reconcile_data.PARTITIONS + 3), seeded.uniform(0.0, 0.2)
    print(f"killed {more_s:.3f} s after file {parts}, or the summary")  # noqa: T201  # shown with a failure

    def in_the_midst() -> bool:
        written = set((out / "_work").glob("*.parquet")) - before
        return (out / "summary.json").exists() or len(written) >= parts

    try:
        while process.poll() is None and not in_the_midst():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.01)
        process.wait(more_s)
    except subprocess.TimeoutExpired:
        kill(process)
        return True
    assert process.returncode == 0
    return False


@pytest.mark.spark
@pytest.mark.timeout(3600)
def test_a_job_killed_at_random_and_run_again_leaves_what_a_clean_one_leaves(
    spark: SparkSession, night: Path, tmp_path: Path, *, long: bool
) -> None:
    clean, tattered = tmp_path / "clean", tmp_path / "torn"
    for folder in (clean, tattered):
        settings(folder, night)
    one_night.reconcile(clean, claimed(clean), spark)
    expected = left(clean)
    early = reconcile_data.EXPIRED - 1  # of each partition one violation
    records = sum(one[-1] for one in expected["violations"].values())
    assert records == sum(planted(night)["anomalies"].values()) - early * reconcile_data.PARTITIONS
    times = 20 if long else 1
    seed = random.randrange(1 << 32)  # noqa: S311  # nothing secret
    print(f"seed {seed}")  # noqa: T201  # shown with a failure
    seeded = random.Random(seed)  # noqa: S311  # nothing secret
    killed = 0
    for _ in range(3 * times):
        if killed == times:
            break
        if torn(tattered, seeded):
            killed += 1
        else:
            reopened(tattered)
    assert killed == times
    if not finished(tattered):
        ends(begun(tattered))
    assert left(tattered) == expected


@pytest.mark.spark
def test_a_cluster_that_is_forgotten_meanwhile_stays_forgotten(
    spark: SparkSession, night: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(tmp_path / "one", night)
    which = claimed(tmp_path / "one")
    with Store.connect(f"sqlite:///{tmp_path}/one/store.db", timeout=5) as store:

        def reconcile(*_: object) -> None:
            store.retention.forget("c", time.time_ns())

        monkeypatch.setattr(driver, "run", reconcile)
        with pytest.raises(UserError, match="it was forgotten"):
            one_night.reconcile(tmp_path / "one", which, spark)
        assert store.retention.clusters() == []
        assert not store.violations.page().items


def finished(folder: Path) -> bool:
    with Store.connect(f"sqlite:///{folder}/store.db", timeout=5) as store:
        (run,) = store.reconciliations.page("c").items
        return run.state == "succeeded"


def reopened(folder: Path) -> None:
    """Let a run that came to its end before it could be killed be run once more, as the same one."""
    import sqlite3  # noqa: PLC0415  # only here

    with sqlite3.connect(folder / "store.db") as database:
        database.execute("update reconciliations set state = 'running'")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A standalone cluster on loopback: its URL, and two workers of one core each."""
    import pyspark  # noqa: PLC0415  # only here

    home = Path(pyspark.__file__).parent
    environment = os.environ | {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_HOME": str(home),
        "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
    }
    started: list[subprocess.Popen[bytes]] = []

    def start(log: Path, *arguments: str) -> subprocess.Popen[bytes]:
        with log.open("wb") as into:
            process = subprocess.Popen(
                [str(home / "bin" / "spark-class"), *arguments],
                env=environment,
                stdout=into,
                stderr=into,
                start_new_session=True,
            )
        started.append(process)
        return process

    start(
        tmp_path / "master.log",
        *("org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"),
    )
    url = told(tmp_path / "master.log", "spark://127.0.0.1:")
    workers = []
    for number in range(2):
        named = ("org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--webui-port", "0")
        sized = ("-c", "1", "-m", "1g", "-d", str(tmp_path / f"work-{number}"))
        workers.append(start(tmp_path / f"worker-{number}.log", *named, *sized, url))
        told(tmp_path / f"worker-{number}.log", "Successfully registered with master ", whole=False)
    yield url, workers
    for process in started:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        process.wait()


def told(log: Path, words: str, *, whole: bool = True, seconds: float = 180) -> str:
    """Wait until a log says something, and return the word that begins so."""
    deadline = time.monotonic() + seconds
    while words not in (text := log.read_text(errors="replace")):
        in_time(time.monotonic() < deadline, text[-2000:])
        threading.Event().wait(0.1)
    at = text.index(words)
    return text[at:].split()[0] if whole else words


def submitted(url: str, folder: Path, night: Path) -> subprocess.Popen[bytes]:
    """Start a job as deploy/spark/standalone.sh does; its result goes to ``folder``/out."""
    import pyspark  # noqa: PLC0415  # only here

    conf = folder / "conf"
    conf.mkdir()
    quick = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    (conf / "spark-defaults.conf").write_text(
        f"spark.driver.extraJavaOptions {quick}\nspark.executor.extraJavaOptions {quick}\n"
        "spark.cores.max 2\nspark.scheduler.minRegisteredResourcesRatio 1.0\n"
        "spark.scheduler.maxRegisteredResourcesWaitingTime 600s\n"  # both executors are there before the first task
    )
    environment = os.environ | {
        "MASTER": url,
        "PYTHON": sys.executable,
        "PATH": f"{Path(pyspark.__file__).parent / 'bin'}:{os.environ['PATH']}",
        "SPARK_CONF_DIR": str(conf),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    script = ROOT / "deploy" / "spark" / "standalone.sh"
    with (folder / "job.log").open("wb") as log:
        return subprocess.Popen(
            ["sh", script, night / "log", night / "dump", folder / "out"],
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


@pytest.mark.spark
@pytest.mark.timeout(1200)
def test_a_submitted_job_finds_everything_once_though_a_worker_is_killed_in_the_middle(
    night: Path, tmp_path: Path, cluster: tuple[str, list[subprocess.Popen[bytes]]]
) -> None:
    url, workers = cluster
    out = tmp_path / "out"
    victim = psutil.Process(workers[0].pid)

    def dies() -> bool:
        found = filter(is_executor, victim.children(recursive=True))
        return any(dies_at_work(one, log, victim) for one in found for log in tmp_path.glob("work-0/*/*/stderr"))

    job = submitted(url, tmp_path, night)
    try:
        until(dies, 120, "the victim's executor has a range", step_s=0.02)
        status = job.wait(600)
    finally:
        if job.poll() is None:
            kill(job)
    assert status == 1, (tmp_path / "job.log").read_text()[-2000:]
    summary = json.loads((out / "summary.json").read_text())
    assert summary["verdicts"] == planted(night)["verdicts"]
    assert summary["anomalies"] == planted(night)["anomalies"]
    told_of = verdicts(out)
    assert len(told_of) == sum(n for name, n in planted(night)["verdicts"].items() if name != "survived")
