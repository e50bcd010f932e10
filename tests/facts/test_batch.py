"""Many facts in columns are the same facts, and their order means as much."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from canary.facts import Acked, Batch, Polled, Sent, Tick, WatchAsked, count, each
from canary.facts.batch import FEW, TEXTS, column, runs
from canary.facts.gathering import gathered
from storage.ledger.codec import decode_facts, encode_facts

if TYPE_CHECKING:
    from collections.abc import Sequence

FEW_NUMBERS = st.integers(0, 3)
HOT = (Sent, Acked, Polled)


def sends() -> st.SearchStrategy[Any]:
    who = (FEW_NUMBERS, st.sampled_from("ab"), FEW_NUMBERS, FEW_NUMBERS, FEW_NUMBERS, FEW_NUMBERS)
    return st.builds(Sent, *who, st.sampled_from(["idempotent", "plain"]), st.none() | FEW_NUMBERS)


def acks() -> st.SearchStrategy[Any]:
    who = (FEW_NUMBERS, st.sampled_from("ab"), FEW_NUMBERS, FEW_NUMBERS, FEW_NUMBERS, FEW_NUMBERS)
    return st.builds(Acked, *who, st.none() | FEW_NUMBERS, st.none() | FEW_NUMBERS)


def reads() -> st.SearchStrategy[Any]:
    place = (FEW_NUMBERS, st.sampled_from(["rc", "reread-1"]), st.just("read_committed"), st.sampled_from("ab"))
    numbers = [FEW_NUMBERS] * 5
    return st.builds(Polled, *place, *numbers, *[st.none() | FEW_NUMBERS] * 4)


FACTS = st.lists(st.one_of(sends(), acks(), reads(), st.builds(WatchAsked, FEW_NUMBERS, FEW_NUMBERS)), max_size=60)


def stretches(facts: Sequence[Any]) -> list[tuple[bool, list[Any]]]:
    """Return the facts in stretches whose order means nothing, and between them what keeps its place."""
    free = lambda fact: isinstance(fact, HOT) and getattr(fact, "offset", 0) is not None  # noqa: E731
    return [(one, list(some)) for one, some in groupby(facts, free)]


def order_of(facts: Sequence[Any], part: Any) -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = {}
    for fact in facts:
        if isinstance(fact, HOT):
            found.setdefault(part(fact), []).append(fact)
    return found


@given(FACTS)
def test_nothing_is_lost_made_or_moved_past_what_keeps_its_place(facts: list[Any]) -> None:
    found = gathered(facts)
    assert count(found) == len(facts)
    before, after = stretches(facts), stretches(list(each(found)))
    assert [free for free, _ in before] == [free for free, _ in after]
    for (free, old), (_, new) in zip(before, after, strict=True):
        assert sorted(old, key=repr) == sorted(new, key=repr)
        assert free or old == new


@given(FACTS)
def test_what_one_partition_acknowledges_or_gives_to_a_consumer_keeps_its_order_and_sends_come_first(
    facts: list[Any],
) -> None:
    for free, some in stretches(facts):
        if not free:
            continue
        new = list(each(gathered(some)))
        for part in (
            lambda fact: (type(fact), fact.topic, fact.partition, getattr(fact, "consumer", getattr(fact, "mode", ""))),
            lambda fact: isinstance(fact, Acked) and (fact.topic, fact.partition),
        ):
            old_orders, new_orders = order_of(some, part), order_of(new, part)
            old_orders.pop(False, None)
            new_orders.pop(False, None)
            assert old_orders == new_orders
        kinds = [HOT.index(type(fact)) for fact in new]
        assert kinds == sorted(kinds)


@given(FACTS)
def test_facts_in_batches_are_durable_as_the_same_facts(facts: list[Any]) -> None:
    found = gathered(facts)
    assert decode_facts(encode_facts(found)) == list(each(found))


@given(FACTS)
def test_batches_are_gathered_again_with_what_came_after_them(facts: list[Any]) -> None:
    found = gathered([*gathered(facts[:30]), *facts[30:]])
    assert sorted(each(found), key=repr) == sorted(facts, key=repr)


@given(st.lists(reads(), min_size=FEW, max_size=40), st.data())
def test_a_batch_is_a_sequence_of_its_facts(facts: list[Any], data: st.DataObject) -> None:
    same = [replace(fact, topic="a", consumer="rc") for fact in facts]
    (batch,) = gathered(same)
    assert isinstance(batch, Batch)
    assert [name for name in TEXTS[Polled] if batch.texts[name] != getattr(same[0], name)] == []
    known = list(batch)
    assert known == sorted(same, key=lambda fact: fact.partition)
    a, b = data.draw(st.integers(-50, 50)), data.draw(st.integers(-50, 50))
    assert list(batch[a:b]) == known[a:b]
    assert batch[-1] == known[-1]
    assert batch[len(known) - 1] == known[-1]
    with pytest.raises(IndexError):
        batch[len(known)]
    for name in ("offset", "leader_epoch", "at_ns"):
        assert column(batch[a:b], name) == column(known[a:b], name)


@given(st.lists(st.tuples(FEW_NUMBERS, st.integers(1, 5)), min_size=1, max_size=12))
def test_runs_end_where_a_stream_or_the_rise_of_its_numbers_does(parts: list[tuple[int, int]]) -> None:
    facts: list[Any] = []
    sequence = 0
    for partition, number in parts:
        sequence += 2  # no part goes on where the one before ended
        facts += [Acked(i, "a", partition, 1, 1, sequence + i, 100 + sequence + i, None) for i in range(number)]
        sequence += number
    facts.sort(key=lambda fact: fact.partition)
    batches = [one if isinstance(one, Batch) else None for one in gathered([*facts, *[facts[-1]] * FEW])]
    (batch,) = batches
    assert batch is not None
    found = list(batch.runs())
    assert [fact for run in found for fact in run] == list(batch)
    sizes = sorted(len(run) for run in found)
    assert sizes == sorted([number for _, number in parts] + [1] * FEW)
    assert all(run[0] == next(iter(run)) for run in found)


def test_few_facts_stay_facts() -> None:
    facts: list[Any] = [Acked(1, "a", p, 1, 1, 0, 0) for p in range(FEW - 1)]
    assert gathered([Tick(1), *facts]) == [Tick(1), *facts]


def test_what_has_no_offset_is_a_run_by_itself() -> None:
    facts = [Acked(i, "a", 0, 1, 1, i, None) for i in range(4)]
    assert [list(run) for run in runs(facts)] == [[one] for one in facts]
