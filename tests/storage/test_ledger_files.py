"""The ledger's files, byte by byte: what counts in them, what is set aside, and what a next process goes on from."""

from __future__ import annotations

import dataclasses
import errno
import os
import stat
import struct
import zlib
from pathlib import Path

import psutil
import pytest

from storage.ledger import Ledger, LedgerError, read_segment
from storage.ledger.files import Disk
from storage.ledger.framing import (
    FACTS,
    FRAME_BYTES,
    HEADER_BYTES,
    SNAPSHOT,
    Header,
    decode_header,
    encode_frame,
    frame_at,
    frame_length,
    has_frame_after,
)
from storage.ledger.recovery import find_chain, ledger_id_of
from storage.ledger.segment import begins_with_snapshot, scan_segment, segment_paths
from tests.storage.test_ledger import build, remembered, ticks
from tests.support.disk import disk_with

HEADER = Header(b"i" * 16, 3, 2, 77)
FRAME = encode_frame(FACTS, b"payload")


def flipped(data: bytes, at: int, bits: int = 1) -> bytes:
    return data[:at] + bytes([data[at] ^ bits]) + data[at + 1 :]


def flip(path: Path, at: int, bits: int = 1) -> None:
    path.write_bytes(flipped(path.read_bytes(), at, bits))


def segments(directory: Path, *states: bytes, batches: int = 2) -> list[Path]:
    """Write a segment for each state (and one before), each with batches of two ticks; return their paths."""
    with Ledger(directory) as ledger:
        n = 0
        for state in (None, *states):
            if state is not None:
                ledger.seal(state)
            for _ in range(batches):
                ledger.append(ticks(n, n + 2))
                n += 2
    return segment_paths(directory)


def restarts(directory: Path, processes: int) -> list[Path]:
    """Let one process after the other append a tick, each in a segment of its own without a snapshot."""
    for n in range(processes):
        with Ledger(directory) as ledger:
            ledger.recover()
            ledger.append(ticks(n, n + 1))
    return segment_paths(directory)


def test_a_header_is_whole_ours_and_intact_or_none() -> None:
    data = HEADER.encode()
    assert len(data) == HEADER_BYTES
    assert decode_header(data) == decode_header(data + b"more") == HEADER
    assert [at for at in range(len(data)) if decode_header(flipped(data, at)) is not None] == []
    assert [n for n in range(len(data)) if decode_header(data[:n]) is not None] == []
    foreign = b"KDCLEDG2" + data[8:48]
    assert decode_header(foreign + struct.pack("<II", zlib.crc32(foreign), 0)) is None


def test_a_frame_is_whole_and_intact_or_none() -> None:
    data = memoryview(b"12" + FRAME)
    frame = frame_at(data, 2)
    assert frame is not None
    assert (frame.kind, bytes(data[frame.start : frame.end])) == (FACTS, b"payload")
    assert [at for at in range(len(FRAME)) if frame_at(memoryview(flipped(FRAME, at)), 0) is not None] == []
    assert [n for n in range(len(FRAME)) if frame_at(memoryview(FRAME[:n]), 0) is not None] == []
    assert frame_at(memoryview(encode_frame(SNAPSHOT, b"")), 0) is not None
    foreign = b"KDCX" + FRAME[4:]
    assert frame_at(memoryview(foreign), 0) is None
    assert (frame_length(FRAME[:FRAME_BYTES]), frame_length(foreign[:FRAME_BYTES])) == (7, 0)


def test_what_follows_is_a_frame_only_if_it_is_intact_and_begins_later() -> None:
    bad = flipped(FRAME, len(FRAME) - 1)
    assert not has_frame_after(memoryview(FRAME), 0)
    assert not has_frame_after(memoryview(b"x" + bad + bad), 0)
    assert has_frame_after(memoryview(b"x" + bad + FRAME), 0)
    assert has_frame_after(memoryview(b"x" + FRAME), 0)
    assert not has_frame_after(memoryview(b"x" + FRAME), 1)


def test_a_next_process_leaves_the_files_of_the_one_before_as_they_are(tmp_path: Path) -> None:
    (first,) = segments(tmp_path)
    content = first.read_bytes()
    with Ledger(tmp_path) as ledger:
        ledger.recover()
        ledger.append(ticks(4, 5))
    assert [path.name for path in segment_paths(tmp_path)] == [first.name, "segment-0000000002.ledger"]
    assert first.read_bytes() == content


def test_only_what_its_successor_counts_is_read_of_a_segment(tmp_path: Path) -> None:
    (path,) = segments(tmp_path, batches=3)
    whole = read_segment(path)
    assert (len(whole.frames), whole.good_bytes, whole.torn, whole.damage) == (3, path.stat().st_size, None, None)
    second = whole.frames[1].end
    counted = scan_segment(path, second)
    assert (len(counted.frames), counted.good_bytes, counted.torn, counted.damage) == (2, second, None, None)
    short = scan_segment(path, second + 1)
    assert (len(short.frames), short.torn) == (2, None)
    assert short.damage == f"{path.name}: damaged at byte {second} of {second + 1}"
    nothing = scan_segment(path, 0)
    assert (nothing.frames, nothing.torn, nothing.damage) == ([], None, None)


def test_a_segment_without_its_header_is_damaged_whatever_follows(tmp_path: Path) -> None:
    (path,) = segments(tmp_path)
    flip(path, 0)
    assert read_segment(path).damage == f"{path.name}: the header is damaged"
    assert read_segment(path).frames == []


def test_the_segment_before_is_believed_about_by_its_own_successor_only(tmp_path: Path) -> None:
    first, second, third = restarts(tmp_path, 3)
    with third.open("ab") as file:
        file.write(FRAME[:12])
    with first.open("ab") as file:
        file.write(b"of a batch that failed")
    assert read_segment(first).torn is None
    assert read_segment(second).torn is None
    assert "12 bytes" in (read_segment(third).torn or "")
    assert remembered(tmp_path)[1] == ticks(0, 3)


def test_of_two_successors_the_last_says_how_much_of_a_segment_counts(tmp_path: Path) -> None:
    """As when a snapshot was given up, its file could not be removed, and the segment before it went on."""
    (first,) = segments(tmp_path, batches=3)
    whole = read_segment(first)
    given_up, successor = (tmp_path / f"segment-000000000{number}.ledger" for number in (2, 3))
    for path, number, frames in ((given_up, 2, 1), (successor, 3, 2)):
        path.write_bytes(Header(b"i" * 16, number, 1, whole.frames[frames - 1].end).encode() + FRAME + FRAME)
    read = [read_segment(path) for path in (first, given_up, successor)]
    assert [(len(segment.frames), segment.torn, segment.damage) for segment in read] == [(2, None, None)] * 3


def test_a_snapshot_is_what_a_segment_begins_with(tmp_path: Path) -> None:
    first, second = segments(tmp_path, b"state")
    assert [begins_with_snapshot(path) for path in (first, second)] == [False, True]
    assert [read_segment(path).has_snapshot for path in (first, second)] == [False, True]
    assert [read_segment(path).snapshot() for path in (first, second)] == [None, b"state"]
    assert list(read_segment(second).batches()) == [ticks(4, 6), ticks(6, 8)]
    assert not begins_with_snapshot(tmp_path / "segment-0000000009.ledger")
    flip(second, 0)
    assert not begins_with_snapshot(second)


@pytest.mark.parametrize("bit", [40, 62, 63])
def test_a_rotten_length_of_a_snapshot_is_not_believed(tmp_path: Path, bit: int) -> None:
    """So many bytes fit in no memory, and the judge would end of it, again and again."""
    first, second, third, last = segments(tmp_path, b"a", b"b", b"c")
    flip(third, HEADER_BYTES + 8 + bit // 8, 1 << bit % 8)
    with Ledger(tmp_path) as ledger:
        ledger.recover()
        ledger.drop(first)
    assert segment_paths(tmp_path) == [second, third, last]
    assert remembered(tmp_path) == (b"c", ticks(12, 16), None, None)


def test_a_segment_that_changes_while_it_is_read_is_not_believed(tmp_path: Path) -> None:
    (path,) = segments(tmp_path)
    segment = read_segment(path)
    flip(path, segment.frames[0].start + 1)
    with pytest.raises(LedgerError, match="changed while it was read"):
        list(segment.batches())


def test_a_chain_goes_back_to_the_last_snapshot_and_no_further(tmp_path: Path) -> None:
    former = segments(tmp_path, b"a", b"b")
    with Ledger(tmp_path) as ledger:
        ledger.recover()
        ledger.append(ticks(90, 91))
    assert segment_paths(tmp_path)[:3] == former, "what is not needed is not damaged"
    chain = find_chain(tmp_path)
    assert [segment.number for segment in chain.segments] == [3, 4]
    assert chain.strays == []
    assert remembered(tmp_path) == (b"b", [*ticks(8, 12), *ticks(90, 91)], None, None)


def test_a_last_segment_without_its_header_is_set_aside_and_the_one_before_goes_on(tmp_path: Path) -> None:
    first, second, third = restarts(tmp_path, 3)
    flip(third, 0)
    content = third.read_bytes()
    state, facts, torn, damage = remembered(tmp_path)
    assert (state, facts, torn, damage) == (None, ticks(0, 2), None, f"{third.name}: the header is damaged")
    assert not third.exists()
    assert third.with_name(third.name + ".damaged").read_bytes() == content
    with Ledger(tmp_path) as ledger:
        ledger.recover()
        ledger.append(ticks(2, 3))
    fourth = segment_paths(tmp_path)[-1]
    assert fourth.name == "segment-0000000004.ledger", "the number of a file that was set aside is not used again"
    header = decode_header(fourth.read_bytes())
    assert header is not None
    assert (header.previous, header.previous_bytes) == (2, second.stat().st_size)
    assert remembered(tmp_path) == (None, ticks(0, 3), None, None)
    assert first.exists()


def test_the_process_that_sets_a_last_segment_aside_goes_on_from_the_one_before(tmp_path: Path) -> None:
    _, second, third = restarts(tmp_path, 3)
    flip(third, 0)
    with Ledger(tmp_path) as ledger:
        ledger.recover()
        ledger.append(ticks(2, 3))
    header = decode_header(segment_paths(tmp_path)[-1].read_bytes())
    assert header is not None
    assert (header.previous, header.previous_bytes) == (2, second.stat().st_size)
    assert remembered(tmp_path) == (None, ticks(0, 3), None, None)


def test_the_only_segment_without_its_header_leaves_an_empty_ledger(tmp_path: Path) -> None:
    (path,) = segments(tmp_path)
    flip(path, 0)
    with Ledger(tmp_path) as ledger:
        assert list(ledger.recover().facts) == []
        ledger.append(ticks(5, 6))
    assert remembered(tmp_path) == (None, ticks(5, 6), None, None)


def test_damage_sets_all_later_segments_aside_and_cuts_its_own(tmp_path: Path) -> None:
    paths = restarts(tmp_path, 4)
    flip(paths[1], paths[1].stat().st_size - 1)
    state, facts, torn, damage = remembered(tmp_path)
    assert (state, facts, torn) == (None, ticks(0, 1), None)
    assert damage is not None
    assert sorted(path.name for path in tmp_path.glob("segment-*")) == [
        paths[0].name,
        paths[1].name,
        *(f"{path.name}.damaged" for path in paths[1:]),
    ]
    assert paths[1].stat().st_size == HEADER_BYTES
    assert remembered(tmp_path) == (None, ticks(0, 1), None, None)


def test_a_segment_that_its_successor_does_not_name_is_set_aside(tmp_path: Path) -> None:
    """As one whose snapshot was not known to be durable, and whose number was passed over."""
    first, second = restarts(tmp_path, 2)
    third = tmp_path / "segment-0000000003.ledger"
    header = decode_header(second.read_bytes())
    assert header is not None
    third.write_bytes(dataclasses.replace(header, number=3).encode() + second.read_bytes()[HEADER_BYTES:])
    assert find_chain(tmp_path).strays == [second]
    assert remembered(tmp_path) == (None, ticks(0, 2), None, None)
    assert not second.exists()
    assert first.exists()


def test_without_a_segment_of_the_chain_all_are_set_aside(tmp_path: Path) -> None:
    paths = restarts(tmp_path, 3)
    paths[0].unlink()
    damage = "segment 1, which holds the state before segment-0000000002.ledger, is missing"
    assert remembered(tmp_path) == (None, [], None, damage)
    assert segment_paths(tmp_path) == []


def test_a_torn_tail_is_cut_durably(tmp_path: Path) -> None:
    (path,) = segments(tmp_path)
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(FRAME[:-1])
    synced: list[int] = []

    def fsync(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_size)
        os.fsync(descriptor)

    with Ledger(tmp_path, disk=disk_with(fsync=fsync)) as ledger:
        assert "were never finished" in (ledger.recover().torn or "")
    assert path.stat().st_size == size
    assert synced == [size, *2 * [tmp_path.stat().st_size]]


def test_a_frame_that_was_written_and_not_synced_is_durable_once_it_is_recovered(tmp_path: Path) -> None:
    (path,) = segments(tmp_path)
    synced: list[str] = []

    def fsync(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        os.fsync(descriptor)

    with Ledger(tmp_path, disk=disk_with(fsync=fsync)) as ledger:
        ledger.recover()
    assert synced == [str(path.with_name(f".{path.name}.tmp")), *2 * [str(tmp_path)]]


def test_a_damaged_segment_is_replaced_durably(tmp_path: Path) -> None:
    (path,) = segments(tmp_path)
    flip(path, path.stat().st_size - 1)
    with path.open("ab") as file:
        file.write(FRAME)
    directories: list[bool] = []

    def fsync(descriptor: int) -> None:
        directories.append(stat.S_ISDIR(os.fstat(descriptor).st_mode))
        os.fsync(descriptor)

    with Ledger(tmp_path, disk=disk_with(fsync=fsync)) as ledger:
        ledger.recover()
    assert directories == [False, True, True]


def test_on_a_full_disk_a_torn_tail_is_cut_in_place_and_a_damaged_segment_is_not(tmp_path: Path) -> None:
    """The file that was set aside is the same one, by another name."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    (path,) = segments(tmp_path)
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(FRAME[:-1])
    with Ledger(tmp_path, disk=disk_with(replace=full)) as ledger:
        ledger.recover()
    assert path.stat().st_size == size
    flip(path, size - 1)
    content = path.read_bytes()
    with (
        Ledger(tmp_path, disk=disk_with(replace=full)) as ledger,
        pytest.raises(LedgerError, match="No space left on device"),
    ):
        ledger.recover()
    assert path.with_name(path.name + ".damaged").read_bytes() == content


def test_that_a_segment_without_its_header_is_gone_is_durable(tmp_path: Path) -> None:
    *_, last = restarts(tmp_path, 2)
    flip(last, 0)
    gone: list[bool] = []

    def fsync(descriptor: int) -> None:
        gone.append(not last.exists())
        os.fsync(descriptor)

    with Ledger(tmp_path, disk=disk_with(fsync=fsync)) as ledger:
        ledger.recover()
    assert gone == [True]


def test_a_ledger_keeps_its_name_though_its_last_segment_is_damaged(tmp_path: Path) -> None:
    paths = restarts(tmp_path, 2)
    with Ledger(tmp_path) as ledger:
        name = ledger.ledger_id
    flip(paths[1], 0)
    with Ledger(tmp_path) as ledger:
        assert ledger.ledger_id == name
    assert ledger_id_of(tmp_path) == bytes.fromhex(name)


def test_what_a_killed_process_was_about_to_rename_is_removed(tmp_path: Path) -> None:
    segments(tmp_path)
    leftover = tmp_path / ".segment-0000000002.ledger.tmp"
    leftover.write_bytes(b"half")
    remembered(tmp_path)
    assert not leftover.exists()


def test_nothing_is_written_for_nothing_and_nothing_after_the_end(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        ledger.append([])
        assert segment_paths(tmp_path) == []
        assert not ledger.due
    with pytest.raises(LedgerError, match="is closed"):
        ledger.append(ticks(0, 1))


def test_each_batch_stands_once(tmp_path: Path) -> None:
    build(tmp_path, 3, None)
    (path,) = segment_paths(tmp_path)
    assert len(read_segment(path).frames) == 3


def test_a_segment_is_due_by_its_bytes_and_by_its_age(tmp_path: Path) -> None:
    now = [100.0]
    due: list[bool] = []
    with Ledger(tmp_path / "a", segment_age_s=1e9) as ledger:
        ledger.append(ticks(0, 1))
        size = segment_paths(tmp_path / "a")[0].stat().st_size
    for limit in (size, size + 1):
        with Ledger(tmp_path / f"{limit}", segment_bytes=limit, segment_age_s=1e9) as ledger:
            ledger.append(ticks(0, 1))
            due.append(ledger.due)
    assert due == [True, False]
    with Ledger(tmp_path / "age", segment_age_s=10, monotonic=lambda: now[0]) as ledger:
        ledger.append(ticks(0, 1))
        for seconds in (9.75, 0.25):
            now[0] += seconds
            due.append(ledger.due)
        ledger.seal(b"")
        due.append(ledger.due)
    assert due[2:] == [False, True, False]


def test_a_snapshot_that_was_given_up_hides_no_facts_that_are_appended_later(tmp_path: Path) -> None:
    """Its file has its name, and is not removed: it would be the last segment, if the one before it went on."""

    def cannot(*_: object) -> None:
        raise OSError(errno.EIO, "I/O error")

    with Ledger(tmp_path, disk=(disk := disk_with())) as ledger:
        ledger.append(ticks(0, 1))
        vars(disk).update(sync_directory=cannot)
        with pytest.raises(LedgerError):
            ledger.seal(b"one")
        vars(disk).clear()
        ledger.append(ticks(1, 2))
    assert remembered(tmp_path) == (None, ticks(0, 2), None, None)
    assert [path.name for path in segment_paths(tmp_path)] == ["segment-0000000001.ledger", "segment-0000000004.ledger"]


def test_a_file_that_cannot_be_closed_does_not_keep_the_lock(tmp_path: Path) -> None:
    def close(descriptor: int) -> None:
        os.close(descriptor)
        raise OSError(errno.EIO, "I/O error")

    with Ledger(tmp_path, disk=(disk := disk_with())) as ledger:
        ledger.append(ticks(0, 1))
        vars(disk).update(close=close)
    assert ledger.errors == 2
    assert remembered(tmp_path) == (None, ticks(0, 1), None, None)


def test_sealing_closes_the_segment_before_and_names_it(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        assert ledger.seal(b"") is None
        open_files = psutil.Process().num_fds()
        assert ledger.seal(b"") == segment_paths(tmp_path)[0]
        assert psutil.Process().num_fds() == open_files
        assert ledger.sealed() == segment_paths(tmp_path)[:1]


def test_a_segment_is_deleted_when_two_later_ones_begin_with_an_intact_snapshot(tmp_path: Path) -> None:
    paths = segments(tmp_path, b"a", b"b", b"c")
    flip(paths[3], HEADER_BYTES + FRAME_BYTES)
    with Ledger(tmp_path) as ledger:
        for path in reversed(paths):
            ledger.drop(path)
        assert segment_paths(tmp_path) == paths[1:], "the last one has rotted"
        ledger.recover()
        ledger.seal(b"d")
        assert segment_paths(tmp_path)[:-1] == paths[2:], "asked for before, and not needed since"
    assert remembered(tmp_path)[0] == b"d"


def test_a_directory_that_cannot_be_read_stops_no_seal_and_what_is_not_needed_is_deleted_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = segments(tmp_path, b"a", b"b")[0]

    def no_descriptor(_disk: Disk, _directory: Path) -> list[Path]:
        raise OSError(errno.EMFILE, "Too many open files")

    with Ledger(tmp_path) as ledger:
        ledger.recover()
        with monkeypatch.context() as broken:
            broken.setattr(Disk, "entries", no_descriptor)
            ledger.drop(first)
            ledger.seal(b"c")
        assert first.exists()
        ledger.seal(b"d")
        assert not first.exists()
    assert remembered(tmp_path)[0] == b"d"


def test_what_is_not_told_to_be_dropped_stays(tmp_path: Path) -> None:
    paths = segments(tmp_path, b"a", b"b", b"c")
    with Ledger(tmp_path) as ledger:
        ledger.drop(paths[1])
    assert segment_paths(tmp_path) == [paths[0], *paths[2:]]


def test_a_damaged_segment_is_not_dropped_but_set_aside(tmp_path: Path) -> None:
    first, second, third = segments(tmp_path, b"a", b"b")
    flip(first, first.stat().st_size - 1)
    with Ledger(tmp_path) as ledger:
        ledger.drop(first)
    kept = [path.name for path in sorted(tmp_path.glob("segment-*"))]
    assert kept == [first.name + ".damaged", second.name, third.name]


def test_a_rotten_snapshot_is_told_again_by_the_one_before_and_the_facts_since(tmp_path: Path) -> None:
    _, second, third = segments(tmp_path, b"a", b"b")
    frame = HEADER_BYTES
    for at, what in ((0, "magic"), (4, "kind"), (8, "length"), (13, "length"), (16, "checksum"), (20, "payload")):
        flip(third, frame + at)
        with Ledger(tmp_path) as ledger:
            recovery = ledger.recover()
            assert (recovery.state, ledger.errors) == (b"a", 1), what
            assert [fact for batch in recovery.facts for fact in batch] == ticks(4, 12), what
            assert recovery.damage is None
            assert recovery.spoiled == f"{third.name}: its snapshot is damaged"
            assert third.exists()
        flip(third, frame + at)
    flip(third, frame + 20)
    second.unlink()
    missing = f"segment 2, which holds the state before {third.name}, is missing"
    damage = f"{third.name}: its snapshot is damaged, and {missing}"
    assert remembered(tmp_path) == (None, [], None, damage)


def test_a_first_frame_that_may_be_facts_is_never_passed_over(tmp_path: Path) -> None:
    _, second = restarts(tmp_path, 2)
    content = second.read_bytes()
    for at in range(HEADER_BYTES, len(content)):
        second.write_bytes(flipped(content, at))
        assert scan_segment(second, None).damage is not None, at
        assert scan_segment(second, None).spoiled is None, at


def test_a_rotten_snapshot_that_nothing_stands_before_is_damage(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        ledger.seal(b"state")
    (path,) = segment_paths(tmp_path)
    flip(path, HEADER_BYTES + FRAME_BYTES)
    state, facts, _, damage = remembered(tmp_path)
    assert (state, facts) == (None, [])
    assert damage is not None


def test_an_end_that_was_altered_is_not_taken_for_one_that_was_never_finished(tmp_path: Path) -> None:
    (path,) = segments(tmp_path)
    content = path.read_bytes()
    last = read_segment(path).frames[-1].start - FRAME_BYTES
    for at in range(last, len(content)):
        path.write_bytes(flipped(content, at))
        assert (scan_segment(path, None).torn, scan_segment(path, None).damage is None) == (None, False), at
    for end in range(last + 1, len(content)):
        path.write_bytes(content[:end])
        assert scan_segment(path, None).damage is None, end
        assert scan_segment(path, None).torn is not None, end


def test_a_first_frame_that_is_cut_off_is_damage_for_it_came_with_the_file(tmp_path: Path) -> None:
    (path,) = segments(tmp_path)
    content = path.read_bytes()
    for size in (HEADER_BYTES + 1, HEADER_BYTES + FRAME_BYTES, HEADER_BYTES + FRAME_BYTES + 1):
        path.write_bytes(content[:size])
        assert scan_segment(path, None).damage is not None, size


def test_a_header_that_leads_round_in_a_circle_is_damage(tmp_path: Path) -> None:
    """`previous` not below the segment's own number, or the header of another file, with its checksum right."""
    (path,) = segments(tmp_path)
    content = path.read_bytes()
    header = decode_header(content)
    assert header is not None
    for number, previous in ((1, 1), (1, 7), (3, 0)):
        leading = dataclasses.replace(header, number=number, previous=previous, previous_bytes=1 << 20)
        path.write_bytes(leading.encode() + content[HEADER_BYTES:])
        assert find_chain(tmp_path).damage == f"{path.name}: the header is damaged"


def test_a_failed_write_is_tried_once_more_in_another_file_and_counted(tmp_path: Path) -> None:
    failing = [True]

    def fsync(descriptor: int) -> None:
        if failing and failing.pop():
            raise OSError(errno.EIO, "I/O error")
        os.fsync(descriptor)

    with Ledger(tmp_path, disk=disk_with(fsync=fsync)) as ledger:
        ledger.append(ticks(0, 1))
        assert ledger.errors == 1
        assert [path.name for path in segment_paths(tmp_path)] == ["segment-0000000002.ledger"]
        failing.append(True)
        ledger.append(ticks(1, 2))
        assert ledger.errors == 2
    second, third = segment_paths(tmp_path)
    header = decode_header(third.read_bytes())
    assert header is not None
    assert (header.previous, header.previous_bytes) == (2, second.stat().st_size), "what had failed is cut off"
    assert remembered(tmp_path) == (None, ticks(0, 2), None, None)
