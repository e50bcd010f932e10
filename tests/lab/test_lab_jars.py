import threading
from pathlib import Path

import pytest

from canary.lab import LabError, jars

IVY = """#!/bin/sh
printf '%s\\n' "$@" > {record}
for word; do case "$word" in */lib/*) lib=$(dirname "$word") ;; esac; done
echo "	found org.apache.kafka#kafka_2.13;4.1.0 in public"
echo "downloading https://repo/kafka_2.13-4.1.0.jar ..."
{body}
"""


def fake_java(tmp_path: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A java that acts as Ivy does, as far as fetch() can see."""
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(IVY.format(record=tmp_path / "arguments", body=body))
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    return tmp_path / "arguments"


COMPLETE = 'mkdir -p "$lib" && echo x > "$lib/kafka_2.13-4.1.0.jar"'


def test_ivy_fetches_into_a_cache_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = fake_java(tmp_path, COMPLETE, monkeypatch)
    lib = jars.fetch("4.1.0", cache=tmp_path / "cache", tool="ivy")
    assert [path.name for path in lib.iterdir()] == ["kafka_2.13-4.1.0.jar"]
    assert str(tmp_path / "cache" / "ivy") in arguments.read_text().split("\n")
    assert jars.is_fetched("4.1.0", cache=tmp_path / "cache")


def test_the_second_time_nothing_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = fake_java(tmp_path, COMPLETE, monkeypatch)
    first = jars.fetch("4.1.0", cache=tmp_path / "cache", tool="ivy")
    arguments.unlink()
    assert jars.fetch("4.1.0", cache=tmp_path / "cache", tool="ivy") == first
    assert not arguments.exists()


def test_progress_goes_up_and_ends_at_its_total(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, COMPLETE, monkeypatch)
    steps: list[tuple[int, int]] = []
    jars.fetch("4.1.0", lambda _what, done, total: steps.append((done, total)), cache=tmp_path / "c", tool="ivy")
    assert [done for done, _ in steps] == [1, 2, 92]
    assert {total for _, total in steps} == {92}


@pytest.mark.parametrize("body", ["echo 'UNRESOLVED DEPENDENCIES'; exit 1", 'mkdir -p "$lib"'])
def test_a_failed_fetch_leaves_nothing_that_looks_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    fake_java(tmp_path, body, monkeypatch)
    with pytest.raises(LabError, match=r"UNRESOLVED|without kafka_2\.13-4\.1\.0\.jar"):
        jars.fetch("4.1.0", cache=tmp_path / "cache", tool="ivy")
    assert not jars.is_fetched("4.1.0", cache=tmp_path / "cache")
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["kafka-4.1.0.lock"]


def test_two_who_fetch_at_once_fetch_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counter = tmp_path / "runs"
    fake_java(tmp_path, f"echo run >> {counter}; sleep 0.2; {COMPLETE}", monkeypatch)
    threads = [
        threading.Thread(target=jars.fetch, args=("4.1.0",), kwargs={"cache": tmp_path / "cache", "tool": "ivy"})
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counter.read_text() == "run\n"


def test_maven_that_fails_hands_over_to_ivy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path, COMPLETE, monkeypatch)
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "mvn").write_text("#!/bin/sh\necho no such mirror; exit 1\n")
    (tools / "mvn").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    assert jars.fetch("4.1.0", cache=tmp_path / "cache").is_dir()


@pytest.mark.parametrize("version", ["latest", "2.8.0"])
def test_a_version_that_cannot_run_is_refused_before_anything_is_fetched(tmp_path: Path, version: str) -> None:
    with pytest.raises(LabError, match=version):
        jars.fetch(version, cache=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_without_java_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(LabError, match="install Java 17"):
        jars.java()


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["ivy", "maven"])
@pytest.mark.parametrize("version", ["4.1.0", "3.9.1"])
def test_real_jars_come_through_either_tool(tmp_path: Path, tool: jars.Tool, version: str) -> None:
    lib = jars.fetch(version, cache=tmp_path, tool=tool)
    found = {path.name.rpartition("-")[0] for path in lib.glob("*.jar")}
    assert {"kafka_2.13", "kafka-clients", "scala-library", "slf4j-api"} <= found
    assert abs(len(found) - jars.release(version).jars) <= 2  # the tools differ in what a classifier is
