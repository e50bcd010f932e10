"""What probes look like to Kafka: sizes by turns, keys, headers, and that readers see when a header is another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from canary.facts import Batch, Polled, Refused, Sent
from canary.probe.identity import Identity
from canary.probe.record import PLAIN, Form, Probe, decode, header_fields
from canary.probe.record import key as key_of
from canary.probing.readers.consumer import facts_of
from canary.probing.sending.records import Record, Shape, records
from canary.workloads.descriptor import Settings
from tests.support.messages import Message

if TYPE_CHECKING:
    from collections.abc import Sequence

TAG = b"tagg"


def form_of(settings: Settings) -> Form:
    return Shape.of(settings).form


def made(sent: Sequence[Sent], settings: Settings) -> list[Record]:
    return records(sent, TAG, "idempotent", Shape.of(settings))


SHAPES = st.builds(
    Settings,
    record_lengths=st.lists(st.sampled_from([64, 96, 640]), max_size=3).map(tuple),
    filling=st.sampled_from(["random", "repeated"]),
    headers=st.integers(0, 3),
    header_length=st.sampled_from([1, 8, 33]),
    key=st.sampled_from(["identity", "none"]),
)


def sends(count: int, first: int = 0) -> list[Sent]:
    """Return probes of two partitions in turns."""
    return [Sent(5 + i, "t", i % 2, 7, 1, first + i, "idempotent") for i in range(count)]


def batched(sent: Sequence[Sent]) -> Batch[Sent]:
    names = ("at_ns", "partition", "producer_id", "generation", "sequence")
    columns = {name: np.array([getattr(one, name) for one in sent], np.int64) for name in names}
    nothing = np.full(len(sent), -(2**63), np.int64)
    return Batch.of(Sent, {"topic": "t", "mode": "idempotent"}, {**columns, "transaction_id": nothing})


@given(SHAPES, st.integers(1, 30), st.integers(0, 1000))
def test_many_probes_at_once_look_as_each_does_alone(shape: Settings, count: int, first: int) -> None:
    sent = sends(count, first)
    assert made(batched(sent), shape) == made(sent, shape)


@given(SHAPES, st.integers(0, 1000))
def test_a_record_says_its_identity_and_has_the_size_that_its_sequence_number_gives_it(
    shape: Settings, first: int
) -> None:
    for one, record in zip(sends(7, first), made(sends(7, first), shape), strict=True):
        identity = Identity(7, 1, one.partition, one.sequence)
        assert decode(record.value, TAG) == Probe(identity, "idempotent", None, one.at_ns, form_of(shape))
        lengths = shape.record_lengths or (96,)
        assert len(record.value) == lengths[one.sequence % len(lengths)]
        assert record.key == (key_of(identity) if shape.key == "identity" else None)
        assert (record.headers or []) == header_fields(identity, form_of(shape))


def test_as_it_is_set_nothing_is_added_to_a_record() -> None:
    (record,) = made(sends(1), Settings())
    assert (len(record.value), len(record.key or b""), record.headers) == (96, 24, None)
    assert form_of(Settings()) == form_of(Settings(header_length=500)) == PLAIN


def test_a_repeated_filling_can_be_compressed_and_a_random_one_cannot() -> None:
    import zlib  # noqa: PLC0415  # of this test alone

    sizes = {
        filling: len(zlib.compress(made(sends(1), shape)[0].value))
        for filling in ("random", "repeated")
        for shape in [Settings(record_length=8000, filling=filling)]
    }
    assert sizes["random"] > 7500
    assert sizes["repeated"] < 300


class Read(Message):
    """A record as a reader is given it."""

    def __init__(self, offset: int, record: Record, headers: Any) -> None:
        super().__init__(offset)
        self._record, self._headers = record, headers

    def value(self) -> bytes:
        return self._record.value

    def headers(self) -> Any:
        return self._headers


HEADED = Settings(headers=2, header_length=5)
OTHERS = {
    "none": lambda _: None,
    "one less": lambda fields: fields[:1],
    "another value": lambda fields: [fields[0], ("h1", b"xxxxx")],
    "a value cut off": lambda fields: [fields[0], ("h1", fields[1][1][:4])],
    "another order": lambda fields: fields[::-1],
    "one twice": lambda fields: [*fields, fields[1]],
}


def read(count: int, change: Any = lambda fields: fields) -> list[Any]:
    sent = [Sent(5, "t", 0, 7, 1, i, "idempotent") for i in range(count)]
    all_made = made(sent, HEADED)
    last = count - 1
    messages = [Read(i, one, change(one.headers) if i == last else one.headers) for i, one in enumerate(all_made)]
    facts = facts_of(messages, "read_committed", "read_committed", TAG, [9] * count)
    return [fact for one in facts for fact in (one if isinstance(one, Batch) else [one])]


@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize("change", OTHERS)
def test_a_header_that_was_lost_or_changed_is_corrupt_among_many_and_alone(change: str, count: int) -> None:
    *others, fact = read(count, OTHERS[change])
    assert isinstance(fact, Refused)
    assert (fact.refusal, fact.offset) == ("corrupt", count - 1)
    assert "headers" in fact.error
    assert all(isinstance(one, Polled) for one in others)


@pytest.mark.parametrize("count", [1, 100])
def test_headers_that_came_back_are_fine_and_so_is_what_lies_on_the_way_added(count: int) -> None:
    assert all(isinstance(fact, Polled) for fact in read(count))
    assert all(isinstance(fact, Polled) for fact in read(count, lambda fields: [("trace", b"1"), *fields]))


def test_a_form_has_the_headers_that_are_set() -> None:
    assert form_of(HEADED) == Form(headers=2, header_length=5)
