"""What a store has open and no memory has: it ends by evidence, as what is remembered does, and not before."""

from __future__ import annotations

import dataclasses

import pytest

from canary import facts as f
from canary.anomalies.online import Tracker
from canary.anomalies.online.state import Probed
from canary.anomalies.online.topology import conditions, liveness
from canary.anomalies.policy import CONDITIONS, UNREMEMBERED
from canary.anomalies.violation import Violation
from tests.anomalies.online.test_topology import Cluster, cluster
from tests.anomalies.online.test_tracker_liveness import Asking, Watched
from tests.support.bench import RC, RU, TOPIC


def left(kind: str, topic: str = "probes", partition: int | None = 0, topic_id: str = "id-1") -> Violation:
    place = Violation(kind=kind, severity="critical", topic=topic, topic_id=topic_id, at_ns=1, by="watch", summary="")
    return dataclasses.replace(place, partition=partition, evidence={"since_ns": 1})


def test_each_condition_is_adopted_in_one_room_or_is_a_watcher_s() -> None:
    adopted = [*conditions.ADOPTED, *liveness.ADOPTED]
    assert len(adopted) == len(set(adopted))
    own = {"another-cluster", "unclean-election"}  # for the one each start looks itself, of the other none can know
    assert set(adopted) == CONDITIONS - UNREMEMBERED - own


def restarted(*found: Violation, extents: tuple[str, ...] = ("probe", "all")) -> Cluster:
    """Return a cluster whose canary has forgotten all, and has these open."""
    c = Cluster(extents=extents)  # type: ignore[arg-type]
    c.tracker.state.probed = {"probes": Probed(["idempotent"], [0])}
    c.tracker.adopt(found)
    c.open = {one.key("t"): one for one in found}
    c.fold(f.RunnerStarted(c.now_ns, "canary-0", "test"))
    return c


@pytest.mark.parametrize("kind", sorted(conditions.ADOPTED))
@pytest.mark.parametrize("topic", ["probes", "orders"])
def test_what_holds_stays_and_what_does_not_ends_when_it_is_seen(kind: str, topic: str) -> None:
    one, min_isr = left(kind, topic), 2 if kind == "under-min-isr" else 1
    c = restarted(one)
    c.fold(f.WatchAsked(c.now_ns, 1), f.TopicSeen(c.now_ns, 1, "probes", "id-1", 1))
    c.fold(
        f.TopicConfigured(c.now_ns, "probes", -1, -1, "delete", min_isr),
        f.WatchedConfigured(c.now_ns, "orders", min_isr),
    )
    leader, isr = (-1, "") if kind == "offline-partition" else (1, "1")
    c.set("probes", 0, leader, isr)
    c.set("orders", 0, leader, isr)
    c.rounds(5)
    assert one.key("t") in c.open
    c.set("probes", 0, 1, "1,2,3")
    c.set("orders", 0, 1, "1,2,3")
    c.rounds(62)
    assert one.key("t") not in c.open


def test_nothing_ends_whose_extent_is_not_asked_for() -> None:
    one = left("offline-partition", "orders")
    c = restarted(one, extents=("probe",))
    c.set("probes", 0, 1, "1,2,3")
    c.rounds(900)
    assert list(c.open) == [one.key("t")]


def test_those_that_no_row_of_their_own_names_stay_while_any_of_them_holds() -> None:
    named = [left("offline-partition", "many", number, "") for number in range(50, 150)]
    rest = left("offline-partition", "", None, "")
    c = restarted(*named, rest)
    for number in range(150):
        c.set("many", number, -1, "1,2,3")
    for _ in range(20):
        c.round()
        assert {one.key("t") for one in (*named, rest)} <= set(c.open)
    for number in range(150):
        c.set("many", number, 1, "1,2,3")
    c.round()
    assert set(c.open) == {rest.key("t")}, "what it stood for could not all be reported anew yet"
    c.rounds(600)
    assert c.open == {}


def test_what_the_first_answers_do_not_have_is_not_gone() -> None:
    one, other = left("offline-partition", "orders"), left("under-replicated", "probes")
    c = restarted(one, other)
    c.rounds(9)  # of which none has any partition
    assert set(c.open) == {one.key("t"), other.key("t")}
    c.set("orders", 0, -1, "1,2,3")
    c.rounds(9)
    assert one.key("t") in c.open
    c.fold(f.WatchedGone(c.now_ns, c.sample, "orders"))
    assert set(c.open) == {other.key("t")}


def test_of_two_incarnations_of_one_place_the_one_that_is_remembered_stays() -> None:
    c = cluster()
    c.set("orders", 0, -1, "1,2,3")
    c.rounds(9)
    (known,) = c.open
    former = left("offline-partition", "orders", topic_id="a-former-id")
    c.open[former.key("t")] = former
    c.tracker.adopt([former])
    c.fold(f.RunnerStarted(c.now_ns, "canary-0", "test"))
    assert list(c.open) == [known]
    c.told.clear()
    c.set("orders", 0, 1, "1,2,3")
    c.round()
    assert c.open == {}


def forgetful(kind: str, offset: int | None = None) -> tuple[Watched, Violation]:
    bench = Watched()
    one = dataclasses.replace(left(kind, TOPIC), topic_id=bench.topic_id or "", offset=offset)
    bench.tracker = Tracker()
    bench.tracker.state.probed = {TOPIC: Probed(["idempotent"], [0])}
    bench.tracker.adopt([one])
    bench.violations = {one.key("test"): one}
    bench.fold(f.RunnerStarted(bench.now_ns, "canary-0", "test"))
    return bench, one


def test_producers_that_stood_stand_until_one_of_them_is_acknowledged() -> None:
    bench, one = forgetful("unwritable")
    bench.rounds(900)
    assert list(bench.violations) == [one.key("test")], "nothing was sent"
    bench.write(3)
    bench.rounds(5)
    assert bench.says() == []


def test_a_topic_that_has_no_partitions_yet_is_not_one_with_fewer() -> None:
    bench, one = forgetful("unwritable")
    bench.fold(f.TopicConfigured(bench.now_ns, TOPIC, -1, -1, "delete", 1))
    for _ in range(9):
        bench.sample += 1
        bench.fold(f.WatchAsked(bench.now_ns, bench.sample))
    assert list(bench.violations) == [one.key("test")]


def test_a_clock_is_right_by_a_record_and_not_by_time() -> None:
    bench, one = forgetful("clock-skew")
    bench.rounds(900)
    assert list(bench.violations) == [one.key("test")]


def test_a_last_stable_offset_that_stood_stands_while_it_is_there() -> None:
    bench, one = forgetful("stalled", offset=2)
    bench.write(5)
    bench.rounds(30, stable=2)
    assert list(bench.violations) == [one.key("test")]
    bench.rounds(65)
    assert next(iter(bench.violations)) == one.key("test"), "there is no consumer yet"
    for name in (RU, RC):
        bench.fold(f.Positioned(bench.now_ns, name, name, TOPIC, 0, bench.end, "start", bench.marked_id))
    bench.rounds(65)
    assert one.key("test") not in bench.violations


def test_what_a_cluster_refused_is_refused_until_it_answers() -> None:
    bench = Asking()
    one = left("blind", "", None, "")
    bench.tracker = Tracker()
    bench.tracker.adopt([one])
    bench.violations = {one.key("test"): one}
    bench.fold(f.RunnerStarted(bench.now_ns, "canary-0", "test"))
    bench.rounds(80)
    assert list(bench.violations) == [one.key("test")], "what was refused may not have been tried yet"
    bench.ask(600)
    assert list(bench.violations) == [one.key("test")]
    assert {v.key("test") for v in bench.said} == {one.key("test")}
    bench.rounds(95)
    assert bench.violations == {}
