"""Between which moments something happened: from when its place was last known to be whole to when it was found."""

from __future__ import annotations

import json

import pytest

from canary import facts as f
from canary.anomalies.online import Tracker
from canary.anomalies.violation import Violation
from tests.anomalies.online.test_lineages import listed, told
from tests.anomalies.online.test_topology import Cluster, cluster
from tests.support.bench import RC, RU, TOPIC, Bench

S = 10**9
HOURS = 3600 * S


def one(bench: Bench, kind: str) -> Violation:
    (found,) = [found for found in bench.violations.values() if found.kind == kind]
    return found


def scrub(bench: Bench, rounds: int = 3) -> None:
    for _ in range(rounds):
        bench.fold(f.ScrubAsked(bench.now_ns, TOPIC, 0, 1000))
        bench.answer()
        bench.round()


def quiet(bench: Bench, ns: int) -> None:
    """Nothing is written for a while, and the log is listed now and then."""
    for _ in range(4):
        bench.now_ns += ns // 4
        bench.settle(2)


def harmed() -> tuple[Bench, int]:
    """Return a bench whose log lost a record six hours ago, and when that was; it was listed since, and not read."""
    bench = Bench()
    bench.write(5)
    bench.settle()
    del bench.log[1]
    harm_ns = bench.now_ns
    quiet(bench, 6 * HOURS)
    return bench, harm_ns


def within(found: Violation, harm_ns: int) -> bool:
    """Return whether the interval has the moment of the harm in it; it always must."""
    return found.happened_after_ns is None or found.happened_after_ns <= harm_ns <= found.found_ns


def test_what_the_scrubber_finds_happened_after_it_was_sent_and_not_when_it_was_found() -> None:
    bench = Bench()
    sent_ns = bench.now_ns
    bench.write(5)
    bench.settle()
    del bench.log[2]
    harm_ns = bench.now_ns
    quiet(bench, 12 * HOURS)
    found_ns = bench.now_ns
    scrub(bench)
    bench.settle()
    lost = one(bench, "lost-write")
    assert lost.happened_after_ns is not None
    assert within(lost, harm_ns)
    assert lost.happened_after_ns - sent_ns < 40 * S
    assert lost.found_ns >= found_ns


def test_a_pass_of_the_scrubber_moves_the_bound_and_the_one_that_finds_it_does_not() -> None:
    bench = Bench()
    bench.write(5)
    quiet(bench, 12 * HOURS)
    passed_ns = bench.now_ns
    scrub(bench)
    quiet(bench, 6 * HOURS)
    del bench.log[2]
    harm_ns = bench.now_ns
    quiet(bench, HOURS)
    scrub(bench)
    bench.settle()
    lost = one(bench, "lost-write")
    assert within(lost, harm_ns)
    assert (lost.happened_after_ns or 0) >= passed_ns


def test_a_pass_that_began_in_the_middle_has_not_read_what_lies_before() -> None:
    bench, harm_ns = harmed()
    bench.fold(f.ScrubAsked(bench.now_ns, TOPIC, 0, 1000, 3))
    bench.answer()
    quiet(bench, HOURS)
    scrub(bench)
    bench.settle()
    assert within(one(bench, "lost-write"), harm_ns)


def test_a_pass_that_goes_on_in_the_middle_has_not_read_what_lies_before() -> None:
    bench, harm_ns = harmed()
    bench.fold(f.ScrubAsked(bench.now_ns, TOPIC, 0, 1, 3))
    bench.answer()
    bench.epoch += 1
    bench.settle()
    assert within(one(bench, "lost-write"), harm_ns)


def test_a_pass_has_not_read_what_was_promised_of_its_places_afterwards() -> None:
    """A leader that is cut off takes a write at an offset that its successor gives to another one."""
    bench = Bench()
    bench.write(5)
    bench.settle()
    (sequence,) = bench.send()
    harm_ns = bench.now_ns
    bench.append(*bench.send())
    bench.poll()
    quiet(bench, HOURS)
    scrub(bench)
    bench.ack(sequence, 5)
    bench.settle()
    assert within(one(bench, "lost-write"), harm_ns)


def test_a_log_that_has_grown_again_is_not_listed_whole_before_the_cut_is_read() -> None:
    bench = Bench(epoch=4)
    bench.write(10)
    quiet(bench, HOURS)
    before_ns = bench.now_ns
    bench.write(1)
    bench.truncate(7)
    harm_ns = bench.now_ns
    bench.append(*bench.send(5))
    bench.answering = False
    for _ in range(3):
        bench.round()
    bench.answering = True
    bench.settle()
    truncation = one(bench, "truncation")
    assert within(truncation, harm_ns)
    assert (truncation.happened_after_ns or 0) >= before_ns


@pytest.mark.parametrize("grown", [0, 5])
def test_a_cut_happened_after_the_log_was_last_listed_whole(grown: int) -> None:
    bench = Bench(epoch=4)
    bench.write(10)
    quiet(bench, 12 * HOURS)
    before_ns = bench.now_ns - 10 * S
    bench.truncate(7)
    harm_ns = bench.now_ns
    if grown:
        bench.write(grown)
    bench.settle()
    truncation = one(bench, "truncation")
    assert within(truncation, harm_ns)
    for lost in [found for found in bench.violations.values() if found.kind == "lost-write"]:
        assert within(lost, harm_ns)
        assert grown or min(one.happened_after_ns or 0 for one in (lost, truncation)) > before_ns


def test_records_that_go_too_early_went_after_the_log_was_last_listed_with_them() -> None:
    bench = Bench()
    bench.write(10)
    quiet(bench, HOURS)
    before_ns = bench.now_ns - 10 * S
    harm_ns = bench.now_ns
    for offset in range(6):
        del bench.log[offset]
    bench.start = 6
    bench.round()
    bench.fold(f.TopicConfigured(bench.now_ns, TOPIC, 7 * 86_400_000, -1, "delete", 2))
    bench.settle()
    found = one(bench, "early-expiry")
    assert within(found, harm_ns)
    assert (found.happened_after_ns or 0) > before_ns


def test_a_damaged_record_was_damaged_after_it_was_sent() -> None:
    bench = Bench()
    bench.write(5)
    quiet(bench, 12 * HOURS)
    bench.log[2] = "corrupt"
    scrub(bench)
    found = one(bench, "corrupt")
    assert found.happened_after_ns is not None
    assert found.happened_after_ns < 60 * S


def test_a_topic_was_made_anew_after_its_former_id_was_last_seen() -> None:
    bench = Bench()
    bench.write(3)
    quiet(bench, HOURS)
    before_ns = bench.now_ns - 10 * S
    bench.topic_id, bench.log, bench.end = "incarnation-2", {}, 0
    harm_ns = bench.now_ns
    bench.round()
    found = one(bench, "topic-recreated")
    assert within(found, harm_ns)
    assert (found.happened_after_ns or 0) > before_ns


def watched(c: Cluster) -> Violation:
    (found,) = c.open.values()
    return found


def test_an_end_went_back_between_two_looks() -> None:
    c = cluster()
    listed(c, 120, 4)
    whole_ns = c.now_ns
    listed(c, 80, 5)
    seen_ns = c.now_ns
    listed(c, 80, 5)
    found = watched(c)
    assert found.happened_after_ns is not None
    assert found.happened_after_ns <= whole_ns < found.found_ns <= seen_ns < found.at_ns


def test_an_epoch_has_cut_after_the_high_watermark_was_last_told() -> None:
    c = cluster()
    told(c, 4, 60, 120)
    c.now_ns += HOURS
    told(c, 4, 60, 120)
    whole_ns = c.now_ns
    c.now_ns += HOURS
    told(c, 5, 80, 85)
    assert watched(c).happened_after_ns is not None
    assert whole_ns - S <= (watched(c).happened_after_ns or 0) <= whole_ns


def test_an_epoch_went_back_after_it_was_last_listed() -> None:
    c = cluster()
    listed(c, 120, 9)
    c.now_ns += HOURS
    listed(c, 120, 9)
    last_ns = c.now_ns
    for _ in range(6):
        listed(c, 120, 3)
    assert last_ns - S <= (watched(c).happened_after_ns or 0) <= last_ns


def test_an_election_was_between_the_rounds_that_saw_the_former_and_the_new_leader() -> None:
    c = cluster()
    c.set("orders", 0, 1, "1,2,3")
    told(c, 4, 60, 120)
    c.set("orders", 0, 1, "1")
    c.round()
    before_ns = c.now_ns
    told(c, 5, 80, 90, leader=3)
    c.set("orders", 0, 3, "3")
    c.round()
    (found,) = [one for one in c.open.values() if one.kind == "unclean-election"]
    assert before_ns - 2 * S <= (found.happened_after_ns or 0) <= found.found_ns <= c.now_ns


def test_a_state_of_before_knows_no_bound_and_says_so() -> None:
    c = cluster()
    listed(c, 120, 4)
    written = json.loads(c.tracker.dump())
    (ends,) = [columns for key, columns in [written["topology"]["ends"]] if key == [["orders", 0]]]
    del ends["at_ns"]
    c.tracker = Tracker.load(json.dumps(written).encode())
    listed(c, 80, 5)
    listed(c, 80, 5)
    assert watched(c).happened_after_ns is None


@pytest.mark.parametrize("name", [RC, RU])
def test_a_position_that_went_back_did_so_after_the_record_was_sent(name: str) -> None:
    bench = Bench()
    bench.write(5)
    bench.settle()
    bench.now_ns += HOURS
    bench.deliver(name, name, 3, 4)
    bench.settle()
    found = one(bench, "nonmonotonic-poll")
    assert found.happened_after_ns is not None
    assert found.happened_after_ns < 60 * S
