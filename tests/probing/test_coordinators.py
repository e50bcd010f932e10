"""Ids that meet every coordinator."""

from __future__ import annotations

import itertools

import pytest

from canary.probing.coordinators import choose, java_hash, missed, state_partition
from tests.generators.wild import seeded
from tests.support.seeds import cases


@pytest.mark.parametrize(
    ("text", "value"),
    [("", 0), ("a", 97), ("hello", 99162322), ("polygenelubricants", -(2**31)), ("\U0001f600", 1772899)],
)
def test_the_hash_is_javas(text: str, value: int) -> None:
    assert java_hash(text) == value


def test_the_smallest_number_falls_into_partition_0() -> None:
    assert state_partition("polygenelubricants", 50) == 0


def test_every_broker_that_leads_is_met_with_few_ids() -> None:
    for seed, brokers in zip(cases("leaders", 4), itertools.cycle((1, 3, 9, 30)), strict=False):
        dice = seeded(seed)
        leaders = {partition: dice.randrange(brokers) for partition in range(50)}
        ids = choose("transactional-5f-", leaders, [], 200)
        assert {leaders[state_partition(one, 50)] for one in ids} == set(leaders.values())
        assert len(ids) == len(set(leaders.values()))


def test_ids_in_use_stay_when_leaders_move() -> None:
    before = choose("t-", dict.fromkeys(range(50), 1) | {0: 2}, [], 10)
    after = choose("t-", {partition: partition % 3 for partition in range(50)}, before, 10)
    assert after[: len(before)] == before
    assert {state_partition(one, 50) % 3 for one in after} == {0, 1, 2}


def test_coordinators_that_no_id_meets_are_told() -> None:
    leaders = {partition: partition % 5 for partition in range(50)} | {7: -1}
    few = choose("t-", leaders, [], 2)
    met = {leaders[state_partition(one, 50)] for one in few}
    assert missed(leaders, few) == sorted({0, 1, 2, 3, 4} - met)
    assert len(met) == 2
    assert missed(leaders, choose("t-", leaders, [], 10)) == []
    assert missed({}, few) == []


def test_partitions_without_leader_need_no_id_and_the_cap_holds() -> None:
    assert choose("t-", dict.fromkeys(range(50), -1), [], 10) == ["t-0"]
    assert len(choose("t-", {partition: partition for partition in range(50)}, [], 4)) == 4
    assert choose("t-", {}, [], 4) == ["t-0"]
