"""The disk that lies: each of its faults, and the real ledger on it."""

# dice are to be repeated, not to be secret

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
import structlog.testing

from canary.facts import Fact, Tick
from simulation.machine.disk import LyingDisk
from simulation.machine.files import PAGE
from simulation.machine.schedule import Killed, Process, Schedule
from storage.ledger import Ledger, LedgerError, Recovery, read_segment
from storage.ledger.errors import LedgerLockedError
from storage.ledger.segment import segment_paths
from storage.probe_log.shipping import ship_segment
from tests.support.seeds import cases

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.simulator

HOME = Path("/canary/ledger")
FILE = HOME / "file"
OPERATIONS = ("write", "fsync", "rename", "open", "read", "entries", "unlink", "truncate", "close", "short write")


def new_disk(seed: int = 0) -> LyingDisk:
    """Return a disk with a directory that is durable."""
    disk = LyingDisk(dice=random.Random(seed))
    disk.make_directory(HOME)
    return disk


def write(disk: LyingDisk, data: bytes, path: Path = FILE) -> int:
    """Write to the end of a file; return its descriptor."""
    descriptor = disk.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    assert disk.write(descriptor, memoryview(data)) == len(data)
    return descriptor


def written(disk: LyingDisk, data: bytes, path: Path = FILE) -> int:
    """Write to the end of a file, durably; return its descriptor."""
    descriptor = write(disk, data, path)
    disk.fsync(descriptor)
    disk.sync_directory(path.parent)
    return descriptor


def left(*prepare: Callable[[LyingDisk], object]) -> set[bytes | None]:
    """Return what a power cut may leave of the file after what was done; None: it is gone."""
    found: set[bytes | None] = set()
    for seed in range(100):
        disk = new_disk(seed)
        for one in prepare:
            one(disk)
        disk.power_cut(random.Random(seed))
        found.add(disk.read(FILE) if disk.exists(FILE) else None)
    return found


def kill(disk: LyingDisk) -> None:
    """Kill the process that calls, and let another one call."""
    disk.owner.dead = True
    disk.release(disk.owner)
    disk.owner = Process("the next")


def ticks(start: int, stop: int) -> list[Fact]:
    return [Tick(n) for n in range(start, stop)]


def test_what_was_never_synced_is_lost_in_whole_or_in_part() -> None:
    def two_writes(disk: LyingDisk) -> None:
        descriptor = written(disk, b"ab")
        disk.write(descriptor, memoryview(b"cd"))
        disk.write(descriptor, memoryview(b"ef"))

    assert left(two_writes) == {b"ab", b"abc", b"abcd", b"abcde", b"abcdef"}
    assert left(lambda disk: written(disk, b"ab")) == {b"ab"}
    assert left(lambda disk: disk.truncate(written(disk, b"ab"), 1)) == {b"ab", b"a"}


def test_pages_may_reach_the_platter_in_any_order() -> None:
    def three_pages(disk: LyingDisk) -> None:
        disk.shuffles = True
        disk.write(written(disk, b"a" * PAGE), memoryview(b"b" * PAGE + b"c" * PAGE))

    pages = [b"a" * PAGE, b"b" * PAGE, b"c" * PAGE]
    assert left(three_pages) == {pages[0], b"".join(pages[:2]), b"".join(pages), pages[0] + bytes(PAGE) + pages[2]}


def test_a_name_is_durable_with_its_directory_only() -> None:
    def renamed(disk: LyingDisk) -> None:
        written(disk, b"old")
        disk.fsync(write(disk, b"new", HOME / "other"))
        disk.rename(HOME / "other", FILE)

    assert left(lambda disk: disk.fsync(write(disk, b"ab"))) == {None, b"ab"}
    assert left(lambda disk: written(disk, b"ab"), lambda disk: disk.unlink(FILE)) == {None, b"ab"}
    assert left(renamed) == {b"old", b"new"}
    assert left(renamed, lambda disk: disk.sync_directory(HOME)) == {b"new"}


def test_a_directory_that_was_made_may_be_lost_with_all_that_is_in_it() -> None:
    found = set()
    for seed in range(50):
        disk = LyingDisk()
        disk.mkdir(HOME)
        written(disk, b"ab")
        disk.power_cut(random.Random(seed))
        found.add(disk.exists(FILE))
    assert found == {False, True}


def test_a_kill_takes_nothing_but_descriptors_and_locks() -> None:
    disk = new_disk()
    descriptor = write(disk, b"ab")
    disk.lock(descriptor)
    other = disk.open(FILE, os.O_RDONLY)
    with pytest.raises(BlockingIOError):
        disk.lock(other)
    disk.owner.dead = True
    for call in (
        lambda: disk.write(descriptor, memoryview(b"cd")),
        lambda: disk.close(descriptor),
        lambda: disk.read(FILE),
    ):
        with pytest.raises(Killed):
            call()
    kill(disk)
    with pytest.raises(OSError, match="Bad file descriptor"):
        disk.write(descriptor, memoryview(b"cd"))
    assert disk.read(FILE) == b"ab"
    disk.lock(disk.open(FILE, os.O_RDONLY))


def test_a_dead_process_holds_no_lock_even_before_it_is_released() -> None:
    disk = new_disk()
    disk.lock(write(disk, b""))
    disk.owner.dead = True
    disk.owner = Process("the next")
    disk.lock(disk.open(FILE, os.O_RDONLY))


def test_a_process_is_killed_before_or_after_a_step() -> None:
    steps: dict[str, list[bytes]] = {}
    for when in ("before", "after"):
        disk = new_disk()
        seen: list[str] = []

        def die(operation: str, at: str, disk: LyingDisk = disk, when: str = when, seen: list[str] = seen) -> None:
            seen.append(operation)
            disk.owner.dead = (operation, at) == ("write", when)

        disk.on_step = die
        with pytest.raises(Killed):
            write(disk, b"ab")
        kill(disk)
        steps[when] = [disk.read(FILE)]
        assert seen == ["create", "create", "write", "write"][: 3 if when == "before" else 4]
    assert steps == {"before": [b""], "after": [b"ab"]}


@pytest.mark.parametrize("operation", ["open", "read", "rename", "link", "unlink", "entries", "mkdir", "lock", "close"])
def test_every_call_can_fail_and_is_counted(operation: str) -> None:
    disk = new_disk()
    descriptor = written(disk, b"ab")
    calls: dict[str, Callable[[], object]] = {
        "open": lambda: disk.open(FILE, os.O_RDONLY),
        "read": lambda: disk.read(FILE),
        "rename": lambda: disk.rename(FILE, HOME / "b"),
        "link": lambda: disk.link(FILE, HOME / "b"),
        "unlink": lambda: disk.unlink(FILE),
        "entries": lambda: disk.entries(HOME),
        "mkdir": lambda: disk.mkdir(HOME / "deep"),
        "lock": lambda: disk.lock(descriptor),
        "close": lambda: disk.close(descriptor),
    }
    before = disk.backup(HOME)
    fault = disk.fail(operation, error=errno.EMFILE, times=1)
    with pytest.raises(OSError, match="Too many open files"):
        calls[operation]()
    assert (fault.hits, disk.backup(HOME)) == (1, before)
    if operation != "close":  # the descriptor is gone, as it is in Linux
        calls[operation]()


def test_a_fault_has_a_beginning_an_end_a_place_and_a_chance() -> None:
    disk = new_disk()
    descriptor = disk.open(FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def failed(count: int) -> int:
        failures = 0
        for _ in range(count):
            try:
                disk.write(descriptor, memoryview(b"a"))
            except OSError as error:
                failures += error.errno == errno.EIO
        return failures

    later = disk.fail("write", after=2, times=3)
    assert (failed(2), failed(10), later.hits) == (0, 3, 3)
    disk.fail("write", where="elsewhere")
    assert failed(5) == 0
    disk.fail("write", chance=0.5)
    assert 10 < failed(100) < 90
    disk.heal()
    assert failed(5) == 0


def test_a_full_disk_takes_what_fits_and_room_helps() -> None:
    disk = new_disk()
    written(disk, b"old", HOME / "old")
    disk.capacity = 5
    descriptor = disk.open(FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    assert disk.write(descriptor, memoryview(b"abcd")) == 2
    with pytest.raises(OSError, match="No space left"):
        disk.write(descriptor, memoryview(b"cd"))
    disk.unlink(HOME / "old")
    assert disk.write(descriptor, memoryview(b"cd")) == 2
    assert disk.read(FILE) == b"abcd"


def test_a_read_only_disk_refuses_every_change() -> None:
    disk = new_disk()
    written(disk, b"ab")
    disk.read_only()
    with pytest.raises(OSError, match="Read-only"):
        disk.open(HOME / "b", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with pytest.raises(OSError, match="Read-only"):
        disk.unlink(FILE)
    assert disk.read(FILE) == b"ab"


def test_a_short_write_says_how_much_it_wrote() -> None:
    disk = new_disk()
    fault = disk.fail("short write", times=1)
    descriptor = disk.open(FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    count = disk.write(descriptor, memoryview(b"abcdef"))
    assert 0 < count < 6
    assert (disk.read(FILE), fault.hits) == (b"abcdef"[:count], 1)
    disk.append(descriptor, b"abcdef"[count:])
    assert disk.read(FILE) == b"abcdef"


def test_after_a_failed_fsync_the_next_one_succeeds_and_proves_nothing() -> None:
    seen: set[bytes] = set()
    pretended: set[bool] = set()

    def failed_once(disk: LyingDisk) -> None:
        descriptor = written(disk, b"ab")
        disk.fail("fsync", times=1)
        disk.write(descriptor, memoryview(b"cd"))
        with pytest.raises(OSError, match="Input/output"):
            disk.fsync(descriptor)
        disk.fsync(descriptor)
        seen.add(disk.read(FILE))
        pretended.add(disk.pretends)

    assert left(failed_once) == {b"ab", b"abc", b"abcd"}
    assert seen == {b"ab", b"abc", b"abcd"}, "the cache shows what is not durable, or not"
    assert pretended == {False, True}


def test_a_lying_fsync_says_yes() -> None:
    def lied(disk: LyingDisk) -> None:
        descriptor = written(disk, b"ab")
        fault = disk.fail("lying fsync")
        disk.append(descriptor, b"cd")
        assert fault.hits == 1

    assert left(lied) == {b"ab", b"abc", b"abcd"}


def test_a_bit_rots_and_a_file_vanishes() -> None:
    disk = new_disk()
    written(disk, b"abcd")
    written(disk, b"abcd", HOME / "b")
    at = disk.rot(FILE)
    assert [n for n in range(4) if disk.read(FILE)[n] != b"abcd"[n]] == [at]
    disk.vanish(HOME / "b")
    disk.power_cut(random.Random(0))
    assert disk.read(FILE) != b"abcd"
    assert disk.entries(HOME) == [FILE]


def test_what_is_written_to_a_file_without_a_name_reaches_nobody() -> None:
    disk = new_disk()
    descriptor = written(disk, b"ab")
    disk.link(FILE, HOME / "b")
    disk.unlink(FILE)
    assert not disk.is_deleted(descriptor)
    disk.wipe(HOME)
    assert disk.is_deleted(descriptor)
    with pytest.raises(FileNotFoundError):
        disk.append(descriptor, b"cd")


def test_a_backup_is_put_back_durably() -> None:
    disk = new_disk()
    written(disk, b"ab")
    disk.mkdir(HOME / "deep")
    written(disk, b"x", HOME / "deep" / "file")
    backup = disk.backup(HOME)
    written(disk, b"cd")
    written(disk, b"later", HOME / "later")
    disk.restore(HOME, backup)
    disk.power_cut(random.Random(0))
    assert (disk.backup(HOME), disk.read(FILE)) == (backup, b"ab")
    disk.wipe(HOME)
    disk.power_cut(random.Random(0))
    assert disk.entries(HOME) == []


def test_a_slow_disk_costs_virtual_time_and_its_process_can_be_killed_meanwhile() -> None:
    schedule = Schedule()
    disk = LyingDisk(schedule)
    disk.make_directory(HOME)
    patient, killed = Process("patient"), Process("killed")
    times: list[tuple[str, float]] = []

    def run() -> None:
        assert schedule.current is not None
        descriptor = write(disk, b"ab", HOME / schedule.current.name)
        disk.fsync(descriptor)
        times.append((schedule.current.name, schedule.now))

    disk.slow("fsync", delay_s=3)
    for process in (patient, killed):
        schedule.spawn(process, run, process.name)
    schedule.at(1, lambda: schedule.kill(killed))
    schedule.run(10)
    assert times == [("patient", 3.0)]
    disk.fail("read")
    assert disk.read(HOME / "patient") == b"ab", "whoever looks from outside is answered"
    found = set()
    for seed in range(20):
        disk.make_directory(HOME)
        backup = disk.backup(HOME)
        disk.power_cut(random.Random(seed))
        found.add(backup == disk.backup(HOME))
    assert False in found, "the killed one's write was never synced"


def test_of_a_world_one_process_is_killed_at_a_step_and_the_others_go_on() -> None:
    schedule = Schedule()
    disk = LyingDisk(schedule)
    disk.make_directory(HOME)
    killed, other = Process("killed"), Process("other")

    def die(operation: str, when: Literal["before", "after"]) -> None:
        assert schedule.current is not None
        if (schedule.current.process, operation, when) == (killed, "fsync", "before"):
            schedule.kill(killed)

    disk.on_step = die
    tasks = [
        schedule.spawn(process, lambda path=HOME / process.name: written(disk, b"ab", path), process.name)  # type: ignore[misc]
        for process in (killed, other)
    ]
    schedule.run(1)
    assert [(task.ended, task.failure) for task in tasks] == [(True, None)] * 2
    assert [disk.read(HOME / name) for name in ("killed", "other")] == [b"ab", b"ab"]
    disk.power_cut(random.Random(0))
    assert disk.read(HOME / "other") == b"ab"


def recovered(disk: LyingDisk, directory: Path = HOME) -> tuple[bytes | None, list[Fact], str | None, str | None]:
    with Ledger(directory, disk=disk) as ledger:
        recovery = ledger.recover()
        return recovery.state, [fact for batch in recovery.facts for fact in batch], recovery.torn, recovery.damage


def test_the_ledger_and_the_shipper_touch_no_other_disk(tmp_path: Path) -> None:
    disk = LyingDisk()
    with Ledger(HOME, disk=disk) as ledger:
        ledger.append(ticks(0, 3))
        with pytest.raises(LedgerLockedError):
            Ledger(HOME, disk=disk)
        sealed = ledger.seal(b"3")
        assert sealed is not None
        ledger.append(ticks(3, 5))
        ship = {"url": str(tmp_path), "cluster": "c", "runner": "r", "disk": disk}
        assert ship_segment(sealed, **ship).segment == 1  # type: ignore[arg-type]
        assert ship_segment(sealed, **ship).already  # type: ignore[arg-type]
    assert recovered(disk) == (b"3", ticks(3, 5), None, None)
    assert not HOME.exists()


def test_a_new_ledger_outlives_a_power_cut_with_its_directory() -> None:
    for seed in range(30):
        disk = LyingDisk()
        with Ledger(HOME, disk=disk) as ledger:
            ledger.append(ticks(0, 3))
        disk.power_cut(random.Random(seed))
        assert recovered(disk) == (None, ticks(0, 3), None, None)


@pytest.mark.parametrize("room", [True, False], ids=["room", "full"])
def test_a_frame_whose_fsync_failed_is_durable_once_it_is_recovered(*, room: bool) -> None:
    """The next fsync of the same pages says yes and writes nothing. On a full disk the ledger opens."""
    found = set()
    for seed in range(40):
        disk = LyingDisk(dice=random.Random(seed))
        disk.make_directory(HOME)
        disk.owner = Process("first")

        def die(operation: str, _when: Literal["before", "after"], disk: LyingDisk = disk) -> None:
            disk.owner.dead |= operation == "truncate"

        with contextlib.suppress(Killed), Ledger(HOME, disk=disk) as ledger:
            ledger.recover()
            ledger.append(ticks(0, 3))
            disk.fail("fsync", error=errno.EIO, times=1)
            disk.on_step = die
            ledger.append(ticks(3, 5))
        disk.release(disk.owner)
        disk.owner, disk.on_step = Process("second"), None
        disk.heal()
        disk.capacity = None if room else disk.used
        _, facts, _, damage = recovered(disk)
        disk.power_cut(random.Random(seed))
        disk.capacity = None
        kept = recovered(disk)[1]
        assert damage is None
        assert kept[:3] == ticks(0, 3)
        found.add((len(facts), len(kept)))
    assert found - {(3, 3), (5, 5)} == (set() if room else {(5, 3)})
    assert (5, 5) in found


def test_a_segment_that_cannot_be_read_is_an_error_of_the_ledger() -> None:
    disk = LyingDisk()
    with Ledger(HOME, disk=disk) as ledger:
        ledger.append(ticks(0, 3))
        sealed = ledger.seal(b"3")
        assert sealed is not None
        for operation in ("read", "entries"):
            fault = disk.fail(operation, error=errno.EMFILE)
            with pytest.raises(LedgerError, match="Too many open files"):
                read_segment(sealed, disk)
            with pytest.raises(LedgerError, match="Too many open files"):
                ship_segment(sealed, url="memory://x", cluster="c", runner="r", disk=disk)
            disk.heal(fault)
        assert read_segment(sealed, disk).damage is None


@dataclass
class Life:
    """A ledger's life on one disk: many processes, one after the other, each of which dies at some step.

    ``log`` is what was promised (the facts' times), and ``asked`` the batch that is appended again until that succeeds.
    Every time is another one, so that facts from before a loss are not taken for those after it.
    """

    seed: int
    lies: bool = False
    """Whether the disk also rots, loses files and says yes to an fsync that did nothing."""
    log: list[int] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    before: list[list[int]] = field(default_factory=list)
    """What was told before something was lost: where a disk lies it may come back."""
    seen: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.disk = LyingDisk(dice=random.Random(f"{self.seed} disk"))
        self.disk.make_directory(HOME)
        self.dice = random.Random(f"{self.seed} life")
        self.numbers = itertools.count(1)

    def live(self, processes: int) -> None:
        for number in range(processes):
            self.disk.owner = Process(f"{number}")
            self.disk.on_step = self.death()
            try:
                self.work()
            except Killed:
                self.seen["killed"] += 1
            self.disk.release(self.disk.owner)
        self.disk.owner, self.disk.on_step = Process("last"), None
        self.disk.heal()
        self.disk.power_cut(self.dice)
        with Ledger(HOME, disk=self.disk) as ledger:
            self.check(ledger.recover())

    def death(self) -> Callable[[str, Literal["before", "after"]], None]:
        """Return a hook by which the process dies at some step: killed, or the power is cut."""
        steps, when = self.dice.randrange(1, 60), self.dice.choice(("before", "after"))
        power = self.dice.random() < 0.5

        def hook(_operation: str, at: Literal["before", "after"]) -> None:
            nonlocal steps
            steps -= at == "before"
            if steps <= 0 and at == when:
                self.disk.owner.dead = True
                if power:
                    self.seen["power cut"] += 1
                    self.disk.power_cut(self.dice)

        return hook

    def work(self) -> None:
        """Recover, then append, seal and drop."""
        self.trouble()
        try:
            with Ledger(HOME, disk=self.disk, segment_age_s=1e9) as ledger:
                self.check(ledger.recover())
                for _ in range(self.dice.randrange(1, 12)):
                    self.trouble()
                    self.turn(ledger)
        except LedgerError:
            self.seen["not begun"] += 1

    def turn(self, ledger: Ledger) -> None:
        try:
            if self.dice.random() < 0.3:
                ledger.seal(b"%d %d" % (len(self.log), self.log[-1] if self.log else 0))
                for path in ledger.sealed():
                    ledger.drop(path)
            else:
                count = self.dice.choice((1, 3, 900))  # 900 facts are several pages
                self.asked = self.asked or list(itertools.islice(self.numbers, count))
                ledger.append([Tick(number) for number in self.asked])
                self.log += self.asked
                self.asked = []
        except LedgerError:
            self.seen["blocked"] += 1

    def trouble(self) -> None:
        """Let something fail, or nothing."""
        self.disk.heal()
        times, after = self.dice.randrange(1, 4), self.dice.randrange(4)
        if self.lies and self.dice.random() < 0.3:
            paths = segment_paths(HOME, self.disk)
            lie = self.dice.choice(("lying fsync", "rot", "vanish"))
            if lie == "lying fsync":
                self.disk.fail(lie, times=times, after=after)
            elif paths:
                path = self.dice.choice(paths)
                spoil = self.disk.rot if lie == "rot" else self.disk.vanish
                spoil(path)
            self.seen[lie] += 1
        if self.dice.random() < 0.5:
            error = self.dice.choice((errno.EIO, errno.ENOSPC, errno.EMFILE, errno.EROFS))
            self.disk.fail(self.dice.choice(OPERATIONS), error=error, times=times, after=after)

    def check(self, recovery: Recovery) -> None:
        """Compare what is recovered with what was promised, and go on from there."""
        count, last = map(int, (recovery.state or b"0 0").split())
        facts = [fact.at_ns for batch in recovery.facts for fact in batch]
        found = count + len(facts)
        histories = [self.log + self.asked, *(self.before if self.lies else [])]
        fitting = [one for one in histories if [0, *one][count : count + 1] == [last] and one[count:found] == facts]
        assert fitting, "in order, no hole, nothing twice, nothing made up"
        if not self.lies:
            assert (recovery.damage, recovery.spoiled) == (None, None)
            assert found >= len(self.log)
        self.seen["forgotten"] += found < len(self.log)
        self.seen["damage"] += recovery.damage is not None
        self.lies |= self.disk.pretends  # a failed fsync, and no room to write again what had failed
        self.before = histories
        self.log, self.asked = fitting[0][:found], []


def test_what_append_returned_for_is_recovered_whatever_fails_and_wherever_it_dies() -> None:
    seen: Counter[str] = Counter()
    with structlog.testing.capture_logs():
        for seed in cases("a ledger's lives", 200):
            life = Life(seed)
            life.live(4)
            seen += life.seen
    assert min(seen[what] for what in ("killed", "power cut", "blocked", "not begun")) > 20


def test_of_a_disk_that_lies_or_rots_the_beginning_is_recovered_and_nothing_else() -> None:
    seen: Counter[str] = Counter()
    with structlog.testing.capture_logs():
        for seed in cases("lives on a lying disk", 200):
            life = Life(seed, lies=True)
            life.disk.shuffles = seed % 2 == 0
            life.live(5)
            seen += life.seen
    assert min(seen[what] for what in ("lying fsync", "rot", "vanish", "damage", "forgotten")) > 20
