"""What is proposed for the probe topics, and what never is."""

from __future__ import annotations

from canary.probing.topic import Broker
from canary.runner.planning import Change, Existing, Plan, Wanted, plan

CONFIG = {"min.insync.replicas": "2"}
WANTED = Wanted("probes", 3, 3, CONFIG)
SPREAD = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
NOTHING = Plan((), ())


def brokers(*ids: int) -> list[Broker]:
    return [Broker(number, None) for number in ids]


def test_a_topic_that_is_as_wanted_needs_nothing() -> None:
    assert plan(WANTED, Existing(SPREAD, CONFIG), brokers(1, 2, 3)) == NOTHING


def test_a_missing_topic_is_made_with_a_partition_led_by_each_broker() -> None:
    (change,) = plan(WANTED, None, brokers(1, 2, 3, 4, 5)).changes
    assert change.action == "create"
    assert sorted(replicas[0] for replicas in change.assignments) == [1, 2, 3, 4, 5]
    assert all(len(set(replicas)) == 3 for replicas in change.assignments)
    assert plan(WANTED, None, brokers(1, 2)).changes == ()


def test_a_broker_that_was_added_gets_a_partition_to_lead_and_nothing_else_changes() -> None:
    (change,) = plan(WANTED, Existing(SPREAD, CONFIG), brokers(1, 2, 3, 4)).changes
    assert (change.action, [replicas[0] for replicas in change.assignments]) == ("add-partitions", [4])
    after = Existing([*SPREAD, *change.assignments], CONFIG)
    assert plan(WANTED, after, brokers(1, 2, 3, 4)) == NOTHING


def test_a_broker_that_is_down_is_waited_for() -> None:
    found = plan(WANTED, Existing(SPREAD, CONFIG), brokers(1, 3))
    assert found.changes == ()
    assert "brokers 2 hold replicas and are not there" in found.remarks[0]


def test_preferred_leaders_moved_by_hand_are_not_moved_back() -> None:
    moved = [[1, 2, 3], [1, 3, 2], [1, 2, 3]]
    (change,) = plan(WANTED, Existing(moved, CONFIG), brokers(1, 2, 3)).changes
    assert (change.action, sorted(one[0] for one in change.assignments)) == ("add-partitions", [2, 3])


def test_settings_that_differ_are_set_and_others_left_alone() -> None:
    found = plan(WANTED, Existing(SPREAD, {"min.insync.replicas": "1", "retention.ms": "5"}), brokers(1, 2, 3))
    assert found.changes == (
        Change("configure", "probes", "min.insync.replicas is 1", config=(("min.insync.replicas", "2"),)),
    )


def test_fewer_replicas_are_a_remark_with_the_words_to_mend_it() -> None:
    found = plan(WANTED, Existing([[1], [2], [3]], CONFIG), brokers(1, 2, 3))
    assert found.changes == ()
    assert '"partition": 0, "replicas": [1, 2, 3]' in found.remarks[0]


def test_fewer_partitions_than_wanted_are_added_where_least_is_led() -> None:
    wanted = Wanted("probes", 6, 3, CONFIG)
    (change,) = plan(wanted, Existing([*SPREAD, [1, 2, 3]], CONFIG), brokers(1, 2, 3)).changes
    assert [one[0] for one in change.assignments] == [2, 3]
