"""Where a probe stands, and before which others: late knowledge, doubtful sends, cuts."""

from __future__ import annotations

from canary import facts as f
from tests.support.bench import PRODUCER, RU, TOPIC, Bench


def doubt(bench: Bench, sequence: int) -> None:
    bench.fold(f.Indeterminate(bench.now_ns, TOPIC, 0, PRODUCER, bench.generation, sequence, "timed out"))


def test_neighbours_that_are_swapped_are_a_reorder() -> None:
    bench = Bench()
    bench.send(2)
    bench.append(1, 0)
    bench.poll()
    bench.settle()
    assert bench.found() == [("reorder", 0, 1)]


def test_a_doubtful_send_that_landed_late_is_no_reorder_whoever_is_heard_of_first() -> None:
    bench = Bench()
    bench.send(2)
    doubt(bench, 0)
    bench.append(1, 0)
    bench.fold(f.Positioned(bench.now_ns, RU, RU, TOPIC, 0, 1, "start"))
    bench.positions[RU] = 1
    bench.poll(RU)
    bench.ack(1, 0)
    bench.settle()
    assert bench.found() == []


def test_an_order_that_turns_out_to_be_right_is_no_reorder() -> None:
    bench = Bench()
    bench.send(3)
    bench.append(0, 1, 2)
    bench.ack(0, 2)  # it stands at 0
    bench.ack(1, 1)
    bench.settle()
    assert bench.found("reorder", "nonmonotonic-send") == []


def test_a_copy_is_found_once() -> None:
    bench = Bench()
    bench.write(2)
    bench.append(0)
    bench.settle()
    assert bench.found("duplicate") == [("duplicate", 2, 0)]
    bench.restart()
    bench.poll()
    bench.round()
    (log,) = bench.tracker.state.topics[TOPIC].logs.values()
    assert log.held == {}


def test_what_a_cut_destroyed_and_a_retry_appended_again_is_no_copy_though_the_start_moves_on() -> None:
    bench = Bench()
    bench.write(5)
    bench.poll()
    bench.answering = False
    bench.truncate(3)
    bench.append(4)
    bench.poll()
    bench.round()
    bench.answer()
    bench.now_ns += 9 * 86_400 * 10**9
    bench.start = 4
    bench.answering = True
    bench.settle()
    assert bench.found("duplicate") == []


def test_what_a_cut_destroyed_and_a_retry_appended_again_is_no_copy_though_one_answer_tells_of_cut_and_start() -> None:
    bench = Bench()
    bench.write(3)
    bench.end = 4  # a marker
    bench.write(1)
    bench.poll()
    bench.answering = False
    bench.truncate(3)
    bench.append(3)
    bench.put(RU, 3)
    bench.poll(RU)
    bench.now_ns += 9 * 86_400 * 10**9
    bench.start = 4
    bench.round()
    bench.answering = True
    bench.settle()
    assert bench.found("duplicate") == []


def test_what_was_written_into_an_emptied_log_is_in_order_though_it_expires_before_anything_is_read_again() -> None:
    bench = Bench(end=1)
    bench.write(6)
    bench.answering = False
    bench.truncate(0)
    bench.write(1)
    bench.end = 20  # others write beyond where it ended
    bench.now_ns += 9 * 86_400 * 10**9
    bench.start = 1
    bench.round()
    bench.answering = True
    bench.settle()
    assert bench.found("nonmonotonic-send", "reorder") == []
    assert bench.found("lost-write") == [("lost-write", n, n - 1) for n in range(1, 7)]


def test_an_order_that_was_read_again_is_said_though_it_expires() -> None:
    bench = Bench()
    sequences = bench.send(2)
    for sequence, offset in zip(sequences, reversed(bench.append(*reversed(sequences))), strict=True):
        bench.ack(sequence, offset)
    bench.answer()
    bench.now_ns += 9 * 86_400 * 10**9
    bench.start = 1
    bench.settle()
    assert bench.found() == [("nonmonotonic-send", 0, 1)]


def test_an_order_is_read_again_at_both_places_though_one_is_acknowledged_late() -> None:
    bench = Bench(end=2)
    bench.append(*bench.send())
    bench.truncate(0)
    bench.append(*bench.send())
    bench.settle(1)
    bench.end = 5  # others write beyond
    bench.ack(0, 2)  # where it stood
    for _ in range(4):
        bench.round()
    bench.settle()
    assert bench.found("nonmonotonic-send", "reorder") == []
    assert bench.found("lost-write") == [("lost-write", 2, 0)]


def test_what_a_lone_leader_acknowledged_and_a_cut_destroyed_was_before_nothing() -> None:
    bench = Bench(mode="plain")
    bench.settle(2)
    bench.write(4)
    bench.truncate(0)
    bench.write(3)  # the fifth stands at 0; the fourth was at 3, where the log ends now
    bench.settle()
    assert bench.found("reorder", "nonmonotonic-send") == []
    bench.write(8)
    bench.settle()
    assert bench.found("reorder", "nonmonotonic-send") == []
    assert [identity for _, _, identity in bench.found("lost-write")] == [0, 1, 2, 3]


def test_what_a_process_that_ended_had_under_way_may_land_at_any_later_time() -> None:
    bench = Bench()
    bench.write(3)
    (sequence,) = bench.send()
    bench.restart()
    stream = next(one for one in bench.tracker.state.topics[TOPIC].streams if not one.live)
    assert list(stream.indeterminate) == [(sequence, sequence + 1)]
