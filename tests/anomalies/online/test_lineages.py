"""What the boundaries of leader epochs prove: what was cut below a high watermark that was told, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from canary import facts as f
from canary.anomalies.online import Tracker
from tests.anomalies.online.test_topology import Cluster, cluster


def told(c: Cluster, epoch: int, start: int, end: int = -1, leader: int = 1, topic_id: str | None = "o-1") -> None:
    c.round()
    c.fold(f.EpochSeen(c.now_ns, "orders", topic_id, 0, leader, epoch, start, end))


def test_an_epoch_that_begins_below_the_high_watermark_has_cut_though_the_log_has_grown_again() -> None:
    c = cluster()
    told(c, 4, 60, 120)
    told(c, 5, 80, 500)
    (found,) = c.open.values()
    assert (found.kind, found.severity, found.partition, found.offset) == ("offset-regression", "critical", 0, 80)
    assert found.evidence["cut"] == [80, 120]
    assert (found.evidence["leader_epoch_before"], found.evidence["leader_epoch"]) == (4, 5)
    assert "40 offsets were cut" in found.summary
    told(c, 6, 500, 510)
    assert len(c.said) == 1


@pytest.mark.parametrize("start", [120, 121, 1000])
def test_what_is_above_the_high_watermark_may_be_cut(start: int) -> None:
    c = cluster()
    told(c, 4, 60, 120)
    told(c, 5, start, start)
    assert c.said == []


def test_the_high_watermark_outlives_epochs_in_which_none_was_told_and_the_canary_s_restart() -> None:
    c = cluster()
    told(c, 4, 60, 120)
    told(c, 5, 120)
    told(c, 6, 120, leader=-1)
    c.tracker = Tracker.load(c.tracker.dump())
    c.fold(f.RunnerStarted(c.now_ns, "canary-0", "test"))
    told(c, 4, 60, leader=-1)
    told(c, 7, 119, 200)
    (found,) = c.open.values()
    assert (found.evidence["cut"], found.evidence["leader_epoch_before"]) == ([119, 120], 4)


def test_a_boundary_that_is_not_known_is_no_cut_and_a_leader_that_knows_less_takes_nothing_back() -> None:
    c = cluster()
    told(c, 4, 60, 120)
    told(c, 5, -1, 90)
    told(c, 4, 60, 100)
    assert c.said == []
    told(c, 5, 110)
    (found,) = c.open.values()
    assert found.evidence["cut"] == [110, 120]


def test_the_first_of_several_epochs_shows_the_cut() -> None:
    c = cluster()
    told(c, 4, 60, 120)
    told(c, 5, 80, leader=-1)
    told(c, 6, 130, 140)
    assert [(kind, one.offset) for (kind, _, _), one in zip(c.said, c.open.values(), strict=True)] == [
        ("offset-regression", 80)
    ]


def test_a_topic_made_again_or_without_an_id_is_not_judged() -> None:
    c = cluster()
    told(c, 4, 60, 120)
    told(c, 5, 0, 10, topic_id="o-2")
    c.rounds(601)
    assert [kind for kind, _, _ in c.said] == ["topic-recreated"]
    told(c, 4, 60, 120)  # a broker with old metadata
    told(c, 6, 10, 12, topic_id="o-2")
    assert len(c.said) == 1
    without = cluster()
    told(without, 4, 60, 120, topic_id=None)
    told(without, 5, 0, 10, topic_id=None)
    told(without, 6, 5, 12)
    assert without.said == []


@pytest.mark.parametrize("cut_first", [True, False])
def test_an_unclean_election_is_certain_in_whichever_order_leader_and_cut_are_seen(cut_first: bool) -> None:  # noqa: FBT001  # a case
    c = cluster()
    told(c, 4, 60, 120, leader=1)
    c.set("orders", 0, 1, "1,2")
    c.round()

    def elected() -> None:
        c.set("orders", 0, 3, "3")
        c.round()

    steps = [lambda: told(c, 5, 80, 90, leader=3), elected]
    for step in steps if cut_first else steps[::-1]:
        step()
    assert sorted((one.kind, one.severity) for one in c.open.values()) == [
        ("offset-regression", "critical"),
        ("unclean-election", "critical"),
    ]
    last = [one for one in c.changes if one.topic == "orders"][-1]
    assert (last.leader, last.leader_epoch, last.detail) == (3, 5, "80")


def listed(c: Cluster, end: int, epoch: int) -> None:
    c.round()
    c.fold(f.WatchedListed(c.now_ns, c.sample, "orders", "o-1", 0, 0, end, end, epoch))


@pytest.mark.parametrize("boundary_first", [True, False])
def test_a_cut_is_said_once_where_ends_are_watched_too(boundary_first: bool) -> None:  # noqa: FBT001  # a case
    c = cluster()
    listed(c, 120, 4)
    told(c, 4, 60, 120)
    if boundary_first:
        told(c, 5, 80, 85)
    listed(c, 85, 5)
    listed(c, 90, 5)
    if not boundary_first:
        told(c, 4, 60, 121)  # what the epoch before told at last
        told(c, 5, 80, 95)
    listed(c, 100, 5)
    assert [kind for kind, _, _ in c.said] == ["offset-regression"]


def test_a_replica_that_is_late_with_its_isr_makes_no_epoch_go_back() -> None:
    c = cluster()
    told(c, 4, 60, 120)
    listed(c, 120, 5)  # the sampled end knows of a later epoch already
    for isr in ("1", "1,2", "1", "1,2", "1", "1,2", "1,2,3"):
        c.set("orders", 0, 1, isr)
        c.round()
    assert c.said == []


def controllers(c: Cluster) -> list[Any]:
    return [(one.leader, one.leader_epoch) for one in c.changes if one.subject == "controller"]


def test_the_controller_is_whom_the_quorum_names_whatever_brokers_say() -> None:
    c = cluster()
    c.rounds(60)
    assert controllers(c) == [(9, None)]
    for epoch, number in ((7, 3001), (7, 3001), (8, 3002), (9, 3002)):
        c.fold(f.QuorumSeen(c.now_ns, number, epoch, "3001,3002,3003"))
        c.rounds(60)
    assert controllers(c)[1:] == [(3001, 7), (3002, 8), (3002, 9)]
    assert c.said == []
