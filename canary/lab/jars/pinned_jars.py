"""The pinned lists: which jars a version of Kafka, or Spark's connector, consists of.

``pinned/kafka-4.1.0.txt`` has a line for each jar of a version: its SHA-512 and its Maven coordinate,
``group:artifact:version``, with ``:classifier`` behind it where it has one; ``pinned/spark-kafka-4.0.0.txt`` has the
jars that Spark lacks to read from Kafka.
"""

from dataclasses import dataclass
from importlib import resources

from canary.lab.errors import LabError

DEFAULT_VERSION = "4.1.0"
CONNECTOR = "spark-kafka-4.0.0"
"""The pinned list of Spark's Kafka source; this one works with all of Spark 4.0."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One line of a pinned list: a Maven coordinate, and the SHA-512 of its jar in hexadecimal digits."""

    sha512: str
    group: str
    artifact: str
    version: str
    classifier: str = ""

    @property
    def name(self) -> str:
        """The file's name."""
        return f"{'-'.join(filter(None, (self.artifact, self.version, self.classifier)))}.jar"

    @property
    def path(self) -> str:
        """Where it is in a Maven repository."""
        return f"{self.group.replace('.', '/')}/{self.artifact}/{self.version}/{self.name}"


def pinned_versions() -> list[str]:
    """Return the versions of Kafka that can be fetched, oldest first."""
    names = [file.name for file in (resources.files("canary.lab.jars") / "pinned").iterdir()]
    versions = [name.removeprefix("kafka-").removesuffix(".txt") for name in names if name.startswith("kafka-")]
    return sorted(versions, key=version_tuple)


def pinned(version: str) -> list[Jar]:
    """Return the jars of a Kafka version.

    Raises:
        LabError: it is not pinned.
    """
    known = pinned_versions()
    if version not in known:
        raise LabError(f"the lab does not know Kafka {version}; it knows {', '.join(known)} (see docs/releasing.md)", 2)
    return _jars(f"kafka-{version}")


def pinned_connector() -> list[Jar]:
    """Return the jars that Spark lacks to read from Kafka."""
    return _jars(CONNECTOR)


def _jars(name: str) -> list[Jar]:
    return listed((resources.files("canary.lab.jars") / "pinned" / f"{name}.txt").read_text(encoding="ascii"))


def listed(text: str) -> list[Jar]:
    """Return the jars of a pinned list."""
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
