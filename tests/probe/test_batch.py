"""Many probes at once say what each says alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from canary.probe.batch import (
    BLOCK,
    INTACT,
    BinaryBuffers,
    as_bytes,
    decode_batch,
    encode_batch,
    encode_keys,
)
from canary.probe.identity import Identity
from canary.probe.record import (
    MAGIC,
    MODE_NAMES,
    MODES,
    PLAIN,
    REASONS,
    REFUSALS,
    Form,
    Probe,
    Refusal,
    _checksum,
    decode,
    encode,
    key,
)

OURS = b"ours"
I63 = st.integers(0, 2**63 - 1)
I31 = st.integers(0, 2**31 - 1)
FORMS = (PLAIN, Form(repeated=True), Form(headers=2, header_length=300), Form(repeated=True, headers=255))


@st.composite
def intact(draw: st.DrawFn) -> bytes:
    return encode(
        Identity(draw(I63), draw(I31), draw(I31), draw(I63)),
        tag=draw(st.sampled_from([OURS, b"else"])),
        mode=draw(st.sampled_from(sorted(MODES))),
        transaction_id=draw(st.none() | I63),
        sent_at_ns=draw(I63),
        length=draw(st.sampled_from([64, 96, 104])),
        form=draw(st.sampled_from(FORMS)),
    )


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    value = bytearray(draw(intact()))
    position = draw(st.integers(0, len(value) - 1))
    value[position] ^= draw(st.integers(1, 255))
    return bytes(value[: draw(st.integers(0, len(value)))]) if draw(st.booleans()) else bytes(value)


VALUES = st.lists(
    st.none() | intact() | damaged() | st.binary(max_size=120) | st.binary(max_size=99).map((MAGIC + OURS).__add__),
)


def row(batch: object, at: int) -> Probe | Refusal:
    def of(name: str) -> int:
        return int(getattr(batch, name)[at])

    if of("status") != INTACT:
        refusal = REFUSALS[of("code") - 1]
        assert REASONS[of("status") - 1] == refusal.reason
        assert of("sequence") == of("producer_id") == -1
        return refusal
    transaction = of("transaction_id")
    said = Probe(
        Identity(of("producer_id"), of("generation"), of("partition"), of("sequence")),
        MODE_NAMES[of("mode")],
        None if transaction == -1 else transaction,
        of("sent_at_ns"),
    )
    return said._replace(form=Form(headers=of("headers")))  # of the form a batch tells only whether there are headers


def alone(value: bytes | None, tag: bytes | None) -> Probe | Refusal:
    """Return what a value says, of its form only what a batch tells."""
    said = decode(value, tag)
    return said._replace(form=Form(headers=said.form.headers > 0)) if isinstance(said, Probe) else said


def buffers_of(array: pa.Array) -> BinaryBuffers:
    _, offsets, data = array.buffers()
    wide = pa.types.is_large_binary(array.type)
    return BinaryBuffers(
        np.frombuffer(data or b"", dtype=np.uint8),
        np.frombuffer(offsets, dtype="<i8" if wide else "<i4")[array.offset : array.offset + len(array) + 1],
        np.asarray(array.is_valid().to_numpy(zero_copy_only=False), dtype=np.bool_),
    )


@given(VALUES, st.sampled_from([OURS, None]))
def test_a_batch_says_what_each_value_says_alone(values: list[bytes | None], tag: bytes | None) -> None:
    batch = decode_batch(values, tag)
    assert [row(batch, at) for at in range(len(values))] == [alone(value, tag) for value in values]


@given(VALUES, st.sampled_from([pa.binary(), pa.large_binary()]), st.integers(0, 3))
def test_arrow_buffers_sliced_or_not_say_the_same(values: list[bytes | None], kind: pa.DataType, skip: int) -> None:
    array = pa.array(values, type=kind).slice(skip)
    batch = decode_batch(buffers_of(array), OURS)
    assert [row(batch, at) for at in range(len(array))] == [alone(value, OURS) for value in values[skip:]]


def test_a_null_with_bytes_behind_it_has_no_value() -> None:
    value = encode(Identity(1, 1, 0, 0), tag=OURS, mode="plain", transaction_id=None, sent_at_ns=1)
    data = np.frombuffer(value * 2, dtype=np.uint8)
    batch = decode_batch(BinaryBuffers(data, np.array([0, 96, 192]), np.array([True, False])), OURS)
    assert [isinstance(row(batch, at), Probe) for at in range(2)] == [True, False]


@pytest.mark.parametrize("position", [8, 10, 11, 15, 31, 39, 43, 44, 55, 56, 64, 95])
def test_sealed_values_of_a_wrong_shape_are_refused_alike(position: int) -> None:
    value = bytearray(encode(Identity(1, 2, 3, 4), tag=OURS, mode="plain", transaction_id=5, sent_at_ns=6))
    value[position] ^= 0x80
    value[16:24] = _checksum(bytes(value)).to_bytes(8, "little")
    said = decode(bytes(value), OURS)
    assert row(decode_batch([bytes(value)], OURS), 0) == said
    assert isinstance(said, Probe) == (position == 56)  # the time of sending may be any


def test_large_values_of_others_are_not_looked_through() -> None:
    ours = MAGIC + OURS
    values: list[bytes | None] = [bytes(100_000), ours + bytes(100_000), bytes(65_528), ours + bytes(65_520)] * 2
    batch = decode_batch(values, OURS)
    assert [row(batch, at) for at in range(8)] == [decode(value, OURS) for value in values]
    same: list[bytes | None] = [ours + bytes(70_000)] * 3
    assert decode_batch(same, OURS).status.tolist() == [2, 2, 2]


@given(
    st.lists(st.tuples(I63, I31, I31, I63, st.integers(-1, 99), I63), max_size=20),
    st.sampled_from([64, 96, 128]),
    st.sampled_from(FORMS),
)
def test_a_batch_is_written_as_each_is_alone(rows: list[tuple[int, ...]], length: int, form: Form) -> None:
    columns = np.array(rows, dtype=np.int64).reshape(-1, 6).T
    batch = encode_batch(
        producer_id=columns[0],
        generation=columns[1],
        partition=columns[2],
        sequence=columns[3],
        transaction_id=columns[4],
        sent_at_ns=columns[5],
        tag=OURS,
        mode="relay",
        length=length,
        form=form,
    )
    each = [
        encode(
            Identity(*one[:4]),
            tag=OURS,
            mode="relay",
            transaction_id=None if one[4] < 0 else one[4],
            sent_at_ns=one[5],
            length=length,
            form=form,
        )
        for one in rows
    ]
    assert as_bytes(batch) == each
    assert as_bytes(encode_keys(*columns[:4])) == [key(Identity(*one[:4])) for one in rows]


@pytest.mark.parametrize("rows", [0, 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7])
def test_batches_of_many_blocks_keep_their_order(rows: int) -> None:
    sequence = np.arange(rows)[::-1]
    batch = encode_batch(
        producer_id=9,
        generation=1,
        partition=2,
        sequence=sequence,
        sent_at_ns=5,
        tag=OURS,
        mode="idempotent",
    )
    values: list[bytes | None] = list(as_bytes(batch))
    uniform = decode_batch(values, OURS)
    assert (uniform.status == INTACT).all()
    assert (uniform.sequence == sequence).all()
    mixed = decode_batch([b"odd", *values, None], None)
    assert (mixed.sequence[1:-1] == sequence).all()
    assert (mixed.tag[1:-1] == int.from_bytes(OURS, "little")).all()
    assert mixed.status.tolist()[0] == mixed.status.tolist()[-1] != INTACT


@pytest.mark.parametrize("name", ["producer_id", "generation", "partition", "sequence"])
@pytest.mark.parametrize("number", [-1, 2**63])
def test_a_number_out_of_range_is_refused(name: str, number: int) -> None:
    numbers: dict[str, Any] = dict.fromkeys(("producer_id", "generation", "partition", "sequence"), 1) | {name: number}
    with pytest.raises(ValueError, match=name):
        encode_batch(**numbers, sent_at_ns=1, tag=OURS, mode="plain")
