"""What is waited for before anything is said, across restarts and absences of the topic."""

from __future__ import annotations

import pytest

from canary import facts as f
from canary.anomalies.online.stream import SENT_KEPT, sent_time
from tests.support.bench import PRODUCER, RC, RU, TOPIC, Bench


def asked(bench: Bench) -> int:
    bench.sample += 1
    bench.fold(f.WatchAsked(bench.now_ns, bench.sample))
    return bench.sample


def answered(bench: Bench, sample: int) -> None:
    bench.fold(
        f.TopicSeen(bench.now_ns, sample, TOPIC, bench.topic_id, 1),
        f.Listed(bench.now_ns, sample, TOPIC, 0, bench.start, bench.end, bench.end, bench.epoch),
    )


def test_a_topic_id_that_was_asked_for_before_the_evidence_confirms_nothing() -> None:
    bench = Bench()
    bench.write(3)
    samples = [asked(bench) for _ in range(4)]
    del bench.log[1]
    bench.poll()
    bench.answer()
    for sample in samples:
        answered(bench, sample)
    assert bench.found() == []
    bench.round()
    assert bench.found() == [], "one is not enough"
    bench.settle()
    assert bench.found() == [("lost-write", 1, 1)]


def test_a_topic_that_was_away_for_a_moment_is_judged_again() -> None:
    bench = Bench()
    bench.write(3)
    bench.fold(f.TopicGone(bench.now_ns, asked(bench), TOPIC))
    del bench.log[1]
    bench.poll()
    assert bench.requests == []
    bench.settle()
    assert bench.found() == [("lost-write", 1, 1)]


def test_what_was_asked_by_a_dead_process_is_waited_for_no_longer() -> None:
    bench = Bench()
    bench.send(2)
    bench.append(1, 0)
    bench.answering = False
    bench.poll()
    bench.round()
    assert bench.found() == []
    bench.restart()
    bench.answering = True
    bench.settle()
    assert bench.found() == [("reorder", 0, 1)]


def test_a_log_that_was_cut_while_nobody_looked_is_read_again_at_the_start() -> None:
    bench = Bench()
    bench.write(5)
    bench.poll()
    bench.settle(2)
    bench.truncate(3, epoch=False)
    bench.end = 10  # others have written since
    bench.restart()
    bench.settle()
    assert bench.found("lost-write") == [("lost-write", 3, 3), ("lost-write", 4, 4)]


def test_the_very_next_sequence_is_a_phantom_too() -> None:
    bench = Bench()
    bench.write(3)
    bench.end += 1
    bench.append(3)
    bench.poll()
    assert bench.found() == [("phantom", 4, 3)]


def test_a_later_generation_of_somebody_elses_producer_is_looked_up_again() -> None:
    bench = Bench()
    bench.fold(f.ProducerLooked(bench.now_ns, 1234, 5))
    bench.tracker.fold([f.Polled(bench.now_ns, RC, RC, TOPIC, 0, 0, 1234, 5, 0)])
    assert bench.tracker.drain().unknown_producers == []
    bench.tracker.fold([f.Polled(bench.now_ns, RC, RC, TOPIC, 0, 1, 1234, 6, 0)])
    assert bench.tracker.drain().unknown_producers == [1234]
    assert PRODUCER != 1234


def test_two_topic_ids_asked_for_after_the_evidence_are_enough() -> None:
    bench = Bench()
    bench.write(3)
    del bench.log[1]
    bench.round()
    bench.poll()
    bench.answer()
    bench.round()
    assert bench.found() == []
    bench.round()
    assert bench.found() == [("lost-write", 1, 1)]


def test_one_reread_without_an_answer_proves_nothing() -> None:
    bench = Bench()
    bench.write(3)
    bench.answering = False
    bench.hidden = {1}
    bench.poll()
    bench.round()
    (request,) = bench.requests
    bench.requests.clear()
    number = request.request_id
    place = (RC, TOPIC, 0, 1, 2)
    bench.fold(f.RereadEnded(bench.now_ns, number, *place, 1, complete=False, error="silence"))
    bench.round()
    bench.round()
    assert bench.found() == []
    bench.answering = True
    bench.settle()
    assert bench.found() == [("poll-skip", 1, 1)]


def test_what_a_dead_process_may_have_sent_and_not_noted_is_no_phantom() -> None:
    bench = Bench()
    bench.fold(f.RunnerStarted(bench.now_ns, "canary-0", "test"))
    bench.append(0)
    bench.poll()
    bench.settle()
    assert bench.found() == []


def test_what_was_asked_before_a_step_back_does_not_confirm_it() -> None:
    bench = Bench()
    bench.write(3)
    bench.poll()
    samples = [asked(bench) for _ in range(4)]
    bench.deliver(RC, RC, 0, 1)
    for sample in samples:
        answered(bench, sample)
    assert bench.found() == []
    bench.settle()
    assert bench.found() == [("nonmonotonic-poll", 0, -1)]


def test_a_partition_that_does_not_answer_is_not_judged() -> None:
    bench = Bench()
    bench.write(3)
    del bench.log[1]
    bench.poll()
    bench.answer()
    for _ in range(4):
        sample = asked(bench)
        bench.fold(f.TopicSeen(bench.now_ns, sample, TOPIC, bench.topic_id, 1))
    assert bench.found() == []
    bench.round()
    bench.round()
    assert bench.found() == [("lost-write", 1, 1)]


@pytest.mark.dear("how costs grow is seen where they are large")
def test_a_reader_that_stands_still_costs_no_more_with_every_probe_and_its_delay_is_known() -> None:
    bench = Bench()
    probes, sent_ns = 20_000, []
    for _ in range(probes):
        bench.now_ns += 10**9
        sent_ns.append(bench.now_ns)
        bench.write()
        bench.poll(RU)
    (stream,) = bench.tracker.state.topics[TOPIC].streams
    assert stream.unseen[RC].total == probes
    assert len(stream.sent_keys) == len(stream.sent_times) <= 3 * SENT_KEPT
    for sequence in (0, 17, probes // 2, probes - 1):
        known = sent_time(stream, sequence)
        assert known is not None
        assert -(10**8) < sent_ns[sequence] - known <= (bench.now_ns - sent_ns[0]) // SENT_KEPT + 2 * 10**9
    bench.poll(RC)
    bench.write(2 * SENT_KEPT)
    bench.poll()
    bench.write()
    assert len(stream.sent_keys) < 2 * SENT_KEPT
    assert bench.found() == []
