"""The archive of loaded classes: written by the first broker that ends in good order, used by those after it."""

import shutil
from pathlib import Path

import psutil
import pytest

from canary.lab import Lab, site
from canary.lab.jars import cache, classes


def test_without_an_archive_one_is_written_and_with_one_it_is_used(tmp_path: Path) -> None:
    lib, home = tmp_path / "lib", tmp_path / "lab" / "broker-1"
    lib.mkdir()
    home.mkdir(parents=True)
    java = cache.java()
    assert classes.flags(lib, java) == ()
    assert classes.writing(lib, java, home) == (f"-XX:ArchiveClassesAtExit={home}/classes.jsa",)
    classes.keep(lib, java, home)  # it was killed: there is nothing to keep
    assert list(lib.iterdir()) == []
    (home / "classes.jsa").write_bytes(b"archive")
    classes.keep(lib, java, home)
    (archive,) = lib.iterdir()
    assert archive.read_bytes() == b"archive"
    assert not (home / "classes.jsa").exists()
    assert f"-XX:SharedArchiveFile={archive}" in classes.flags(lib, java)
    assert classes.writing(lib, java, home) == ()


@pytest.mark.kafka
def test_brokers_start_with_the_archive_that_an_earlier_one_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = cache.fetch()
    shutil.copytree(fetched, tmp_path / fetched.name, ignore=shutil.ignore_patterns("classes-*"))
    monkeypatch.setenv("CANARY_CACHE", str(tmp_path))
    monkeypatch.setattr(site, "_STOP_S", 120.0)  # the archive is written at the end, which takes long on a busy machine
    used = []
    for _ in range(2):
        with Lab(tmp_path / "lab", brokers=1, die_with_parent=True) as lab:
            (broker,) = (node for node in lab.status() if node.role == "broker")
            process = psutil.Process(broker.pid)
            used.append(any("SharedArchiveFile" in word for word in process.cmdline()))
            maps = {path.path for path in process.memory_maps()}
    (archive,) = (tmp_path / fetched.name).glob("classes-*.jsa")
    assert used == [False, True]
    assert str(archive) in maps
