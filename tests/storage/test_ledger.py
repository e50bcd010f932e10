from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from canary.facts import Fact, Sent, Tick
from storage.ledger import Ledger, LedgerError, read_segment
from storage.ledger.errors import LedgerLockedError
from storage.ledger.files import Disk
from storage.ledger.segment import segment_paths
from tests.support.disk import disk_with
from tests.support.forks import begun, until_the_end
from tests.support.seeds import examples

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection


def write_for_ever(said: Connection, directory: Path) -> NoReturn:
    """Append and seal, and say up to which number it was promised."""
    ledger = Ledger(directory)
    recovery = ledger.recover()
    n = max([int(recovery.state or b"-1"), *(fact.at_ns for batch in recovery.facts for fact in batch)])
    while True:
        ledger.append(ticks(n + 1, n + 4))
        n += 3
        said.send(n)
        if n % 5 == 0:
            ledger.seal(str(n).encode())
            if len(ledger.sealed()) > 3:
                ledger.drop(ledger.sealed()[0])


def remembered(directory: Path) -> tuple[bytes | None, list[Fact], str | None, str | None]:
    with Ledger(directory) as ledger:
        recovery = ledger.recover()
        return recovery.state, [fact for batch in recovery.facts for fact in batch], recovery.torn, recovery.damage


def ticks(start: int, stop: int) -> list[Fact]:
    return [Tick(n) for n in range(start, stop)]


def test_what_was_appended_is_recovered_in_order(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        ledger.append(ticks(0, 3))
        ledger.append([Sent(3, "t", 0, 1, 1, 0, "plain")])
    assert remembered(tmp_path) == (None, [*ticks(0, 3), Sent(3, "t", 0, 1, 1, 0, "plain")], None, None)


def test_a_snapshot_covers_what_was_before_it(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        assert ledger.seal(b"nothing yet") is None
        ledger.append(ticks(0, 3))
        sealed = ledger.seal(b"three")
        assert sealed is not None
        assert ledger.sealed() == [sealed]
        assert read_segment(sealed).snapshot() == b"nothing yet"
        ledger.append(ticks(3, 5))
    assert remembered(tmp_path) == (b"three", ticks(3, 5), None, None)


def test_writing_goes_on_in_a_new_segment_after_a_restart(tmp_path: Path) -> None:
    for n in range(4):
        with Ledger(tmp_path) as ledger:
            ledger.recover()
            ledger.append(ticks(n, n + 1))
    assert remembered(tmp_path) == (None, ticks(0, 4), None, None)


def test_appending_before_recovering_is_refused(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        ledger.append(ticks(0, 1))
    with Ledger(tmp_path) as ledger, pytest.raises(LedgerError, match="recover"):
        ledger.append(ticks(1, 2))


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    with Ledger(tmp_path), pytest.raises(LedgerLockedError, match="another live process") as refusal:
        Ledger(tmp_path)
    assert refusal.value.exit_status == 4
    Ledger(tmp_path).close()


def test_nothing_is_dropped_before_two_later_snapshots_are_durable(tmp_path: Path) -> None:
    with Ledger(tmp_path) as ledger:
        ledger.append(ticks(0, 1))
    with Ledger(tmp_path) as ledger:
        ledger.recover()
        ledger.append(ticks(1, 2))
        (old,) = ledger.sealed()
        ledger.drop(old)
        assert ledger.sealed() == [old]
        ledger.seal(b"both")
        kept = ledger.sealed()
        for path in kept:
            ledger.drop(path)
        assert ledger.sealed() == kept
        ledger.seal(b"both again")
        assert len(ledger.sealed()) == 1
    assert remembered(tmp_path) == (b"both again", [], None, None)


def test_a_segment_is_due_by_size_and_by_age(tmp_path: Path) -> None:
    now = [0.0]
    answers = []
    with Ledger(tmp_path, segment_bytes=2000, segment_age_s=10, monotonic=lambda: now[0]) as ledger:
        answers.append(ledger.due)
        ledger.append(ticks(0, 1))
        answers.append(ledger.due)
        now[0] = 10.0
        answers.append(ledger.due)
        ledger.seal(b"s")
        answers.append(ledger.due)
        ledger.append(ticks(0, 1000))
        answers.append(ledger.due)
    assert answers == [False, False, True, False, True]


def build(directory: Path, batches: int, seal_after: int | None) -> None:
    with Ledger(directory) as ledger:
        for n in range(batches):
            ledger.append(ticks(2 * n, 2 * n + 2))
            if n == seal_after:
                ledger.seal(b"%d" % (2 * n + 2))


def whole(state: bytes | None, facts: list[Fact]) -> list[Fact]:
    return [*ticks(0, int(state or b"0")), *facts]


@settings(max_examples=examples(150))
@given(st.integers(1, 8), st.none() | st.integers(0, 3), st.data())
def test_a_cut_anywhere_in_the_last_segment_loses_only_the_batches_it_cuts(
    batches: int, seal_after: int | None, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        build(directory, batches, seal_after)
        path = segment_paths(directory)[-1]
        segment = read_segment(path)
        cut = data.draw(st.integers(segment.frames[0].end, path.stat().st_size))
        kept = sum(frame.end <= cut for frame in segment.frames)
        with path.open("r+b") as file:
            file.truncate(cut)
        state, facts, torn, damage = remembered(directory)
        lost = 2 * (len(segment.frames) - kept)
        assert whole(state, facts) == ticks(0, 2 * batches - lost)
        assert damage is None
        assert (torn is None) == (cut in {frame.end for frame in segment.frames})
        assert remembered(directory) == (state, facts, None, None)  # repaired, and said once


@settings(max_examples=examples(300))
@given(st.integers(1, 6), st.none() | st.integers(0, 3), st.data())
def test_a_flipped_bit_is_never_believed_and_never_passed_over(
    batches: int, seal_after: int | None, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        build(directory, batches, seal_after)
        path = data.draw(st.sampled_from(segment_paths(directory)))
        content = bytearray(path.read_bytes())
        at = data.draw(st.integers(0, 8 * len(content) - 1))
        content[at // 8] ^= 1 << at % 8
        path.write_bytes(content)
        state, facts, torn, damage = remembered(directory)
        found = whole(state, facts)
        assert found == ticks(0, len(found)), "a prefix, with no hole and nothing made up"
        if len(found) < 2 * batches:
            assert torn or damage
        if damage:
            assert list(directory.glob("*.damaged")), "the file is kept"
        with Ledger(directory) as ledger:  # and the ledger is of use again
            ledger.recover()
            ledger.append(ticks(len(found), len(found) + 1))
        state, facts, torn, damage = remembered(directory)
        assert whole(state, facts) == ticks(0, len(found) + 1)


def test_damage_in_the_middle_ends_the_facts_before_it_and_is_told_from_a_torn_tail(tmp_path: Path) -> None:
    build(tmp_path, 5, None)
    (path,) = segment_paths(tmp_path)
    content = bytearray(path.read_bytes())
    content[read_segment(path).frames[2].start + 5] ^= 0xFF
    path.write_bytes(content)
    state, facts, torn, damage = remembered(tmp_path)
    assert (state, facts, torn) == (None, ticks(0, 4), None)
    assert damage is not None
    assert "whole frames follow" in damage
    assert path.with_name(path.name + ".damaged").read_bytes() == content


def test_a_lost_segment_is_damage_and_its_successors_facts_are_not_folded_without_it(tmp_path: Path) -> None:
    for n in range(3):
        with Ledger(tmp_path) as ledger:
            ledger.recover()
            ledger.append(ticks(n, n + 1))
    segment_paths(tmp_path)[1].unlink()
    state, facts, _, damage = remembered(tmp_path)
    assert (state, facts) == (None, [])
    assert damage is not None
    assert "missing" in damage


def failing(calls: dict[int, OSError], real: Callable[[int], None] = os.fsync) -> Disk:
    """Return a disk whose n-th fsync (from 1) fails as told, after the data was written."""
    count = 0

    def fsync(descriptor: int) -> None:
        nonlocal count
        count += 1
        if count in calls:
            raise calls[count]
        real(descriptor)

    return disk_with(fsync=fsync)


def test_after_a_failed_fsync_the_batch_stands_once_in_a_new_segment(tmp_path: Path) -> None:
    with Ledger(tmp_path, disk=failing({4: OSError(errno.EIO, "I/O error")})) as ledger:
        ledger.append(ticks(0, 1))
        ledger.append(ticks(1, 2))
        ledger.append(ticks(2, 3))
        assert ledger.errors == 1
        assert len(ledger.sealed()) == 1
        ledger.append(ticks(3, 4))
    assert remembered(tmp_path) == (None, ticks(0, 4), None, None)


def test_a_failed_batch_that_reached_the_old_file_after_all_does_not_count_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(*_: object) -> None:
        raise OSError(errno.EIO, "I/O error")

    monkeypatch.setattr(Disk, "truncate", cannot)
    with Ledger(tmp_path, disk=failing({3: OSError(errno.EIO, "I/O error")})) as ledger:
        ledger.append(ticks(0, 1))
        ledger.append(ticks(1, 2))
    assert remembered(tmp_path) == (None, ticks(0, 2), None, None)
    first = read_segment(segment_paths(tmp_path)[0])
    assert [fact for batch in first.batches() for fact in batch] == ticks(0, 1)


def test_a_disk_that_stays_full_raises_and_appending_works_again_when_there_is_room(tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    with Ledger(tmp_path, disk=failing({3: full, 4: full, 5: full})) as ledger:
        ledger.append(ticks(0, 1))
        with pytest.raises(LedgerError, match="No space left"):
            ledger.append(ticks(1, 2))
        assert ledger.errors == 3
        ledger.append(ticks(1, 2))
    assert remembered(tmp_path) == (None, ticks(0, 2), None, None)


def test_a_ledger_that_cannot_be_read_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not with a traceback, which would end the other clusters of the process, too."""
    with Ledger(tmp_path) as ledger:
        ledger.append(ticks(0, 1))

    def denied(*_: object) -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as denying:
        denying.setattr(Disk, "entries", denied)
        with pytest.raises(LedgerError, match=f"{tmp_path} cannot be read: Permission denied"):
            Ledger(tmp_path)
    with Ledger(tmp_path) as ledger:
        monkeypatch.setattr(Disk, "entries", denied)
        with pytest.raises(LedgerError, match=f"{tmp_path} cannot be read or repaired: Permission denied"):
            ledger.recover()


def test_what_is_written_to_a_deleted_file_is_not_durable(tmp_path: Path) -> None:
    """The system calls succeed, and a restart finds nothing."""
    directory = tmp_path / "ledger"
    with Ledger(directory) as ledger:
        ledger.append(ticks(0, 1))
        shutil.rmtree(directory)
        for _ in range(2):
            with pytest.raises(LedgerError, match=r"ledger cannot be written: No such file or directory"):
                ledger.append(ticks(1, 2))
        directory.mkdir()
        ledger.append(ticks(1, 2))
    assert [read_segment(path).number for path in segment_paths(directory)] == [6]
    assert remembered(directory)[3] is not None, "what was deleted is missed"


def test_a_snapshot_that_cannot_be_written_leaves_the_old_segment_in_use(tmp_path: Path) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    with Ledger(tmp_path, disk=failing({3: full, 4: full})) as ledger:
        ledger.append(ticks(0, 1))
        with pytest.raises(LedgerError):
            ledger.seal(b"one")
        ledger.append(ticks(1, 2))
        assert len(segment_paths(tmp_path)) == 1
    assert remembered(tmp_path) == (None, ticks(0, 2), None, None)


def test_a_write_cut_short_by_a_real_limit_is_healed(tmp_path: Path) -> None:
    program = f"""
import resource, signal
from pathlib import Path
from canary.facts import Tick
from storage.ledger import Ledger
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))
ledger = Ledger(Path({str(tmp_path)!r}))
for n in range(40):
    ledger.append([Tick(n)])
print(ledger.errors)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout.splitlines()[-1]) >= 2
    assert remembered(tmp_path) == (None, ticks(0, 40), None, None)


def test_killing_the_writer_at_any_moment_forgets_nothing_that_append_returned_for(tmp_path: Path) -> None:
    promised = -1
    for reports in (1, 7, 2, 31, 4, 60, 11, 3):
        writer, heard = begun(write_for_ever, tmp_path)
        for _ in range(reports):
            promised = heard.recv()
        writer.kill()
        promised = max([promised, *until_the_end(heard)])
        writer.join()
        state, facts, _, damage = remembered(tmp_path)
        start = int(state or b"-1") + 1
        assert damage is None
        assert start + len(facts) > promised
        assert facts == ticks(start, start + len(facts))
