"""Two events at one place are two violations, and one event is one, whoever sees it and however often."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from canary import facts as f
from canary.anomalies.catalogue import CATALOGUE
from canary.anomalies.online import Tracker
from canary.anomalies.online.scope import Scope, Where
from canary.anomalies.policy import CONDITIONS
from tests.anomalies.online.test_lineages import listed, told
from tests.anomalies.online.test_topology import Cluster, cluster
from tests.support.bench import TOPIC, Bench

if TYPE_CHECKING:
    from collections.abc import Callable


def cut(bench: Bench, end: int = 7) -> None:
    """What stands from ``end`` on is written, read and cut off."""
    bench.write(10 - end)
    bench.poll()
    bench.round()
    bench.truncate(end)
    bench.settle()


def events(bench: Bench, kind: str) -> list[tuple[int | None, int | None]]:
    return [(one.offset, one.leader_epoch) for one in bench.violations.values() if one.kind == kind]


def test_a_second_truncation_at_the_same_offset_is_another_one() -> None:
    bench = Bench(epoch=4)
    bench.write(7)
    cut(bench)
    cut(bench)
    assert events(bench, "truncation") == [(7, 5), (7, 6)]


def test_a_canary_that_was_killed_and_one_that_looks_later_see_the_same_truncation() -> None:
    benches = [Bench(epoch=4), Bench(epoch=4), Bench(epoch=4)]
    for bench in benches:
        bench.write(10)
        bench.poll()
        bench.round()
        bench.truncate(7)
    benches[1].round()
    benches[1].restart()
    benches[2].now_ns += 60_000_000_000
    benches[2].write(5)  # under its new leader, before anybody looks
    keys = set()
    for bench in benches:
        bench.settle()
        keys |= {key for key, one in bench.violations.items() if one.kind == "truncation"}
    assert len(keys) == 1


def test_an_election_between_a_cut_and_its_report_changes_nothing() -> None:
    bench = Bench(epoch=4)
    bench.write(10)
    bench.poll()
    bench.round()
    bench.truncate(7)
    bench.round()
    bench.epoch += 1
    bench.settle()
    assert events(bench, "truncation") == [(7, 5)]


def by_boundary(c: Cluster, epoch: int) -> None:
    told(c, epoch - 1, 85, 120)
    told(c, epoch, 80, 85)


def by_end(c: Cluster, epoch: int) -> None:
    listed(c, 120, epoch - 1)
    listed(c, 80, epoch)
    listed(c, 80, epoch)


@pytest.mark.parametrize("see", [by_boundary, by_end])
def test_a_second_regression_to_the_same_end_is_another_one(see: Callable[[Cluster, int], None]) -> None:
    c = cluster()
    see(c, 5)
    see(c, 9)
    assert [(one.kind, one.offset, one.leader_epoch) for one in c.open.values()] == [
        ("offset-regression", 80, 5),
        ("offset-regression", 80, 9),
    ]


def test_boundaries_and_ends_show_the_same_cut_as_one() -> None:
    keys = set()
    for see in (by_boundary, by_end):
        c = cluster()
        see(c, 5)
        (found,) = c.open.values()
        keys.add(found.key("c"))
    assert len(keys) == 1


def test_a_second_unclean_election_with_the_same_cut_is_another_one() -> None:
    c = cluster()
    for epoch, former, leader in ((5, 1, 3), (9, 3, 1)):
        c.set("orders", 0, former, "1,2,3")
        told(c, epoch - 1, 60, 120, leader=former)
        c.set("orders", 0, former, str(former))
        c.round()
        told(c, epoch, 80, 90, leader=leader)
        c.set("orders", 0, leader, str(leader))
        c.round()
    found = [(one.offset, one.leader_epoch) for one in c.open.values() if one.kind == "unclean-election"]
    assert found == [(80, 5), (80, 9)]


def test_a_second_return_to_a_lower_leader_epoch_is_another_one() -> None:
    c = cluster()
    for epoch in (*[9] * 2, *[3] * 6, *[9] * 2, *[4] * 6):
        listed(c, 120, epoch)
    found = [one.leader_epoch for one in c.open.values() if one.kind == "leader-epoch-regression"]
    assert found == [3, 4]


def test_a_damaged_record_where_one_was_cut_off_is_another_one() -> None:
    bench = Bench(epoch=4)
    bench.write(7)
    for _ in range(2):
        bench.log[7] = "corrupt"
        bench.end = 8
        bench.write(2)
        bench.settle()
        bench.truncate(7)
        bench.settle()
    assert events(bench, "corrupt") == [(7, 4), (7, 5)]


@pytest.mark.parametrize("kind", CATALOGUE)
def test_all_that_happens_at_a_place_and_to_no_identity_has_its_leader_epoch(kind: str) -> None:
    bench = Bench(epoch=4)
    bench.write(1)
    bench.round()
    scope = Scope(bench.tracker.state)
    found = scope.violation(kind, Where(scope.topic(TOPIC), 0, 5), "words")
    assert found.leader_epoch == (None if kind in CONDITIONS else 4)


def test_a_state_of_before_is_read_and_judges_without_the_epoch_of_the_sign() -> None:
    bench = Bench(epoch=4)
    bench.write(10)
    bench.poll()
    bench.truncate(7)
    bench.round()
    data = bench.tracker.dump().replace(b'"cut_epoch"', b'"cut_epoch_of_another_version"')
    bench.tracker = Tracker.load(data)
    bench.settle()
    assert events(bench, "truncation") == [(7, 5)]


def test_without_leader_epochs_the_key_is_that_of_before() -> None:
    c = cluster()
    for end in (120, 80, 80):
        c.round()
        c.fold(f.WatchedListed(c.now_ns, c.sample, "orders", "o-1", 0, 0, end, end, None))
    (found,) = c.open.values()
    assert found.leader_epoch is None
    assert found.key("c") == "287054706cc163ba8e174dc54c5fde66"
