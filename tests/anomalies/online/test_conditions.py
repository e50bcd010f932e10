"""How often a condition is said, how many are said each, and under which topic id one ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from canary import facts as f
from tests.anomalies.online.test_topology import Cluster, cluster, listed

if TYPE_CHECKING:
    from canary.anomalies.online.topology.state import Condition

OFFLINE = "offline-partition"


def offline(c: Cluster, topic: str, *numbers: int) -> None:
    """Take their leader from partitions; they are said in the sixth round from now on."""
    for number in numbers:
        c.set(topic, number, -1, "1,2,3")


def said(c: Cluster) -> list[Condition]:
    """Return what was said of partitions without a leader, each."""
    return [
        one for key, one in c.tracker.state.topology.conditions.items() if key[0] == OFFLINE and one.said_ns and key[1]
    ]


def test_of_topics_of_ours_each_partition_is_said_however_many() -> None:
    c = cluster()
    offline(c, "probes", *range(105))
    c.rounds(6)
    assert sorted(c.said) == [(OFFLINE, "probes", number) for number in range(105)]


def test_what_is_said_again_takes_no_room_from_what_is_new() -> None:
    c = cluster()
    offline(c, "many", *range(60))
    c.rounds(6)
    assert len(said(c)) == 60
    c.rounds(294)
    offline(c, "many", *range(60, 100))
    c.rounds(6)
    assert {one.said_ns for one in said(c)} == {c.now_ns}, "all in one round"
    assert sorted(c.said) == [(OFFLINE, "many", number) for number in range(100)]


def test_those_that_are_too_many_are_said_again_every_five_minutes_as_those_that_are_named() -> None:
    c = cluster()
    offline(c, "many", *range(103))
    c.rounds(6)
    first_ns = c.now_ns
    rest = c.tracker.state.topology.conditions[OFFLINE, "", -1]
    c.rounds(299)
    assert {one.said_ns for one in (rest, *said(c))} == {first_ns}
    c.round()
    assert {one.said_ns for one in (rest, *said(c))} == {c.now_ns}
    (found,) = (v for v in c.open.values() if not v.topic)
    assert (len(said(c)), found.evidence["count"]) == (100, 3)


def test_what_is_milder_ends_in_an_outage_only_when_that_is_said() -> None:
    c = cluster()
    c.set("probes", 0, 1, "1")
    c.rounds(15)
    assert c.kinds() == ["isr-of-one"]
    c.set("probes", 0, -1, "1")
    for _ in range(5):
        c.round()
        assert c.kinds() == ["isr-of-one"], "never nothing"
    c.rounds(1)
    assert c.kinds() == ["isr-of-one", OFFLINE]
    c.rounds(1)
    assert c.kinds() == [OFFLINE]
    c.set("probes", 0, 1, "1,2,3")
    c.rounds(62)
    assert c.kinds() == []


def test_what_is_milder_and_was_not_said_is_not_said_in_an_outage() -> None:
    c = cluster()
    c.set("probes", 0, 1, "1")
    c.rounds(8)
    c.set("probes", 0, -1, "")
    c.rounds(4)
    assert c.said == []
    c.set("probes", 0, 1, "1,2,3")
    c.rounds(30)
    assert c.said == []


def test_an_outage_that_is_only_counted_with_others_ends_what_is_milder() -> None:
    c = cluster()
    c.set("many", 0, 1, "1")
    c.rounds(602)
    assert c.kinds() == ["isr-below-half", "under-replicated"]
    offline(c, "many", *range(1, 104))
    c.rounds(8)
    assert (len(said(c)), len([one for one in c.open.values() if one.kind == OFFLINE])) == (100, 101)
    offline(c, "many", 0)
    c.rounds(4)
    assert "isr-below-half" in c.kinds(), "of this one nothing is said yet"
    c.rounds(4)
    assert len(said(c)) == 100, "no room for one more, which is told of by its number"
    assert set(c.kinds()) == {OFFLINE}


def test_what_is_milder_goes_on_where_an_outage_was_too_short_to_be_said() -> None:
    c = cluster()
    c.set("probes", 0, 1, "1")
    c.rounds(15)
    c.set("probes", 0, -1, "1")
    c.rounds(3)
    c.set("probes", 0, 1, "1")
    c.rounds(15)
    assert (c.kinds(), c.said) == (["isr-of-one"], [("isr-of-one", "probes", 0)])


def test_a_condition_ends_under_the_topic_id_that_it_was_said_with() -> None:
    c = cluster()
    c.set("orders", 0, -1, "1")
    c.rounds(12)
    assert [v.topic_id for v in c.open.values()] == [""]
    listed(c, 5, 1, "o-1")
    c.set("orders", 0, 1, "1,2,3")
    c.round()
    assert c.open == {}


def test_evidence_is_the_state_of_the_partition_and_of_ours_how_far_it_was_read() -> None:
    c = cluster()
    for topic in ("probes", "orders"):
        c.set(topic, 0, -1, "1")
    c.rounds(12)
    states = {v.topic: v.evidence["partition_state"] for v in c.open.values()}
    assert [(topic, state["isr"], "positions" in state) for topic, state in states.items()] == [
        ("probes", [1], True),
        ("orders", [1], False),
    ]


def test_a_condition_is_one_violation_though_the_topics_id_was_told_only_after_it_was_said() -> None:
    c = cluster()
    offline(c, "orders", 0)
    c.rounds(6)
    (first,) = c.open
    listed(c, 100)  # tells an id
    c.rounds(299)
    assert list(c.open) == [first]
    (one,) = said(c)
    assert one.said_ns == c.now_ns, "again"
    c.set("orders", 0, 1, "1,2,3")
    c.round()
    assert c.open == {}


@pytest.mark.parametrize("topic", ["probes", "orders"])
def test_what_held_when_the_canary_stopped_holds_until_a_leader_is_seen(topic: str) -> None:
    c = cluster()
    offline(c, topic, 0)
    c.rounds(6)
    (first,) = c.open
    said_ns = c.open[first].at_ns
    c.fold(f.RunnerStarted(c.now_ns, "canary-0", "test"))
    c.rounds(400)  # of which none names the partition
    assert [(key, one.at_ns) for key, one in c.open.items()] == [(first, said_ns)], "nor is it said again"
    c.told.pop((topic, 0))
    c.round()
    assert list(c.open) == [first]
    c.set(topic, 0, 1, "1,2,3")
    c.rounds(61 if topic == "probes" else 1)  # its log, which answers nothing here, is never known to be whole
    assert c.open == {}


@pytest.mark.parametrize("topic", ["probes", "orders"])
def test_what_held_when_the_canary_stopped_and_is_not_watched_any_more_is_ended(topic: str) -> None:
    """A mode was switched off while its partition had no leader."""
    c = cluster()
    offline(c, topic, 0)
    c.rounds(6)
    c.fold(f.RunnerStarted(c.now_ns, "canary-0", "test"))
    c.fold(f.WatchedGone(c.now_ns, c.sample, topic))
    assert c.open == {}


def test_a_place_that_is_not_seen_since_the_start_is_not_without_a_leader() -> None:
    c = cluster()
    c.set("probes", 0, 1, "1,2")
    c.rounds(6)
    c.fold(f.RunnerStarted(c.now_ns, "canary-0", "test"))
    c.rounds(6)
    offline(c, "probes", 0)
    c.rounds(5)
    assert c.said == []
    c.round()
    assert c.said == [(OFFLINE, "probes", 0)]


def test_those_that_are_too_many_are_said_until_one_of_them_is_seen_with_a_leader() -> None:
    c = cluster()
    offline(c, "many", *range(103))
    c.rounds(6)
    before = list(c.open)
    c.fold(f.RunnerStarted(c.now_ns, "canary-0", "test"))
    c.rounds(3)
    assert list(c.open) == before
    c.told.clear()
    for number in range(103):
        c.set("many", number, 1, "1,2,3")
    c.round()
    assert c.open == {}


def test_what_was_not_said_yet_is_no_condition_that_a_store_could_know() -> None:
    c = cluster()
    offline(c, "probes", 0)
    c.rounds(5)
    assert c.tracker.conditions() == []
    c.round()
    assert [one.key("t") for one in c.tracker.conditions()] == list(c.open)
