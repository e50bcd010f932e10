"""The scrubber reads everything retained, chunk by chunk, and finds what is gone."""

from __future__ import annotations

import pytest

from canary import facts as f
from canary.anomalies.online.log import Log
from canary.anomalies.online.losses.scrub import ratio
from canary.metrics import measured
from tests.support.bench import TOPIC, Bench


def scrub(bench: Bench, records: int = 10, start: int | None = None) -> None:
    bench.fold(f.ScrubAsked(bench.now_ns, TOPIC, 0, records, start))
    bench.answer()


def metric(bench: Bench, name: str) -> float:
    return next(m.value for m in measured(bench.tracker.state).series() if m.name == name)


def test_a_pass_goes_from_start_to_end_and_begins_again() -> None:
    bench = Bench()
    bench.write(30)
    bench.settle()
    ratios = []
    for _ in range(4):
        scrub(bench)
        ratios.append(metric(bench, "canary_scrub_position_ratio"))
    assert ratios == [pytest.approx(1 / 3), pytest.approx(2 / 3), 0.0, pytest.approx(1 / 3)]
    assert metric(bench, "canary_scrub_age_seconds") < 1
    assert bench.found() == []


def test_the_last_chunk_of_a_pass_reaches_what_was_appended_during_it_and_goes_no_further() -> None:
    bench = Bench()
    bench.write(15)
    bench.settle()
    scrub(bench)
    bench.write(3)
    bench.settle()
    del bench.log[16]
    scrub(bench)
    bench.settle()
    assert bench.found() == [("lost-write", 16, 16)]
    scrub(bench)
    bench.write(100)
    bench.settle()
    assert asked(bench) == [(10, 20)]
    bench.answer()
    assert asked(bench) == [(0, 10)]


def test_a_record_that_vanished_behind_every_reader_is_lost() -> None:
    """#3036: read once, gone later, and nobody went back."""
    bench = Bench()
    bench.write(30)
    bench.settle()
    del bench.log[12]
    bench.settle()
    assert bench.found() == []
    for _ in range(3):
        scrub(bench)
    bench.settle()
    assert bench.found() == [("lost-write", 12, 12)]


def test_a_scrub_under_way_does_not_keep_the_tail_from_being_read_again() -> None:
    bench = Bench()
    bench.write(10)
    bench.settle()
    bench.answering = False
    bench.fold(f.ScrubAsked(bench.now_ns, TOPIC, 0, 10))
    bench.epoch += 1
    bench.round()
    assert {request.reason for request in bench.requests} == {"scrub", "epoch"}


def test_a_pass_from_a_given_place_reads_everything_again() -> None:
    bench = Bench()
    bench.write(30)
    bench.settle()
    scrub(bench, 10)
    del bench.log[2]
    asked_ns = bench.now_ns
    scrub(bench, 1 << 40, 0)
    bench.settle()
    assert bench.tracker.state.topics[TOPIC].logs[0].scrubbed_ns > asked_ns
    assert bench.found() == [("lost-write", 2, 2)]


def asked(bench: Bench, records: int = 10, start: int | None = None) -> list[tuple[int, int]]:
    """Give the scrubber leave; return what it asks for, without an answer."""
    bench.requests.clear()
    bench.fold(f.ScrubAsked(bench.now_ns, TOPIC, 0, records, start))
    return [(request.start, request.end) for request in bench.requests]


def test_nothing_is_scrubbed_before_the_log_was_listed_or_after_the_topic_is_gone() -> None:
    bench = Bench()
    bench.write(30)
    assert asked(bench) == [(0, 10)]
    bench.restart()
    bench.tracker.state.topics[TOPIC].logs[0].listed_ordinal = 0
    assert asked(bench) == []
    bench.round()
    assert asked(bench) == [(0, 10)]
    bench.restart()
    bench.round()
    bench.sample += 1
    bench.fold(f.WatchAsked(bench.now_ns, bench.sample), f.TopicGone(bench.now_ns, bench.sample, TOPIC))
    assert asked(bench) == []


def test_a_log_of_which_nothing_is_retained_has_been_scrubbed_at_once() -> None:
    bench = Bench()
    assert asked(bench) == []
    assert bench.tracker.state.topics[TOPIC].logs[0].scrubbed_ns == bench.tracker.state.now_ns


def test_a_pass_is_as_far_as_it_is_between_the_logs_start_and_the_passs_goal() -> None:
    assert ratio(Log(0, start=10, scrub_at=20, scrub_goal=30)) == 0.5
    assert ratio(Log(0, start=10, scrub_at=5, scrub_goal=30)) == 0.0
    assert ratio(Log(0, start=10, scrub_at=10, scrub_goal=10)) == 0.0


def test_a_pass_begins_again_where_a_log_begins_lower_than_before() -> None:
    bench = Bench()
    bench.write(30)
    bench.start = 10
    bench.settle()
    scrub(bench, 5)
    bench.start, bench.epoch = 5, 1  # who leads now has deleted less
    bench.settle()
    assert asked(bench, 5) == [(5, 10)]


def test_one_chunk_is_read_at_a_time_unless_a_place_is_named() -> None:
    bench = Bench()
    bench.write(30)
    assert asked(bench) == [(0, 10)]
    assert asked(bench) == []
    assert asked(bench, 5, 20) == [(20, 25)]


def test_a_pass_from_a_given_place_goes_to_the_end_that_is_known_now() -> None:
    bench = Bench()
    bench.write(10)
    bench.settle()
    scrub(bench, 5)
    bench.write(10)
    bench.settle()
    assert asked(bench, 100, 3) == [(3, 20)]


def test_a_pass_began_when_its_first_chunk_was_asked_for() -> None:
    bench = Bench()
    bench.write(30)
    bench.settle()
    scrub(bench)
    log = bench.tracker.state.topics[TOPIC].logs[0]
    began_ns = log.scrub_began_ns
    bench.now_ns += 60 * 10**9
    bench.fold(f.Tick(bench.now_ns))
    scrub(bench)
    assert log.scrub_began_ns == began_ns


def test_a_pass_goes_no_further_than_a_log_that_was_cut_and_begins_where_the_log_does() -> None:
    bench = Bench()
    bench.write(30)
    bench.settle()
    scrub(bench)
    log = bench.tracker.state.topics[TOPIC].logs[0]
    log.scrub_goal = 45  # of a log that reached further then
    assert asked(bench, 100) == [(0, 30)]
    log.rereads.clear()
    log.start, log.scrub_at, log.scrub_goal = 12, 5, 30
    assert asked(bench, 100) == [(12, 30)]


def test_what_cannot_be_read_now_is_asked_for_again_from_where_it_broke_off() -> None:
    bench = Bench()
    bench.write(30)
    bench.settle()
    bench.answering = False
    bench.fold(f.ScrubAsked(bench.now_ns, TOPIC, 0, 20))
    (request,) = bench.requests
    bench.requests.clear()
    bench.deliver("reread-" + str(request.request_id), "read_committed", 0, 7)
    bench.fold(
        f.RereadEnded(bench.now_ns, request.request_id, "read_committed", TOPIC, 0, 0, 20, 7, False, "silence for 5 s")
    )
    bench.fold(f.ScrubAsked(bench.now_ns, TOPIC, 0, 20))
    assert [(r.start, r.end) for r in bench.requests] == [(7, 27)]
    assert bench.found() == []


def test_a_watched_topic_that_is_gone_is_not_scrubbed() -> None:
    bench = Bench()
    bench.write(5)
    bench.settle()
    bench.fold(f.TopicGone(bench.now_ns, 99, TOPIC))
    scrub(bench)
    assert bench.requests == []


def test_under_a_transaction_that_hangs_everything_before_it_is_read_again_and_again() -> None:
    bench = Bench()
    bench.write(30)
    bench.settle()

    def hang() -> None:
        """Another look at the log, in which a transaction stands open at 20."""
        log = bench.tracker.state.topics[TOPIC].logs[0]
        bench.round()
        log.stable = 20

    def scrubbed(places: int) -> list[tuple[int, int]]:
        ranges = []
        for _ in range(places):
            hang()
            ranges += asked(bench)
            request = bench.requests[0] if bench.requests else None
            if request is not None:
                number, start, end = request.request_id, request.start, request.end
                bench.deliver(f"reread-{number}", "read_committed", start, min(end, 20))
                reached, complete = min(end, 20), end <= 20
                error = None if complete else "end of log at 20"
                place = ("read_committed", TOPIC, 0, start, end, reached, complete, error)
                bench.fold(f.RereadEnded(bench.now_ns, number, *place))
        return ranges

    first = bench.now_ns
    assert scrubbed(3) == [(0, 10), (10, 20)]
    assert bench.tracker.state.topics[TOPIC].logs[0].scrubbed_ns > first
    del bench.log[12]
    assert scrubbed(3) == [(0, 10), (10, 20)]
    bench.settle()
    assert bench.found() == [("lost-write", 12, 12)]
