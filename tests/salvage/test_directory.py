"""Log directories as brokers leave them: what is taken, what is refused, and that a running broker's is not read."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from canary.errors import UserError
from canary.salvage.directory import opened
from tests.salvage.logs import batch, folder

if TYPE_CHECKING:
    from pathlib import Path

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


def test_what_is_not_there_is_said(data: Path, tmp_path: Path) -> None:
    for path, topics, partitions in ((data / "empty-0", (), ()), (data, ["payments"], ()), (data, (), [9])):
        with pytest.raises(UserError, match=r"--log-dir .*no (log of payments|folder TOPIC-PARTITION)"):
            opened(path, topics, partitions)
    with pytest.raises(UserError, match="No such file"):
        opened(tmp_path / "nowhere")


def test_a_directory_whose_broker_runs_is_refused_and_a_lock_that_nobody_holds_is_nothing(data: Path) -> None:
    lock = data / ".lock"
    lock.touch()
    assert opened(data).replicas
    with subprocess.Popen([sys.executable, "-c", HOLDS, lock], stdin=-1, stdout=-1, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        for path in (data, data / "orders-0"):
            with pytest.raises(UserError, match=r"a broker runs on it .*copy the directory"):
                opened(path)
        holder.communicate("\n")
    assert opened(data).replicas


def test_nothing_is_written_to_it(data: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in data.rglob("*")}
    opened(data)
    assert {path: path.stat().st_mtime_ns for path in data.rglob("*")} == before
