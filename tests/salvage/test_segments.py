"""Segments as a crash or a disk may leave them: every whole batch is found, every other place is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import assume, given
from hypothesis import strategies as st

from canary.salvage.segments import Damage, scan, segments
from tests.salvage.logs import batch, folder

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

LOG = [batch(at, 1, b"a%d" % at, b"b%d" % at, codec=codec) for at, codec in ((0, "none"), (2, "gzip"), (4, "zstd"))]
SIZES = [len(one.encoded()) for one in LOG]


def read(directory: Path, checked_from: int | None = 0) -> tuple[list[int], list[tuple[int, int, str, int]]]:
    """Return the base offsets of the batches, and the damage."""
    found = [one for _, one in scan(segments(directory), checked_from=checked_from)]
    damage: list[tuple[int, int, str, int]] = [
        (one.position, one.size, one.what, one.offset) for one in found if isinstance(one, Damage)
    ]
    bases = [one.base_offset for one in found if not isinstance(one, Damage)]
    return bases, damage


def only(directory: Path) -> Path:
    (segment,) = segments(directory)
    return segment


def test_a_torn_last_batch_is_named_and_the_rest_is_read(tmp_path: Path) -> None:
    directory = folder(tmp_path, LOG)
    data = only(directory).read_bytes()
    for cut in (1, 30, SIZES[2] - 11):
        only(directory).write_bytes(data[:-cut])
        assert read(directory) == ([0, 2], [(sum(SIZES[:2]), SIZES[2] - cut, "torn", 4)])


def test_zeros_at_the_end_are_named(tmp_path: Path) -> None:
    directory = folder(tmp_path, LOG)
    with only(directory).open("ab") as file:
        file.write(bytes(3 << 20))
    assert read(directory) == ([0, 2, 4], [(sum(SIZES), 3 << 20, "zeros", 6)])


def test_a_batch_whose_bytes_changed_is_named_where_the_crc_is_checked(tmp_path: Path) -> None:
    directory = folder(tmp_path, LOG)
    data = bytearray(only(directory).read_bytes())
    data[SIZES[0] + SIZES[1] - 2] ^= 1
    only(directory).write_bytes(data)
    assert read(directory) == ([0, 4], [(SIZES[0], SIZES[1], "crc", 2)])
    assert read(directory, 4) == ([0, 2, 4], [])
    assert read(directory, None) == ([0, 2, 4], [])


def test_what_is_behind_garbage_or_zeros_in_the_middle_is_found_again(tmp_path: Path) -> None:
    directory = folder(tmp_path, LOG)
    data = only(directory).read_bytes()
    page = slice(SIZES[0] + 5, SIZES[0] + 40)
    for filling in (b"\0", b"\2", b"\xff"):
        broken = bytearray(data)
        broken[page] = filling * 35
        only(directory).write_bytes(broken)
        assert read(directory) == ([0, 4], [(SIZES[0], SIZES[1], "no batch", 2)])
        assert read(directory, None) == ([0, 4], [(SIZES[0], SIZES[1], "no batch", 2)])


def test_what_only_looks_like_a_batch_is_not_taken_for_one(tmp_path: Path) -> None:
    lookalike = bytearray(batch(1, 1, b"within a value").encoded())
    lookalike[-1] ^= 1
    outer = batch(0, 1, b"a" + bytes(lookalike) + b"z" * 50)
    directory = folder(tmp_path, [outer, batch(1, 1, b"b")])
    data = bytearray(only(directory).read_bytes())
    data[:20] = b"\xff" * 20
    only(directory).write_bytes(data)
    assert read(directory) == ([1], [(0, len(outer.encoded()), "no batch", 0)])


@given(bit=st.integers(0, 63), which=st.integers(0, 3))
def test_an_offset_or_an_epoch_that_the_batches_around_contradict_costs_its_batch_alone(
    tmp_path_factory: pytest.TempPathFactory, bit: int, which: int
) -> None:
    assume(not bit >= 64)  # its length is not meant
    log = [batch(at, 7, b"a%d" % at, b"b%d" % at) for at in range(0, 8, 2)]
    directory = folder(tmp_path_factory.mktemp("log"), log, per_segment=4)
    data = bytearray(only(directory).read_bytes())
    start = sum(len(one.encoded()) for one in log[:which])
    for at in (start + bit // 8, start + 12 + bit // 16):  # base offset, leader epoch: the CRC covers neither
        broken = bytearray(data)
        broken[at] ^= 1 << bit % 8
        only(directory).write_bytes(broken)
        bases, damage = read(directory)
        others = [one.base for number, one in enumerate(log) if number != which]
        assert [one for one in bases if one in others] == others, "all others are read"
        assert len(damage) <= 1
        if which < len(log) - 1 and at < start + 8:
            assert (bases, [where for where, *_ in damage]) == (others, [start])


def test_an_offset_beyond_the_next_segment_is_damage(tmp_path: Path) -> None:
    directory = folder(tmp_path, LOG[:2])
    data = bytearray(only(directory).read_bytes())
    data[SIZES[0] + 5] ^= 1  # the last batch of its segment
    only(directory).write_bytes(data)
    (directory / f"{4:020}.log").write_bytes(LOG[2].encoded())
    assert read(directory) == ([0, 4], [(SIZES[0], SIZES[1], "crc", 2)])


def test_what_goes_back_is_no_batch(tmp_path: Path) -> None:
    directory = folder(tmp_path, [*LOG, LOG[0]], per_segment=4)
    assert read(directory) == ([0, 2, 4], [(sum(SIZES), SIZES[0], "no batch", 6)])


def test_a_segment_that_is_empty_and_names_of_others_are_passed(tmp_path: Path) -> None:
    directory = folder(tmp_path, LOG, per_segment=1)
    (directory / f"{6:020d}.log").write_bytes(b"")
    (directory / f"{0:020d}.log.deleted").write_bytes(b"x")
    (directory / f"{0:020d}.index").write_bytes(b"x")
    assert read(directory) == ([0, 2, 4], [])


@given(data=st.data())
def test_one_damaged_place_costs_what_it_covers_and_nothing_else(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = folder(tmp_path_factory.mktemp("log"), LOG)
    broken = bytearray(only(directory).read_bytes())
    start = data.draw(st.integers(0, len(broken) - 1))
    end = data.draw(st.integers(start + 1, len(broken)))
    filling = data.draw(st.sampled_from((b"\0", b"\xff", b"\2", b"\0\2")))
    before = bytes(broken)
    broken[start:end] = (filling * len(broken))[: end - start]
    only(directory).write_bytes(broken)
    places = [slice(sum(SIZES[:at]), sum(SIZES[: at + 1])) for at in range(len(SIZES))]
    whole = [LOG[at].base for at, place in enumerate(places) if broken[place] == before[place]]
    headers_alone = [at for at, place in enumerate(places) if broken[place][:16] != before[place][:16]
                     and broken[place][16:] == before[place][16:]]  # fmt: skip
    assume(not headers_alone)  # base offset, length and leader epoch are in no CRC
    bases, damage = read(directory)
    assert bases == whole
    assert bool(damage) == (len(whole) < len(LOG))
    assert sum(size for _, size, _, _ in damage) == sum(SIZES[LOG.index(one)] for one in LOG if one.base not in whole)
