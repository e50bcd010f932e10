"""What the API says of the topology's timeline, of exposure and of the audit."""

from __future__ import annotations

import dataclasses
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from api import create_app
from api.judgement import briefing, timeline
from api.rest import topology
from api.shapes import moment
from canary.anomalies.topology_change import TopologyChange
from canary.anomalies.violation import Violation
from canary.probe.identity import Identity
from storage.store.cursors import Excerpt
from storage.store.values import TopologyFilter
from tests.api.serving import Client, ProbeLogFake, settings, view

if TYPE_CHECKING:
    from collections.abc import Mapping

    from storage.store import Store

S = 10**9
T0 = time.time_ns() - 600 * S


def at(second: int, topic: str, number: int, leader: int, isr: str, replicas: str = "1,2,3") -> TopologyChange:
    return TopologyChange(T0 + second * S, "partition", topic, number, leader, replicas, isr)


def lost(second: int, partition: int = 0) -> Violation:
    at_ns = T0 + second * S
    return Violation(
        kind="lost-write",
        severity="critical",
        topic="probes",
        partition=partition,
        offset=17,
        at_ns=at_ns,
        by="online",
        summary="gone",
    )


def exposed(client: Client, violation: Violation) -> tuple[str, list[tuple[str, int]]]:
    answer = client.get(f"/api/v1/violations/{violation.key('prod')}/exposure").json()
    return answer["basis"], [(one["topic"], one["partition"]) for one in answer["items"]]


def test_exposed_is_exactly_what_had_the_same_leader_and_the_same_shrunken_isr(store: Store, client: Client) -> None:
    changes = [
        at(0, "probes", 0, 1, "1,2,3"),
        at(0, "orders", 0, 1, "1,2,3"),
        at(0, "orders", 1, 2, "1,2,3"),
        at(0, "orders", 2, 2, "2,3", "2,3"),
        at(0, "orders", 3, 1, "1", "1"),
        at(0, "later", 0, 1, "1,2,3"),
        at(60, "probes", 0, 1, "1"),
        at(60, "orders", 0, 1, "1"),
        at(61, "orders", 1, 1, "1"),
        at(61, "orders", 2, -1, "2", "2,3"),
        at(80, "probes", 0, 2, "2"),
        at(80, "orders", 0, 2, "2"),
        at(80, "orders", 1, 2, "2"),
        at(80, "orders", 2, 2, "2", "2,3"),
        at(90, "probes", 0, 2, "1,2,3"),
        at(95, "later", 0, 1, "1"),
    ]
    store.topology.record("prod", changes)
    store.violations.record("prod", [lost(85)])
    assert exposed(client, lost(85)) == ("same leader and shrunken ISR", [("orders", 0), ("orders", 1)])


def test_what_shrinks_after_the_loss_was_seen_is_not_exposed_by_it_though_it_is_seen_again(
    store: Store, client: Client
) -> None:
    changes = [
        at(0, "probes", 0, 1, "1,2,3"),
        at(0, "orders", 0, 1, "1,2,3"),
        at(0, "orders", 1, 1, "1,2,3"),
        at(60, "probes", 0, 1, "1,2"),
        at(60, "orders", 0, 1, "1,2"),
        at(300, "probes", 0, 1, "1"),
        at(300, "orders", 1, 1, "1"),
    ]
    store.topology.record("prod", changes)
    store.violations.record("prod", [lost(85)])
    store.violations.record("prod", [lost(400)])
    assert exposed(client, lost(85)) == ("same leader and shrunken ISR", [("orders", 0)])


def away(second: int, number: int, detail: str = "") -> TopologyChange:
    return TopologyChange(T0 + second * S, "broker", "", number, detail=detail)


def silent(second: int, detail: str = "silent") -> TopologyChange:
    return TopologyChange(T0 + second * S, "cluster", "", 0, detail=detail)


SPREAD = [
    at(0, "probes", 0, 1, "1,2,3"),
    at(0, "orders", 0, 1, "1,2,3"),
    at(0, "orders", 1, 2, "1,2,3"),
    at(0, "orders", 2, 3, "3,4", "3,4"),
    at(0, "orders", 3, 4, "4,5", "4,5"),
    at(0, "orders", 4, 3, "3", "3"),
    *(away(0, number, f"b{number}:9092") for number in range(1, 6)),
]
"""Before the outage."""


def test_when_several_brokers_are_gone_every_partition_is_exposed_that_had_no_other_in_sync(
    store: Store, client: Client
) -> None:
    after = [away(61, 1), away(62, 2), away(66, 3), at(64, "probes", 0, -1, ""), at(70, "probes", 0, 3, "3")]
    store.topology.record("prod", sorted([*SPREAD, *after], key=lambda one: one.at_ns))
    store.violations.record("prod", [lost(65), lost(75)])
    gone = ("in-sync replicas all gone or out of reach at once", [("orders", 0), ("orders", 1), ("orders", 4)])
    assert exposed(client, lost(75)) == gone
    assert exposed(client, lost(65)) == gone, "the last of them is seen a second after the loss"


def test_when_no_broker_answered_every_partition_is_exposed(store: Store, client: Client) -> None:
    """As brokers 1 to 5 are killed: the first that is back names the others, and itself was never seen to be gone."""
    after = [silent(60), silent(74, ""), *(away(74, number) for number in range(2, 6)), at(76, "probes", 0, 3, "2,3")]
    store.topology.record("prod", [*SPREAD, *after])
    store.violations.record("prod", [lost(80)])
    basis, places = exposed(client, lost(80))
    assert basis == "in-sync replicas all gone or out of reach at once"
    assert places == [("orders", number) for number in range(5)]


@pytest.mark.parametrize("gone", [[away(80, 1)], [silent(80), silent(90, ""), away(90, 1)]])
def test_what_one_replica_alone_had_is_exposed_by_that_though_later_it_went_too(
    store: Store, client: Client, gone: list[TopologyChange]
) -> None:
    """Brokers 2 and 3 go, broker 1 takes writes alone, and then goes as well: none of the others was in that danger."""
    before = [one for one in SPREAD if one.subject == "partition" or one.number <= 3]
    shrunken = [at(62, "probes", 0, 1, "1"), at(62, "orders", 0, 1, "1"), at(62, "orders", 1, 1, "1")]
    after = [away(61, 2), away(62, 3), *shrunken, *gone, at(91, "probes", 0, 2, "2")]
    store.topology.record("prod", [*before, *after])
    store.violations.record("prod", [lost(95)])
    assert exposed(client, lost(95)) == ("same leader and shrunken ISR", [("orders", 0), ("orders", 1)])


def test_an_unclean_election_after_a_shrunken_isr_says_what_was_lost_though_none_answered_before(
    store: Store, client: Client
) -> None:
    """A silence counts as one of every broker; but broker 1 went on alone after it, and others were elected then."""
    silence = [silent(60), silent(61, ""), *(away(61, number) for number in (2, 3))]
    shrunken = [at(62, "probes", 0, 1, "1"), at(62, "orders", 0, 1, "1"), at(62, "orders", 1, 1, "1")]
    other = [at(62, "orders", 3, 4, "4", "4,5"), at(91, "orders", 3, 5, "5", "4,5")]
    store.topology.record("prod", [*SPREAD, *silence, *shrunken, *other[:1], at(91, "probes", 0, 2, "2"), *other[1:]])
    store.violations.record("prod", [lost(95)])
    basis, places = exposed(client, lost(95))
    assert basis == "same leader and shrunken ISR"
    assert places == [("orders", 0), ("orders", 1), ("orders", 3)], "the last one by its own unclean election"


def test_an_outage_after_an_unclean_election_says_what_was_lost(store: Store, client: Client) -> None:
    """The election was harmless, or none: broker 2 may have been in sync when it was elected, between two looks."""
    shrunken = [at(10, "probes", 0, 1, "1"), at(20, "probes", 0, 2, "2"), at(30, "probes", 0, 2, "1,2,3")]
    cut = [silent(300), silent(314, ""), *(away(314, number) for number in range(2, 6))]
    far = [at(15, "orders", 5, 6, "6", "6,7"), at(21, "orders", 5, 7, "7", "6,7")]
    before = sorted([*SPREAD, *shrunken, *far], key=lambda one: one.at_ns)
    store.topology.record("prod", [*before, *cut, at(316, "probes", 0, 3, "2,3")])
    store.violations.record("prod", [lost(320)])
    basis, places = exposed(client, lost(320))
    assert basis == "in-sync replicas all gone or out of reach at once"
    assert places == [("orders", number) for number in range(6)], "and what had an election of its own"


def test_where_no_leader_was_seen_with_a_shrunken_isr_an_outage_exposes_what_it_met_alone(
    store: Store, client: Client
) -> None:
    """Broker 4, which had orders 5 in sync, was there all the time."""
    gone = [away(61, 1), away(62, 2), at(62, "probes", 0, -1, "1"), away(63, 3), at(70, "probes", 0, 2, "2")]
    store.topology.record("prod", [*SPREAD, at(0, "orders", 5, 1, "1,4", "1,4"), *gone])
    store.violations.record("prod", [lost(75)])
    basis, places = exposed(client, lost(75))
    assert basis == "in-sync replicas all gone or out of reach at once"
    assert places == [("orders", 0), ("orders", 1), ("orders", 4)]


def test_when_those_go_together_that_were_left_every_partition_is_exposed_that_had_no_other(
    store: Store, client: Client
) -> None:
    """Broker 3 is down since long; then all others are killed: those that broker 2 led were in the same danger."""
    shrunken = [at(31, "probes", 0, 1, "1,2"), at(31, "orders", 0, 1, "1,2"), at(31, "orders", 1, 2, "1,2")]
    after = [away(30, 3), *shrunken, silent(80), silent(90, ""), away(90, 1), at(91, "probes", 0, 2, "2")]
    store.topology.record("prod", [*SPREAD, *after])
    store.violations.record("prod", [lost(95)])
    basis, places = exposed(client, lost(95))
    assert basis == "in-sync replicas all gone or out of reach at once"
    assert places == [("orders", 0), ("orders", 1), ("orders", 3)]


def test_when_the_leader_is_gone_with_others_what_any_of_them_led_is_exposed(store: Store, client: Client) -> None:
    store.topology.record("prod", [*SPREAD, away(61, 1), away(62, 4)])
    store.violations.record("prod", [lost(65)])
    assert exposed(client, lost(65)) == ("leader gone in the same outage", [("orders", 0), ("orders", 3)])


class LogOf(ProbeLogFake):
    """Knows when one probe was acknowledged."""

    def find(self, identity: Identity) -> Mapping[str, Any] | None:
        return {"probe": {"acked_at": datetime.fromtimestamp(T0 / 1e9, UTC)}} if identity.sequence == 1 else None


def test_a_loss_that_is_seen_late_is_exposed_by_what_was_so_since_its_acknowledgement(store: Store) -> None:
    client = Client(create_app(settings("prod"), store, LogOf()))
    late = [
        dataclasses.replace(lost(7200), identity=Identity(1, 1, 0, sequence), by="scrub", offset=sequence)
        for sequence in (1, 2)
    ]
    changes = [
        at(0, "probes", 0, 1, "1,2,3"),
        at(0, "orders", 0, 1, "1,2,3"),
        at(0, "orders", 1, 1, "1,2,3"),
        at(60, "probes", 0, 1, "1"),
        at(60, "orders", 0, 1, "1"),
        at(90, "probes", 0, 1, "1,2,3"),
        at(90, "orders", 0, 1, "1,2,3"),
    ]
    store.topology.record("prod", changes)
    store.violations.record("prod", late)
    assert exposed(client, late[0]) == ("same leader and shrunken ISR", [("orders", 0)])
    assert exposed(client, late[1]) == ("same leader", [("orders", 0), ("orders", 1)]), "nobody knows since when"


def test_without_a_shrunken_isr_whatever_had_the_same_leader_is_named_as_that(store: Store, client: Client) -> None:
    store.topology.record(
        "prod", [at(0, "probes", 0, 1, "1,2,3"), at(0, "orders", 0, 1, "1,2,3"), at(0, "orders", 1, 2, "1,2,3")]
    )
    store.violations.record("prod", [lost(85)])
    assert exposed(client, lost(85)) == ("same leader", [("orders", 0)])


def test_a_violation_that_nothing_is_known_around_exposes_nothing(store: Store, client: Client) -> None:
    store.violations.record("prod", [lost(85)])
    assert exposed(client, lost(85)) == ("unknown", [])
    assert client.get("/api/v1/violations/none/exposure").status_code == 404


def test_the_evidence_holds_the_topology_before_and_after(
    store: Store, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.topology.record(
        "prod",
        [
            TopologyChange(T0 - S, "broker", "", 1, detail="b1:9092"),
            at(0, "probes", 0, 1, "1,2,3"),
            at(0, "orders", 0, 1, "1,2,3"),
            TopologyChange(T0 + 70 * S, "broker", "", 1),
            at(80, "probes", 0, 2, "2"),
        ],
    )
    store.violations.record("prod", [lost(75)])
    around = client.get(f"/api/v1/violations/{lost(75).key('prod')}").json()["evidence"]["topology"]
    assert [(one["subject"], one["leader"], one["address"]) for one in around] == [
        ("broker", None, "b1:9092"),
        ("partition", 1, None),
        ("broker", None, None),
        ("partition", 2, None),
    ]
    monkeypatch.setattr(timeline, "MOST_AROUND", 1)
    cut = client.get(f"/api/v1/violations/{lost(75).key('prod')}").json()["evidence"]
    assert (len(cut["topology"]), cut["topology_total"], cut["topology_truncated"]) == (2, 4, True)


def test_a_cause_is_what_was_seen_before_however_much_was_seen_since(
    store: Store, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cause() -> dict[str, Any]:
        answer = client.get(f"/api/v1/incidents/{store.incidents.page().items[0].id}").json()
        found: dict[str, Any] = answer["briefing"]["cause"]
        return found

    there = [TopologyChange(T0 - S, "broker", "", number, detail=f"b{number}:9092") for number in (1, 2)]
    gone = TopologyChange(T0 + 70 * S, "broker", "", 2)
    since = [TopologyChange(T0 + n * S, "broker", "", 1, detail="b1:9092" * (n % 2)) for n in range(100, 140)]
    store.topology.record("prod", [*there, at(0, "probes", 0, 1, "1,2,3"), gone, *since])
    store.violations.record("prod", [lost(75)])
    monkeypatch.setattr(briefing, "SPANS", 4)
    sentence = f"Broker 2 was gone at {moment(T0 + 70 * S):%H:%M:%S}."
    assert (cause()["sentence"], cause()["total"], cause()["truncated"]) == (sentence, 4, False)
    monkeypatch.setattr(briefing, "SPANS", 2)
    assert cause()["sentence"].endswith("Only the newest 3 of 4 states of the timeline were looked at.")
    assert cause()["truncated"]


def test_exposure_says_whether_the_whole_timeline_was_compared(
    store: Store, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.topology.record("prod", [at(0, "probes", 0, 1, "1"), *(at(n, "orders", n, 1, "1") for n in range(9))])
    store.violations.record("prod", [lost(75)])
    place = f"/api/v1/violations/{lost(75).key('prod')}/exposure"
    whole = client.get(place).json()
    assert (whole["total"], whole["truncated"]) == (9, False)
    monkeypatch.setattr(topology, "MOST_SPANS", 9)
    assert client.get(place).json()["truncated"]


def test_the_timeline_holds_changes_only_and_pages(store: Store, client: Client) -> None:
    changes = [at(second, "orders", 0, 1 + second % 2, "1,2") for second in range(5)]
    assert store.topology.record("prod", changes) == 5
    assert store.topology.record("prod", changes) == 0, "told again, nothing is added"
    assert store.topology.record("prod", [at(9, "orders", 0, 1, "1,2")]) == 0, "so already"
    first = client.get("/api/v1/topology", topic="orders", limit=3).json()
    second = client.get("/api/v1/topology", topic="orders", limit=3, cursor=first["next_cursor"]).json()
    leaders = [one["leader"] for one in (*first["items"], *second["items"])]
    assert leaders == [1, 2, 1, 2, 1]
    assert first["items"][0]["until"] is None
    store.topology.record("prod", [TopologyChange(T0 + 20 * S, "topic", "orders", 0, detail="gone")])
    now = TopologyFilter("prod", since_ns=T0 + 30 * S)
    assert store.topology.spans(now) == Excerpt([], 0)
    assert store.topology.spans(TopologyFilter("prod"), 2).words("newest", "states") == "the newest 2 of 5 states"


def test_the_audit_is_what_the_runner_last_found(store: Store) -> None:
    found: dict[str, Any] = orjson.loads(view())
    finding = {"check": "c", "severity": "critical", "where": "topic x", "found": "f", "why": "w", "change": "c"}
    found["audit"] = {"at_ns": T0, "findings": [finding], "notes": [{"where": "brokers", "text": "t"}]}
    store.views.save("prod", "canary-0", time.time_ns(), orjson.dumps(found))
    client = Client(create_app(settings("prod"), store, ProbeLogFake()))
    answer = client.get("/api/v1/audit").json()
    assert answer["items"] == [{"cluster": "prod", **finding}]
    assert answer["notes"] == [{"cluster": "prod", "where": "brokers", "text": "t"}]
    assert client.get("/api/v1/audit", cluster="other").status_code == 404
