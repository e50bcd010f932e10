"""Kafka's own jars, and Spark's connector, fetched once from Maven Central, held against pinned checksums, and kept.

    $CANARY_CACHE, or ~/.cache/kafka-durability-canary
        kafka-4.1.0/*.jar          complete, or not there: filled under another name and renamed
        spark-kafka-4.0.0/*.jar    the same

Beside this module, ``pinned/kafka-4.1.0.txt`` has a line for each jar of a version: its SHA-512 and its Maven
coordinate, ``group:artifact:version``; ``pinned/spark-kafka-4.0.0.txt`` has the jars that Spark lacks to read from
Kafka. ``$CANARY_MAVEN_URL`` names another repository of the same layout, such as a company's mirror; the checksums hold
for that as well.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from canary.lab.errors import LabError

Progress = Callable[[str, int, int], None]
"""Called with what is being done, how many steps are done, and how many there will be."""

DEFAULT_VERSION = "4.1.0"
CONNECTOR = "spark-kafka-4.0.0"
"""The pinned list of Spark's Kafka source; this one works with all of Spark 4.0."""
MAVEN_URL = "https://repo.maven.apache.org/maven2"


@dataclass(frozen=True, slots=True)
class Jar:
    """One line of a pinned list: a Maven coordinate, and the SHA-512 of its jar in hexadecimal digits."""

    sha512: str
    group: str
    artifact: str
    version: str

    @property
    def name(self) -> str:
        """Return the file's name."""
        return f"{self.artifact}-{self.version}.jar"

    @property
    def path(self) -> str:
        """Return where it is in a Maven repository."""
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.name}"


def pinned_versions() -> list[str]:
    """Return the versions of Kafka that can be fetched, oldest first."""
    names = [file.name for file in (resources.files("canary.lab") / "pinned").iterdir()]
    return sorted(
        (name[len("kafka-") : -len(".txt")] for name in names if name.startswith("kafka-")), key=version_tuple
    )


def pinned(version: str) -> list[Jar]:
    """Return the jars of a Kafka version.

    Raises:
        LabError: it is not pinned.
    """
    known = pinned_versions()
    if version not in known:
        raise LabError(
            f"the lab does not know Kafka {version}; it knows {', '.join(known)} (see docs/releasing.md)",
            2,
        )
    return _listed(f"kafka-{version}")


def pinned_connector() -> list[Jar]:
    """Return the jars that Spark lacks to read from Kafka."""
    return _listed(CONNECTOR)


def _listed(name: str) -> list[Jar]:
    text = (resources.files("canary.lab") / "pinned" / f"{name}.txt").read_text(encoding="ascii")
    return [Jar(sha512, *coordinate.split(":")) for sha512, coordinate in map(str.split, text.splitlines())]


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
    return ((cache or cache_directory()) / f"kafka-{version}").is_dir()


def fetch(version: str = DEFAULT_VERSION, progress: Progress | None = None, *, cache: Path | None = None) -> Path:
    """Return the directory that holds all jars of a Kafka version; fetch them first if they are not there yet.

    Two processes may ask at the same time: one fetches, the other waits for it. A fetch that is cut off leaves nothing
    that looks complete.

    Args:
        version: of Kafka, such as "4.1.0".
        progress: told about every jar.
        cache: instead of cache_directory().

    Raises:
        LabError: the version is not pinned, the repository does not answer, or a jar is not the pinned one.
    """
    return _kept(f"kafka-{version}", lambda: pinned(version), f"Kafka {version}", progress, cache)


def fetch_connector(progress: Progress | None = None, *, cache: Path | None = None) -> Path:
    """Return the directory that holds the jars that Spark lacks to read from Kafka; as fetch() does.

    Raises:
        LabError: the repository does not answer, or a jar is not the pinned one.
    """
    return _kept(CONNECTOR, pinned_connector, "Spark's Kafka connector", progress, cache)


def _kept(name: str, listed: Callable[[], list[Jar]], what: str, progress: Progress | None, cache: Path | None) -> Path:
    """Return the directory ``name``, filled with what is listed; ``what`` says it in words."""
    base = cache or cache_directory()
    target = base / name
    if target.is_dir():
        return target
    wanted = listed()
    from canary.lab.download import download  # noqa: PLC0415  # an HTTP client, needed once

    base.mkdir(parents=True, exist_ok=True)
    with _locked(base / f"{name}.lock"):
        if target.is_dir():  # somebody else was quicker
            return target
        with tempfile.TemporaryDirectory(prefix=f".{name}-", dir=base) as scratch:
            lib = Path(scratch) / "lib"
            lib.mkdir()
            tell = progress or _no_progress
            download(
                wanted,
                os.environ.get("CANARY_MAVEN_URL") or MAVEN_URL,
                lib,
                lambda done: tell(f"fetching {what}", done, len(wanted)),
            )
            lib.rename(target)
    return target


def _no_progress(_what: str, _done: int, _total: int) -> None:
    """Say nothing."""


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
