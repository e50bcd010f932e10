"""Random reads: old records are read again at a place drawn at random; what is gone is lost, no answer is no answer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from canary import facts as f
from canary.metrics import measured
from tests.support.bench import RC, TOPIC, Bench


def drawn(bench: Bench, start: int, records: int = 10) -> list[tuple[int, int]]:
    """Draw a place; return the ranges that are asked for, without an answer."""
    bench.requests.clear()
    bench.fold(f.RandomReadAsked(bench.now_ns, TOPIC, 0, start, records))
    return [(request.start, request.end) for request in bench.requests if request.reason == "random"]


def unanswered(bench: Bench, error: str | None = "silence for 5 s") -> None:
    """Let every re-read end in an error."""
    requests, bench.requests = bench.requests, []
    for r in requests:
        bench.fold(f.RereadEnded(bench.now_ns, r.request_id, RC, TOPIC, 0, r.start, r.end, r.start, False, error))


def outcomes(bench: Bench) -> dict[str, float]:
    series = measured(bench.tracker.state).series()
    return {one.labels[-1]: one.value for one in series if one.name == "canary_random_reads_total"}


def written(count: int = 30) -> Bench:
    bench = Bench()
    bench.write(count)
    bench.settle()
    return bench


@given(st.integers(0, 29), st.integers(1, 40), st.integers(0, 29))
def test_what_vanished_behind_every_reader_is_lost_if_it_is_in_the_range_and_nothing_is_said_otherwise(
    start: int, records: int, gone: int
) -> None:
    bench = written()
    del bench.log[gone]
    bench.settle()
    assert bench.found() == []
    assert drawn(bench, start, records) == [(start, min(start + records, 30))]
    bench.answer()
    bench.settle()
    within = start <= gone < start + records
    assert bench.found() == ([("lost-write", gone, gone)] if within else [])
    assert outcomes(bench) == {"answered": 1, "unanswered": 0}


def test_a_loss_that_begins_below_the_range_is_found_to_its_beginning() -> None:
    bench = written(300)
    for gone in range(50, 120):
        del bench.log[gone]
    drawn(bench, 100, 10)
    bench.answer()
    bench.settle()
    assert bench.found("lost-write") == [("lost-write", at, at) for at in range(50, 110)], "the rest is the scrubber's"


def test_a_read_without_an_answer_ends_is_counted_and_says_nothing() -> None:
    bench = written()
    for times in range(1, 4):
        assert drawn(bench, 5) == [(5, 15)]
        unanswered(bench)
        bench.round()
        assert [request.reason for request in bench.requests] == [], "it is not asked again"
        assert outcomes(bench) == {"answered": 0, "unanswered": times}
    assert bench.found() == []
    drawn(bench, 5)
    bench.answer()
    assert outcomes(bench) == {"answered": 1, "unanswered": 3}


def test_there_is_one_at_a_time_and_it_holds_up_neither_tail_nor_scrubber() -> None:
    bench = written()
    bench.answering = False
    assert drawn(bench, 5) == [(5, 15)]
    assert drawn(bench, 7) == []
    bench.fold(f.ScrubAsked(bench.now_ns, TOPIC, 0, 10))
    bench.epoch += 1
    bench.round()
    assert {request.reason for request in bench.requests} == {"scrub", "epoch"}
    bench.restart()
    bench.round()
    assert drawn(bench, 5) == [(5, 15)], "a former process's read is not waited for"


def test_a_place_is_cut_to_what_the_log_retains_and_an_open_transaction_lets_see() -> None:
    bench = written()
    assert drawn(bench, 25) == [(25, 30)]
    bench.answer()
    assert drawn(bench, 30) == drawn(bench, 1000) == []
    bench.start = 8
    bench.settle()
    assert drawn(bench, 2) == [(8, 18)]
    bench.answer()
    bench.write(10)
    bench.stable = 33
    bench.round()
    assert drawn(bench, 31) == [(31, 33)]
    bench.answer()
    assert bench.found("lost-write") == []


def test_where_the_log_ends_below_the_range_it_is_read_again_and_the_cut_is_found() -> None:
    bench = written()
    drawn(bench, 20)
    bench.truncate(22)
    bench.answer()
    bench.settle()
    assert [at for _, at, _ in bench.found("lost-write")] == list(range(22, 30))
    assert outcomes(bench)["unanswered"] == 0


def test_before_the_log_was_listed_and_after_the_topic_is_gone_nothing_is_asked() -> None:
    bench = written()
    bench.tracker.state.topics[TOPIC].logs[0].listed_ordinal = 0
    assert drawn(bench, 5) == []
    bench.round()
    assert drawn(bench, 5) != []
    bench.answer()
    bench.fold(f.WatchAsked(bench.now_ns, 1000), f.TopicGone(bench.now_ns, 1000, TOPIC))
    bench.fold(f.WatchAsked(bench.now_ns, 1001), f.TopicGone(bench.now_ns, 1001, TOPIC))
    assert drawn(bench, 5) == []
    bench.fold(f.RandomReadAsked(bench.now_ns, "another", 0, 5, 10), f.RandomReadAsked(bench.now_ns, TOPIC, 9, 5, 10))
    assert bench.requests == []


def test_how_long_it_took_is_counted_from_the_wish() -> None:
    bench = written()
    drawn(bench, 5)
    bench.now_ns += 3_000_000_000
    bench.answer()
    (latency,) = (
        one for one in measured(bench.tracker.state).series() if one.name == "canary_random_read_latency_seconds"
    )
    assert 3.0 <= latency.value < 3.1
    assert sum(latency.counts) == 1
