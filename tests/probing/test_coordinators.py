"""Ids that meet every coordinator."""

from __future__ import annotations

import itertools
from types import SimpleNamespace as Made
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from canary.metrics.client_meters import UNKNOWN
from canary.probing import transactional
from canary.probing.coordinators import STATE_TOPIC, Coordinators, choose, java_hash, missed, state_partition
from simulation.histories.wild import seeded
from tests.support.recording import Recording
from tests.support.seeds import cases
from tests.support.wiring import wired


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


class Metadata:
    """A client that knows who leads the partitions of ``__transaction_state``; None: nobody answers."""

    def __init__(self, leaders: dict[int, int] | None) -> None:
        self.leaders = leaders
        self.asked = 0

    def list_topics(self, topic: str, timeout: float) -> Any:
        assert (topic, timeout) == (STATE_TOPIC, 1.0)
        self.asked += 1
        if self.leaders is None:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        partitions = {number: Made(leader=leader) for number, leader in self.leaders.items()}
        return Made(topics={topic: Made(error=None, partitions=partitions)})


def test_the_coordinator_of_an_id_is_the_leader_of_its_partition_and_unknown_until_that_is_known() -> None:
    found, client = Coordinators(STATE_TOPIC), Metadata({0: 4, 1: -1})
    assert found.of("a") == UNKNOWN
    assert found.look(client)
    assert not found.look(client)  # it is not asked again so soon
    assert client.asked == 1
    assert {state_partition(one, 2): found.of(one) for one in ("a", "b")} == {1: UNKNOWN, 0: "4"}
    assert not Coordinators(STATE_TOPIC).look(Metadata(None))
    assert not Coordinators(STATE_TOPIC).look(Metadata({}))
    assert not Coordinators(STATE_TOPIC).look(None)


def test_the_ids_as_the_cluster_knows_them_meet_every_coordinator() -> None:
    """They begin with the settings' prefix, and it is the whole id that is hashed."""
    leaders = {number: number % 9 for number in range(50)}
    writer = transactional.make(wired(Recording(), "transactional"))
    writer._sessions.append(Made(client=Metadata(leaders), name="x", config={}))  # type: ignore[arg-type]
    writer._look()
    used = [str(one._config["transactional.id"]) for one in writer._sessions[1:]]
    assert used == writer._ids
    assert {leaders[state_partition(one, 50)] for one in used} == set(range(9))
    assert all(one.startswith("durability-canary-transactional-7-") for one in used)


def test_commits_are_counted_for_the_coordinator_that_made_them() -> None:
    wiring = wired(Recording(), "transactional")
    writer = transactional.make(wiring)
    writer._coordinators.look(Metadata({0: 4}))
    writer._measured("x", 0.25)
    writer._measured("x", None)
    found = {one.name: one for one in wiring.meters.measured({"4"}, {"4"})}
    assert found["canary_transaction_commit_latency_seconds"].labels == ("4",)
    assert found["canary_transaction_commit_latency_seconds"].value == 0.25
    assert found["canary_transaction_commit_failures_total"].value == 1
