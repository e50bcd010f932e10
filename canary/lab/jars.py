"""Kafka's own jars, fetched once and kept.

PySpark bundles Apache Ivy, so whoever has installed the canary can fetch brokers with nothing but Java; Maven does it
several times faster where it is installed. Each tool gets a repository of its own below the cache directory: a
half-filled ~/.m2 that Ivy is made to read ends in "download failed" (FIELD-NOTES).

    $CANARY_CACHE, or ~/.cache/kafka-durability-canary
        kafka-4.1.0/*.jar    complete, or not there: filled under another name and renamed
        ivy/, m2/            what the tools keep for themselves
"""

import fcntl
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from xml.sax.saxutils import quoteattr

import structlog

from canary.lab.errors import LabError

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many steps are done, and how many there will be about."""

Tool = Literal["ivy", "maven"]

DEFAULT_VERSION = "4.1.0"

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Artifact:
    """A Maven coordinate."""

    group: str
    name: str
    version: str


@dataclass(frozen=True, slots=True)
class Release:
    """What makes a runnable broker of one Kafka version.

    Attributes:
        artifacts: Kafka and the logging back end it leaves to whoever runs it.
        jars: how many jars that comes to, for progress only.
    """

    artifacts: tuple[Artifact, ...]
    jars: int


_LOG4J2 = Artifact("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3")
_RELOAD4J = Artifact("org.slf4j", "slf4j-reload4j", "1.7.36")


def release(version: str) -> Release:
    """Return the artifacts of a Kafka version; log4j 2 came with Kafka 4.

    Raises:
        LabError: the version is none, or older than KRaft brokers the lab can run (3.4).
    """
    kafka = Artifact("org.apache.kafka", "kafka_2.13", version)
    if version_tuple(version) < (3, 4):
        raise LabError(f"Kafka {version} is too old for the lab; ask for 3.4.0 or newer, {DEFAULT_VERSION} is tried")
    if version_tuple(version) < (4,):
        return Release((kafka, _RELOAD4J), 57)
    return Release((kafka, _LOG4J2), 46)


def version_tuple(version: str) -> tuple[int, ...]:
    """Return "4.1.0" as (4, 1, 0), to compare.

    Raises:
        LabError: it is not numbers and dots.
    """
    try:
        return tuple(int(word) for word in version.split("."))
    except ValueError:
        raise LabError(f"{version!r} is no Kafka version; write it as {DEFAULT_VERSION}", 2) from None


def cache_directory(environ: Mapping[str, str] = os.environ) -> Path:
    """Return where jars are kept: $CANARY_CACHE, else below $XDG_CACHE_HOME, else below ~/.cache."""
    if chosen := environ.get("CANARY_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "kafka-durability-canary"


def java() -> str:
    """Return the path of the java program.

    Raises:
        LabError: there is none.
    """
    home = os.environ.get("JAVA_HOME")
    if home and (program := Path(home) / "bin" / "java").is_file():
        return str(program)
    if found := shutil.which("java"):
        return str(Path(found).resolve())
    raise LabError("no java found; install Java 17 (Debian: apt install openjdk-17-jre-headless) or set JAVA_HOME")


def is_fetched(version: str = DEFAULT_VERSION, *, cache: Path | None = None) -> bool:
    """Tell whether fetch() would return at once."""
    return _target(version, cache or cache_directory()).is_dir()


def fetch(
    version: str = DEFAULT_VERSION,
    progress: Progress | None = None,
    *,
    cache: Path | None = None,
    tool: Tool | None = None,
) -> Path:
    """Return the directory that holds all jars of a Kafka version; fetch them first if they are not there yet.

    Two processes may ask at the same time: one fetches, the other waits for it. A fetch that is cut off leaves nothing
    that looks complete.

    Args:
        version: of Kafka, such as "4.1.0".
        progress: told about every step.
        cache: instead of cache_directory().
        tool: insist on one tool; else Maven where ``mvn`` is found, and Ivy where it is not or where Maven fails.

    Raises:
        LabError: no java, no network, or no such version.
    """
    base = cache or cache_directory()
    target = _target(version, base)
    if target.is_dir():
        return target
    wanted = release(version)
    base.mkdir(parents=True, exist_ok=True)
    with _locked(base / f"{target.name}.lock"):
        if target.is_dir():  # somebody else was quicker
            return target
        with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=base) as scratch:
            job = _Job(wanted, base, Path(scratch), progress or _no_progress)
            _retrieve(job, tool)
            if not (job.lib / f"kafka_2.13-{version}.jar").is_file():
                raise LabError(f"the download ended without kafka_2.13-{version}.jar; try again")
            job.lib.rename(target)
    return target


def _target(version: str, base: Path) -> Path:
    return base / f"kafka-{version}"


def _no_progress(_what: str, _done: int, _total: int) -> None:
    """Say nothing."""


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@dataclass(frozen=True, slots=True)
class _Job:
    """One fetch: what is wanted, the cache, a directory of its own to work in, and whom to tell."""

    wanted: Release
    base: Path
    scratch: Path
    progress: Progress

    @property
    def lib(self) -> Path:
        """Where the jars arrive."""
        return self.scratch / "lib"


def _retrieve(job: _Job, tool: Tool | None) -> None:
    if tool != "ivy" and (mvn := shutil.which("mvn")):
        try:
            _maven(mvn, job)
        except LabError as error:
            if tool == "maven":
                raise
            _log.warning("maven_failed_trying_ivy", error=str(error))
            shutil.rmtree(job.lib, ignore_errors=True)
        else:
            return
    elif tool == "maven":
        raise LabError("no mvn found; leave the choice of the tool open and Ivy is used")
    _ivy(job)


def _ivy(job: _Job) -> None:
    """Fetch with the Ivy that PySpark bundles."""
    spec = importlib.util.find_spec("pyspark")
    found = sorted(Path(spec.origin).parent.glob("jars/ivy-*.jar")) if spec and spec.origin else []
    if not found:
        raise LabError("PySpark's bundled Ivy is missing; reinstall with: pip install --force-reinstall pyspark")
    module = job.scratch / "ivy.xml"
    dependencies = "".join(
        f"<dependency org={quoteattr(a.group)} name={quoteattr(a.name)} rev={quoteattr(a.version)}"
        ' conf="default->default"/>'
        for a in job.wanted.artifacts
    )
    module.write_text(
        '<ivy-module version="2.0"><info organisation="canary" module="lab"/>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )
    command = [
        java(),
        "-jar",
        str(found[-1]),
        "-cache",
        str(job.base / "ivy"),
        "-ivy",
        str(module),
        "-confs",
        "default",
    ]
    command += ["-retrieve", f"{job.lib}/[artifact]-[revision].[ext]"]
    _run(command, job, looked_up="found ", loaded="downloading ")


def _maven(mvn: str, job: _Job) -> None:
    """Fetch with Maven, which takes the machine's own settings.xml (mirrors, proxies) into account."""
    pom = job.scratch / "pom.xml"
    dependencies = "".join(
        f"<dependency><groupId>{a.group}</groupId><artifactId>{a.name}</artifactId><version>{a.version}</version></dependency>"
        for a in job.wanted.artifacts
    )
    pom.write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>canary</groupId>'
        f"<artifactId>lab</artifactId><version>1</version><packaging>pom</packaging><dependencies>{dependencies}"
        "</dependencies></project>"
    )
    command = [mvn, "-B", f"-Dmaven.repo.local={job.base / 'm2'}", "-f", str(pom), "dependency:copy-dependencies"]
    command += [f"-DoutputDirectory={job.lib}", "-DincludeScope=runtime"]
    _run(command, job, looked_up=".pom", loaded=".jar")


def _run(command: list[str], job: _Job, *, looked_up: str, loaded: str) -> None:
    """Run a tool, turn its lines into progress, and its failure into an error that quotes its last words."""
    version, total = job.wanted.artifacts[0].version, 2 * job.wanted.jars
    modules = jars = 0
    tail: deque[str] = deque(maxlen=12)
    with subprocess.Popen(  # noqa: S603  # the command is ours
        command, cwd=job.scratch, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None  # noqa: S101  # PIPE was asked for
        for line in process.stdout:
            word = line.strip()
            if word:
                tail.append(word)
            if loaded in word and not word.startswith("[INFO] ---"):
                jars += 1
            elif looked_up in word:
                modules += 1
            else:
                continue
            job.progress(f"fetching Kafka {version}", min(modules, total // 2) + min(jars, total // 2), total)
    if process.returncode != 0:
        raise LabError(
            f"fetching Kafka {version} failed (exit status {process.returncode}); is the network there? "
            "Last lines: " + " | ".join(tail)
        )
    job.progress(f"fetching Kafka {version}", total, total)
