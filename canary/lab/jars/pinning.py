"""``python -m canary.lab.jars.pinning 4.2.0`` (``make pin KAFKA=4.2.0``): writes the pinned list of a version of Kafka.

For those who change the canary. Maven resolves and downloads what a broker needs; each jar is compared with the
checksum that Maven Central serves beside it (SHA-512 where there is one, else SHA-1), and the list is written to
``pinned``, beside this module.
"""

import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx

from canary.lab.errors import LabError
from canary.lab.jars.cache import MAVEN_URL
from canary.lab.jars.pinned_jars import Jar, version_tuple

PINNED = Path(__file__).parent / "pinned"
_OLDEST = (3, 4)
"""Older brokers do not run without ZooKeeper."""
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion><groupId>canary</groupId><artifactId>lab</artifactId><version>1</version>
<packaging>pom</packaging>
<dependencies>
{dependencies}
</dependencies>
</project>
"""
_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
_LOG4J2 = "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3"
_RELOAD4J = "org.slf4j:slf4j-reload4j:1.7.36"


def resolve(version: str) -> list[Jar]:
    """Return the jars of a version of Kafka and of the logging back end that it leaves open, by their coordinates.

    Raises:
        LabError: the version is too old, there is no Maven, or Maven fails.
    """
    if version_tuple(version) < _OLDEST:
        raise LabError(f"Kafka {version} is too old for the lab; pin 3.4.0 or newer", 2)
    mvn = shutil.which("mvn")
    if mvn is None:
        raise LabError("Maven is missing (Debian: apt install maven)")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        wanted = f"org.apache.kafka:kafka_2.13:{version}", _LOG4J2 if version_tuple(version) >= (4,) else _RELOAD4J
        dependencies = "\n".join(_DEPENDENCY.format(*one.split(":")) for one in wanted)
        (place / "pom.xml").write_text(_POM.format(dependencies=dependencies))
        command = [mvn, "-B", "-q", "-f", str(place / "pom.xml"), "dependency:list", "dependency:copy-dependencies"]
        options = ["-DincludeScope=runtime", f"-DoutputFile={place / 'list'}", f"-DoutputDirectory={place / 'lib'}"]
        if subprocess.run([*command, *options], check=False).returncode != 0:  # noqa: S603  # the command is ours
            raise LabError(f"Maven cannot resolve Kafka {version}; its words are above")
        words = [line.split()[0].split(":") for line in (place / "list").read_text().splitlines() if ":jar:" in line]
        return sorted(
            (_jar(place / "lib", *found) for found in words), key=lambda jar: (jar.group, jar.artifact, jar.version)
        )


def _jar(lib: Path, group: str, artifact: str, _kind: str, version: str, _scope: str) -> Jar:
    """Return a jar that Maven fetched (five words: one with a classifier would have six)."""
    content = (lib / f"{artifact}-{version}.jar").read_bytes()
    return Jar(hashlib.sha512(content).hexdigest(), group, artifact, version)


def confirm(client: httpx.Client, jar: Jar) -> str:
    """Return the kind of checksum by which Maven Central confirms a jar.

    Raises:
        LabError: it confirms none.
    """
    for kind in ("sha512", "sha1"):
        answer = client.get(f"{MAVEN_URL}/{jar.path}.{kind}")
        if answer.is_success:
            content = client.get(f"{MAVEN_URL}/{jar.path}").content
            if hashlib.sha512(content).hexdigest() != jar.sha512:
                break
            if hashlib.new(kind, content, usedforsecurity=False).hexdigest() == answer.text.split()[0].lower():
                return kind
            break
    raise LabError(f"Maven Central does not confirm {jar.name} as Maven fetched it")


def main() -> None:
    """Pin the version named on the command line."""
    (version,) = sys.argv[1:]
    jars = resolve(version)
    with httpx.Client(timeout=60, follow_redirects=True) as client:
        kinds = [confirm(client, jar) for jar in jars]
    lines = [f"{jar.sha512} {jar.group}:{jar.artifact}:{jar.version}\n" for jar in jars]
    path = PINNED / f"kafka-{version}.txt"
    path.write_text("".join(lines), encoding="ascii")
    print(f"{path}: {len(jars)} jars; Maven Central confirmed {kinds.count('sha512')} by SHA-512, the others by SHA-1")  # noqa: T201  # the report


if __name__ == "__main__":
    main()
