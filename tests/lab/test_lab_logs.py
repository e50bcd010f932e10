import struct
from pathlib import Path

import pytest

from canary.lab import LabError, logs

TOPIC = "probes"


def batch(base: int, records: int, body: int = 40) -> bytes:
    header = struct.pack(">iBIhi", 0, 2, 0, 0, records - 1)
    payload = header + bytes(body)
    return struct.pack(">qi", base, len(payload)) + payload


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two segments: offsets 0..9 in batches of one, 10..29 in batches of five."""
    home = tmp_path / f"{TOPIC}-0"
    home.mkdir()
    (home / f"{0:020}.log").write_bytes(b"".join(batch(n, 1) for n in range(10)))
    (home / f"{10:020}.log").write_bytes(b"".join(batch(n, 5) for n in range(10, 30, 5)))
    for base in (0, 10):
        for suffix in ("index", "timeindex"):
            (home / f"{base:020}.{suffix}").touch()
    (home / f"{30:020}.snapshot").touch()
    (home / f"{10:020}.snapshot").touch()
    (home / "leader-epoch-checkpoint").write_text("0\n3\n0 0\n1 12\n2 25\n")
    (tmp_path / ".kafka_cleanshutdown").touch()
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (tmp_path / name).write_text(f"0\n2\n{TOPIC} 0 30\nother 0 77\n")
    return tmp_path


def names(data: Path, suffix: str) -> list[int]:
    return sorted(int(path.stem) for path in (data / f"{TOPIC}-0").glob(f"*.{suffix}"))


def test_the_end_is_one_more_than_the_last_whole_record(data: Path) -> None:
    assert logs.end_offset(data, TOPIC, 0) == 30


def test_a_cut_to_an_offset_removes_it_and_all_behind_it(data: Path) -> None:
    cut = logs.truncate(data, TOPIC, 0, to_offset=20)
    assert (cut.before, cut.after) == (30, 20)
    assert logs.end_offset(data, TOPIC, 0) == 20


def test_a_batch_across_the_offset_goes_as_a_whole(data: Path) -> None:
    assert logs.truncate(data, TOPIC, 0, to_offset=22).after == 20


def test_a_cut_across_segments_removes_the_later_ones(data: Path) -> None:
    assert logs.truncate(data, TOPIC, 0, to_offset=4).after == 4
    assert names(data, "log") == [0]
    assert names(data, "snapshot") == []


def test_ten_bytes_tear_the_last_batch(data: Path) -> None:
    cut = logs.truncate(data, TOPIC, 0, count=10)
    assert (cut.after, cut.bytes_removed) == (25, 10)


def test_a_cut_in_bytes_goes_on_in_the_segment_before(data: Path) -> None:
    second = (data / f"{TOPIC}-0" / f"{10:020}.log").stat().st_size
    assert logs.truncate(data, TOPIC, 0, count=second + 1).after == 9
    assert names(data, "log") == [0]


def test_more_bytes_than_there_are_leave_an_empty_log(data: Path) -> None:
    assert logs.truncate(data, TOPIC, 0, count=10**9).after == 0
    assert names(data, "log") == [0]


def test_no_checkpoint_promises_what_is_gone(data: Path) -> None:
    logs.truncate(data, TOPIC, 0, to_offset=20)
    assert not (data / ".kafka_cleanshutdown").exists()
    assert (data / "recovery-point-offset-checkpoint").read_text() == f"0\n2\n{TOPIC} 0 0\nother 0 77\n"
    assert (data / "replication-offset-checkpoint").read_text() == f"0\n2\n{TOPIC} 0 20\nother 0 77\n"
    assert (data / f"{TOPIC}-0" / "leader-epoch-checkpoint").read_text() == "0\n2\n0 0\n1 12\n"
    assert names(data, "snapshot") == [10]
    assert names(data, "index") == [0]


def test_a_cut_beyond_the_end_changes_nothing(data: Path) -> None:
    cut = logs.truncate(data, TOPIC, 0, to_offset=30)
    assert (cut.before, cut.after, cut.bytes_removed) == (30, 30, 0)
    assert (data / ".kafka_cleanshutdown").exists()
    assert names(data, "index") == [0, 10]


def test_a_partition_that_is_not_there_is_named(data: Path) -> None:
    with pytest.raises(LabError, match="probes-7"):
        logs.truncate(data, TOPIC, 7, count=1)


def test_one_measure_is_asked_for(data: Path) -> None:
    with pytest.raises(LabError, match="either"):
        logs.truncate(data, TOPIC, 0)
