"""Which evidence makes a suspected election an unclean one, when that is said, and how long a suspicion stays."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from canary.anomalies.online.scope import Where
from canary.anomalies.online.topology import elections
from tests.anomalies.online.test_topology import Cluster, cluster

if TYPE_CHECKING:
    from canary.anomalies.violation import Violation


def suspected(topic: str = "orders", end: int | None = None) -> Cluster:
    """Return a cluster whose broker 3 was elected out of sync, when the log was promised to reach ``end``."""
    c = cluster()
    for leader, isr in ((1, "1,2"), (3, "3")):
        c.set(topic, 0, leader, isr)
        c.round()
    c.tracker.state.topology.suspects[topic, 0].end = end
    return c


def find(c: Cluster, kind: str, *offsets: int, mode: str | None = None) -> None:
    """Let the tracker find something at offsets of orders-0, each by a fact of its own."""
    scope = c.tracker._scope
    for offset in offsets:
        found = scope.violation(kind, Where("orders", 0, offset), "found", by="watch")
        scope.emit(dataclasses.replace(found, mode=mode))
        elections.conclude(scope)
    c.fold()


def said(c: Cluster) -> list[Violation]:
    """Return the unclean elections that are proven."""
    return [v for v in c.open.values() if v.kind == "unclean-election" and v.severity == "critical"]


def test_an_election_is_said_ten_seconds_after_the_last_lost_write_with_the_first_and_their_number() -> None:
    c = suspected()
    find(c, "lost-write", 7)
    c.rounds(5)
    find(c, "lost-write", 5, 6)
    c.rounds(9)
    assert said(c) == []
    c.rounds(2)
    (proven,) = said(c)
    assert (proven.offset, proven.evidence["proof"], proven.evidence["lost_writes"]) == (5, "lost-write", 3)


def test_only_what_was_promised_before_an_election_is_evidence_of_it() -> None:
    for offset, offsets in ((59, [59]), (60, [])):
        c = suspected(end=60)
        find(c, "truncation", offset)
        assert [v.offset for v in said(c)] == offsets


def test_what_was_lost_by_itself_is_no_evidence_until_something_shows_a_cut() -> None:
    c = suspected()
    _, log = c.tracker._scope.place("orders", 0)
    log.lost_offsets.add(5, 6)
    find(c, "lost-write", 5)
    c.rounds(15)
    assert said(c) == []
    log.low_end = 5
    c.round()
    assert [v.offset for v in said(c)] == [5]


def test_what_a_producer_without_idempotence_lost_is_no_evidence() -> None:
    c = suspected()
    find(c, "lost-write", 5, mode="plain")
    c.rounds(15)
    assert said(c) == []


def test_an_election_is_said_once_whatever_is_found_after_its_proof() -> None:
    c = suspected()
    find(c, "truncation", 5, 4)
    assert [v.offset for v in said(c)] == [5]


def test_a_suspicion_of_a_topic_of_ours_ends_by_the_time_that_ours_were_watched() -> None:
    """A round that comes late counts 3 s for the topics of ours, and 10 s for all others."""
    suspects = suspected("probes"), suspected("orders")
    for c, topic in zip(suspects, ("probes", "orders"), strict=True):
        c.set(topic, 0, 3, "1,2,3")
        for _ in range(14):
            c.round(10)
    assert [list(c.tracker.state.topology.suspects) for c in suspects] == [[("probes", 0)], []]


def test_a_suspicion_with_losses_stays_for_a_quarter_of_an_hour_after_all_are_back() -> None:
    c = suspected()
    find(c, "lost-write", 5)
    c.set("orders", 0, 3, "1,2,3")
    c.rounds(895)
    assert list(c.tracker.state.topology.suspects) == [("orders", 0)]
    c.rounds(10)
    assert c.tracker.state.topology.suspects == {}
