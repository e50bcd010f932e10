"""Kafka's own jars, and Spark's connector, fetched once from Maven Central, checked against pinned checksums, and kept.

    $CANARY_CACHE, or ~/.cache/kafka-durability-canary
        kafka-4.1.0/*.jar          complete, or not there: filled under another name and renamed
        spark-kafka-4.0.0/*.jar    the same

``$CANARY_MAVEN_URL`` names another repository of the same layout, such as a company's mirror; the pinned checksums hold
for that as well.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from canary.lab.errors import LabError
from canary.lab.jars.pinned_jars import CONNECTOR, DEFAULT_VERSION, Jar, pinned, pinned_connector

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many steps are done, and how many there will be."""

MAVEN_URL = "https://repo.maven.apache.org/maven2"


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
    """Return whether fetch() would return at once."""
    return ((cache or cache_directory()) / f"kafka-{version}").is_dir()


def fetch(version: str = DEFAULT_VERSION, progress: Progress | None = None, *, cache: Path | None = None) -> Path:
    """Return the directory that holds all jars of a Kafka version; fetch them first if they are not there yet.

    Of two processes that ask at the same time one fetches and the other waits. A fetch that is cut off leaves nothing
    that looks complete.
    ``progress`` is called for every jar; ``cache`` is used instead of cache_directory().

    Raises:
        LabError: the version is not pinned, the repository does not answer, or a jar is not the pinned one.
    """
    return _fetch(f"kafka-{version}", lambda: pinned(version), f"Kafka {version}", progress, cache)


def fetch_connector(progress: Progress | None = None, *, cache: Path | None = None) -> Path:
    """Return the directory that holds the jars that Spark lacks to read from Kafka; see fetch().

    Raises:
        LabError: the repository does not answer, or a jar is not the pinned one.
    """
    return _fetch(CONNECTOR, pinned_connector, "Spark's Kafka connector", progress, cache)


def _fetch(name: str, jars: Callable[[], list[Jar]], what: str, progress: Progress | None, cache: Path | None) -> Path:
    """Return the directory ``name`` with these jars; ``what`` names them for people."""
    base = cache or cache_directory()
    target = base / name
    if target.is_dir():
        return target
    wanted = jars()
    from canary.lab.jars.download import download  # noqa: PLC0415  # an HTTP client, needed once

    base.mkdir(parents=True, exist_ok=True)
    with (base / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if target.is_dir():  # another process was quicker
            return target
        with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=base) as scratch:
            lib = Path(scratch) / "lib"
            lib.mkdir()
            report = progress or (lambda *_: None)
            url = os.environ.get("CANARY_MAVEN_URL") or MAVEN_URL
            download(wanted, url, lib, lambda done: report(f"fetching {what}", done, len(wanted)))
            lib.rename(target)
    return target
