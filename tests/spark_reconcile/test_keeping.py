"""What is kept of a dump counts while the log has it: a log that was cut and filled again is read again."""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_reconcile.dump.dumping import BOUNDS, Part
from spark_reconcile.dump.fingerprints import End
from spark_reconcile.dump.kept_dump import FULL_EVERY_NS, Kept, expiry_ns, keep, kept, recognised
from spark_reconcile.tables.columns import ISOLATIONS
from tests.support.seeds import cases

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

DAY_NS = 86_400 * 10**9
NOW_NS = 1_800_000_000 * 10**9
MARKER = None


@dataclass
class Log:
    """A partition's log: (leader epoch, bytes) by offset; a marker has no bytes, and no client is given it."""

    start: int = 0
    epoch: int = 0
    topic_id: str | None = "A"
    retention_ms: int | None = -1
    retention_bytes: int | None = -1
    records: list[tuple[int, str | None]] = field(default_factory=list)
    written: int = 0

    @property
    def end(self) -> int:
        return len(self.records)

    def write(self, count: int, *, marker: bool = False) -> None:
        for _ in range(count):
            self.written += 1
            self.records.append((self.epoch, f"record {self.written}"))
        if marker:
            self.records.append((self.epoch, MARKER))

    def cut(self, end: int) -> None:
        """Lose everything from an offset on, which takes another leader."""
        del self.records[end:]
        self.start = min(self.start, end)
        self.epoch += 1

    def wipe(self) -> None:
        self.cut(0)

    def at(self, offset: int) -> End:
        epoch, content = self.records[offset]
        return End(offset, epoch, str(content), "")

    def held(self, start: int, end: int) -> list[End]:
        return [self.at(offset) for offset in range(max(start, self.start), end) if self.records[offset][1] != MARKER]


class Nights:
    """Dumps of logs by partition, kept from one night to the next as files."""

    def __init__(self, folder: Path, *logs: Log) -> None:
        self.folder = folder
        self.logs = dict(enumerate(logs))
        self.files: dict[str, list[End]] = {}
        """The records in each file that is kept."""
        self.silent: set[int] = set()
        self.number = 0

    def bounds(self) -> list[dict[str, Any]]:
        return [
            {
                "cluster": "c",
                "topic": "t",
                "topic_id": log.topic_id,
                "partition": partition,
                "isolation": isolation,
                "earliest_offset": log.start,
                "end_offset": log.end,
                "dumped_at": dt.datetime.fromtimestamp(NOW_NS / 1e9, dt.UTC),
                "retention_ms": log.retention_ms,
                "retention_bytes": log.retention_bytes,
            }
            for partition, log in self.logs.items()
            for isolation in ISOLATIONS
        ]

    def reread(
        self, _isolation: str, wanted: Mapping[tuple[str, int], Iterable[int]]
    ) -> dict[tuple[tuple[str, int], int], End | None]:
        answers: dict[tuple[tuple[str, int], int], End | None] = {}
        for place, offsets in wanted.items():
            log = self.logs[place[1]]
            for offset in offsets:
                if place[1] not in self.silent and log.start <= offset <= log.end:
                    answers[place, offset] = next(iter(log.held(offset, log.end)), None)
        return answers

    def night(self, basis: Kept | None, meanwhile: Any = None) -> Kept | None:
        """Dump what is new, keep it, and return it as the next night finds it; ``meanwhile``: before it is reread."""
        self.number += 1
        dump = self.folder / f"dump-{self.number}"
        (dump / "records").mkdir(parents=True)
        (dump / "bounds").mkdir()
        bounds = self.bounds()
        pq.write_table(pa.Table.from_pylist(bounds, BOUNDS), dump / "bounds" / "part-00000.parquet")
        since = basis.since if basis is not None else {}
        files: dict[str, list[End]] = {}
        parts: list[Part] = []
        for row in bounds:
            partition, isolation = row["partition"], row["isolation"]
            rows = self.logs[partition].held(since.get(("t", partition, isolation), 0), row["end_offset"])
            if rows:
                name = f"part-{len(parts):05d}.parquet"
                (dump / "records" / name).touch()
                first, last = ((end.offset, end.content) for end in (rows[0], rows[-1]))
                parts.append(Part(name, "t", partition, isolation, len(rows), first, last))
                files[name] = rows
        if meanwhile is not None:
            meanwhile()
        ranges = recognised(parts, self.reread)
        within_ns = expiry_ns(bounds)
        if basis is not None:
            added = basis.add_to(dump)
            files |= {new.file: self.files[old.file] for new, old in zip(added, basis.ranges, strict=True)}
            ranges += added
            within_ns = basis.within_ns
        self.files = files
        keep(dump, self.folder / "kept", f"run {self.number}", ranges, NOW_NS, within_ns)
        return self.found()

    def found(self, next_ns: int = NOW_NS + DAY_NS) -> Kept | None:
        return kept(self.folder / "kept", [f"run {self.number}"], NOW_NS, next_ns)

    def held(self, basis: Kept | None, partition: int, isolation: str) -> list[End]:
        """Return the kept records of a partition and level."""
        assert basis is not None
        mine = [one.file for one in basis.ranges if (one.partition, one.isolation) == (partition, isolation)]
        return sorted(row for file in mine for row in self.files[file])

    def again(self, basis: Kept | None, next_ns: int = NOW_NS + DAY_NS) -> set[int]:
        """Return the partitions of which the next night uses what is kept."""
        assert basis is not None
        usable = basis.agreeing(self.bounds(), self.reread, next_ns)
        used = {level[1] for level in usable.since} if usable is not None else set()
        assert usable is None or {one.partition for one in usable.ranges} <= used, "and no record of another one"
        return used


def test_a_log_that_grew_and_expired_is_gone_on_from(tmp_path: Path) -> None:
    log = Log()
    nights = Nights(tmp_path, log)
    basis = None
    for start in (0, 5, 12, 50):
        log.write(20, marker=True)
        log.start = start
        basis = nights.night(basis)
        log.epoch += 1
        log.write(3)
        assert nights.again(basis) == {0}


@pytest.mark.parametrize("cut", [10, 15, 19])
@pytest.mark.parametrize("behind", [1, 7])
def test_a_log_that_was_cut_and_filled_beyond_its_old_end_is_read_again(tmp_path: Path, cut: int, behind: int) -> None:
    cut_one, other = Log(), Log()
    nights = Nights(tmp_path, cut_one, other)
    for log in (cut_one, other):
        log.write(20)
    basis = nights.night(None)
    cut_one.cut(cut)
    for log in (cut_one, other):
        log.write(20 - cut + behind)
    assert nights.again(basis) == {1}


def test_the_same_bytes_of_a_later_leader_are_another_record(tmp_path: Path) -> None:
    log = Log()
    log.write(20)
    nights = Nights(tmp_path, log)
    basis = nights.night(None)
    content = log.records[19][1]
    log.cut(19)
    log.records.append((log.epoch, content))
    assert nights.again(basis) == set()


def test_a_record_in_the_place_of_a_marker_is_seen(tmp_path: Path) -> None:
    log = Log()
    log.write(20, marker=True)
    nights = Nights(tmp_path, log)
    basis = nights.night(None)
    log.cut(20)
    log.write(5)
    assert nights.again(basis) == set()


def test_a_refill_of_the_same_shape_is_seen(tmp_path: Path) -> None:
    log = Log()
    log.write(5, marker=True)
    log.write(5, marker=True)
    nights = Nights(tmp_path, log)
    basis = nights.night(None)
    log.cut(6)
    log.write(5, marker=True)
    log.write(5, marker=True)
    assert nights.again(basis) == set()


def test_a_cut_among_what_an_earlier_night_read_is_seen(tmp_path: Path) -> None:
    log = Log()
    nights = Nights(tmp_path, log)
    basis = None
    for _ in range(3):
        log.write(20)
        basis = nights.night(basis)
    log.cut(30)
    log.write(40)
    assert nights.again(basis) == set()


def test_a_log_that_was_wiped_is_read_again_also_after_retention(tmp_path: Path) -> None:
    log = Log(start=10)
    log.write(30)
    nights = Nights(tmp_path, log)
    basis = nights.night(None)
    log.wipe()
    log.write(40)
    assert nights.again(basis) == set()
    log.start = 10
    assert nights.again(basis) == set()
    log.start = 25
    assert nights.again(basis) == set(), "the end that retention left still tells"


def test_a_log_that_begins_lower_than_before_is_read_again(tmp_path: Path) -> None:
    log = Log(start=10)
    log.write(30)
    nights = Nights(tmp_path, log)
    basis = nights.night(None)
    log.start = 4  # of another replica: what is kept has nothing of 4 to 9
    assert nights.again(basis) == set()


def test_a_log_of_which_nothing_was_retained_and_that_was_wiped_is_read_again(tmp_path: Path) -> None:
    log = Log(start=30)
    log.write(30)
    nights = Nights(tmp_path, log)
    basis = nights.night(None)
    log.wipe()
    log.write(40)
    assert nights.again(basis) == set()


def test_what_cannot_be_compared_is_read_again(tmp_path: Path) -> None:
    logs = Log(), Log()
    for log in logs:
        log.write(20)
    nights = Nights(tmp_path, *logs)
    basis = nights.night(None)
    nights.silent = {1}
    assert nights.again(basis) == {0}
    assert nights.again(nights.night(None)) == {0}, "nor could it be compared right after it was read"
    assert basis is not None
    first = replace(basis.ranges[0], ends=None)
    nights.silent = set()
    assert nights.again(replace(basis, ranges=[first, *basis.ranges])) == {1}, "one of its ranges could not"
    logs[0].topic_id = "B"
    assert nights.again(basis) == {1}
    del nights.logs[1]
    assert nights.again(basis) == set(), "nor what has no leader now"


def test_what_was_cut_while_it_was_dumped_is_read_again(tmp_path: Path) -> None:
    log = Log()
    log.write(20)
    nights = Nights(tmp_path, log)

    def cut() -> None:
        log.cut(15)
        log.write(10)

    assert nights.again(nights.night(None, meanwhile=cut)) == set()


def test_a_dump_that_kept_no_ends_is_not_gone_on_from(tmp_path: Path) -> None:
    log = Log()
    log.write(20)
    nights = Nights(tmp_path, log)
    assert nights.night(None) is not None
    (tmp_path / "kept" / "run.json").write_text(f'{{"reconciliation": "run 1", "full_ns": {NOW_NS}}}')
    assert nights.found() is None


def test_a_dump_that_a_clock_dated_ahead_is_not_gone_on_from(tmp_path: Path) -> None:
    log = Log()
    log.write(20)
    nights = Nights(tmp_path, log)
    assert nights.night(None) is not None
    assert kept(tmp_path / "kept", ["run 1"], NOW_NS - 1, NOW_NS) is None


@pytest.mark.parametrize(
    ("retention_ms", "retention_bytes", "within_ns"),
    [
        (6 * 86_400_000, -1, 2 * DAY_NS),
        (2 * 86_400_000, -1, 2 * DAY_NS // 3),
        (None, -1, 0),
        (6 * 86_400_000, None, 0),
        (-1, 1_000_000, 0),
    ],
)
def test_everything_is_read_again_within_a_third_of_the_shortest_retention(
    tmp_path: Path, retention_ms: int | None, retention_bytes: int | None, within_ns: int
) -> None:
    short, unlimited = Log(), Log()
    for log in (short, unlimited):
        log.write(20)
    nights = Nights(tmp_path, short, unlimited)
    assert nights.night(None) is not None
    basis = nights.found(NOW_NS + FULL_EVERY_NS)
    assert nights.again(basis, NOW_NS + FULL_EVERY_NS) == {0, 1}
    short.retention_ms, short.retention_bytes = retention_ms, retention_bytes
    assert nights.again(basis, NOW_NS + within_ns) == {0, 1}
    assert nights.again(basis, NOW_NS + within_ns + 1) == set(), "the one in force now"
    assert basis is not None
    nights.night(basis.agreeing(nights.bounds(), nights.reread, NOW_NS + within_ns))
    short.retention_ms, short.retention_bytes = -1, -1
    assert nights.found(NOW_NS + within_ns) is not None
    assert nights.found(NOW_NS + within_ns + 1) is None, "and one that was in force since"


def lived(log: Log, seeded: random.Random) -> None:
    """Let one thing happen to a log that only changes as Kafka's do: at its end, and by its start."""
    match seeded.choice(["write", "write", "commit", "cut", "wipe", "retain", "elect"]):
        case "write":
            log.write(seeded.randint(1, 8))
        case "commit":
            log.write(seeded.randint(0, 3), marker=True)
        case "cut":
            log.cut(seeded.randint(max(0, log.end - 12), log.end))
        case "wipe" if not seeded.randrange(4):
            log.wipe()
        case "retain":
            log.start = seeded.randint(log.start, log.end)
        case "elect":
            log.epoch += 1


def test_whatever_happens_to_a_log_what_is_used_of_the_kept_is_what_the_log_holds(tmp_path: Path) -> None:
    used = 0
    for seed in cases("what is kept of a dump", 20):
        seeded = random.Random(seed)  # noqa: S311  # no secret
        nights = Nights(tmp_path / str(seed), Log(), Log())
        basis: Kept | None = None
        for _ in range(6):
            for log in nights.logs.values():
                for _ in range(seeded.randint(0, 5)):
                    lived(log, seeded)
            if basis is not None:
                basis = basis.agreeing(nights.bounds(), nights.reread, NOW_NS + DAY_NS)
            for (_, partition, isolation), end in (basis.since if basis is not None else {}).items():
                held = nights.held(basis, partition, isolation)
                log = nights.logs[partition]
                assert [row for row in held if row.offset >= log.start] == log.held(0, end)
                used += len(held)
            basis = nights.night(basis)
    assert used > 0
