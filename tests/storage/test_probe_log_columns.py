"""The conversion in columns gives what the rules give that are written down fact by fact."""

from __future__ import annotations

from dataclasses import MISSING, fields
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from canary import facts as f
from storage.ledger.codec import decode_table, encode_facts
from storage.probe_log import converting
from storage.probe_log.carry import Carry
from storage.probe_log.columns import numbered
from storage.probe_log.converting import convert
from storage.probe_log.incarnations import first_told
from tests.storage.plain_conversion import plainly

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

TIMES = st.integers(0, 9_999_999)
PRODUCERS = st.sampled_from([("t", 7), ("t", 8), ("u", 2**62)])
GENERATIONS = st.integers(1, 4)
SMALL = st.integers(0, 2)
IDS = st.sampled_from(["A", "B", "C", None])
TEXTS = st.sampled_from(["timed out", "fenced", ""])


@st.composite
def sends(draw: st.DrawFn) -> f.Fact:
    topic, producer_id = draw(PRODUCERS)
    at_ns, who = draw(TIMES), (topic, draw(st.integers(0, 1)), producer_id, draw(GENERATIONS), draw(SMALL))
    match draw(st.integers(0, 6)):
        case 0 | 1:
            return f.Sent(at_ns, *who, draw(st.sampled_from(["plain", "group"])), draw(st.none() | SMALL))
        case 2 | 3:
            return f.Acked(at_ns, *who, draw(st.none() | SMALL), draw(st.none() | TIMES))
        case 4:
            return f.Failed(at_ns, *who, draw(TEXTS))
        case 5:
            return f.Indeterminate(at_ns, *who, draw(TEXTS))
        case _:
            consumer = draw(st.sampled_from(["read_committed", "read_uncommitted", "reread-1"]))
            reader, epoch = (consumer, "read_committed"), draw(st.none() | SMALL)
            return f.Polled(at_ns, *reader, *who[:2], draw(SMALL), *who[2:], None, None, None, epoch)


def others() -> SearchStrategy[f.Fact]:
    transaction = (TIMES, st.sampled_from([7, 8]), GENERATIONS, SMALL)
    return st.one_of(
        st.builds(f.WatchAsked, TIMES, SMALL),
        st.builds(f.TopicSeen, TIMES, SMALL, st.sampled_from("tu"), IDS, st.just(2)),
        st.builds(f.TopicGone, TIMES, SMALL, st.sampled_from("tu")),
        st.builds(
            lambda at_ns, who, *more: f.GenerationBegan(at_ns, who[0], "plain", who[1], *more),
            TIMES,
            PRODUCERS,
            GENERATIONS,
            IDS,
        ),
        st.builds(f.RunnerStarted, TIMES, st.just("r"), st.just("1")),
        st.builds(f.Tick, TIMES),
        st.builds(f.TransactionBegan, TIMES, st.just("m"), *transaction[1:]),
        st.builds(f.CommitAsked, *transaction),
        st.builds(f.Committed, *transaction),
        st.builds(f.Aborted, *transaction, TEXTS),
        st.builds(f.TransactionIndeterminate, *transaction, TEXTS),
    )


@settings(max_examples=300)
@given(st.data())
def test_columns_say_what_the_facts_say_one_by_one(data: st.DataObject) -> None:
    facts = data.draw(st.lists(sends() | sends() | others(), max_size=60))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(facts)), max_size=3)))
    size = data.draw(st.integers(1, 20))
    segments = [facts[start:stop] for start, stop in pairwise([0, *cuts, len(facts)])]
    carry = Carry("ledger", 3)
    for segment, following in zip(segments, [*segments[1:], []], strict=True):
        later = first_told([following], carry.topic_ids)
        batches = [decode_table(encode_facts(segment[n : n + size])) for n in range(0, len(segment), size)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(converting, "_BLOCK_ROWS", data.draw(st.integers(1, 30)))
            done = convert(batches, cluster="c", carry=carry, later=later)
        expected = plainly(segment, cluster="c", carry=carry, later=later)
        for name, table in expected.tables.items():
            assert done.tables[name].schema == table.schema
            assert done.tables[name].to_pylist() == table.to_pylist(), name
        assert (done.voided, done.first_at_ns) == (expected.voided, expected.first_at_ns)
        assert done.carry == expected.carry
        carry = Carry.decode(done.carry.encode())


def test_null_is_the_default_of_every_field_that_an_older_version_did_not_write() -> None:
    """A segment's batches become one table, which fills what one of them lacks with null."""
    for kind in (*converting.OBJECTS, f.Sent, f.Acked, f.Failed, f.Indeterminate, f.Polled):
        assert all(field.default in {None, MISSING} for field in fields(kind)), kind


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1) | SMALL, SMALL, st.sampled_from("ab")), max_size=30))
def test_rows_have_the_same_number_if_they_are_the_same(rows: list[tuple[int, int, str]]) -> None:
    columns = [[row[n] for row in rows] for n in range(3)]
    types = (pa.int64(), pa.int64(), pa.string())
    numbers, first = numbered(*(pa.array(values, kind) for values, kind in zip(columns, types, strict=True)))
    assert [rows[first[number]] for number in numbers] == rows
    assert len(first) == len(set(rows))
    assert [rows.index(rows[one]) for one in first] == first.tolist()
