"""Log directories as brokers leave them: what is taken, what is refused, and that a running broker's is not read."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from canary.errors import UserError
from canary.salvage.directory import opened
from canary.salvage.segments import scan, segments
from tests.salvage.logs import batch, folder

LOG = [batch(0, 1, b"a1")]
HOLDS = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
input()
"""
"""A process that locks a file as Kafka does, until it gets a line."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A broker's log.dir."""
    for topic in ("orders", "a-b-7", "__consumer_offsets", "__remote_log_metadata", "gone"):
        folder(tmp_path, LOG, topic=topic)
    (tmp_path / "gone-0").rename(tmp_path / "gone-0.0123456789abcdef-delete")
    (tmp_path / "empty-0").mkdir()
    (tmp_path / "meta.properties").write_text("#Sat\nversion=1\ncluster.id=C1\nnode.id=3\n")
    (tmp_path / "orders-0" / "partition.metadata").write_text("version: 0\ntopic_id: _mld5J0TT3eB-AAMnSNibg")
    (tmp_path / "orders-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n4 10\n")
    return tmp_path


def test_partitions_are_found_with_what_is_told_of_them_and_kafkas_own_only_by_name(data: Path) -> None:
    found = opened(data)
    assert (found.cluster_id, found.broker) == ("C1", 3)
    assert [(one.topic, one.partition, one.topic_id, one.epochs) for one in found.replicas] == [
        ("a-b-7", 0, None, ()),
        ("orders", 0, "/mld5J0TT3eB+AAMnSNibg", ((0, 0), (4, 10))),
    ]
    assert [one.name for one in opened(data, ["__consumer_offsets"]).replicas] == ["__consumer_offsets-0"]
    assert [one.name for one in opened(data / "orders-0").replicas] == ["orders-0"]
    assert opened(data / "orders-0").cluster_id == "C1"


def test_a_torn_checkpoint_is_none(data: Path) -> None:
    (data / "orders-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n4")
    assert opened(data, ["orders"]).replicas[0].epochs == ()


def test_a_folder_of_kafkas_own_is_taken_where_it_is_named_itself(data: Path) -> None:
    assert [one.name for one in opened(data / "__consumer_offsets-0").replicas] == ["__consumer_offsets-0"]


def test_folders_that_kafka_has_set_aside_are_named(data: Path) -> None:
    for end in ("stray", "future", "backup"):
        folder(data, LOG, topic="x")
        (data / "x-0").rename(data / f"x-0.0123456789abcdef-{end}")
    found = opened(data)
    assert [one.partition(".")[2] for one in found.set_aside] == [
        f"0123456789abcdef-{end}" for end in ("delete", "future", "stray")
    ]
    assert {one.topic for one in found.replicas} == {"a-b-7", "orders"}
    with pytest.raises(
        UserError, match=r"no log of x; Kafka has set aside .*x-0\.0123.*-stray: name a copy of it TOPIC-"
    ):
        opened(data, ["x"])


def test_names_that_kafka_gives_to_nothing_are_no_partitions_and_no_segments(data: Path) -> None:
    for name in ("orders-00", "orders-20261128093000", "orders-\u0663"):
        shutil.copytree(data / "orders-0", data / name)
    (data / "orders-0" / "0-backup.log").write_bytes(b"x")
    (found,) = opened(data, ["orders"]).replicas
    assert found.name == "orders-0"
    assert [one.name for one in segments(found.path)] == [f"{0:020d}.log"]


def test_what_java_escapes_and_a_broker_that_is_no_number(data: Path) -> None:
    (data / "meta.properties").write_text("cluster.id=ciWo7IWazngRchmPES6q5A\\=\\=\nnode.id=x\n")
    found = opened(data)
    assert (found.cluster_id, found.broker) == ("ciWo7IWazngRchmPES6q5A==", None)


@pytest.mark.parametrize("denied", ["orders-0", f"orders-0/{0:020d}.log"])
def test_what_may_not_be_read_is_said_and_not_passed_over(
    data: Path, monkeypatch: pytest.MonkeyPatch, denied: str
) -> None:
    def refuses(listing: Any) -> Any:
        def of(path: Any, *more: Any, **named: Any) -> Any:
            if Path(path) == data / denied:
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return listing(path, *more, **named)

        return of

    for name in ("listdir", "scandir"):  # not by its mode: root may read everything
        monkeypatch.setattr(os, name, refuses(getattr(os, name)))
    monkeypatch.setattr(Path, "open", refuses(Path.open))
    with pytest.raises(UserError, match=f"Permission denied.*{denied}|{denied} cannot be read: Permission denied"):
        list(scan(segments(opened(data).replicas[1].path), checked_from=None))


def test_nothing_is_written_into_a_log_dir_where_kafka_would_not_start_again(data: Path, tmp_path: Path) -> None:
    for found in (opened(data), opened(data / "orders-0")):
        with pytest.raises(UserError, match=r"--out .* is in the log.dir"):
            found.refuse_to_hold(data / "orders-0" / ".." / "salvaged")
        found.refuse_to_hold(tmp_path.parent / "salvaged")
    (data / "meta.properties").unlink()  # some copied folders
    opened(data).refuse_to_hold(data / "salvaged")


def test_what_is_not_there_is_said(data: Path, tmp_path: Path) -> None:
    for path, topics, partitions, said in (
        (data / "empty-0", (), (), "no folder TOPIC-PARTITION with a log"),
        (data, ["payments"], (), "no log of payments"),
        (data, (), [9], "nothing but .*, a-b-7-0, orders-0, which --topic and --partition leave out"),
    ):
        with pytest.raises(UserError, match=f"--log-dir .*{said}"):
            opened(path, topics, partitions)
    with pytest.raises(UserError, match="No such file"):
        opened(tmp_path / "nowhere")


def test_a_directory_whose_broker_runs_is_refused_and_a_lock_that_nobody_holds_is_nothing(data: Path) -> None:
    lock = data / ".lock"
    lock.touch()
    before = opened(data)
    assert before.replicas
    with subprocess.Popen([sys.executable, "-c", HOLDS, lock], stdin=-1, stdout=-1, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        for path in (data, data / "orders-0"):
            with pytest.raises(UserError, match=r"a broker runs on it .*copy the directory"):
                opened(path)
            with pytest.raises(UserError, match="a broker runs on it"):
                before.refuse_if_running()
        holder.communicate("\n")
    assert opened(data).replicas


def test_nothing_is_written_to_it(data: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in data.rglob("*")}
    opened(data)
    assert {path: path.stat().st_mtime_ns for path in data.rglob("*")} == before
