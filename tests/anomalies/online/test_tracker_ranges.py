"""What is broken for many records at once is said of all of them together, and costs no more than one of them."""

from __future__ import annotations

from canary import facts as f
from canary.anomalies.online import Tracker
from canary.anomalies.violation import MOST_RUNS, Violation
from tests.support.bench import PRODUCER, RC, RU, TOPIC, Bench
from tests.support.massive import MANY, cut, inside, knowing
from tests.support.steps import steps

SECOND = "second"


def said(bench: Bench, *kinds: str) -> list[tuple[int | None, int | None, int]]:
    """Return (first offset, last offset, records) of the violations of some kinds, as they were said."""
    return [(v.offset, v.last_offset, v.count) for v in bench.said if v.kind in kinds]


def test_ten_million_records_that_are_gone_are_one_violation() -> None:
    bench = knowing(MANY)
    cut(bench)
    assert said(bench, "lost-write") == [(10, MANY + 9, MANY)]
    assert said(bench, "truncation") == [(10, 10, 1)]
    (lost,) = (v for v in bench.said if v.kind == "lost-write")
    assert lost.identity == (PRODUCER, 1, 0, 10)
    assert lost.last_identity == (PRODUCER, 1, 0, MANY + 9)
    assert "sent_ns" not in lost.evidence  # of so many it is not remembered
    assert lost.summary == "Acknowledged writes are gone: the log ends below this place"
    assert lost.evidence["records_acknowledged"] == lost.evidence["records_read_before"] == MANY
    assert [one["offset"] for one in lost.evidence["partition_state"]["neighbourhood"]] == [5, 6, 7, 8, 9]
    assert lost.evidence["last_neighbourhood"] == []


def test_what_saying_a_loss_takes_does_not_grow_with_it() -> None:
    few, many = (steps(lambda n=n: cut(knowing(n))) for n in (100, MANY))  # type: ignore[misc]
    assert many < 1.1 * few


def test_a_loss_in_the_middle_of_being_said_is_said_once_by_who_is_killed_and_replays() -> None:
    bench = knowing(MANY)
    bench.end = 10
    for _ in range(6):
        bench.round()
        replayed = Tracker.load(bench.tracker.dump())
        assert replayed.dump() == bench.tracker.dump()
        bench.tracker = replayed
    assert said(bench, "lost-write") == [(10, MANY + 9, MANY)]


def lose(bench: Bench, *offsets: int) -> None:
    for offset in offsets:
        del bench.log[offset]
    bench.epoch += 1
    bench.settle()


def marked(bench: Bench, *sizes: int) -> None:
    """Write and read transactions of so many probes, as it were: a marker follows each."""
    for size in sizes:
        bench.write(size)
        bench.end += 1
    bench.poll()


def test_markers_of_transactions_do_not_divide_a_range_and_a_survivor_does() -> None:
    bench = Bench()
    marked(bench, 3, 3, 3, 3)
    lose(bench, 1, 2, 4, 5, 6, 8, 10, 12)
    assert said(bench, "lost-write") == [(1, 8, 6), (10, 12, 2)]
    first = next(v for v in bench.said if v.kind == "lost-write")
    assert [(run.offset, run.size) for run in first.records] == [(1, 2), (4, 3), (8, 1)]


def test_a_loss_says_when_its_first_and_its_last_record_were_sent() -> None:
    bench = Bench()
    bench.write(3)
    first_ns = bench.now_ns = bench.now_ns + 10**9
    bench.write(3)
    last_ns = bench.now_ns = bench.now_ns + 10**9
    bench.write(3)
    bench.poll()
    bench.truncate(4)
    bench.settle()
    (lost,) = (v for v in bench.said if v.kind == "lost-write")
    assert lost.count == 5
    assert lost.evidence["sent_ns"] == [first_ns, last_ns]


def test_what_was_said_before_divides_what_is_lost_later() -> None:
    bench = Bench()
    bench.write(10)
    bench.poll()
    lose(bench, 4, 5)
    lose(bench, 2, 3, 6, 7)
    assert said(bench, "lost-write") == [(4, 5, 2), (2, 3, 2), (6, 7, 2)]


def test_a_range_goes_on_from_one_generation_to_the_next() -> None:
    bench = Bench()
    bench.write(5)
    bench.poll()
    bench.restart()
    bench.write(5)
    bench.poll()
    lose(bench, 3, 4, 5, 6)
    (lost,) = (v for v in bench.said if v.kind == "lost-write")
    assert [(run.offset, run.size, run.identity and run.identity.generation) for run in lost.records] == [
        (3, 2, 1),
        (5, 2, 2),
    ]
    assert lost.last_identity == (PRODUCER, 2, 0, 1)


def test_losses_of_two_modes_are_two_violations_though_they_stand_among_each_other() -> None:
    bench = Bench()
    bench.fold(f.GenerationBegan(bench.now_ns, TOPIC, "plain", PRODUCER + 1, 1))
    for sequence in range(6):
        bench.write()
        other = (PRODUCER + 1, 1, sequence)
        bench.fold(f.Sent(bench.now_ns, TOPIC, 0, *other, "plain"))
        bench.log[bench.end] = other
        bench.fold(f.Acked(bench.now_ns, TOPIC, 0, *other, bench.end, 1_000))
        bench.end += 1
    bench.poll()
    bench.truncate(4)
    bench.settle()
    lost = [(v.mode, v.severity, v.offset, v.count) for v in bench.said if v.kind == "lost-write"]
    assert lost == [("idempotent", "critical", 4, 4), ("plain", "warning", 5, 4)]


def test_a_range_has_a_thousand_runs_at_most() -> None:
    bench = Bench()
    marked(bench, *[1] * (MOST_RUNS + 5))
    bench.truncate(0)
    bench.settle()
    assert [count for _, _, count in said(bench, "lost-write")] == [MOST_RUNS, 5]


def test_neighbouring_parts_of_a_loss_that_were_missed_in_different_ways_are_one_run() -> None:
    bench = Bench()
    bench.write(6)
    bench.poll(RU)
    for offset in (2, 3):
        del bench.log[offset]
    bench.poll(RC)
    lose(bench, 1, 4)
    found = [v for v in bench.said if v.kind == "lost-write"]
    assert sum(v.count for v in found) == 4
    assert all(len(v.runs) == 1 for v in found)


def test_offsets_that_were_given_to_two_probes_are_one_violation() -> None:
    bench = Bench()
    bench.write(20)
    bench.poll()
    bench.truncate(5)
    bench.write(10)
    bench.settle()
    assert said(bench, "inconsistent-offsets") == [(5, 14, 10)]
    (found,) = (v for v in bench.said if v.kind == "inconsistent-offsets")
    assert (found.identity, found.summary) == (None, "offsets were given to two probes each")
    assert found.evidence["first"] == [PRODUCER, 1, 0, 5]
    assert not inside(bench)[0].held_at["inconsistent-offsets"]


def test_disputes_that_come_one_by_one_are_held_together_until_the_next_question() -> None:
    bench = Bench()
    bench.write(20)
    bench.poll()
    bench.truncate(5)
    bench.write()
    bench.write()
    assert disputed(bench) == [2]
    bench.fold(f.WatchAsked(bench.now_ns, bench.sample + 1))
    bench.write()
    assert disputed(bench) == [2, 1]


def test_a_dispute_that_has_been_waiting_is_not_joined_by_one_that_comes_after_a_restart() -> None:
    bench = Bench()
    bench.write(20)
    bench.poll()
    bench.truncate(5)
    bench.write()
    bench.round()
    bench.fold(f.RunnerStarted(bench.now_ns, "canary-0", "test"))
    bench.write()
    assert disputed(bench) == [1, 1]


def disputed(bench: Bench) -> list[int]:
    """Return how many records each dispute is about that is held."""
    held = (one.violation for one in inside(bench)[0].held.values())
    return [violation.count for violation in held if violation.kind == "inconsistent-offsets"]


def test_copies_are_one_violation_for_those_that_still_stand_twice() -> None:
    bench = Bench()
    bench.write(10)
    bench.poll()
    bench.append(*range(2, 8))
    bench.poll()
    del bench.log[4]
    bench.settle()
    assert said(bench, "duplicate") == [(10, 11, 2), (13, 15, 3)]
    first = next(v for v in bench.said if v.kind == "duplicate")
    assert (first.identity, first.evidence["offsets"]) == ((PRODUCER, 1, 0, 2), [2, 10])
    assert said(bench, "lost-write") == []


def test_copies_are_said_though_some_of_the_first_ones_expire_meanwhile() -> None:
    bench = Bench()
    bench.write(10)
    bench.append(*range(2, 8))
    bench.poll()
    bench.now_ns += 9 * 86_400 * 10**9
    bench.start = 4
    bench.settle()
    assert [(kind, offset) for kind, offset, _ in bench.found()] == [("duplicate", x) for x in range(10, 16)]
    assert said(bench, "duplicate") == [(10, 11, 2), (12, 15, 4)]


def test_of_copies_whose_first_ones_expired_in_part_the_rest_are_known_where_they_stand() -> None:
    bench = Bench()
    bench.write(10)
    bench.append(*range(2, 8))
    bench.poll()
    bench.now_ns += 9 * 86_400 * 10**9
    bench.start = 4
    del bench.log[6]
    bench.settle()
    assert said(bench, "duplicate") == [(10, 11, 2), (12, 13, 2), (15, 15, 1)]
    assert said(bench, "lost-write") == [], "its copy stands"


def test_what_expired_is_there_again_below_its_end_and_a_copy_above() -> None:
    bench = Bench()
    bench.write(10)
    bench.poll()
    bench.now_ns += 9 * 86_400 * 10**9
    bench.start = 10
    bench.settle()
    bench.log |= {8: (PRODUCER, 1, 1), 9: (PRODUCER, 1, 2)}
    bench.append(*range(3, 7))
    bench.deliver(SECOND, RC, 8, 14)
    bench.settle()
    assert said(bench, "duplicate") == [(10, 13, 4)]


def test_what_is_taken_back_when_another_cluster_answered_is_held_again_when_it_is_found_again() -> None:
    bench = Bench()
    bench.write(10)
    bench.append(*range(2, 8))
    bench.poll()
    bench.fold(f.ClusterSeen(bench.now_ns, bench.sample, "another", "1,2,3"))
    bench.restart()
    bench.deliver(SECOND, RC, 0, 16)
    bench.settle()
    assert said(bench, "duplicate") == [(10, 15, 6)]


def test_copies_of_what_does_not_stand_in_a_row_are_found_each() -> None:
    bench = Bench()
    marked(bench, 4, 4)
    bench.append(2, 3, 4, 5)
    bench.settle()
    assert [(kind, offset) for kind, offset, _ in bench.found()] == [("duplicate", x) for x in (10, 11, 12, 13)]


def test_what_was_read_twice_is_held_once() -> None:
    bench = Bench()
    bench.write(10)
    bench.append(*range(2, 8))
    bench.poll()
    assert [(held.violation.count, held.first) for held in inside(bench)[0].held.values()] == [(6, 2)]


def test_skipped_probes_that_are_there_are_one_violation() -> None:
    bench = Bench()
    bench.write(20)
    bench.hidden = {4, 5, 6, 9}
    bench.settle()
    assert said(bench, "poll-skip") == [(4, 6, 3), (9, 9, 1)]


def passed_late(bench: Bench, *readers: tuple[str, int]) -> None:
    """Six probes are acknowledged after consumers passed them, as far as told, and a fresh one finds them; all wait."""
    sequences = bench.send(6)
    bench.hidden = set(bench.append(*sequences))
    bench.write(3)
    for reader, end in readers:
        bench.deliver(reader, RC, 0, end)
        bench.fold(f.EndOfPartition(bench.now_ns, reader, RC, TOPIC, 0, end))
        bench.positions[reader] = end
    bench.hidden = set()
    bench.fold(*(f.Acked(bench.now_ns, TOPIC, 0, PRODUCER, 1, s, s, 2_000_000) for s in sequences))
    bench.answer()
    held = [(one.violation.kind, one.check, one.violation.count) for one in inside(bench)[0].held.values()]
    assert held == [("poll-skip", "late-ack", 6)]


def test_of_skips_that_wait_to_be_said_those_that_were_given_late_are_none() -> None:
    bench = Bench()
    passed_late(bench, (RC, 9))
    bench.deliver(RC, RC, 1, 3)
    bench.put(RC, 0)
    bench.settle()
    assert said(bench, "poll-skip") == [(0, 0, 1), (3, 5, 3)]


def test_of_skips_that_wait_to_be_said_those_that_only_a_forgotten_consumer_can_tell_are_certain() -> None:
    bench = Bench()
    bench.fold(f.Positioned(bench.now_ns, SECOND, RC, TOPIC, 0, 0, "start"))
    passed_late(bench, (SECOND, 9), (RC, 3))
    del bench.positions[SECOND]
    bench.restart()
    bench.astray(RC)
    bench.put(RC, 0)
    bench.settle()
    assert said(bench, "poll-skip") == [(3, 5, 3)]


def test_of_skips_that_wait_to_be_said_those_that_expire_are_certain() -> None:
    bench = Bench()
    passed_late(bench, (RC, 9))
    bench.now_ns += 9 * 86_400 * 10**9
    bench.start = 2
    bench.round()
    bench.astray(RC)
    bench.put(RC, 2)
    bench.settle()
    assert said(bench, "poll-skip") == [(0, 1, 2)]


def test_skips_of_two_generations_wait_to_be_said_each_by_itself() -> None:
    bench = Bench()
    first = bench.send(3)
    hidden = bench.append(*first)
    bench.generation, bench.sequence = 2, 0
    bench.fold(f.GenerationBegan(bench.now_ns, TOPIC, bench.mode, PRODUCER, 2))
    second = bench.send(3)
    hidden += bench.append(*second)
    bench.write(3)
    bench.hidden = set(hidden)
    bench.poll(RC)
    bench.hidden = set()
    for generation, sequences in ((1, first), (2, second)):
        bench.fold(*(f.Acked(bench.now_ns, TOPIC, 0, PRODUCER, generation, s, hidden.pop(0), 1_000) for s in sequences))
    bench.settle()
    assert [(kind, offset) for kind, offset, _ in bench.found()] == [("poll-skip", offset) for offset in range(6)]


def test_phantoms_and_damaged_records_are_said_together() -> None:
    bench = Bench()
    bench.write(2)
    bench.append(*range(100, 104))
    bench.log |= dict.fromkeys(range(6, 10), "corrupt")
    bench.end = 10
    bench.poll(RC)
    assert said(bench, "phantom") == [(2, 5, 4)]
    assert said(bench, "corrupt") == [(6, 9, 4)]


def test_refused_writes_that_are_read_are_said_together() -> None:
    bench = Bench()
    sequences = bench.send(6)
    bench.fold(*(f.Failed(bench.now_ns, TOPIC, 0, PRODUCER, 1, s, "no") for s in sequences[1:5]))
    bench.append(*sequences)
    bench.poll(RC)
    assert said(bench, "G1a") == [(1, 4, 4)]


def test_a_violation_counts_its_records() -> None:
    (found,) = (v for v in _lost(3) if v.kind == "lost-write")
    assert (found.count, found.below(3), found.below(0), found.below(99)) == (3, 1, 0, 3)
    assert found.sentence == f"{found.summary} (3 records, offsets 2 to 4)"
    assert found.key("c") != found.about([found.runs[0].part(0, 2)]).key("c")


def _lost(n: int) -> list[Violation]:
    bench = Bench()
    bench.write(10)
    bench.poll()
    lose(bench, *range(2, 2 + n))
    return bench.said
