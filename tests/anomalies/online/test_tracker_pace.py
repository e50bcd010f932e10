"""Rounds of watching that follow each other at once prove no more than others do."""

from __future__ import annotations

import pytest

from canary import facts as f
from tests.anomalies.online.test_tracker_losses import Resumed, lone_acknowledgements
from tests.support.bench import RC, TOPIC, Bench

MS = 10**6


def said_after_ms(bench: Bench, kind: str, most_ms: int = 5000) -> float:
    """Return when a kind of violation is said, in ms from now on."""
    began_ns = bench.now_ns
    while not bench.found(kind):
        bench.round()
        assert bench.now_ns - began_ns < most_ms * MS
    return (bench.now_ns - began_ns) / MS


@pytest.mark.parametrize("kind", ["lost-write", "duplicate"])
def test_equal_topic_ids_count_only_if_they_are_asked_for_apart(kind: str) -> None:
    """A broker that was just resumed gives the id of a deleted topic for 100 ms or so, however often it is asked."""
    bench = Bench()
    bench.write(10)
    bench.settle(3)
    if kind == "duplicate":
        bench.append(3)
    else:
        del bench.log[7]
        bench.epoch += 1
        bench.round()
    bench.pace_ns = 10 * MS
    bench.poll()
    assert 300 < said_after_ms(bench, kind) < 600


def test_one_that_was_acknowledged_without_an_offset_is_no_exception() -> None:
    bench = Bench()
    bench.write(5)
    (sequence,) = bench.send()
    bench.ack(sequence, None)
    bench.write(5)
    bench.poll()
    bench.pace_ns = 10 * MS
    assert 300 < said_after_ms(bench, "lost-write") < 600


def test_a_clock_that_was_set_back_does_not_hold_up_what_waits() -> None:
    bench = Bench()
    bench.now_ns += 10**13
    bench.write(10)
    bench.settle(3)
    bench.append(3)
    bench.poll()
    bench.round()
    while not any(held.samples for held in bench.tracker.state.topics[TOPIC].logs[0].held.values()):
        bench.round()
    assert bench.found() == []
    bench.now_ns -= 10**13
    for _ in range(3):
        bench.round()
    assert [kind for kind, *_ in bench.found()] == ["duplicate"]


@pytest.mark.parametrize("known", [False, True])
def test_a_former_leader_has_its_seconds_to_learn_of_its_successor(*, known: bool) -> None:
    bench = Resumed.after(read=False, known=known)
    bench.pace_ns = 10 * MS
    for _ in range(400):
        bench.round()
    bench.former, bench.pace_ns = None, 1000 * MS
    bench.settle()
    assert [kind for kind, *_ in bench.found() if kind != "leader-epoch-regression"] == []


def test_what_all_acknowledged_is_gone_in_the_same_time_however_often_the_end_is_asked_for() -> None:
    bench = Bench()
    lone_acknowledgements(bench, 4)
    bench.pace_ns = 100 * MS
    assert 4000 < said_after_ms(bench, "lost-write", 20_000) < 10_000


def test_a_state_of_before_has_no_time_of_the_last_look() -> None:
    bench = Bench()
    bench.write(10)
    bench.settle(3)
    bench.append(3)
    bench.poll()
    bench.end -= 2
    bench.round()
    bench.end += 2
    dumped = bench.tracker.dump()
    for name in (b"sampled_ns", b"looked_ns"):
        assert name in dumped
    former = dumped.replace(b"sampled_ns", b"no_such_field").replace(b"looked_ns", b"no_such_field")
    bench.tracker = type(bench.tracker).load(former)
    assert bench.tracker.state.topics[TOPIC].logs[0].held
    bench.settle()
    assert "duplicate" in [kind for kind, *_ in bench.found()]


def test_the_next_round_is_asked_for_at_once_when_a_reread_meets_the_end_of_the_log_below_a_promise() -> None:
    bench = Bench()
    bench.write(10)
    bench.settle(3)
    bench.answering = False
    bench.epoch += 1
    bench.round()
    (request,) = bench.requests
    place = (RC, TOPIC, 0, request.start, request.end)
    number = request.request_id
    bench.tracker.fold([f.RereadEnded(bench.now_ns, number, *place, 0, complete=False, error="end of log at 0")])
    assert bench.tracker.drain().urgent
    bench.tracker.fold([f.Tick(bench.now_ns)])
    assert not bench.tracker.drain().urgent
