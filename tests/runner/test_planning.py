"""What is proposed for the probe topics, and what never is."""

from __future__ import annotations

from canary.kafka.topic_creation import Broker
from canary.runner.topics.planning import Change, Existing, Plan, Wanted, plan
from canary.watching.vendor_api import Member

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


def member(number: int, membership: str = "active") -> Member:
    return Member(number, None, None, membership, alive=None)


def test_a_broker_that_is_being_decommissioned_gets_no_partition() -> None:
    members = [*map(member, (1, 2, 3)), member(4, "draining")]
    found = plan(WANTED, Existing(SPREAD, CONFIG), brokers(1, 2, 3, 4), members)
    assert found == NOTHING
    (change,) = plan(WANTED, None, brokers(1, 2, 3, 4), members).changes
    assert {one for replicas in change.assignments for one in replicas} == {1, 2, 3}
    (remark,) = plan(WANTED, Existing([*SPREAD, [4, 1, 2]], CONFIG), brokers(1, 2, 3, 4), members).remarks
    assert "brokers 4 are being decommissioned; the cluster moves their replicas" in remark


def test_a_broker_that_is_down_and_one_that_was_removed_are_told_apart_where_members_are_told() -> None:
    replicas = Existing([*SPREAD, [4, 1, 2]], CONFIG)
    found = plan(WANTED, replicas, brokers(1, 3), map(member, (1, 2, 3)))
    assert found.changes == ()
    down, removed = found.remarks
    assert "brokers 2 hold replicas and are not there; nothing is moved" in down
    assert "brokers 4 hold replicas and are no members of the cluster any more" in removed
    (unknown,) = plan(WANTED, replicas, brokers(1, 3)).remarks
    assert "brokers 2, 4 hold replicas and are not there" in unknown
    assert unknown.endswith("(whether one was decommissioned is not available here)")


def test_a_broker_that_was_added_gets_a_partition_to_lead_and_nothing_else_changes() -> None:
    (change,) = plan(WANTED, Existing(SPREAD, CONFIG), brokers(1, 2, 3, 4)).changes
    assert (change.action, [replicas[0] for replicas in change.assignments]) == ("add-partitions", [4])
    after = Existing([*SPREAD, *change.assignments], CONFIG)
    assert plan(WANTED, after, brokers(1, 2, 3, 4)) == NOTHING


def test_a_broker_that_is_down_is_waited_for() -> None:
    found = plan(WANTED, Existing(SPREAD, CONFIG), brokers(1, 3))
    assert found.changes == ()
    assert "brokers 2 hold replicas and are not there" in found.remarks[0]


def test_a_broker_gone_for_ten_minutes_changes_nothing_while_it_is_gone_and_nothing_when_it_is_back() -> None:
    """A minute at a time: what is planned is made, as somebody who applies every minute would."""
    now = Existing(SPREAD, CONFIG)
    proposed: list[tuple[int, Change]] = []
    for minute in range(30):
        live = brokers(1, 3) if 5 <= minute < 15 else brokers(1, 2, 3) if minute < 20 else brokers(1, 2, 3, 4)
        for change in plan(WANTED, now, live).changes:
            proposed.append((minute, change))
            now = Existing([*now.replicas, *change.assignments], CONFIG)
    assert [(minute, one.action, [r[0] for r in one.assignments]) for minute, one in proposed] == [
        (20, "add-partitions", [4])
    ]


def test_a_broker_that_comes_while_another_is_down_leads_a_partition_on_brokers_that_live() -> None:
    (change,) = plan(WANTED, Existing(SPREAD, CONFIG), brokers(1, 3, 4)).changes
    assert [(replicas[0], sorted(replicas)) for replicas in change.assignments] == [(4, [1, 3, 4])]


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
