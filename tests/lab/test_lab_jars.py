"""Kafka's jars, from a Maven repository on loopback that serves small ones."""

from __future__ import annotations

import hashlib
import re
import threading
from collections import Counter
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient

from canary.lab import Lab, LabError
from canary.lab.jars import cache, pinned_jars
from canary.lab.jars.pinned_jars import Jar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

VERSION = "4.1.0"
USED = ("3.9.1", pinned_jars.DEFAULT_VERSION)
"""Versions that other tests start: see test_modes, and nearly everything."""


def content(name: str) -> bytes:
    return name.encode() * 10_000


def pin(artifact: str) -> Jar:
    jar = Jar("", "org.apache.kafka", artifact, VERSION)
    return replace(jar, sha512=hashlib.sha512(content(jar.name)).hexdigest())


PINS = [pin(f"part-{number}") for number in range(20)] + [pin("kafka_2.13")]


class Repository(ThreadingHTTPServer):
    """Answers with the content that belongs to a path; ``status`` and ``served`` say otherwise for some jars."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.asked: Counter[str] = Counter()
        self.status: dict[str, list[int]] = {}
        self.served: dict[str, bytes] = {}


class Answer(BaseHTTPRequestHandler):
    server: Repository

    def do_GET(self) -> None:
        folder, _, name = self.path.rpartition("/")
        self.server.asked[name] += 1
        status = next(iter(self.server.status.get(name, [])), 200)
        if name in self.server.status:
            self.server.status[name] = self.server.status[name][1:]
        if not re.fullmatch(rf"/maven2/org/apache/kafka/[\w.-]+/{VERSION}", folder):
            status = 404
        body = self.server.served.get(name, content(name))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    with Repository() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        monkeypatch.setenv("CANARY_MAVEN_URL", f"http://me:hunter77@127.0.0.1:{server.server_port}/maven2/")
        monkeypatch.setattr(cache, "pinned", lambda _: PINS)
        yield server
        server.shutdown()
        thread.join()


def test_every_pinned_jar_is_fetched_with_its_progress(tmp_path: Path, repository: Repository) -> None:
    steps: list[tuple[int, int]] = []
    lib = cache.fetch(VERSION, lambda _what, done, total: steps.append((done, total)), cache=tmp_path)
    assert {path.name: path.read_bytes() for path in lib.iterdir()} == {jar.name: content(jar.name) for jar in PINS}
    assert steps == [(done, len(PINS)) for done in range(1, len(PINS) + 1)]
    assert cache.is_fetched(VERSION, cache=tmp_path)
    assert set(repository.asked.values()) == {1}


def test_the_second_time_nothing_is_asked(tmp_path: Path, repository: Repository) -> None:
    first = cache.fetch(VERSION, cache=tmp_path)
    assert cache.fetch(VERSION, cache=tmp_path) == first
    assert repository.asked.total() == len(PINS)


def test_two_who_fetch_at_once_fetch_once(tmp_path: Path, repository: Repository) -> None:
    threads = [threading.Thread(target=cache.fetch, args=(VERSION,), kwargs={"cache": tmp_path}) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert repository.asked.total() == len(PINS)
    assert cache.is_fetched(VERSION, cache=tmp_path)


def test_a_repository_in_trouble_is_asked_again(tmp_path: Path, repository: Repository) -> None:
    repository.status[PINS[3].name] = [503, 500]
    cache.fetch(VERSION, cache=tmp_path)
    assert repository.asked[PINS[3].name] == 3


def refused(tmp_path: Path) -> str:
    """Return why a fetch ends, after it has left nothing that looks complete."""
    with pytest.raises(LabError) as caught:
        cache.fetch(VERSION, cache=tmp_path)
    assert not cache.is_fetched(VERSION, cache=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [f"kafka-{VERSION}.lock"]
    assert "hunter77" not in str(caught.value)
    return str(caught.value)


def test_another_jar_than_the_pinned_one_is_refused_by_name(tmp_path: Path, repository: Repository) -> None:
    repository.served[PINS[5].name] = content(PINS[5].name)[:-1] + b"!"
    assert re.match(r"part-5-4\.1\.0\.jar from 127\.0\.0\.1 is not the jar that is pinned", refused(tmp_path))
    assert repository.asked[PINS[5].name] == 1


def test_a_jar_that_is_not_there_is_named_at_once(tmp_path: Path, repository: Repository) -> None:
    repository.status[PINS[5].name] = [404]
    assert "part-5-4.1.0.jar cannot be fetched from 127.0.0.1: status 404" in refused(tmp_path)
    assert repository.asked[PINS[5].name] == 1


def test_without_a_network_the_setting_for_a_mirror_is_named(
    tmp_path: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch, free_port: int
) -> None:
    monkeypatch.setenv("CANARY_MAVEN_URL", f"http://me:hunter77@127.0.0.1:{free_port}")
    assert "CANARY_MAVEN_URL" in refused(tmp_path)
    assert not repository.asked


def test_a_fetch_that_is_interrupted_leaves_nothing_that_looks_complete(tmp_path: Path, repository: Repository) -> None:
    def interrupt(_what: str, done: int, _total: int) -> None:
        if done == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cache.fetch(VERSION, interrupt, cache=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [f"kafka-{VERSION}.lock"]
    assert cache.fetch(VERSION, cache=tmp_path).is_dir()
    assert set(repository.asked) == {jar.name for jar in PINS}


@pytest.mark.parametrize("version", ["latest", "2.8.0", "4.1"])
def test_a_version_that_is_not_pinned_is_refused_before_anything_is_fetched(tmp_path: Path, version: str) -> None:
    with pytest.raises(LabError, match=rf"Kafka {version}; it knows .*{pinned_jars.DEFAULT_VERSION}") as caught:
        cache.fetch(version, cache=tmp_path / "cache")
    assert caught.value.exit_status == 2
    assert not (tmp_path / "cache").exists()


def test_pinned_lists_are_whole() -> None:
    versions = pinned_jars.pinned_versions()
    assert {"3.4.0", "3.9.1", pinned_jars.DEFAULT_VERSION, "4.3.1"} <= set(versions)
    assert versions == sorted(versions, key=pinned_jars.version_tuple)
    for version in versions:
        found = pinned_jars.pinned(version)
        names = [jar.name for jar in found]
        assert len(set(names)) == len(names)
        assert {f"kafka_2.13-{version}.jar", f"kafka-clients-{version}.jar"} <= set(names)
        assert any(jar.artifact in {"log4j-slf4j-impl", "slf4j-reload4j"} for jar in found)
        assert all(re.fullmatch(r"[0-9a-f]{128}", jar.sha512) for jar in found)


def test_a_jar_with_a_classifier_is_beside_the_one_without() -> None:
    plain, test = pinned_jars.listed(
        "aa org.apache.kafka:kafka-storage:4.1.0\nbb org.apache.kafka:kafka-storage:4.1.0:test"
    )
    folder = "org/apache/kafka/kafka-storage/4.1.0"
    assert (plain.path, test.path) == (
        f"{folder}/kafka-storage-4.1.0.jar",
        f"{folder}/kafka-storage-4.1.0-test.jar",
    )


def test_without_java_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(LabError, match="install Java 17"):
        cache.java()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Try every version, or those on whose brokers nothing else runs."""
    if "pinned" in metafunc.fixturenames:
        left_out = () if metafunc.config.getoption("--long") else USED
        metafunc.parametrize("pinned", [one for one in pinned_jars.pinned_versions() if one not in left_out])


@pytest.mark.slow
@pytest.mark.kafka
def test_brokers_of_every_pinned_version_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pinned: str) -> None:
    monkeypatch.setenv("CANARY_CACHE", str(tmp_path / "cache"))
    lib = cache.fetch(pinned)
    assert {path.name for path in lib.iterdir()} == {jar.name for jar in pinned_jars.pinned(pinned)}
    with Lab(tmp_path / "lab", brokers=1, version=pinned, die_with_parent=True) as lab:
        assert [node.state for node in lab.status()] == ["running", "running"]
        metadata = AdminClient({"bootstrap.servers": lab.bootstrap, "log_level": 0}).list_topics(timeout=30)
        assert list(metadata.brokers) == [1]
