"""What is remembered of places, brokers and topics, what is forgotten, and what the store is told of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from canary import facts as f
from canary.anomalies.online import Tracker
from canary.anomalies.online.topology.timeline import everything
from tests.anomalies.online.test_topology import Cluster, S, cluster, listed, stays

if TYPE_CHECKING:
    from canary.anomalies.online.topology.state import Topology


def top(c: Cluster) -> Topology:
    return c.tracker.state.topology


def last(c: Cluster, subject: str) -> tuple[str, int, str]:
    """Return topic, number and detail of the last change of a subject."""
    change = [change for change in c.changes if change.subject == subject][-1]
    return change.topic, change.number, change.detail


def test_an_election_while_the_canary_was_down_is_not_judged() -> None:
    c = cluster()
    c.set("probes", 0, 1, "1,2")
    c.round()
    c.fold(f.RunnerStarted(c.now_ns, "canary-0", "test"))
    assert [change.number for change in everything(top(c)) if change.subject == "partition"] == []
    c.told.clear()
    c.set("probes", 0, 3, "3")
    c.rounds(5)
    assert top(c).unclean == {}
    assert top(c).suspects == {}
    c.set("probes", 0, 1, "1")
    c.rounds(5)
    assert top(c).unclean == {("probes", 0): 1}


def test_a_doubt_about_an_end_is_no_doubt_of_the_next_process() -> None:
    """Rounds are numbered anew: the same lower end in the first of them is looked at again, and said."""
    c = cluster()
    c.rounds(20)
    for end in (100, 80):
        listed(c, end, 1)
    c.fold(f.RunnerStarted(c.now_ns, "canary-0", "test"))
    c.sample = 0
    for _ in range(3):
        listed(c, 80, 1)
    assert c.said == [("offset-regression", "orders", 0)]


def test_a_topic_of_ours_stays_ours_whoever_tells_of_it() -> None:
    c = cluster()
    c.set("probes", 0, 1, "1")
    c.round()
    c.fold(f.WatchedConfigured(c.now_ns, "probes", 1))
    c.rounds(12)
    assert c.said == [("isr-of-one", "probes", 0)]
    assert top(c).conditions["isr-of-one", "probes", 0].extent == "probe"
    c.fold(f.WatchedConfigured(c.now_ns, "probes", 1), f.TopologySeen(c.now_ns, c.sample, "probe"))
    assert c.kinds() == ["isr-of-one"], "told in the midst of a round"


def test_more_replicas_are_a_change_and_a_leader_of_the_new_ones_is_no_surprise() -> None:
    c = cluster()
    c.set("orders", 0, 1, "1,2,3", replicas="1,2,3,4")
    c.round()
    assert (c.changes[-1].topic, c.changes[-1].replicas) == ("orders", "1,2,3,4")


def test_whoever_was_in_sync_when_nothing_could_be_acknowledged_any_more_is_eligible() -> None:
    """All three were needed (min.insync.replicas=3): nothing is acknowledged from the first that leaves on."""
    c = cluster(min_isr=3)
    for leader, isr in ((1, "1,2"), (-1, ""), (3, "3")):
        c.set("orders", 0, leader, isr)
        c.round()
    assert top(c).unclean == {}


def test_nobody_is_eligible_but_those_since_whom_something_could_be_acknowledged() -> None:
    c = cluster(min_isr=2)
    for leader, isr in ((1, "1,2"), (-1, ""), (3, "3")):
        c.set("orders", 0, leader, isr)
        c.round()
    c.rounds(2)
    assert top(c).unclean == {("orders", 0): 1}
    assert top(c).suspects["orders", 0].former_isr == [1, 2]


def test_the_only_replica_may_be_away_as_long_as_a_restart_takes() -> None:
    """Its ISR stays full while its broker is down: there is no leader all the same."""
    c = cluster()
    c.set("orders", 0, 1, "1", replicas="1")
    c.rounds(2)
    c.set("orders", 0, -1, "1", replicas="1")
    c.rounds(600)
    assert c.said == []
    c.rounds(2)
    assert c.said == [("offline-partition", "orders", 0)]


def test_a_suspicion_stays_for_two_minutes_after_all_are_back() -> None:
    c = cluster()
    c.set("probes", 0, 1, "1,2")
    c.rounds(2)
    c.set("probes", 0, 3, "3")
    c.rounds(4)
    assert "unclean-election" in c.kinds()
    c.set("probes", 0, 3, "1,2,3")
    c.rounds(110)
    assert c.kinds() == ["unclean-election"]
    c.set("probes", 0, 3, "1,3")
    c.round()
    c.set("probes", 0, 3, "1,2,3")
    c.rounds(110)
    assert c.kinds() == ["unclean-election"], "whole again, and the time begins anew"
    c.rounds(15)
    assert c.kinds() == []
    assert top(c).suspects == {}
    assert top(c).degraded == {}, "whole places are not looked at"


def test_a_place_that_is_whole_again_is_not_looked_at() -> None:
    c = cluster()
    for isr in ("1,2", "1,2,3"):
        c.set("orders", 0, 1, isr)
        c.round()
    assert top(c).degraded == {}


def gone(c: Cluster, topic: str) -> None:
    del c.partitions[topic, 0]
    c.told.pop((topic, 0), None)
    c.fold(f.WatchedGone(c.now_ns, c.sample, topic))


def test_of_a_topic_that_is_gone_nothing_holds_and_the_store_is_told_once() -> None:
    c = cluster()
    c.set("orders", 0, 1, "1,2")
    c.rounds(2)
    c.set("orders", 0, 3, "3")
    c.rounds(15)
    assert c.kinds() == ["unclean-election"]
    gone(c, "orders")
    assert c.kinds() == []
    assert last(c, "topic") == ("orders", 0, "gone")
    told = len(c.changes)
    c.fold(f.WatchedGone(c.now_ns, c.sample, "orders"))
    assert len(c.changes) == told
    for places in (top(c).topics, top(c).unclean, top(c).suspects, top(c).degraded):
        assert not [key for key in places if "orders" in key]


def test_counts_of_a_watched_topic_go_with_it_and_its_id_stays() -> None:
    c = cluster()
    for end in (100, 80, 80):
        listed(c, end, 1)
    assert top(c).regressions == {("orders", 0): 1}
    gone(c, "orders")
    assert top(c).regressions == {}
    assert top(c).ends == {}
    assert top(c).epochs == {}
    assert top(c).topics["orders"].topic_id == "o-1"
    told = len(c.changes)
    c.fold(f.WatchedGone(c.now_ns, c.sample, "orders"))
    assert len(c.changes) == told


def test_what_held_of_a_topics_former_incarnation_ended_with_it() -> None:
    c = cluster()
    listed(c, 5, 4, "o-1")
    c.set("orders", 0, -1, "1")
    c.rounds(12)
    assert c.kinds() == ["offline-partition"]
    stays(c, 4, 1, "o-2")
    assert c.kinds() == ["topic-recreated"]
    for _ in range(6):
        listed(c, 4, 1, "o-2")
    assert c.kinds() == ["topic-recreated"], "epochs begin anew, too"


def test_a_partition_without_anybody_in_sync_is_offline_whoever_is_said_to_lead_it() -> None:
    c = cluster()
    c.set("orders", 0, 1, "")
    c.rounds(7)
    assert c.said == [("offline-partition", "orders", 0)]


def test_a_suspicion_ends_with_its_proof_and_with_its_leader() -> None:
    for proven in (True, False):
        c = cluster()
        for end in (100, 120):
            listed(c, end, 1)
        c.set("orders", 0, 1, "1,2")
        c.rounds(2)
        c.set("orders", 0, 3, "3")
        c.rounds(4)
        assert "unclean-election" in c.kinds()
        for end in (80, 80) if proven else ():
            listed(c, end, 2)
        if not proven:
            c.set("orders", 0, -1, "3")
        c.rounds(2)
        assert ("unclean-election", "orders", 0) not in top(c).conditions


def test_what_holds_on_is_said_again_every_five_minutes() -> None:
    c = cluster()
    c.set("probes", 0, 1, "1")
    c.rounds(12)
    said_ns = top(c).conditions["isr-of-one", "probes", 0].said_ns
    c.rounds(290)
    assert top(c).conditions["isr-of-one", "probes", 0].said_ns == said_ns
    c.rounds(15)
    assert top(c).conditions["isr-of-one", "probes", 0].said_ns != said_ns


def elected(c: Cluster, *sights: tuple[int, str]) -> None:
    """Let leader and ISR of orders-0 change, a round each."""
    for leader, isr in sights:
        c.set("orders", 0, leader, isr)
        c.round()


def test_elections_are_counted_each_and_no_election_twice() -> None:
    c = cluster()
    elected(c, (1, "1,2"), (3, "1,2"), (-1, "1,2"), (3, "1,2"))
    c.rounds(5)
    assert top(c).unclean == {("orders", 0): 1}
    elected(c, (3, "3"), (1, "1"))
    c.rounds(5)
    assert top(c).unclean == {("orders", 0): 2}


def test_a_broker_that_has_not_heard_yet_elects_nobody() -> None:
    """Asked while leaders move, brokers answer from what they know: the second answer here is older than the first."""
    c = cluster()
    elected(c, (2, "2,3"), (1, "1,2,3"), (2, "2,3"))
    c.rounds(5)
    elected(c, (2, "1,2,3"), (1, "1,2,3"))  # who is in sync again may lead again
    c.rounds(5)
    assert top(c).unclean == {}


def test_what_proves_an_election_counts_it_however_short_it_was() -> None:
    c = cluster(min_isr=2)
    listed(c, 100, 1)
    c.set("orders", 0, 1, "1")
    listed(c, 150, 1)
    c.set("orders", 0, 2, "2,3")
    listed(c, 90, 2)
    assert top(c).unclean == {}
    c.set("orders", 0, 3, "2,3")
    listed(c, 95, 3)
    assert top(c).unclean == {("orders", 0): 1}
    c.rounds(5)
    assert top(c).unclean == {("orders", 0): 1}


def test_a_leader_that_old_metadata_name_is_not_blamed_for_a_loss_as_it_has_no_epoch_of_its_own() -> None:
    c = cluster(min_isr=2)
    listed(c, 150, 1)
    c.set("orders", 0, 1, "1")
    c.rounds(5)
    c.set("orders", 0, 2, "2,3")
    c.rounds(5)
    for _ in range(3):
        listed(c, 90, 1)
        c.rounds(20)
    assert "offset-regression" in c.kinds()
    assert "critical" not in {one.severity for one in c.open.values() if one.kind == "unclean-election"}


def test_a_leader_beside_whom_one_of_the_former_in_sync_is_in_sync_is_not_suspected_yet() -> None:
    c = cluster()
    elected(c, (1, "1,2"), (3, "2,3"))
    c.rounds(5)
    assert "unclean-election" not in c.kinds()
    assert top(c).unclean == {("orders", 0): 1}


def test_a_leader_who_is_the_only_replica_left_is_suspected_too() -> None:
    c = cluster()
    elected(c, (1, "1,2"))
    c.set("orders", 0, 3, "3", replicas="3")
    c.rounds(5)
    assert "unclean-election" in c.kinds()


def test_other_topics_are_watched_by_rounds_of_their_own() -> None:
    c = Cluster(ours=(), extents=("all",))
    elected(c, (1, "1,2,3"), (1, "1,2"), (3, "3"))
    c.rounds(5)
    assert "unclean-election" in c.kinds()


def test_half_of_the_replicas_is_not_below_half() -> None:
    c = cluster()
    for isr, kinds in (("1,2", ["under-replicated"]), ("1", ["isr-below-half", "isr-of-one", "under-replicated"])):
        c.set("orders", 0, 1, isr, replicas="1,2,3,4")
        c.rounds(603)
        assert c.kinds() == kinds


def test_a_leader_that_stays_was_not_elected_whatever_is_told_of_its_isr() -> None:
    c = cluster()
    for isr in ("2,3", "2"):
        c.set("orders", 0, 1, isr)
        c.round()
    assert top(c).unclean == {}


def test_what_brokers_did_long_ago_is_no_evidence() -> None:
    c = cluster()
    c.brokers = (1, 2)
    c.round()
    c.set("orders", 0, -1, "1")
    c.rounds(12)
    assert [event["event"] for event in c.open.popitem()[1].evidence["cluster_events"]] == ["broker-left"]
    c.round(601)
    c.set("orders", 0, 1, "1,2")
    c.told.clear()
    c.set("probes", 0, -1, "1")
    c.rounds(7)
    (found,) = (v for v in c.open.values() if v.kind == "offline-partition")
    assert found.evidence.get("cluster_events", []) == []


def events(c: Cluster) -> list[str]:
    return [f"{event['event']} {event.get('broker', '')}".strip() for event in top(c).events]


def test_brokers_that_come_and_go_are_events_with_the_time_they_were_away() -> None:
    c = cluster()
    assert events(c) == [], "who was there at first has not joined"
    c.brokers = (1, 2)
    c.round()
    assert last(c, "broker") == ("", 3, "")
    c.rounds(6)
    c.brokers = (1, 2, 3)
    c.rounds(3)
    assert events(c) == ["broker-left 3", "broker-returned 3"]
    assert top(c).events[-1]["away_s"] == 7


def test_a_controller_is_believed_at_once_where_nobody_else_could_be_named() -> None:
    c = Cluster(brokers=(1,), controller=1, ours=())
    c.rounds(60)
    assert top(c).controller is None, "a lone broker can only name itself"
    c.brokers = (1, 2)
    c.rounds(39)
    assert top(c).controller is None
    c.round()
    assert top(c).controller == 1
    assert [change.leader for change in c.changes if change.subject == "controller"] == [1]
    assert events(c) == ["broker-joined 2"], "the first that is known has not changed"


def test_a_controller_is_told_in_a_row_or_not_at_all() -> None:
    c = Cluster(ours=())
    c.controller = 1
    c.rounds(45)
    for other, times in ((2, 30), (1, 1), (2, 30), (3, 30)):
        c.controller = other
        c.rounds(times)
    assert top(c).controller == 1
    c.rounds(10)
    assert top(c).controller == 3
    assert top(c).events[-1]["from"] == 1


def test_where_a_broker_is_is_told_once_and_another_host_is_an_event() -> None:
    c = cluster()

    def seen(host: str, rack: str | None) -> None:
        c.fold(f.BrokerSeen(c.now_ns, c.sample, 1, host, rack))

    seen("a:9092", None)
    assert last(c, "broker") == ("", 1, "a:9092")
    told = len(c.changes)
    seen("a:9092", None)
    assert len(c.changes) == told
    seen("a:9092", "east")
    assert last(c, "broker") == ("", 1, "a:9092 rack east")
    assert events(c) == []
    seen("b:9092", "east")
    assert events(c) == ["broker-id-reused 1"]


def test_only_watched_time_counts() -> None:
    c = cluster()
    before = dict(top(c).watched_ns)
    c.round(100)
    assert {extent: top(c).watched_ns[extent] - before[extent] for extent in before} == {"probe": 3 * S, "all": 10 * S}


def epochs(c: Cluster, *numbers: int) -> list[int | None]:
    """Tell epochs of probes-0; return those that the store was told meanwhile."""
    told = len(c.changes)
    for number in numbers:
        c.fold(f.Listed(c.now_ns, c.sample, "probes", 0, 0, 0, 0, number))
    return [change.leader_epoch for change in c.changes[told:]]


def test_an_epoch_is_lower_five_times_in_a_row_before_it_is_believed() -> None:
    c = cluster()
    epochs(c, 7, *[5] * 4, 7, *[5] * 4)
    assert c.said == []
    epochs(c, 5)
    assert c.said == [("leader-epoch-regression", "probes", 0)]


@pytest.mark.parametrize(("end", "times"), [(10, 60), (11, 5)])
def test_a_lower_epoch_is_a_former_leaders_for_longer_where_the_log_ends_where_it_ended_then(
    end: int, times: int
) -> None:
    c = cluster()
    c.fold(f.Listed(c.now_ns, c.sample, "probes", 0, 0, 10, 10, 5))
    epochs(c, 7)
    for _ in range(times - 1):
        c.fold(f.Listed(c.now_ns, c.sample, "probes", 0, 0, end, end, 5))
    assert c.said == []
    c.fold(f.Listed(c.now_ns, c.sample, "probes", 0, 0, end, end, 5))
    assert c.said == [("leader-epoch-regression", "probes", 0)]


def test_a_former_leader_is_one_for_as_long_where_epochs_are_used_again_after_a_restore_of_the_metadata() -> None:
    c = cluster()
    epochs(c, 9, *[5] * 5)
    assert c.said == [("leader-epoch-regression", "probes", 0)]
    for number in (5, 7, *[5] * 20):
        c.fold(f.Listed(c.now_ns, c.sample, "probes", 0, 0, 10, 10, number))
    assert top(c).epochs["probes", 0].epoch == 7


@pytest.mark.parametrize(("end", "times"), [(10, 60), (11, 1)])
def test_an_epoch_that_went_back_is_believed_again_where_the_log_does_not_end_where_it_ended_then(
    end: int, times: int
) -> None:
    """A leader of a deleted topic, which was cut off, answers beside those of the present one."""
    c = cluster()
    c.fold(f.Listed(c.now_ns, c.sample, "probes", 0, 0, 10, 10, 9))
    epochs(c, *[5] * 5)
    for _ in range(times):
        assert top(c).epochs["probes", 0].epoch == 5
        c.fold(f.Listed(c.now_ns, c.sample, "probes", 0, 0, end, end, 9))
    assert top(c).epochs["probes", 0].epoch == 9
    assert c.said == [("leader-epoch-regression", "probes", 0)]


def test_a_former_leaders_end_that_grew_before_another_leader_was_named_is_remembered() -> None:
    c = cluster()
    c.fold(f.Listed(c.now_ns, c.sample, "probes", 0, 0, 10, 10, 5))
    c.set("probes", 0, 2, "1,2,3")
    c.round(10)
    for _ in range(2):
        c.fold(f.Listed(c.now_ns, c.sample, "probes", 0, 0, 12, 12, 5))
    epochs(c, 7)
    for _ in range(20):
        c.fold(f.Listed(c.now_ns, c.sample, "probes", 0, 0, 12, 12, 5))
    assert c.said == []


def test_a_leaders_epoch_is_told_once_and_not_where_nobody_leads() -> None:
    c = cluster()
    assert epochs(c, 7, 7, 7) == [7]
    c.set("probes", 0, -1, "1,2,3")
    c.round(10)
    assert c.changes[-1].leader_epoch is None
    assert epochs(c, 8, 8) == []


def test_the_epoch_of_the_former_leader_is_not_the_new_ones() -> None:
    c = cluster()
    epochs(c, 7)
    c.round(5)
    c.set("probes", 0, 2, "1,2,3")
    c.round()
    assert c.changes[-1].leader_epoch is None
    assert epochs(c, 7, 7) == [], "told before the election"
    assert epochs(c, 8) == [8]


def test_an_epoch_that_is_told_a_moment_before_its_leader_is_that_leaders() -> None:
    c = cluster()
    epochs(c, 7)
    c.round(60)
    epochs(c, 8)
    c.set("probes", 0, 2, "1,2,3")
    c.round()
    assert epochs(c, 8) == [8]


@pytest.mark.parametrize("partitions", [0, 2])
def test_a_broker_refills_only_if_it_holds_replicas_and_is_back_for_long(partitions: int) -> None:
    c = cluster()
    c.brokers = (1, 2, 3, 4)
    for number in range(1, partitions + 1):
        c.set("orders", number, 1, "1,2,4", replicas="1,2,4")
    c.round()
    for brokers, isr in (((1, 2, 3), "1,2"), ((1, 2, 3, 4), "1,2")):
        c.brokers = brokers
        for number in range(1, partitions + 1):
            c.set("orders", number, 1, isr, replicas="1,2,4")
        c.rounds(25)
    refilling = ["broker-refilling 4"] if partitions else []
    assert [event for event in events(c) if "refill" in event] == []
    c.rounds(40)
    assert [event for event in events(c) if "refill" in event] == refilling
    for number in range(1, partitions + 1):
        c.set("orders", number, 1, "1,2,4", replicas="1,2,4")
    c.rounds(40)
    assert [event for event in events(c) if "refill" in event] == refilling + ["broker-refilled 4"] * bool(partitions)
    if partitions:
        refills = [change for change in c.changes if change.subject == "broker" and "in sync" in change.detail]
        assert [(change.number, change.at_ns > c.now_ns - 90 * S) for change in refills] == [(4, True)]
        assert last(c, "broker")[2] == "somewhere"
        for number in range(1, partitions + 1):
            c.set("orders", number, 1, "1,2", replicas="1,2,4")
        c.rounds(40)
        assert events(c)[-1] == "broker-refilled 4", "it was not away"


def test_everything_is_the_present_topology() -> None:
    c = cluster()
    epochs(c, 7)
    found = {(change.subject, change.topic, change.number): change for change in everything(top(c))}
    assert set(found) == {("partition", "probes", 0), ("partition", "orders", 0)} | {
        ("broker", "", n) for n in (1, 2, 3)
    }
    assert found["partition", "probes", 0].leader_epoch == 7
    assert Tracker.load(c.tracker.dump()).state.topology == top(c)


def test_a_partition_that_nobody_keeps_in_sync_is_read_without_a_complaint() -> None:
    c = cluster()
    c.set("orders", 0, -1, "")
    c.round()
    assert (c.changes[-1].leader, c.changes[-1].isr) == (-1, "")
