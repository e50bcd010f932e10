"""The Spark session: local by default, with little memory and little logging; the same code on any master."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import structlog

from canary.lab.jars.cache import cache_directory
from spark_reconcile.dump import connector
from spark_reconcile.errors import UnreachableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = structlog.get_logger(__name__)

_QUIET: Final = """
rootLogger.level = error
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} spark %p %c{1}: %m%n
"""
_CONF: Final = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.maxResultSize": "0",
    "spark.executor.memoryOverhead": "1g",
    "spark.speculation": "false",
    "spark.python.daemon.module": "spark_reconcile.job.worker_daemon",
    "spark.python.worker.reuse": "true",
    "spark.sql.shuffle.partitions": "8",
    "spark.scheduler.listenerbus.eventqueue.capacity": "2000",
}


@contextmanager
def session(
    name: str,
    *,
    master: str | None = None,
    kafka: bool = False,
    light: bool = False,
    conf: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Start Spark, and stop it however the block ends.

    ``master`` None: that of spark-submit, or this machine with at most two cores. ``kafka``: load the Kafka source, too
    (see dump.connector). ``light``: Java has little to do, because Python does the work: its code is not worth
    optimising. ``conf``: further Spark properties; they override the others.

    Raises:
        UnreachableError: Spark cannot be started (no Java, no master, no way to fetch the jars).
    """
    os.environ["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON") or sys.executable
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    from pyspark.errors import PySparkException  # noqa: PLC0415  # slow, and only used here
    from pyspark.sql import SparkSession  # noqa: PLC0415

    logging.getLogger("py4j").setLevel(logging.ERROR)
    submitted = _submitted()
    if master is None and not submitted:
        master = f"local[{min(2, os.cpu_count() or 1)}]"
    ours = _CONF | ({} if submitted else _java(light=light)) | (connector.properties() if kafka else {})
    if master is not None and master.startswith("local"):
        ours |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    builder: Any = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
    try:
        decided = _decided(submitted=submitted)
        ours = {key: value for key, value in ours.items() if key not in decided}
        for key, value in (ours | dict(conf or {})).items():
            builder = builder.config(key, value)
        spark: SparkSession = builder.getOrCreate()
    except (PySparkException, OSError, RuntimeError) as error:
        raise UnreachableError(f"Spark did not start: {str(error).splitlines()[0]}") from error
    try:
        yield spark
    finally:
        spark.stop()


def _submitted() -> bool:
    """Return whether spark-submit started this process, or will be started, with a master."""
    return "PYSPARK_GATEWAY_PORT" in os.environ or "--master" in os.environ.get("PYSPARK_SUBMIT_ARGS", "")


def _decided(*, submitted: bool) -> frozenset[str]:
    """Return the properties that an operator has decided: ours are only in place of what nobody has said.

    spark-submit's JVM knows them, also where the driver runs in a container that has no spark-defaults.conf.
    """
    if submitted:
        from pyspark import SparkConf, SparkContext  # noqa: PLC0415  # slow, and only used here

        SparkContext._ensure_initialized()  # noqa: SLF001  # without a JVM a SparkConf is empty
        return frozenset(key for key, _ in SparkConf().getAll())
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (home and f"{home}/conf")
    try:
        lines = Path(folder, "spark-defaults.conf").read_text(encoding="utf-8").splitlines() if folder else []
    except FileNotFoundError:
        return frozenset()
    return frozenset(line.split()[0].partition("=")[0] for line in lines if line.strip() and not line.startswith("#"))


def _java(*, light: bool) -> dict[str, str]:
    """Return the properties of the driver's JVM, which is started with them unless spark-submit has started it."""
    folder = cache_directory() / "spark"
    scratch = folder / "tmp"  # not /tmp, which may be mounted without the right to execute: codecs are unpacked there
    scratch.mkdir(parents=True, exist_ok=True)
    file = folder / "log4j2.properties"
    if not file.exists() or file.read_text() != _QUIET:
        file.write_text(_QUIET)
    options = f"-Dlog4j2.configurationFile={file.as_uri()} -XX:+UseSerialGC -Djava.io.tmpdir={scratch}"
    options = f"{options} -XX:TieredStopAtLevel=1" if light else options
    return {"spark.driver.memory": "640m", "spark.driver.extraJavaOptions": options}


@contextmanager
def progress(spark: SparkSession, tell: Callable[[str, int, int], None], every: float = 1.0) -> Iterator[None]:
    """Report the progress of running stages, from Spark's status tracker, while the block runs.

    ``tell`` gets (what its job does, tasks done, all tasks) at most every ``every`` seconds, if something changed.
    """
    from py4j.protocol import Py4JError  # noqa: PLC0415  # only with Spark

    done = threading.Event()
    context: Any = spark.sparkContext
    tracker, store = context.statusTracker(), context._jsc.sc().statusStore()  # noqa: SLF001  # no public way

    def words(stage: int) -> str:
        """Return what setJobGroup was told; a stage's name is a place in the code."""
        try:
            told = store.lastStageAttempt(stage).description()
        except Py4JError:  # it has ended
            return f"stage {stage}"
        return str(told.get()) if told.isDefined() else f"stage {stage}"

    def watch() -> None:
        last = None
        while not done.wait(every):
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
            now = [(info.stageId, info.numCompletedTasks, info.numTasks) for info in stages if info is not None]
            if now and now != last:
                last = now
                stage, *tasks = now[0]
                tell(words(stage), *tasks)

    watcher = threading.Thread(target=watch, name="spark-progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
