"""The conversion in columns gives what the rules give that are written down fact by fact."""

from __future__ import annotations

from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from canary import facts as f
from simulation.histories.wild import seeded
from storage.ledger.codec import decode_table, encode_facts
from storage.probe_log import converting
from storage.probe_log.carry import Carry
from storage.probe_log.columns import numbered
from storage.probe_log.converting import convert
from storage.probe_log.incarnations import SAMPLES, first_told
from tests.storage.plain_conversion import plainly
from tests.support.seeds import examples

if TYPE_CHECKING:
    from random import Random


TOPICS = {7: "t", 8: "t", 9: "u"}
READERS = ("read_committed", "read_uncommitted", "reread-1")
PROBES, OTHERS = (f.Sent, f.Acked, f.Failed, f.Indeterminate, f.Polled), converting.OBJECTS


class Life:
    """Facts without sense, of so few identities, topics and times that each meets all others."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.sample = 0

    def facts(self, count: int) -> list[f.Fact]:
        return [
            self.probe() if self.random.random() < 0.75 else f.Tick(0) if self.random.random() < 0.1 else self.other()
            for _ in range(count)
        ]

    def at_ns(self) -> int:
        return self.random.randrange(9_000)

    def maybe(self, value: int) -> int | None:
        return self.random.choice((None, value))

    def probe(self) -> f.Fact:
        producer_id = self.random.choice((7, 7, 8, 9))
        place = (TOPICS[producer_id], self.random.choice((0, 0, 1)))
        who = (producer_id, self.random.choice((1, 1, 2, 3)), self.random.randrange(2))
        at_ns, small = self.at_ns(), self.random.randrange(3)
        match self.random.choice(PROBES):
            case f.Sent:
                return f.Sent(at_ns, *place, *who, "group", self.maybe(small))
            case f.Acked:
                return f.Acked(at_ns, *place, *who, self.maybe(small), self.maybe(self.at_ns()))
            case f.Failed:
                return f.Failed(at_ns, *place, *who, f"failed {at_ns}")
            case f.Indeterminate:
                return f.Indeterminate(at_ns, *place, *who, f"timed out {at_ns}")
            case _:
                consumer = self.random.choice(READERS)
                return f.Polled(at_ns, consumer, READERS[0], *place, small, *who, None, None, None, self.maybe(small))

    def other(self) -> f.Fact:
        at_ns, topic, sample = self.at_ns(), self.random.choice("ttu"), self.sample - self.random.randrange(2)
        producer_id, generation = self.random.choice((7, 8, 9)), self.random.choice((1, 2, 3, 4))
        transaction = (self.random.choice((7, 8)), self.random.choice((1, 2)), self.random.randrange(3))
        topic_id = self.random.choice(("A", "A", "A", "A", "B", None))
        if self.random.random() < 0.1:
            self.sample += 1
        ahead_ns = self.random.choice((0, 0, 5_000, 60_000))
        kind = self.random.choice((*OTHERS, f.ClockSeen, *SAMPLES, *SAMPLES))
        if kind in {f.TopicGone, f.RunnerStarted} and at_ns > 3_000:  # not so often
            kind = f.TopicSeen
        cluster_id = self.random.choice(("", *["here"] * 8, "there"))
        made: dict[type[f.Fact], tuple[Any, ...]] = {
            f.ClusterMet: ("reread-1", cluster_id),
            f.ClusterSeen: (sample, cluster_id, "1", 1),
            f.WatchAsked: (sample,),
            f.TopicSeen: (sample, topic, topic_id, 2),
            f.TopicGone: (sample, topic),
            f.GenerationBegan: (TOPICS[producer_id], "plain", producer_id, generation, topic_id),
            f.RunnerStarted: ("r", "1", None, None, self.maybe(ahead_ns)),
            f.ClockSeen: (ahead_ns,),
            f.TransactionBegan: ("m", *transaction),
            f.Aborted: (*transaction, "fenced"),
            f.TransactionIndeterminate: (*transaction, "timed out"),
        }
        return kind(at_ns, *made.get(kind, transaction))


@settings(max_examples=examples(100))
@given(st.integers(0, 2**32), st.lists(st.integers(0, 60), min_size=1, max_size=4), st.integers(1, 70))
def test_columns_say_what_the_facts_say_one_by_one(seed: int, lengths: list[int], size: int) -> None:
    life = Life(seeded(seed))
    segments = [life.facts(length) for length in lengths]
    carry = Carry("ledger", 3)
    for segment, following in zip(segments, [*segments[1:], []], strict=True):
        later = first_told([following], carry.topic_ids, carry.cluster_id)
        batches = [decode_table(encode_facts(segment[n : n + size])) for n in range(0, len(segment), size)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(converting, "_BLOCK_ROWS", 20)
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
    for kind in (*PROBES, *OTHERS):
        assert all(field.default in {None, MISSING} for field in fields(kind)), kind


@given(
    st.lists(
        st.tuples(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 2), st.integers(0, 2), st.sampled_from("ab")),
        max_size=30,
    )
)
def test_rows_have_the_same_number_if_they_are_the_same(rows: list[tuple[int, int, str]]) -> None:
    columns = [[row[n] for row in rows] for n in range(3)]
    types = (pa.int64(), pa.int64(), pa.string())
    numbers, first = numbered(*(pa.array(values, kind) for values, kind in zip(columns, types, strict=True)))
    assert [rows[first[number]] for number in numbers] == rows
    assert len(first) == len(set(rows))
    assert [rows.index(rows[one]) for one in first] == first.tolist()
