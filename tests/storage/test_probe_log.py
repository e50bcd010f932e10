from __future__ import annotations

import itertools
import os
import shutil
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import fsspec
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.local import LocalFileSystem

from canary.facts import Acked, Committed, Fact, Polled, Sent, TopicSeen, TransactionBegan, WatchAsked
from canary.probe.identity import Identity
from storage.ledger import Ledger, LedgerError
from storage.ledger.files import Disk
from storage.probe_log import compacting as compacting_module
from storage.probe_log.carry import Carry, load_carry, save_carry
from storage.probe_log.compacting import compact
from storage.probe_log.errors import NothingThereError, ProbeLogError
from storage.probe_log.reading import ProbeLogReader
from storage.probe_log.schemas import PROBES
from storage.probe_log.shipping import DAY_S, Shipped, drop_old, ship_segment, try_out
from storage.probe_log.windows import Window

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DAY = datetime(2026, 11, 3, 12, tzinfo=UTC)
T0 = int(DAY.timestamp()) * 1_000_000_000
DAY_NS = DAY_S * 1_000_000_000
_numbers = itertools.count()


@pytest.fixture(params=["directory", "object store"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A place for a probe log, of both kinds."""
    if request.param == "directory":
        yield str(tmp_path / "deep" / "probe-log")
        return
    place = f"memory://bucket-{next(_numbers)}/probe-log"
    yield place
    fsspec.filesystem("memory").store.clear()


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger") as opened:
        yield opened


def probe(n: int, partition: int = 0, at_ns: int = T0) -> list[Fact]:
    return [
        Sent(at_ns, "t", partition, 7, 1, n, "plain", 3),
        Acked(at_ns + 1_000_000, "t", partition, 7, 1, n, 10 * n),
        Polled(at_ns + 2_000_000, "read_committed", "read_committed", "t", partition, 10 * n, 7, 1, n),
    ]


def sealed(ledger: Ledger, facts: list[Fact]) -> Path:
    ledger.append(facts)
    path = ledger.seal(b"state")
    assert path is not None
    return path


def ship(path: Path, url: str, cluster: str = "c") -> Shipped:
    return ship_segment(path, url=url, cluster=cluster, runner="r")


def files(url: str) -> dict[str, bytes]:
    filesystem, root = fsspec.core.url_to_fs(url)
    return {name.removeprefix(root): filesystem.cat_file(name) for name in filesystem.find(root)}


def test_a_segment_becomes_a_file_of_each_table_with_statistics_and_order(ledger: Ledger, url: str) -> None:
    facts = [fact for n in (3, 1, 2) for fact in probe(n)]
    shipped = ship(sealed(ledger, facts), url)
    assert (shipped.segment, shipped.probes, shipped.polls, shipped.transactions) == (1, 3, 3, 0)
    name = f"c--r--{ledger.ledger_id[:12]}-0000000001.parquet"
    assert sorted(files(url)) == [f"/{table}/2026-11-03/{name}" for table in ("polls", "probes", "transactions")]
    filesystem, root = fsspec.core.url_to_fs(url)
    with filesystem.open(f"{root}/probes/2026-11-03/{name}") as file:
        parquet = pq.ParquetFile(file)
        assert parquet.schema_arrow == PROBES
        group = parquet.metadata.row_group(0)
        offset = group.column(PROBES.get_field_index("offset")).statistics
        assert (offset.min, offset.max) == (10, 30)
        assert group.sorting_columns
        assert parquet.read().column("offset").to_pylist() == [10, 20, 30]


def test_shipping_twice_changes_nothing(ledger: Ledger, url: str) -> None:
    path = sealed(ledger, probe(1))
    ship(path, url)
    before = files(url)
    assert ship(path, url).already
    (path.parent / "probe-log.carry").unlink()  # the crash came before the carry was saved
    assert not ship(path, url).already
    assert files(url) == before


def test_an_outcome_after_the_seal_reaches_the_log_with_what_was_known_before(ledger: Ledger, url: str) -> None:
    sent, acked, _ = probe(4)
    first = sealed(ledger, [sent])
    second = sealed(ledger, [acked])
    ship(first, url)
    found = ProbeLogReader(url).find(Identity(7, 1, 0, 4))
    assert found is not None
    assert found["probe"]["outcome"] == "indeterminate"
    ship(second, url)
    found = ProbeLogReader(url).find(Identity(7, 1, 0, 4))
    assert found is not None
    assert (found["probe"]["outcome"], found["probe"]["offset"], found["probe"]["mode"]) == ("acked", 40, "plain")


def test_why_a_late_acknowledgement_promises_nothing_is_told_by_the_log(ledger: Ledger, url: str) -> None:
    sent, acked, _ = probe(4)
    first = sealed(ledger, [TopicSeen(T0, 1, "t", "A", 1), sent])
    second = sealed(ledger, [acked, WatchAsked(T0, 2), TopicSeen(T0, 2, "t", "B", 1, agreed=True)])
    for segment in (first, second):
        ship(segment, url)
    rows = ProbeLogReader(url).window(Window("c", T0, T0 + 1)).probes
    found = ProbeLogReader(url).find(Identity(7, 1, 0, 4))
    assert found is not None
    for row in (*rows, found["probe"]):
        assert row["error"] == "acked at offset 40, in an unknown incarnation of the topic"


def test_segments_are_not_shipped_out_of_order(ledger: Ledger, url: str) -> None:
    first, second = sealed(ledger, probe(1)), sealed(ledger, probe(2))
    with pytest.raises(ProbeLogError, match="has to be shipped before"):
        ship(second, url)
    ship(first, url)
    ledger.drop(first)
    ship(second, url)


def test_a_wiped_ledger_overwrites_nothing_that_was_shipped_before(tmp_path: Path, url: str) -> None:
    for n in range(2):
        with Ledger(tmp_path / f"disk{n}") as ledger:
            ship(sealed(ledger, probe(n)), url)
    assert len(files(url)) == 6


def test_a_ledger_that_was_put_back_takes_nothing_out_of_the_probe_log(tmp_path: Path, url: str) -> None:
    directory, backup = tmp_path / "ledger", tmp_path / "backup"
    with Ledger(directory) as ledger:
        ledger.append(probe(0))
        shutil.copytree(directory, backup)
        ledger.append(probe(1))
        assert ledger.seal(b"state") is not None
        for path in (*ledger.sealed(), sealed(ledger, probe(2))):
            ship(path, url)
    shutil.rmtree(directory)
    backup.rename(directory)
    for skipped in (0, 1_790_000_000):
        with Ledger(directory) as ledger:
            ledger.recover()
            ledger.skip(skipped)
            ledger.append(probe(3 + (skipped > 0)))
            assert ledger.seal(b"state") is not None
            for path in ledger.sealed():
                ship(path, url)
    assert any(name.endswith("-1790000001.parquet") for name in files(url)), "no number is given again"
    for n in range(5):
        found = ProbeLogReader(url).find(Identity(7, 1, 0, n))
        assert found is not None, n
        assert (found["probe"]["offset"], len(found["polls"])) == (10 * n, 1)


def test_only_a_segment_that_was_shipped_before_is_read(
    ledger: Ledger, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    filesystem, _ = fsspec.core.url_to_fs(url)
    path, looked, cat = sealed(ledger, probe(1)), list[str](), type(filesystem).cat_file

    def look(self: Any, name: str, **options: Any) -> Any:
        looked.append(name.split("/")[-3])
        return cat(self, name, **options)

    with monkeypatch.context() as patch:
        patch.setattr(type(filesystem), "cat_file", look)
        ship(path, url)
        assert looked == ["probes"]
        (path.parent / "probe-log.carry").unlink()
        ship(path, url)
    assert sorted(set(looked[1:])) == ["polls", "probes", "transactions"]


def test_a_probe_log_that_does_not_answer_is_not_written(
    ledger: Ledger, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(5, "does not answer")

    path = sealed(ledger, probe(1))
    with monkeypatch.context() as patch:
        patch.setattr(type(fsspec.core.url_to_fs(url)[0]), "cat_file", fail)
        with pytest.raises(ProbeLogError, match="does not answer"):
            ship(path, url)
    assert files(url) == {}


def test_who_may_only_write_ships_all_the_same(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Access Denied")

    with monkeypatch.context() as patch:
        patch.setattr(LocalFileSystem, "open", refuse)
        ship(sealed(ledger, probe(1)), str(tmp_path / "log"))
    assert ProbeLogReader(str(tmp_path / "log")).find(Identity(7, 1, 0, 1)) is not None


def test_a_carry_of_another_ledger_is_not_believed(ledger: Ledger, url: str) -> None:
    path = sealed(ledger, probe(1))
    save_carry(path.parent / "probe-log.carry", Carry("another", 900))
    assert not ship(path, url).already


def test_a_damaged_carry_is_begun_anew(ledger: Ledger, url: str) -> None:
    path = sealed(ledger, probe(1))
    (path.parent / "probe-log.carry").write_bytes(b'{"version":1')
    assert ship(path, url).probes == 1
    assert load_carry(path.parent / "probe-log.carry").segment == 1


def test_a_probe_log_that_cannot_be_written_is_named_and_the_segment_waits(ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    path = sealed(ledger, probe(1))
    with pytest.raises(ProbeLogError, match="cannot be written"):
        ship(path, str(tmp_path / "file" / "log"))
    with pytest.raises(ProbeLogError, match=r"probe_log\.url"):
        ship(path, "nosuchprotocol://x")
    assert not ship(path, str(tmp_path / "log")).already


def test_a_directory_never_shows_half_a_file(ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(*_: object) -> None:
        raise OSError(5, "I/O error")

    path = sealed(ledger, probe(1))
    with monkeypatch.context() as patch:
        patch.setattr(Disk, "fsync", cut)
        with pytest.raises(ProbeLogError, match="I/O error"):
            ship(path, str(tmp_path / "log"))
    assert [name for _, _, names in os.walk(tmp_path / "log") for name in names] == []


class Ailing(Disk):
    """Its call number ``fails`` fails, counted from 0."""

    def __init__(self, fails: int) -> None:
        self.left = fails

    def _call(self) -> None:
        self.left -= 1
        if self.left == -1:
            raise OSError(5, "I/O error")

    def open(self, path: Path, flags: int) -> int:
        self._call()
        return super().open(path, flags)

    def read(self, path: Path, start: int = 0, count: int | None = None) -> bytes:
        self._call()
        return super().read(path, start, count)

    def write(self, descriptor: int, data: memoryview) -> int:
        self._call()
        return super().write(descriptor, data)

    def fsync(self, descriptor: int) -> None:
        self._call()
        super().fsync(descriptor)

    def entries(self, directory: Path) -> list[Path]:
        self._call()
        return super().entries(directory)

    def rename(self, path: Path, to: Path) -> None:
        self._call()
        super().rename(path, to)


def test_whatever_fails_on_the_disk_is_said_and_the_next_try_ships(tmp_path: Path) -> None:
    said = 0
    for fails in itertools.count():
        with Ledger(tmp_path / f"{fails}") as ledger:
            sealed(ledger, probe(1))
            path = sealed(ledger, probe(2))
            first = min(ledger.sealed())
            sealed(ledger, probe(3))
            place: dict[str, Any] = {"url": str(tmp_path / "log"), "cluster": "c", "runner": f"r{fails}"}
            ship_segment(first, **place)
            disk = Ailing(fails)
            try:
                shipped = ship_segment(path, **place, disk=disk)
            except (LedgerError, ProbeLogError) as error:
                assert "I/O error" in str(error)  # noqa: PT017  # of either
                said += 1
            else:
                assert shipped == Shipped(2, probes=1, polls=1)
            again = ship_segment(path, **place)
            assert again.already or again.probes == 1
            if disk.left >= 0:
                break
    assert said > 10


def test_the_life_of_one_probe(ledger: Ledger, url: str) -> None:
    facts = [
        TransactionBegan(T0, "plain", 7, 1, 3),
        *probe(1),
        *probe(2),
        *probe(1, partition=1),
        Committed(T0, 7, 1, 3),
    ]
    ship(sealed(ledger, facts), url)
    found = ProbeLogReader(url).find(Identity(7, 1, 0, 1))
    assert found is not None
    assert (found["probe"]["offset"], found["probe"]["sent_at"]) == (10, DAY)
    assert found["transaction"]["outcome"] == "committed"
    assert [(poll["consumer_id"], poll["polled_at"]) for poll in found["polls"]] == [
        ("read_committed", DAY + timedelta(milliseconds=2))
    ]
    assert ProbeLogReader(url).find(Identity(7, 1, 0, 99)) is None


def test_who_stands_at_some_offsets(ledger: Ledger, url: str) -> None:
    for batch in range(4):
        facts = [fact for n in range(5 * batch, 5 * batch + 5) for p in (0, 1) for fact in probe(n, p)]
        ship(sealed(ledger, facts), url)
    intruder = Polled(T0, "reread-1", "read_committed", "t", 0, 20, 8, 1, 0)
    again = Polled(T0, "reread-1", "read_committed", "t", 0, 20, 7, 1, 2)
    ship(sealed(ledger, [intruder, again]), url)

    def found(start: int, end: int, limit: int = 100) -> list[tuple[int, int, Any, Any]]:
        rows = ProbeLogReader(url).between("c", "t", 0, start, end, limit)
        return [(row["offset"], row["producer_id"], row["outcome"], row["seen_by"]) for row in rows]

    assert found(20, 31) == [
        (20, 7, "acked", ["read_committed", "reread-1"]),
        (20, 8, None, ["reread-1"]),
        (30, 7, "acked", ["read_committed"]),
    ]
    assert [row[0] for row in found(0, 2**63 - 1)] == [0, 10, 20, *range(20, 200, 10)]
    assert [row[0] for row in found(95, 2**63 - 1, 3)] == [100, 110, 120]
    assert found(1000, 2000) == []
    assert ProbeLogReader(url).between("c", "u", 0, 0, 100, 1000) == []


def test_names_of_clusters_are_not_mixed_up(ledger: Ledger, tmp_path: Path, url: str) -> None:
    ship(sealed(ledger, probe(1)), url, "eu/a--b")
    with Ledger(tmp_path / "other") as other:
        ship(sealed(other, probe(2)), url, "eu")
    assert [row["offset"] for row in ProbeLogReader(url).between("eu/a--b", "t", 0, 0, 100, 1000)] == [10]
    assert [row["offset"] for row in ProbeLogReader(url).between("eu", "t", 0, 0, 100, 1000)] == [20]


def test_a_file_that_is_no_parquet_is_an_error_with_the_place(tmp_path: Path) -> None:
    (tmp_path / "probes").mkdir()
    (tmp_path / "probes" / "x.parquet").write_bytes(b"PAR1 not")
    with pytest.raises(ProbeLogError, match="cannot be read"):
        ProbeLogReader(str(tmp_path)).find(Identity(7, 1, 0, 1))


def test_retention_deletes_whole_days_that_are_over(ledger: Ledger, url: str) -> None:
    for days in range(6):
        ship(sealed(ledger, probe(days, at_ns=T0 + days * DAY_NS)), url)
    assert drop_old(url, T0 + 5 * DAY_NS, 6 * DAY_S) == 0
    assert drop_old(url, T0 + 5 * DAY_NS, 2 * DAY_S) == 6
    assert {name.split("/")[2] for name in files(url)} == {f"2026-11-0{day}" for day in range(5, 9)}
    assert drop_old(url + "-nothing-here", T0, 1.0) == 0


def test_a_clock_that_is_ahead_deletes_no_day_within_retention(ledger: Ledger, url: str) -> None:
    for days in range(4):
        ship(sealed(ledger, probe(days, at_ns=T0 + days * DAY_NS)), url)
    assert drop_old(url, T0 + 400 * DAY_NS, 3 * DAY_S) == 0
    ship(sealed(ledger, probe(4, at_ns=T0 + 400 * DAY_NS)), url)
    assert drop_old(url, T0 + 400 * DAY_NS, 3 * DAY_S) == 0, "what is shipped meanwhile makes nothing older"
    assert drop_old(url, T0 + 3 * DAY_NS, 3 * DAY_S) == 0


def test_compacting_changes_no_answer_and_keeps_the_newest_files(ledger: Ledger, url: str) -> None:
    for n in range(8):
        ship(sealed(ledger, probe(n)), url)
    before = ProbeLogReader(url).between("c", "t", 0, 0, 1000, 1000)
    assert compact(url, keep=2, at_least=7) == 0, "not worth it yet"
    assert compact(url, keep=2, at_least=6) == 15
    assert compact(url, keep=2, at_least=1) == 0
    assert len(files(url)) == 9
    assert ProbeLogReader(url).between("c", "t", 0, 0, 1000, 1000) == before
    found = ProbeLogReader(url).find(Identity(7, 1, 0, 3))
    assert found is not None
    assert found["probe"]["offset"] == 30
    assert len(found["polls"]) == 1
    ship(sealed(ledger, probe(8)), url)
    assert len(ProbeLogReader(url).between("c", "t", 0, 0, 1000, 1000)) == 9


def test_a_crash_while_compacting_loses_nothing_and_doubles_nothing(
    ledger: Ledger, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in range(4):
        ship(sealed(ledger, probe(n)), url)
    filesystem, _ = fsspec.core.url_to_fs(url)

    def crash(*_: object) -> None:
        raise OSError(5, "I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(type(filesystem), "rm_file", crash)
        with pytest.raises(ProbeLogError, match="cannot be compacted"):
            compact(url, keep=0, at_least=1)
    assert len(ProbeLogReader(url).between("c", "t", 0, 0, 1000, 1000)) == 4
    doubled = ProbeLogReader(url).find(Identity(7, 1, 0, 2))
    assert doubled is not None
    assert len(doubled["polls"]) == 1
    compact(url, keep=0, at_least=1)
    assert len(files(url)) == 3
    found = ProbeLogReader(url).find(Identity(7, 1, 0, 2))
    assert found is not None
    assert len(found["polls"]) == 1


def test_days_and_runners_are_not_merged_and_a_merged_file_has_a_limit(
    ledger: Ledger, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compacting_module, "MAX_ROWS", 2)
    for n in range(8):
        ship(sealed(ledger, probe(n, at_ns=T0 + (n // 5) * DAY_NS)), url)
    compact(url, keep=0, at_least=4)
    probes = sorted(name for name in files(url) if name.startswith("/probes/"))
    assert [name.rsplit("-", 2)[-2:] for name in probes[:2]] == [
        ["0000000001", "0000000002.parquet"],
        ["0000000003", "0000000004.parquet"],
    ]
    assert len(probes) == 3 + 3, "the newest day has too few yet"


def test_a_place_is_tried_out_and_left_as_it_was(url: str, tmp_path: Path) -> None:
    try_out(url)
    assert list(tmp_path.iterdir()) == []
    assert fsspec.filesystem("memory").find("/") == []


def test_a_place_that_cannot_be_written_or_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("a file where a directory should be")
    with pytest.raises(
        ProbeLogError, match=r"no file can be written, read and deleted at .*/file/log: Not a directory"
    ):
        try_out(f"{tmp_path}/file/log")
    monkeypatch.setattr(LocalFileSystem, "cat_file", lambda *_: b"of before")
    with pytest.raises(ProbeLogError, match="is read back with other content"):
        try_out(str(tmp_path / "log"))


def test_a_place_without_any_file_of_a_cluster_is_said_to_hold_nothing(ledger: Ledger, url: str) -> None:
    reader = ProbeLogReader(url)
    window = Window("c", T0, T0 + 10**9)
    for ask in (
        lambda: reader.find(Identity(7, 1, 0, 0)),
        lambda: reader.between("c", "t", 0, 0, 9, 9),
        lambda: reader.window(window),
    ):
        with pytest.raises(NothingThereError, match=r"probe_log\.url"):
            ask()
    ship(sealed(ledger, probe(0)), url)
    assert len(reader.between("c", "t", 0, 0, 9, 9)) == 1
    with pytest.raises(NothingThereError, match="nothing of cluster d"):
        reader.between("d", "t", 0, 0, 9, 9)
