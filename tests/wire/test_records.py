"""Record batches out of bytes: what another encoder wrote is read as it was; what is damaged is said with its place."""

from __future__ import annotations

import contextlib
import gzip
import struct
from typing import Any

import google_crc32c
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder

from canary.wire.compression import CODECS, decompressed
from canary.wire.errors import RecordsError
from canary.wire.records import Record, batches, whole

_ATTRIBUTES, _RECORDS = 21, 61

nullable = st.none() | st.binary(max_size=50)
contents = st.lists(
    st.tuples(
        st.integers(0, 2**40),
        nullable,
        nullable,
        st.lists(st.tuples(st.text(max_size=5), nullable), max_size=3),
    ),
    min_size=1,
    max_size=8,
)


def compressed(data: bytes, codec: str) -> bytes:
    if codec == "none":
        return data
    return gzip.compress(data) if codec == "gzip" else bytes(pa.compress(data, codec=codec, asbytes=True))


def encoded(records: list[Any], base: int = 0, codec: str = "none", **settings: Any) -> bytes:
    """A batch by kafka-python's encoder, compressed here: it would need three more packages."""
    settings = {"is_transactional": False, "producer_id": -1, "producer_epoch": -1, "base_sequence": -1} | settings
    builder = DefaultRecordBatchBuilder(2, 0, batch_size=1 << 20, **settings)
    for offset, (timestamp, key, value, headers) in enumerate(records):
        assert builder.append(offset, timestamp, key, value, headers) is not None
    data = bytearray(builder.build())
    data[_RECORDS:] = compressed(bytes(data[_RECORDS:]), codec)
    struct.pack_into(">qi", data, 0, base, len(data) - 12)
    data[_ATTRIBUTES + 1] |= CODECS.index(codec)
    return mended(data)


def mended(data: bytearray) -> bytes:
    struct.pack_into(">I", data, _ATTRIBUTES - 4, google_crc32c.value(bytes(data[_ATTRIBUTES:])))
    return bytes(data)


ONE = encoded([(7, b"k", b"v", [("h", b"x")])], 40)


@given(first=contents, second=contents, codec=st.sampled_from(CODECS))
def test_what_was_written_is_read(first: list[Any], second: list[Any], codec: str) -> None:
    data = encoded(first, 5, codec) + encoded(second, 5 + len(first), codec)
    found = list(batches(memoryview(data)))
    assert [(one.base_offset, one.last_offset, one.count, one.codec) for one in found] == [
        (5, 4 + len(first), len(first), codec),
        (5 + len(first), 4 + len(first) + len(second), len(second), codec),
    ]
    assert b"".join(bytes(one.data) for one in found) == data
    assert [record for one in found for record in one.records()] == [
        Record(5 + at, timestamp, key, value, tuple((name.encode(), content) for name, content in headers))
        for at, (timestamp, key, value, headers) in enumerate(first + second)
    ]
    assert found[1].position == found[0].size
    assert list(batches(data, found[1].position)) == found[1:]


@given(cut=st.integers(1, len(ONE) - 1))
def test_a_batch_that_is_cut_is_an_error_with_its_place_and_left_out_of_a_fetch(cut: int) -> None:
    data = ONE + ONE[:cut]
    assert whole(data) == ONE
    found = batches(data)
    assert next(found).base_offset == 40
    with pytest.raises(RecordsError, match=f"at byte {len(ONE)}: .*{cut} (bytes )?are left") as error:
        next(found)
    assert error.value.position == len(ONE)


@given(data=st.data())
def test_each_byte_that_changes_is_found(data: st.DataObject) -> None:
    at = data.draw(st.integers(_ATTRIBUTES - 4, len(ONE) - 1))
    damaged = bytearray(ONE)
    damaged[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(RecordsError):
        [list(one.records()) for one in batches(damaged)]


@given(data=st.data())
def test_damage_of_which_the_crc_is_right_is_one_clear_error_or_other_records(data: st.DataObject) -> None:
    codec = data.draw(st.sampled_from(CODECS))
    damaged = bytearray(encoded(data.draw(contents), 0, codec))
    at = data.draw(st.integers(_ATTRIBUTES, len(damaged) - 1))
    damaged[at] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(RecordsError):  # other records are all that it may be else
        for one in batches(mended(damaged)):
            list(one.records())


@given(data=st.binary(max_size=200))
def test_noise_is_no_batch(data: bytes) -> None:
    assert whole(data) == data[: len(whole(data))]
    if data:
        with pytest.raises(RecordsError):
            [list(one.records()) for one in batches(data)]


def test_older_messages_are_named() -> None:
    older = bytearray(ONE)
    older[16] = 1
    with pytest.raises(RecordsError, match=r"at byte 0: .*magic 1; messages of before Kafka 0\.11 are not supported"):
        next(batches(older))


def test_blocks_of_xerial_are_snappy_too() -> None:
    blocks = [compressed(part, "snappy") for part in (b"first", b"second" * 100)]
    framed = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(one)) + one for one in blocks)
    assert decompressed(memoryview(framed), "snappy") == b"first" + b"second" * 100
    with pytest.raises(ValueError, match="snappy block of"):
        decompressed(memoryview(framed[:-1]), "snappy")


@pytest.mark.parametrize("codec", CODECS[1:])
def test_a_compressed_block_that_ends_early_is_an_error(codec: str) -> None:
    data = compressed(bytes(range(256)) * 9, codec)
    for cut in range(len(data)):
        try:
            found = decompressed(memoryview(data[:cut]), codec)
        except ValueError:
            continue
        assert len(found) < 256 * 9, "what is missing shows in the records"


def test_the_header_says_who_wrote_it_and_what_its_times_are() -> None:
    data = encoded([(1000, None, b"v", [])], is_transactional=True, producer_id=9, producer_epoch=3, base_sequence=2)
    (batch,) = batches(data)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.transactional) == (9, 3, 2, True)
    appended = bytearray(data)
    appended[_ATTRIBUTES + 1] |= 8
    struct.pack_into(">q", appended, 35, 5000)  # the broker's time, as the largest timestamp
    (batch,) = batches(mended(appended))
    assert (batch.timestamp_type, [one.timestamp_ms for one in batch.records()]) == ("append", [5000])


@pytest.mark.parametrize(("kind", "marker"), [(0, "abort"), (1, "commit"), (2, None)])
def test_a_marker_ends_a_transaction(kind: int, marker: str | None) -> None:
    data = bytearray(encoded([(0, struct.pack(">hh", 0, kind), b"\0" * 6, [])], is_transactional=True))
    (batch,) = batches(data)
    assert batch.marker() is None, "no control batch"
    data[_ATTRIBUTES + 1] |= 0x20
    (batch,) = batches(mended(data))
    assert batch.marker() == marker


def test_a_header_that_is_no_utf_8_is_no_damage() -> None:
    data = bytearray(encoded([(0, None, None, [("h", None)])]))
    data[data.index(b"h", _RECORDS)] = 0xFF
    (batch,) = batches(mended(data))
    assert [one.headers for one in batch.records()] == [((b"\xff", None),)]
