"""What consumers are given beside probes: damage, ends, ranges that are gone; and acknowledgements without offset."""

from __future__ import annotations

import pytest

from canary import facts as f
from canary.metrics import measured
from tests.support.bench import PRODUCER, RC, RU, TOPIC, Bench

SECOND = "second"


def ack_unplaced(bench: Bench) -> int:
    """Acknowledge a probe without an offset that never comes into the log."""
    (sequence,) = bench.send()
    bench.ack(sequence, None)
    return sequence


def hide(bench: Bench, passing: str, given: str) -> tuple[int, int]:
    """One consumer passes a probe that was acknowledged without an offset, then the other is given it."""
    (sequence,) = bench.send()
    (offset,) = bench.append(sequence)
    bench.ack(sequence, None)
    bench.write(1)
    bench.hidden = {offset}
    bench.poll(passing)
    bench.hidden = set()
    bench.poll(given)
    bench.settle()
    return offset, sequence


def second(bench: Bench) -> None:
    """Another read_committed consumer reads everything from the start and is not given what is hidden."""
    bench.fold(f.Positioned(bench.now_ns, SECOND, RC, TOPIC, 0, 0, "start"))
    bench.deliver(SECOND, RC, 0, bench.end)


def test_a_damaged_record_is_said_once_whoever_is_given_it() -> None:
    bench = Bench()
    damaged = [f.Refused(bench.now_ns, name, name, TOPIC, 0, 0, "corrupt", "crc") for name in (RC, RU, "reread-1")]
    bench.tracker.fold(damaged)
    assert [v.kind for v in bench.tracker.drain().violations] == ["corrupt"]


def test_a_damaged_record_that_is_passed_is_not_looked_for() -> None:
    bench = Bench()
    bench.write(5)
    bench.log[2] = "corrupt"
    bench.poll()
    bench.hidden = {2}
    second(bench)
    bench.settle()
    assert bench.found() == [("corrupt", 2, -1)]
    assert bench.tracker.state.next_request == 1


def test_a_foreign_record_asks_for_nothing_when_read_uncommitted_is_given_it() -> None:
    bench = Bench()
    bench.write(3)
    bench.log[1] = "foreign"
    bench.poll(RU)
    assert bench.tracker.state.next_request == 1
    bench.settle()
    assert bench.found() == [("lost-write", 1, 1)]


def test_damage_that_only_the_reread_meets_is_no_skip() -> None:
    bench = Bench()
    bench.write(5)
    bench.poll()
    bench.hidden = {2}
    second(bench)
    bench.log[2] = "corrupt"
    bench.settle()
    assert bench.found() == [("corrupt", 2, -1)]


def test_an_end_below_where_the_consumer_stands_is_no_progress() -> None:
    bench = Bench()
    bench.write(5)
    bench.poll(RC)
    bench.end = 9
    for _ in range(12):
        bench.round()
        bench.fold(f.EndOfPartition(bench.now_ns, RC, RC, TOPIC, 0, 4))
    consumers = measured(bench.tracker.state).partitions[0].consumers
    assert consumers[RC].position == 5
    assert consumers[RC].stalled


def test_an_end_where_the_consumer_stands_is_as_good_as_progress() -> None:
    bench = Bench()
    bench.write(5)
    bench.poll(RC)
    bench.end = 9
    for _ in range(12):
        bench.round()
        bench.fold(f.EndOfPartition(bench.now_ns, RC, RC, TOPIC, 0, 5))
    assert not measured(bench.tracker.state).partitions[0].consumers[RC].stalled


@pytest.mark.parametrize("position", [3, 5])
def test_a_range_that_the_log_has_left_behind_is_no_sign_of_a_cut(position: int) -> None:
    bench = Bench()
    bench.write(10)
    bench.poll()
    bench.settle(2)
    bench.now_ns += 9 * 86_400 * 10**9
    bench.start = 5
    bench.round()
    bench.write(3)
    del bench.log[11]
    bench.fold(f.OutOfRange(bench.now_ns, RC, RC, TOPIC, 0, position, "out of range"))
    bench.settle()
    assert bench.found() == [("lost-write", 11, 11)]


@pytest.mark.parametrize("cut", [False, True])
def test_a_consumer_that_is_put_forward_was_no_sign_of_a_cut_though_the_start_is_listed_later(*, cut: bool) -> None:
    bench = Bench()
    bench.write(10)
    bench.poll()
    bench.settle(2)
    bench.now_ns += 9 * 86_400 * 10**9
    bench.write(3)
    del bench.log[11]
    bench.start = 5
    if cut:
        bench.astray(RC)
    bench.positions[RU] = 3
    bench.astray(RU)
    bench.put(RU, 5)
    bench.settle()
    assert ("lost-write", 11, 11) in bench.found()
    assert bool(bench.found("truncation")) == cut


def test_a_range_above_the_log_is_a_sign_of_one() -> None:
    bench = Bench()
    bench.write(10)
    bench.poll()
    bench.settle(2)
    bench.write(3)
    del bench.log[11]
    bench.fold(f.OutOfRange(bench.now_ns, RC, RC, TOPIC, 0, 13, "out of range"))
    bench.settle()
    assert bench.found() == [("lost-write", 11, 11), ("truncation", 11, -1)]


@pytest.mark.parametrize(("mode", "found"), [("plain", []), ("idempotent", [("lost-write", -1, 1)])])
def test_where_order_is_not_promised_neighbours_tell_nothing(mode: str, found: list[tuple[str, int, int]]) -> None:
    bench = Bench(mode=mode)
    bench.write(1)
    ack_unplaced(bench)
    bench.write(2)
    bench.settle()
    assert bench.found() == found


@pytest.mark.parametrize(("later", "found"), [(10, [("lost-write", -1, 0)]), (15, [])], ids=["stands", "rises"])
def test_the_first_one_of_a_generation_stands_above_the_logs_start_of_its_time_and_may_expire_with_it(
    later: int, found: list[tuple[str, int, int]]
) -> None:
    bench = Bench()
    bench.write(20)
    bench.start = 10
    bench.settle()
    bench.generation, bench.sequence = 2, 0
    bench.fold(f.GenerationBegan(bench.now_ns, TOPIC, bench.mode, PRODUCER, 2))
    ack_unplaced(bench)
    bench.start = later
    bench.round()
    bench.write(2)
    bench.settle()
    assert bench.found() == found


def test_what_read_uncommitted_was_not_given_is_asked_for_when_the_other_comes_to_it() -> None:
    bench = Bench()
    bench.write(1)
    sequence = ack_unplaced(bench)
    bench.write(2)
    for _ in range(4):
        bench.poll(RU)
        bench.round()
    assert bench.tracker.state.next_request == 1
    bench.settle()
    assert bench.found() == [("lost-write", -1, sequence)]


def test_a_skip_of_a_probe_without_offset_is_said_when_another_is_given_it() -> None:
    bench = Bench()
    offset, sequence = hide(bench, RC, RU)
    assert bench.found() == [("poll-skip", offset, sequence)]


@pytest.mark.parametrize("first", [RC, RU])
def test_a_skip_is_said_of_an_offset_that_another_was_acknowledged_at_too(first: str) -> None:
    """Whoever comes first: where read_committed does, the other one is known to stand there only after that."""
    bench = Bench()
    bench.write(2)
    skipped, other = bench.send(2)
    (offset,) = bench.append(skipped)
    bench.ack(skipped, offset)
    bench.ack(other, offset)
    bench.write(1)
    for name in (first, RC):
        bench.hidden = {offset} if name == RC else set()
        bench.poll(name)
    bench.hidden = set()
    bench.settle()
    assert bench.found("poll-skip", "lost-write") == [("lost-write", offset, other), ("poll-skip", offset, skipped)]


def test_where_one_generation_is_looked_for_another_was_not_skipped() -> None:
    bench = Bench()
    gone = ack_unplaced(bench)
    bench.write(1)
    bench.poll(RC)
    bench.generation, bench.sequence = 2, 0
    bench.fold(f.GenerationBegan(bench.now_ns, TOPIC, bench.mode, PRODUCER, 2))
    bench.write(1)
    bench.positions[RC] = 2
    bench.fold(f.Positioned(bench.now_ns, RC, RC, TOPIC, 0, 2, "moved"))
    bench.poll(RU)
    bench.settle()
    assert bench.found() == [("lost-write", -1, gone)]


def test_nobody_skipped_what_stands_where_it_is_still_to_come() -> None:
    bench = Bench()
    bench.write(2)
    bench.poll(RC)
    (sequence,) = bench.send()
    bench.append(sequence)
    bench.ack(sequence, None)
    bench.poll(RU)
    bench.round()
    assert bench.tracker.state.next_request == 1
    bench.settle()
    assert bench.found() == []


def test_read_uncommitted_has_skipped_nothing_that_another_was_given() -> None:
    bench = Bench()
    hide(bench, RU, RC)
    assert bench.found() == []
    assert bench.tracker.state.next_request == 1


def test_what_was_acknowledged_elsewhere_than_it_was_read_was_read() -> None:
    bench = Bench()
    bench.write(1)
    (sequence,) = bench.send()
    bench.end = 3
    (offset,) = bench.append(sequence)
    bench.ack(sequence, 2)  # it stands at 3
    bench.poll()
    bench.settle()
    assert bench.found() == []
    bench.truncate(offset)
    bench.settle()
    assert bench.found("lost-write") == [("lost-write", offset, sequence)]
    (lost,) = [v for v in bench.violations.values() if v.kind == "lost-write"]
    assert lost.evidence["read_before"]


def begin_again(bench: Bench, position: int) -> None:
    """A skip of offset 2 is in doubt, and the runner dies; its successor's consumer begins at ``position``."""
    bench.write(5)
    bench.hidden = {2}
    bench.answering = False
    bench.poll(RC)
    bench.round()
    bench.hidden = set()
    bench.fold(f.RunnerStarted(bench.now_ns, "canary-0", "test"))
    bench.positions[RC] = position
    bench.fold(f.Positioned(bench.now_ns, RC, RC, TOPIC, 0, position, "start"))


def test_what_was_skipped_and_is_given_only_to_who_begins_anew_was_skipped() -> None:
    bench = Bench()
    begin_again(bench, 1)
    bench.poll(RC)
    bench.answering = True
    bench.settle()
    assert bench.found() == [("poll-skip", 2, 2)]


def test_what_was_given_late_before_it_began_anew_was_not_skipped() -> None:
    bench = Bench()
    bench.write(5)
    bench.hidden = {2}
    bench.answering = False
    bench.poll(RC)
    bench.hidden = set()
    bench.deliver(RC, RC, 2, 3)
    bench.fold(f.Positioned(bench.now_ns, RC, RC, TOPIC, 0, 1, "start"))
    bench.positions[RC] = 1
    bench.poll(RC)
    bench.answering = True
    bench.settle()
    assert bench.found("poll-skip") == []


def unanswered(count: int = 1) -> tuple[Bench, int]:
    """Return a bench with two probes acknowledged and more in the log that are indeterminate, and their first."""
    bench = Bench()
    bench.write(2)
    sequences = [bench.send()[0] for _ in range(count)]
    for sequence in sequences:
        bench.append(sequence)
        bench.fold(f.Indeterminate(bench.now_ns, TOPIC, 0, PRODUCER, 1, sequence, "_MSG_TIMED_OUT"))
    return bench, sequences[0]


def test_who_passed_what_nobody_acknowledged_skipped_it_when_others_are_given_it() -> None:
    bench, sequence = unanswered()
    bench.write(1)
    bench.hidden = {2}
    bench.poll(RC)
    bench.hidden = set()
    assert bench.found() == []
    bench.poll(RU)
    bench.settle()
    assert bench.found() == [("poll-skip", 2, sequence)]


def test_of_what_nobody_acknowledged_only_what_was_not_given_is_skipped() -> None:
    bench, sequence = unanswered(2)
    bench.write(1)
    bench.hidden = {2}
    bench.poll(RC)
    bench.hidden = set()
    bench.poll(RU)
    bench.settle()
    assert bench.found() == [("poll-skip", 2, sequence)]


def test_who_began_behind_what_nobody_acknowledged_has_not_skipped_it() -> None:
    bench, _ = unanswered()
    bench.positions[RC] = 3
    bench.fold(f.Positioned(bench.now_ns, RC, RC, TOPIC, 0, 3, "reset"))
    bench.write(1)
    bench.poll()
    bench.settle()
    assert bench.found() == []


def test_what_read_uncommitted_is_given_of_an_open_transaction_was_not_skipped() -> None:
    bench = Bench(mode="transactional")
    bench.fold(f.TransactionBegan(bench.now_ns, bench.mode, PRODUCER, 1, 0))
    bench.fold(f.Sent(bench.now_ns, TOPIC, 0, PRODUCER, 1, 0, bench.mode, 0))
    bench.append(0)
    bench.end += 1  # its marker: the transaction was aborted, which nobody was told yet
    bench.fold(f.EndOfPartition(bench.now_ns, RC, RC, TOPIC, 0, 2))
    bench.deliver(RU, RU, 0, 1)
    assert bench.tracker.state.topics[TOPIC].logs[0].missing == []


def test_a_phantom_of_a_producer_that_had_written_nothing_stays_one_when_its_generation_is_over() -> None:
    bench = Bench()
    bench.append(500)
    bench.poll()
    assert bench.found() == [("phantom", 0, 500)]
    bench.write(2)
    bench.fold(f.RunnerStarted(bench.now_ns, "canary-0", "test"))
    bench.fold(f.GenerationBegan(bench.now_ns, TOPIC, bench.mode, PRODUCER, 2))
    for reader in (RC, RU):
        bench.positions[reader] = 0
        bench.fold(f.Positioned(bench.now_ns, reader, reader, TOPIC, 0, 0, "start"))
    bench.poll()
    bench.settle()
    assert bench.found() == [("phantom", 0, 500)]


def test_a_phantom_that_expired_is_remembered_no_longer() -> None:
    bench = Bench()
    bench.append(500)
    bench.write(3)
    bench.poll()
    log = bench.tracker.state.topics[TOPIC].logs[0]
    assert [run.value for run in log.phantoms.within(0, 4)] == [500]
    bench.now_ns += 9 * 86_400 * 10**9
    bench.start = 2
    bench.round()
    assert log.start == 2
    assert log.phantoms.within(0, 4) == []


@pytest.mark.parametrize("gone", [False, True])
def test_who_began_behind_an_offset_has_not_passed_it_and_it_is_looked_for_all_the_same(*, gone: bool) -> None:
    b = Bench()
    sequences = b.send(2)
    offsets = b.append(*sequences)
    for reader in (RC, RU):
        b.put(reader, 2)
    if gone:
        del b.log[0]
    for sequence, offset in zip(sequences, offsets, strict=True):
        b.ack(sequence, offset)
    for reader in (RC, RU):
        b.put(reader, 0)
    b.settle()
    assert b.found() == ([("lost-write", 0, 0)] if gone else [])


def cut_and_grown_again(end: int) -> Bench:
    """The log is cut at 10 of 20 and grows to ``end``; RU is told at once, and put there."""
    bench = Bench()
    bench.write(20)
    bench.settle(2)
    bench.truncate(10)
    bench.astray(RU)
    bench.put(RU, 10)
    bench.write(end - 10)
    return bench


@pytest.mark.parametrize("told", [0, 1, 2])
@pytest.mark.parametrize("at", [10, 15])
def test_who_is_told_that_its_log_was_cut_has_not_skipped_what_grew_there_meanwhile(told: int, at: int) -> None:
    bench = cut_and_grown_again(15)
    for _ in range(told):
        bench.poll(RU)
        bench.round()
    bench.astray(RC)
    bench.put(RC, at)
    bench.settle()
    assert bench.found("poll-skip") == []
    assert len(bench.found("lost-write")) == 10
    assert not any(stream.unseen.get(RC) for stream in bench.tracker.state.topics[TOPIC].streams), (
        "it is awaited no more"
    )


def test_who_is_not_told_that_its_log_was_cut_has_skipped_what_grew_there_meanwhile() -> None:
    bench = cut_and_grown_again(25)
    bench.settle()
    assert bench.found("poll-skip") == [("poll-skip", offset, offset + 10) for offset in range(10, 20)]


@pytest.mark.parametrize("told", [False, True])
def test_a_skip_waits_until_the_consumer_is_heard_of(*, told: bool) -> None:
    """It stands above a cut, and may be told of it only after what grew below it was read by a fresh one."""
    bench = Bench()
    bench.write(20)
    bench.poll()
    bench.truncate(10)
    position, bench.positions = dict(bench.positions), {}
    bench.write(15)
    for _ in range(12):
        bench.round()
    assert bench.found("poll-skip") == []
    bench.positions = position
    if told:
        for name in (RC, RU):
            bench.astray(name)
            bench.put(name, 10)
    bench.settle()
    assert bench.found("poll-skip") == ([] if told else [("poll-skip", at, at + 10) for at in range(10, 20)])
    assert len(bench.found("lost-write")) == 10


def test_what_is_read_before_it_is_acknowledged_shows_no_cut() -> None:
    """Though it comes in one run with what was sent and read before it."""
    bench = Bench()
    sent_ns, later_ns = bench.now_ns + 10**6, bench.now_ns + 10**9
    bench.append(0, 1)
    bench.fold(*(f.Sent(at_ns, TOPIC, 0, 77, 1, at, "idempotent") for at, at_ns in enumerate((sent_ns, later_ns))))
    bench.fold(*(f.Polled(at_ns + 1, RC, RC, TOPIC, 0, at, 77, 1, at) for at, at_ns in enumerate((sent_ns, later_ns))))
    for sequence in (0, 1):
        bench.ack(sequence, sequence)
    assert bench.requests == []


def test_a_skip_between_two_deliveries_stays_one_where_the_log_is_cut_behind_it() -> None:
    bench = Bench()
    bench.write(20)
    bench.hidden = {2}
    bench.answering = False
    bench.poll()
    bench.hidden = set()
    bench.truncate(10)
    bench.poll()  # both are told, and put to 10
    bench.answering = True
    bench.settle()
    assert bench.found("poll-skip") == [("poll-skip", 2, 2)]


def passed_late(bench: Bench, reader: str, *, answered: bool = True) -> None:
    """A consumer has gone past what is acknowledged now, and a fresh one finds it; nothing was said yet."""
    (sequence,) = bench.send()
    (offset,) = bench.append(sequence)
    bench.write(3)
    bench.hidden = {offset}
    bench.deliver(reader, RC, 0, bench.end)
    bench.fold(f.EndOfPartition(bench.now_ns, reader, RC, TOPIC, 0, bench.end))
    bench.hidden = set()
    bench.ack(sequence, offset)
    if not answered:
        return
    bench.answer()
    assert bench.found() == []
    (held,) = bench.tracker.state.topics[TOPIC].logs[0].held.values()
    assert (held.violation.kind, held.check) == ("poll-skip", "late-ack")


@pytest.mark.parametrize("reader", [RC, SECOND])
def test_a_skip_that_waits_to_be_said_is_said_by_the_next_process(reader: str) -> None:
    bench = Bench()
    bench.fold(f.Positioned(bench.now_ns, SECOND, RC, TOPIC, 0, 0, "start"))
    bench.poll(RU)
    passed_late(bench, reader)
    if reader != RC:
        bench.poll(RC)
    bench.positions = {RC: 4, RU: 4}
    bench.restart()
    bench.settle()
    assert bench.found("poll-skip") == [("poll-skip", 0, 0)]


def test_a_skip_that_waits_to_be_said_is_none_when_its_consumer_is_told_that_its_log_was_another() -> None:
    bench = Bench()
    passed_late(bench, RC)
    bench.positions[RC] = 4
    bench.astray(RC)
    bench.put(RC, 0)
    bench.settle()
    assert bench.found("poll-skip") == []


def test_who_goes_on_where_it_stood_has_passed_what_it_passed_before() -> None:
    bench = Bench()
    (sequence,) = bench.send()
    (offset,) = bench.append(sequence)
    bench.write(3)
    bench.hidden = {offset}
    bench.poll(RC)
    bench.hidden = set()
    bench.put(RC, 4)
    bench.ack(sequence, offset)
    bench.settle()
    assert bench.found() == [("poll-skip", offset, sequence)]


@pytest.mark.parametrize("said", [True, False])
def test_what_was_acknowledged_late_and_is_given_only_to_who_begins_anew_was_skipped(*, said: bool) -> None:
    bench = Bench()
    bench.answering = said
    passed_late(bench, RC, answered=said)
    bench.put(RC, 0)
    bench.poll(RC)
    bench.answering = True
    bench.settle()
    assert bench.found() == [("poll-skip", 0, 0)]


def test_who_is_told_and_goes_on_where_it_stood_begins_there() -> None:
    """The log was cut below it and has grown over it again: what stands below was not asked for."""
    bench = cut_and_grown_again(22)
    bench.astray(RC)
    bench.put(RC, 20)
    bench.settle()
    assert bench.found("poll-skip") == []
    (late,) = bench.send()
    bench.append(late)
    bench.write(1)
    bench.hidden = {22}
    bench.poll(RC)
    bench.hidden = set()
    bench.ack(late, 22)
    bench.settle()
    assert bench.found("poll-skip") == [("poll-skip", 22, late)], "and from there on it is asked"


def test_what_waits_to_be_said_of_one_that_is_told_that_its_log_was_another_is_not_said_before_it_is_put_there() -> (
    None
):
    bench = Bench()
    passed_late(bench, RC)
    bench.positions[RC] = 4
    bench.astray(RC)
    for _ in range(4):
        bench.round()
    assert bench.found() == []


def test_what_was_given_late_has_not_been_passed_by_one_that_is_still_before_it() -> None:
    bench = Bench()
    bench.fold(f.Positioned(bench.now_ns, SECOND, RC, TOPIC, 0, 0, "start"))
    passed_late(bench, RC)
    bench.deliver(RC, RC, 0, 1)
    bench.settle()
    assert bench.found("poll-skip") == []
    (stream,) = bench.tracker.state.topics[TOPIC].streams
    assert 0 in stream.unseen[SECOND], "it is still to be given it"
