"""What was found once has no echoes: phantoms that are read again, losses that the log's start passes."""

from __future__ import annotations

from canary import facts as f
from tests.support.bench import PRODUCER, RC, RU, TOPIC, Bench


def unseen(bench: Bench) -> int:
    topic = bench.tracker.state.topics[TOPIC]
    return sum(stream.unseen[RC].total for stream in topic.streams if RC in stream.unseen)


def test_a_phantom_is_no_probe_of_its_generation_when_that_is_dead() -> None:
    bench = Bench()
    bench.write(3)
    bench.append(900)
    bench.poll()
    bench.send()
    (offset,) = bench.append(3)
    bench.ack(3, offset)
    bench.restart()
    bench.settle()
    assert bench.found() == [("phantom", 3, 900)]


def test_phantoms_that_go_on_where_the_sent_ones_end_are_told_from_them() -> None:
    bench = Bench()
    bench.send(3)
    offsets = bench.append(0, 1, 2, 3, 4)
    for sequence in range(3):
        bench.ack(sequence, offsets[sequence])
    assert unseen(bench) == 3
    bench.poll()
    assert bench.found() == [("phantom", 3, 3), ("phantom", 4, 4)]
    assert unseen(bench) == 0


def test_what_a_fresh_client_did_not_find_stays_lost_when_the_start_passes_it() -> None:
    bench = Bench()
    offsets = bench.write(5)
    del bench.log[offsets[2]]
    bench.poll()
    bench.answer()  # it is not there
    bench.now_ns += 9 * 86_400 * 10**9
    bench.start = 4
    bench.settle()
    assert bench.found("lost-write") == [("lost-write", 2, 2)]


def test_what_expired_before_a_fresh_client_could_look_is_not_lost() -> None:
    bench = Bench()
    offsets = bench.write(5)
    del bench.log[offsets[2]]
    bench.answering = False
    bench.poll()
    bench.now_ns += 9 * 86_400 * 10**9
    bench.start = 4
    bench.round()
    bench.answering = True
    bench.settle()
    assert bench.found() == []
    assert bench.tracker.state.meters[TOPIC, 0].unverified == {"idempotent": 1}


def test_a_copy_stays_a_copy_when_the_first_expires_before_it_is_said() -> None:
    bench = Bench()
    bench.write(3)
    bench.append(1)
    bench.poll()
    bench.now_ns += 9 * 86_400 * 10**9
    bench.start = 4
    bench.write(1)
    bench.settle()
    assert bench.found("duplicate") == [("duplicate", 3, 1)]


def test_what_is_skipped_when_it_is_read_again_was_not_given_late() -> None:
    bench = Bench()
    bench.write(4)
    bench.poll()
    bench.restart()
    bench.fold(f.Positioned(bench.now_ns, RC, RC, TOPIC, 0, 0, "start"))
    bench.positions[RC] = 0
    bench.hidden = {2}
    bench.poll()
    bench.settle()
    assert bench.found() == [("poll-skip", 2, 2)]


def made_again(bench: Bench) -> None:
    """Delete the topic and make it again; the canary sees it."""
    bench.topic_id, bench.log, bench.start, bench.end = "incarnation-2", {}, 0, 0
    bench.round()


def renewed(bench: Bench) -> None:
    bench.generation, bench.sequence = bench.generation + 1, 0
    bench.fold(f.GenerationBegan(bench.now_ns, TOPIC, bench.mode, PRODUCER, bench.generation, bench.topic_id))
    for name in (RC, RU):
        bench.positions[name] = 0
        bench.fold(f.Positioned(bench.now_ns, name, name, TOPIC, 0, 0, "recreated", bench.topic_id))


def test_what_an_old_generation_sends_to_a_topic_made_again_is_not_judged() -> None:
    bench = Bench()
    bench.write(3)
    bench.poll()
    made_again(bench)
    (sequence,) = bench.send()
    bench.ack(sequence, 500)  # by a broker that has not heard of it
    renewed(bench)
    bench.write(2)
    bench.settle()
    assert bench.found() == [("topic-recreated", -1, -1)]


def test_an_old_generations_records_in_a_topic_made_again_are_no_phantoms() -> None:
    bench = Bench()
    bench.write(3)
    made_again(bench)
    (sequence,) = bench.send()
    bench.append(sequence)
    bench.positions = {RC: 0, RU: 0}
    bench.poll()
    renewed(bench)
    bench.write(2)
    bench.settle()
    assert bench.found() == [("topic-recreated", -1, -1)]


def test_what_had_been_fetched_before_it_expired_is_no_copy_of_itself() -> None:
    bench = Bench()
    bench.write(5)
    bench.poll(RU)
    bench.start = 5
    bench.now_ns += 8 * 86_400_000_000_000  # it has expired rightly
    bench.round()
    bench.deliver(RC, RC, 0, 5)
    bench.settle()
    assert bench.found() == []


def test_what_had_been_fetched_before_it_expired_shows_that_another_is_its_copy() -> None:
    bench = Bench()
    bench.write(5)
    bench.start = 3
    bench.now_ns += 8 * 86_400_000_000_000
    bench.round()
    bench.append(0)
    bench.poll(RU)
    bench.deliver(RC, RC, 0, 1)
    bench.settle()
    assert bench.found("duplicate") == [("duplicate", 5, 0)]
