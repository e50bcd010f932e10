"""One partition from end to end, of folders on disk and a cluster's log in memory."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from canary.errors import UserError
from canary.salvage import collisions, salvaging
from canary.salvage.counts import Found
from canary.salvage.salvaged import Salvaged, rows
from canary.salvage.salvaging import Partition, Wanted
from canary.wire.compression import CODECS
from tests.salvage.logs import Memory, Told, batch, marker, replica

if TYPE_CHECKING:
    from pathlib import Path


def found(path: Path, told: list[Told], cluster: Memory, **wanted: bool) -> tuple[Found, list[Salvaged]]:
    """Return what is found and written; a dry run counts the same."""
    one = replica(path, told)
    dry = Partition(one, cluster, Wanted(**wanted), lambda *_: None).salvage(None)
    out = path / "out"
    out.mkdir()
    wet = Partition(one, cluster, Wanted(**wanted), lambda *_: None).salvage(out)
    assert dry.counts == wet.counts
    written = [] if wet.file is None else list(rows(out / wet.file))
    assert len(written) == wet.counts.salvaged
    counts = wet.counts
    classes = (counts.held, counts.expired, counts.committed, counts.aborted, counts.undecided)
    assert sum(classes) == counts.records
    return wet, written


def offsets(written: list[Salvaged]) -> list[int]:
    return [row.offset for row in written]


COMMON = [batch(0, 1, b"a1", b"b1"), batch(2, 1, b"c1", b"-1")]


def test_what_diverged_is_written_with_each_codec_as_it_was(tmp_path: Path) -> None:
    alone = [batch(4 + 3 * n, 2, b"x%d" % n, b"-%d" % n, b"y", codec=codec) for n, codec in enumerate(CODECS)]
    cluster = Memory([*COMMON, batch(4, 3, b"n1", b"n2")])
    one, written = found(tmp_path, COMMON + alone, cluster)
    assert offsets(written) == list(range(4, 4 + 3 * len(CODECS)))
    assert written[3] == Salvaged(
        "t", 0, 7, 1007, "create", 2, b"x", b"x1", (), -1, -1, transactional=False, outcome="committed", collision=False
    )
    assert (one.counts.held, one.counts.committed, one.counts.collisions) == (4, 15, 0)
    assert [(fate, span.epoch, span.start, span.end) for fate, span in one.pieces] == [
        ("held", 1, 0, 4),
        ("gone", 2, 4, 19),
    ]


def test_nothing_is_written_of_a_log_that_the_cluster_has(tmp_path: Path) -> None:
    one, written = found(tmp_path, COMMON, Memory([*COMMON, batch(4, 3, b"n1")]))
    assert (one.file, written, one.counts.held, one.counts.salvaged) == (None, [], 4, 0)


def test_aborted_is_left_out_undecided_is_counted_and_written_only_if_asked_for(tmp_path: Path) -> None:
    alone = [
        batch(4, 2, b"a2", producer_id=7),
        batch(5, 2, b"b2", producer_id=8),
        batch(6, 2, b"c2", producer_id=9, codec="lz4"),
        batch(7, 2, b"d2"),
        marker(8, 2, 7, "commit"),
        marker(9, 2, 8, "abort"),
    ]
    cluster = Memory([*COMMON, marker(4, 3, 9, "commit")])
    one, written = found(tmp_path / "without", COMMON + alone, cluster)
    assert offsets(written) == [4, 7]
    counts = one.counts
    assert (counts.committed, counts.aborted, counts.undecided, counts.markers) == (2, 1, 1, 2)
    assert one.as_json()["undecided"] == [
        {"producer_id": 9, "producer_epoch": 0, "first": 6, "behind": 10, "cluster_says": "commit", "at": 4}
    ]
    one, written = found(tmp_path / "with", COMMON + alone, cluster, undecided=True)
    assert [(row.offset, row.outcome) for row in written] == [(4, "committed"), (6, "undecided"), (7, "committed")]


def test_a_transaction_that_began_before_the_cut_is_followed_from_there(tmp_path: Path) -> None:
    before = [batch(0, 1, b"a", producer_id=7), batch(1, 1, b"b", producer_id=8)]
    alone = [batch(2, 2, b"c", producer_id=7), batch(3, 2, b"d", producer_id=8)]
    ends = [marker(4, 2, 7, "abort"), marker(5, 2, 8, "commit")]
    one, written = found(tmp_path, before + alone + ends, Memory(before))
    assert offsets(written) == [3]
    assert (one.counts.held, one.counts.aborted) == (2, 1)


def test_a_key_that_was_written_again_since_is_a_collision_unless_that_was_aborted(tmp_path: Path) -> None:
    alone = [batch(4, 2, b"a2", b"b2", b"c2", b"d2", b"-2")]
    since = [
        batch(4, 3, b"a3"),
        batch(5, 3, b"b3", producer_id=7),
        batch(6, 3, b"d3", producer_id=8),
        marker(7, 3, 7, "abort"),
        batch(8, 3, b"-3"),
        marker(9, 3, 8, "commit"),
    ]
    one, written = found(tmp_path, COMMON + alone, Memory(COMMON + since))
    assert [(row.key, row.collision) for row in written] == [
        (b"a", True),
        (b"b", False),
        (b"c", False),
        (b"d", True),
        (None, None),
    ]
    assert one.counts.collisions == 2
    one, written = found(tmp_path / "blind", COMMON + alone, Memory(COMMON + since), collisions=False)
    assert one.counts.collisions is None
    assert {row.collision for row in written} == {None}


def test_a_temporary_disk_that_is_full_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Small(collisions.Keys):
        def __init__(self) -> None:
            super().__init__()
            self._database.execute("PRAGMA max_page_count = 2")

    monkeypatch.setattr(salvaging, "Keys", Small)
    alone = Told(4, 2, tuple((b"key-%d" % number, b"v") for number in range(5000)))
    with pytest.raises(UserError, match=r"do not fit on the temporary disk: .* is full; .* with --no-collisions"):
        found(tmp_path, [*COMMON, alone], Memory(COMMON))


def test_what_expired_in_the_cluster_is_unknown_and_written_only_if_asked_for(tmp_path: Path) -> None:
    alone = [batch(4, 2, b"x")]
    cluster = Memory([*COMMON, batch(4, 3, b"n", b"m")], start=2)
    one, written = found(tmp_path / "without", COMMON + alone, cluster)
    assert (offsets(written), one.counts.expired, one.counts.held) == ([4], 2, 2)
    _, written = found(tmp_path / "with", COMMON + alone, cluster, expired=True)
    assert offsets(written) == [0, 1, 4]


@pytest.mark.parametrize("verify", [False, True])
def test_a_damaged_batch_is_named_and_what_is_around_it_is_written(tmp_path: Path, *, verify: bool) -> None:
    alone = [batch(4, 2, b"x1", b"x2", producer_id=7), batch(6, 2, b"y"), batch(7, 2, b"z"), marker(8, 2, 7, "commit")]
    cluster = Memory([*COMMON, batch(4, 3, b"n")])
    one = replica(tmp_path, COMMON + alone)
    (file,) = (path for path in one.path.iterdir() if alone[1].encoded() in path.read_bytes())
    data = bytearray(file.read_bytes())
    data[data.index(alone[1].encoded()) + len(alone[1].encoded()) - 3] ^= 0xFF
    file.write_bytes(data)
    said = Partition(one, cluster, Wanted(verify=verify), lambda *_: None).salvage(tmp_path)
    assert [(damage.what, damage.offset) for damage in said.damage] == [("crc", 6)]
    assert (said.counts.undecided, said.counts.committed) == (2, 1), "the damaged place may have been the marker"
    assert said.file is not None
    assert offsets(list(rows(tmp_path / said.file))) == [7]


def test_gaps_and_changes_in_the_middle_are_found_where_records_are_compared(tmp_path: Path) -> None:
    mine = [batch(0, 1, b"a1"), batch(1, 1, b"b1"), batch(2, 1, b"c1"), batch(3, 1, b"d1"), batch(4, 1, b"e1")]
    theirs = [mine[0], batch(2, 1, b"cX"), mine[3], batch(5, 3, b"b2")]
    cluster = Memory(theirs)
    cluster.holdings = Memory([*mine, theirs[-1]]).holdings
    one, written = found(tmp_path / "blind", mine, cluster)
    assert (one.counts.held, one.counts.missing, written) == (5, None, [])
    one, written = found(tmp_path / "seeing", mine, cluster, verify=True)
    assert [(row.key, row.collision) for row in written] == [(b"b", True), (b"e", False)]
    assert (one.counts.missing, one.counts.changed, one.counts.unverified, one.counts.held) == (2, 1, 0, 3)
    cluster.compacted = True
    one, written = found(tmp_path / "compacted", mine, cluster, verify=True)
    assert (one.counts.missing, written) == (0, [])


def test_of_a_topic_that_is_not_there_everything_is_gone(tmp_path: Path) -> None:
    one, written = found(tmp_path, COMMON, Memory([]))
    assert offsets(written) == [0, 1, 2, 3]
    assert asdict(one.counts)["committed"] == 4


contents = st.lists(st.sampled_from((b"a", b"b", b"-")), min_size=1, max_size=3)
appended = st.tuples(contents, st.sampled_from(CODECS), st.sampled_from((-1, -1, 7, 8)))


def logged(base: int, epoch: int, wanted: list[Any]) -> list[Told]:
    told: list[Told] = []
    for number, (values, codec, producer_id) in enumerate(wanted):
        if producer_id >= 0 and len(values) == 1:
            kind = "commit" if values[0] == b"a" else "abort"
            told.append(marker(base, epoch, producer_id, kind))
        else:
            values = [one + b"%d.%d" % (epoch, number) for one in values]  # noqa: PLW2901  # so that each is one of its own
            told.append(batch(base, epoch, *values, codec=codec, producer_id=producer_id))
        base = told[-1].end
    return told


@settings(max_examples=50)
@given(
    common=st.lists(appended, max_size=4), alone=st.lists(appended, max_size=8), since=st.lists(appended, max_size=8)
)
def test_what_is_written_is_the_difference_of_both_logs(
    common: list[Any], alone: list[Any], since: list[Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    both = logged(0, 1, common)
    end = both[-1].end if both else 0
    mine, theirs = both + logged(end, 2, alone), both + logged(end, 3, since)
    if not mine:
        return
    one, written = found(tmp_path_factory.mktemp("log"), mine, Memory(theirs), undecided=True, verify=True)
    fates = outcomes(mine)
    expected = {offset: fate for offset, fate in fates.items() if offset >= end and fate != "aborted"}
    assert {row.offset: row.outcome for row in written} == expected
    assert offsets(written) == sorted(expected)
    now = outcomes(theirs)
    keys = {offset: key for told in theirs if told.marker is None
            for offset, (key, _) in enumerate(told.contents, told.base)}  # fmt: skip
    newer = {key for offset, key in keys.items() if offset >= end and now[offset] == "committed"}
    assert [row.collision for row in written] == [None if row.key is None else row.key in newer for row in written]
    assert (one.counts.missing, one.counts.changed) == (0, 0)


def outcomes(told: list[Told]) -> dict[int, str]:
    """Return the outcome of each record, found by looking ahead for the marker."""
    found: dict[int, str] = {}
    for number, one in enumerate(told):
        if one.marker is not None:
            continue
        ends = [later.marker for later in told[number:] if later.marker and later.producer_id == one.producer_id]
        kinds = {"commit": "committed", "abort": "aborted"}
        fate = "committed" if one.producer_id < 0 else kinds[ends[0]] if ends else "undecided"
        found |= dict.fromkeys(range(one.base, one.end), fate)
    return found
