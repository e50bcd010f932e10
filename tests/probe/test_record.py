"""The wire format of a probe, one at a time."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canary.probe.identity import Identity
from canary.probe.record import (
    MAGIC,
    MASK,
    MODES,
    PLAIN,
    PRIME,
    SEED,
    Form,
    Probe,
    Refusal,
    decode,
    encode,
    header_fields,
    key,
    tag,
)

I63 = st.integers(0, 2**63 - 1)
I31 = st.integers(0, 2**31 - 1)
IDENTITIES = st.builds(Identity, I63, I31, I31, I63)
PROBES = st.builds(
    Probe,
    IDENTITIES,
    st.sampled_from(sorted(MODES)),
    st.none() | I63,
    st.integers(-(2**63), 2**63 - 1),
    st.just(PLAIN) | st.builds(Form, st.booleans(), st.integers(0, 255), st.integers(0, 65_535)),
)
TAGS = st.binary(min_size=4, max_size=4)
LENGTHS = st.integers(8, 40).map(lambda words: words * 8)
OURS = b"ours"


def written(probe: Probe, tag: bytes = OURS, length: int = 96) -> bytes:
    return encode(
        probe.identity,
        tag=tag,
        mode=probe.mode,
        transaction_id=probe.transaction_id,
        sent_at_ns=probe.sent_at_ns,
        length=length,
        form=probe.form,
    )


def resealed(value: bytes) -> bytes:
    """Put a right checksum on altered bytes, computed as the docstring of canary.probe says."""
    h = SEED
    for at, (word,) in enumerate(struct.iter_unpack("<Q", value)):
        if at not in (0, 2):
            h = (h ^ word) * PRIME & MASK
            h ^= h >> 32
    return value[:16] + struct.pack("<Q", h) + value[24:]


PROBE = Probe(Identity(7_000_000_000_000, 3, 2, 41), "transactional", 12, 1_700_000_000_000_000_000)
VALUE = written(PROBE)


def test_the_layout_is_the_documented_one() -> None:
    assert len(VALUE) == 96
    assert VALUE[:8] == MAGIC + OURS
    assert struct.unpack_from("<HBBi", VALUE, 8) == (96, 1, MODES["transactional"], 2)
    assert struct.unpack_from("<qqi4sqq", VALUE, 24) == (7_000_000_000_000, 41, 3, bytes(4), 12, PROBE.sent_at_ns)
    assert resealed(VALUE) == VALUE


def test_the_format_does_not_change_by_accident() -> None:
    """These bytes stand in topics and ledgers: a change needs a new version."""
    assert VALUE.hex() == GOLDEN


@given(PROBES, TAGS, LENGTHS)
def test_what_is_written_is_read_back(probe: Probe, tag: bytes, length: int) -> None:
    value = written(probe, tag, length)
    assert len(value) == length
    assert decode(value, tag) == probe
    assert decode(value, None) == probe


@given(PROBES, LENGTHS, st.integers(1, 255))
def test_any_damaged_byte_after_the_tag_is_seen(probe: Probe, length: int, flip: int) -> None:
    value = written(probe, length=length)
    for position in range(8, length):
        damaged = bytearray(value)
        damaged[position] ^= flip
        answer = decode(bytes(damaged), OURS)
        assert isinstance(answer, Refusal)
        assert answer.reason == "corrupt", position


@given(PROBES, LENGTHS, st.data())
def test_any_damaged_word_is_seen(probe: Probe, length: int, data: st.DataObject) -> None:
    value = written(probe, length=length)
    word = data.draw(st.integers(1, length // 8 - 1))
    other = data.draw(st.binary(min_size=8, max_size=8).filter(lambda b: b != value[word * 8 : word * 8 + 8]))
    answer = decode(value[: word * 8] + other + value[word * 8 + 8 :], OURS)
    assert isinstance(answer, Refusal)
    assert answer.reason == "corrupt"


@pytest.mark.parametrize("length", range(8, 96))
def test_a_probe_cut_short_is_corrupt(length: int) -> None:
    answer = decode(VALUE[:length], OURS)
    assert isinstance(answer, Refusal)
    assert answer.reason == "corrupt"


@pytest.mark.parametrize("tail", [b"x", bytes(8), VALUE])
def test_a_probe_with_a_tail_is_corrupt(tail: bytes) -> None:
    answer = decode(VALUE + tail, OURS)
    assert isinstance(answer, Refusal)
    assert answer.reason == "corrupt"


@pytest.mark.parametrize("value", [None, b"", b"x", VALUE[:7], b"hello, this is somebody's record", b"x" + VALUE[1:]])
def test_what_does_not_begin_with_the_magic_is_foreign(value: bytes | None) -> None:
    for wanted in (OURS, None):
        answer = decode(value, wanted)
        assert isinstance(answer, Refusal)
        assert answer.reason == "foreign"


@pytest.mark.parametrize("position", range(4, 8))
def test_another_tag_is_foreign_even_if_the_rest_is_broken(position: int) -> None:
    other = bytearray(VALUE)
    other[position] ^= 1
    for value in (bytes(other), bytes(other[:50])):
        answer = decode(value, OURS)
        assert isinstance(answer, Refusal)
        assert answer.reason == "foreign"


@pytest.mark.parametrize(("position", "byte"), [(10, 0), (10, 3), (11, 0), (11, 99)])
def test_a_sealed_probe_of_a_later_version_is_not_judged(position: int, byte: int) -> None:
    later = bytearray(VALUE)
    later[position] = byte
    answer = decode(resealed(bytes(later)), OURS)
    assert isinstance(answer, Refusal)
    assert answer.reason == "unknown-version"


def test_a_later_version_may_be_shorter() -> None:
    short = MAGIC + OURS + struct.pack("<HBBiQ", 24, 3, 1, 0, 0)
    answer = decode(resealed(short), OURS)
    assert isinstance(answer, Refusal)
    assert answer.reason == "unknown-version"


@pytest.mark.parametrize("position", [15, 31, 39, 43, 44, 47, 64, 95])
def test_a_right_checksum_does_not_excuse_a_wrong_shape(position: int) -> None:
    wrong = bytearray(VALUE)
    wrong[position] ^= 0x80
    answer = decode(resealed(bytes(wrong)), OURS)
    assert isinstance(answer, Refusal)
    assert answer.reason == "corrupt"


def test_a_form_is_written_in_the_second_version_and_nothing_else_is() -> None:
    formed = written(PROBE._replace(form=Form(repeated=True, headers=3, header_length=500)))
    assert struct.unpack_from("<HBB", formed, 8) == (96, 2, MODES["transactional"])
    assert struct.unpack_from("<BBH", formed, 44) == (1, 3, 500)
    assert resealed(formed) == formed
    assert formed[64:72] == VALUE[64:72]
    assert formed[64:] == formed[64:72] * 4
    assert VALUE[10] == 1, "readers of the first version go on"


@pytest.mark.parametrize(("position", "flip"), [(44, 2), (44, 1), (64, 1), (72, 1), (95, 0x80)])
def test_a_formed_probe_of_a_wrong_shape_is_corrupt(position: int, flip: int) -> None:
    wrong = bytearray(written(PROBE._replace(form=Form(repeated=True, headers=1, header_length=5))))
    wrong[position] ^= flip
    answer = decode(resealed(bytes(wrong)), OURS)
    assert isinstance(answer, Refusal)
    assert answer.reason == "corrupt"


def test_headers_follow_from_the_identity_and_are_each_other_bytes() -> None:
    fields = header_fields(PROBE.identity, Form(headers=3, header_length=12))
    assert [name for name, _ in fields] == ["h0", "h1", "h2"]
    assert b"".join(value for _, value in fields) == written(PROBE, length=64 + 40)[64 : 64 + 36]
    assert header_fields(PROBE.identity, PLAIN) == []


@given(st.binary(max_size=200), st.booleans())
def test_decoding_never_raises(noise: bytes, ours: bool) -> None:  # noqa: FBT001  # drawn by hypothesis
    value = MAGIC + OURS + noise if ours else noise
    assert isinstance(decode(value, OURS), Refusal)
    assert isinstance(decode(value, None), Refusal)


@given(IDENTITIES)
def test_the_key_is_the_identity(identity: Identity) -> None:
    assert len(key(identity)) == 24
    assert Identity(*struct.unpack("<qiiq", key(identity))) == identity


def test_a_tag_depends_on_each_of_its_parts_and_where_they_end() -> None:
    tags = {
        tag("i", "c", "t", "id"),
        tag("j", "c", "t", "id"),
        tag("i", "d", "t", "id"),
        tag("i", "c", "u", "id"),
        tag("i", "c", "t", "ie"),
        tag("i", "c", "t", None),
        tag("ic", "", "t", "id"),
        tag("", "ic", "t", "id"),
    }
    assert len(tags) == 8
    assert {len(one) for one in tags} == {4}


@pytest.mark.parametrize("length", [0, 8, 63, 65, 100, 65_536])
def test_an_impossible_length_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match="multiple of 8"):
        written(PROBE, length=length)


@pytest.mark.parametrize(
    "identity",
    [Identity(-1, 0, 0, 0), Identity(0, -1, 0, 0), Identity(0, 0, 2**31, 0), Identity(2**63, 0, 0, 0)],
)
def test_a_number_that_does_not_fit_is_refused_before_it_is_written(identity: Identity) -> None:
    with pytest.raises(ValueError, match=r"negative|fit"):
        written(PROBE._replace(identity=identity))


def test_an_unknown_mode_is_refused_before_it_is_written() -> None:
    with pytest.raises(ValueError, match="known are idempotent"):
        written(PROBE._replace(mode="magic"))


GOLDEN = (
    "934b44436f75727360000102020000006118ffc2ec36d652007083d05d06000029000000000000000300000000000000"
    "0c0000000000000000002a36fe9c97178e19bbdc6923735ad487bce0829efe0159ee31929c198aa9814220c7b5941551"
)
