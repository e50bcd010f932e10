"""What a re-read or a listed end proves, and what it does not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from canary import facts as f
from canary.anomalies.online.gauges import suspects
from canary.anomalies.online.log import Log
from canary.anomalies.online.sets.intervals import IntervalSet
from tests.support.bench import PRODUCER, RC, RU, TOPIC, Bench

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def ended(bench: Bench, reached: int, error: str) -> None:
    """Whoever re-reads for the bench ends at ``reached``."""
    requests, bench.requests = bench.requests, []
    for r in requests:
        number, start, end = r.request_id, r.start, r.end
        bench.fold(f.RereadEnded(bench.now_ns, number, RC, TOPIC, 0, start, end, reached, False, error))


def begin_at(bench: Bench, offset: int) -> None:
    """Both consumers are put at ``offset``."""
    for name in (RC, RU):
        bench.positions[name] = offset
        bench.fold(f.Positioned(bench.now_ns, name, name, TOPIC, 0, offset, "start"))


def test_an_end_that_was_seen_to_go_back_once_is_a_suspicion_until_it_is_seen_again() -> None:
    bench = Bench()
    bench.write(10)
    bench.poll()
    bench.truncate(7)
    bench.round()
    assert suspects(bench.tracker.state)["truncation"] == 1
    bench.settle()
    assert "truncation" not in suspects(bench.tracker.state)
    assert bench.found("truncation") == [("truncation", 7, -1)]


def test_what_was_said_to_be_lost_is_not_skipped_too_when_it_comes_back() -> None:
    bench = Bench()
    bench.write(1)
    (sequence,) = bench.send()
    (offset,) = bench.append(sequence)
    bench.poll(RU)
    record = bench.log.pop(offset)
    bench.poll()
    bench.write(1)
    bench.settle()
    lost = [("lost-write", offset, sequence)]
    assert bench.found() == lost
    bench.log[offset] = record
    bench.ack(sequence, offset)
    bench.settle()
    assert bench.found() == lost


def test_rereads_that_end_below_what_the_leader_lists_prove_nothing() -> None:
    bench = Bench()
    bench.write(3)
    bench.answering = False
    bench.hidden = {1}
    bench.poll()
    for _ in range(6):  # an open transaction of somebody else's, say: read_committed ends there
        ended(bench, 1, "end of log at 1")
        bench.round()
    assert bench.found() == []
    bench.answering = True
    bench.settle()
    assert bench.found() == [("poll-skip", 1, 1)]


def test_a_damaged_record_is_no_copy_of_what_was_acknowledged_there() -> None:
    bench = Bench()
    (sequence,) = bench.send()
    bench.log[0] = "corrupt"
    bench.end = 1
    bench.ack(sequence, 0)
    begin_at(bench, 1)
    bench.append(sequence)
    bench.settle()
    assert bench.found() == [("corrupt", 0, -1)]


def test_what_was_acknowledged_elsewhere_than_it_is_read_is_a_copy_if_it_stands_there_too() -> None:
    for acknowledged_first in (True, False):
        bench = Bench()
        (sequence,) = bench.send()
        bench.append(sequence)
        begin_at(bench, 1)
        bench.append(sequence)
        if acknowledged_first:
            bench.ack(sequence, 0)
        bench.poll()
        if not acknowledged_first:
            bench.ack(sequence, 0)
        bench.settle()
        assert bench.found() == [("duplicate", 1, sequence)]


@pytest.mark.parametrize(("start", "end"), [(-1001, -1001), (5, -1001), (5, 4), (-1001, 2)])
def test_an_answer_without_offsets_is_none_though_it_has_an_epoch(start: int, end: int) -> None:
    bench = Bench()
    bench.write(10)
    bench.settle()
    for _ in range(4):
        bench.sample += 1
        bench.fold(
            f.WatchAsked(bench.now_ns, bench.sample),
            f.Listed(bench.now_ns, bench.sample, TOPIC, 0, start, end, end, bench.epoch),
            f.TopicSeen(bench.now_ns, bench.sample, TOPIC, bench.topic_id, 1),
        )
    assert bench.tracker.state.topics[TOPIC].logs[0].end == 10
    bench.settle()
    assert bench.found() == []


def test_an_empty_partition_has_answered() -> None:
    bench = Bench()
    bench.write(3)
    bench.settle()
    bench.now_ns += 9 * 86_400 * 10**9
    bench.start = 3
    bench.log.clear()
    bench.settle()
    assert bench.tracker.state.topics[TOPIC].logs[0].start == 3
    assert bench.found() == []


def test_a_leader_of_yesterday_tells_nothing_of_the_log() -> None:
    bench = Bench()
    bench.epoch = 5
    bench.write(10)
    bench.settle()
    bench.fold(f.Listed(bench.now_ns, bench.sample, TOPIC, 0, 4, 20, 20, 4))
    log = bench.tracker.state.topics[TOPIC].logs[0]
    assert (log.start, log.end, log.stable) == (0, 10, 10)


def low_once(bench: Bench, end: int) -> None:
    """The leader lists a lower end for one round."""
    bench.end, end = end, bench.end
    bench.round()
    bench.end = end
    bench.round()


def lose(bench: Bench, *offsets: int, instead: Sequence[str] = ()) -> None:
    """Records that were read are gone, which a new leader lets the canary find; others may stand in their places."""
    for offset in offsets:
        del bench.log[offset]
    bench.log |= zip(offsets, instead, strict=False)
    bench.epoch += 1
    bench.settle()


def test_an_end_that_was_low_only_once_is_no_cut_when_something_is_lost_later() -> None:
    bench = Bench()
    bench.write(10)
    bench.poll()
    low_once(bench, 7)
    bench.settle()
    lose(bench, 2)
    assert bench.found() == [("lost-write", 2, 2)]


def test_a_hole_is_no_cut_though_the_leader_has_changed() -> None:
    bench = Bench()
    bench.write(10)
    bench.poll()
    lose(bench, 4)
    assert bench.found() == [("lost-write", 4, 4)]


@pytest.mark.parametrize("beside", [(), ("foreign",)])
def test_the_last_ones_before_a_change_of_leader_were_cut_off_only_if_their_places_were_taken(
    beside: tuple[str, ...],
) -> None:
    bench = Bench()
    bench.write(10)
    bench.poll()
    lose(bench, 8, 9, instead=beside)
    cut = [("truncation", 8, -1)] * len(beside)
    assert bench.found() == [("lost-write", 8, 8), ("lost-write", 9, 9), *cut]


def test_what_was_written_after_the_change_of_leader_was_not_cut_off_by_it() -> None:
    for end, cut in ((5, None), (6, 5)):
        log = Log(0, lost_offsets=IntervalSet.of([(5, 6)]), given_again=IntervalSet.of([(5, 6)]))
        log.ends_before_epochs.append(end)
        assert log.cut_at == cut


def test_an_offset_that_was_given_again_where_nothing_was_promised_shows_no_cut_of_what_is_lost_below() -> None:
    bench = Bench(mode="transactional")
    bench.write(10)
    bench.poll()
    bench.fold(f.TransactionBegan(bench.now_ns, bench.mode, PRODUCER, 1, 1))
    bench.fold(f.Sent(bench.now_ns, TOPIC, 0, PRODUCER, 1, 10, bench.mode, 1))
    bench.ack(10, 10)
    bench.fold(f.Aborted(bench.now_ns, PRODUCER, 1, 1))
    bench.sequence = 11
    bench.write(5)  # at 10, too: what was acknowledged there was not committed, and was cut off
    lose(bench, 4)
    assert bench.found() == [("inconsistent-offsets", 10, -1), ("lost-write", 4, 4)]


@pytest.mark.parametrize("grown", [0, 2])
def test_what_was_lost_by_itself_is_no_part_of_a_cut_that_is_found_with_it(grown: int) -> None:
    bench = Bench()
    bench.write(10)
    bench.poll()
    del bench.log[2]
    bench.truncate(7)
    bench.write(grown)
    bench.settle()
    assert bench.found("lost-write") == [("lost-write", n, n) for n in (2, 7, 8, 9)]
    assert bench.found("truncation") == [("truncation", 7, -1)]


@pytest.mark.parametrize("before", ["listed", "read"])
@pytest.mark.parametrize("grown", [0, 3])
@pytest.mark.parametrize("cut", [7, 10])
def test_what_was_lost_by_itself_is_no_part_of_a_cut_that_a_consumer_met(cut: int, grown: int, before: str) -> None:
    bench = Bench()
    bench.write(10)
    bench.end = 14 if before == "listed" else 10  # there was more, which nobody promised
    bench.settle(2)
    bench.positions[RU] = 14
    del bench.log[2]
    bench.truncate(cut)
    bench.end = 10  # with markers
    if before == "listed":
        bench.poll()  # it meets the cut before others list the end, or write there
    bench.write(grown)
    bench.settle()
    assert bench.found("lost-write") == [("lost-write", n, n) for n in (2, *range(cut, 10))]
    assert bench.found("truncation") == [("truncation", cut, -1)] * (cut < 10)


@pytest.mark.parametrize("lost", [False, True])
def test_a_cut_that_a_consumer_met_explains_nothing_once_all_that_it_may_have_taken_is_settled(*, lost: bool) -> None:
    bench = Bench()
    bench.write(10)
    bench.poll()
    bench.settle(2)
    bench.truncate(7 if lost else 10)
    bench.settle(6)
    bench.fold(f.OutOfRange(bench.now_ns, RU, RU, TOPIC, 0, 12, "out of range"))  # it noticed last
    bench.put(RU, bench.end)
    bench.settle(2)
    bench.write(5)
    bench.settle(2)
    lose(bench, 8 if lost else 11)
    assert bench.found("truncation") == [("truncation", 7, -1)] * lost


@pytest.mark.parametrize("transactional", [False, True])
def test_a_cut_that_a_consumer_met_explains_what_was_on_its_way_and_is_promised_later(*, transactional: bool) -> None:
    bench = Bench(mode="transactional" if transactional else "idempotent")
    bench.write(10)
    bench.settle(2)
    if transactional:
        bench.fold(f.TransactionBegan(bench.now_ns, bench.mode, PRODUCER, 1, 1))
    bench.fold(f.Sent(bench.now_ns, TOPIC, 0, PRODUCER, 1, 10, bench.mode, 1 if transactional else None))
    if transactional:
        bench.ack(10, 10)
    bench.epoch, bench.end = 1, 12  # it was cut off, and others have written there
    bench.fold(f.OutOfRange(bench.now_ns, RU, RU, TOPIC, 0, 11, "out of range"))
    bench.settle(6)
    if transactional:
        bench.fold(f.Committed(bench.now_ns, PRODUCER, 1, 1))
    else:
        bench.ack(10, 10)
    bench.settle()
    assert bench.found("lost-write", "truncation") == [("lost-write", 10, 10), ("truncation", 10, -1)]


def test_a_cut_that_a_consumer_met_explains_no_loss_of_what_was_sent_later() -> None:
    bench = Bench()
    bench.write(10)
    bench.settle(2)
    bench.send()  # it stays without an answer, and may have been cut off
    bench.fold(f.OutOfRange(bench.now_ns, RU, RU, TOPIC, 0, 12, "out of range"))
    bench.put(RU, bench.end)
    bench.settle(2)
    bench.write(5)
    bench.settle(2)
    lose(bench, 12)
    assert bench.found() == [("lost-write", 12, 13)]


def test_lost_records_on_both_sides_of_a_former_end_are_no_cut_while_others_between_stand() -> None:
    bench = Bench()
    bench.write(10)
    bench.settle()
    bench.epoch += 1
    bench.settle()
    bench.write(10)
    bench.settle()
    lose(bench, 3, 15)
    assert bench.found() == [("lost-write", 3, 3), ("lost-write", 15, 15)]


@pytest.mark.parametrize("quiet", [False, True], ids=["at once", "when the log has grown"])
def test_what_a_generation_that_is_over_was_told_without_an_offset_is_looked_for(*, quiet: bool) -> None:
    bench = Bench()
    bench.write(2)
    (sequence,) = bench.send()
    bench.ack(sequence, None)
    bench.settle()
    assert bench.found() == []
    bench.restart()
    if quiet:
        bench.settle()
    bench.write(2)
    bench.settle()
    assert bench.found() == [("lost-write", -1, sequence)]


@pytest.mark.parametrize(
    ("low", "gone", "cut"),
    [(3, range(3, 10), [3]), (4, range(3, 10), [3]), (5, range(3, 5), []), (3, range(3, 5), []), (2, (3, 8, 9), [8])],
)
def test_what_was_lost_above_an_end_that_was_seen_once_was_cut_off(
    low: int, gone: Iterable[int], cut: list[int]
) -> None:
    """A cut takes all that stood above it: where some of it stands, the end was listed too low."""
    bench = Bench()
    bench.write(10)
    bench.poll()
    bench.end = low
    bench.round()
    bench.end = 10  # the log has grown again, by records of others
    for offset in gone:
        bench.log[offset] = "foreign"
    bench.restart()
    bench.settle()
    assert bench.found("lost-write") == [("lost-write", offset, offset) for offset in gone]
    assert bench.found("truncation") == [("truncation", first, -1) for first in cut]


def test_an_end_that_is_listed_too_low_after_a_cut_does_not_hide_it() -> None:
    """What was promised since stands above that end, and tells nothing about the first."""
    bench = Bench()
    bench.write(60)
    bench.poll()
    bench.truncate(50)
    bench.round()
    for offset in range(50, 60):
        bench.log[offset] = "foreign"
    bench.end = 60
    bench.write(20)
    end, bench.end = bench.end, 70
    bench.round()
    bench.end = end
    bench.settle()
    assert bench.found("truncation") == [("truncation", 50, -1)]


def test_what_no_reread_answered_for_and_has_expired_is_not_lost() -> None:
    bench = Bench()
    bench.write(5)
    del bench.log[2]
    bench.answering = False
    bench.poll()
    ended(bench, 2, "timed out")
    bench.round()
    ended(bench, 2, "timed out")
    bench.now_ns += 9 * 86_400 * 10**9
    bench.start = 4
    for _ in range(4):
        bench.round()
    assert bench.found() == []
    assert bench.tracker.state.meters[TOPIC, 0].unverified == {"idempotent": 1}


def unplaced(bench: Bench) -> int:
    """A probe that was acknowledged without an offset is looked for, and no fresh client finds it."""
    bench.write(1)
    (sequence,) = bench.send()
    bench.ack(sequence, None)
    bench.write(2)
    bench.poll()
    bench.round()
    assert bench.tracker.state.topics[TOPIC].logs[0].unplaced[0].state == "absent"
    return sequence


def test_an_unplaced_probe_that_comes_late_is_not_lost() -> None:
    bench = Bench()
    sequence = unplaced(bench)
    (offset,) = bench.append(sequence)
    bench.settle()
    assert bench.found() == [("reorder", 1, 2)], offset


def test_an_unplaced_probe_that_may_have_expired_is_not_lost() -> None:
    bench = Bench()
    unplaced(bench)
    bench.now_ns += 9 * 86_400 * 10**9
    bench.start = 2
    bench.settle()
    assert bench.found() == []


def test_an_unplaced_probe_that_expired_before_it_was_acknowledged_is_not_lost() -> None:
    bench = Bench()
    (sequence,) = bench.send()
    bench.append(sequence)
    (later,) = bench.send()
    (offset,) = bench.append(later)
    bench.round()
    bench.now_ns += 9 * 86_400 * 10**9
    bench.start = offset
    del bench.log[0]
    bench.round()
    bench.ack(sequence, None)
    bench.ack(later, offset)
    bench.settle(12)
    assert bench.found() == []


def test_an_unplaced_probe_between_records_that_are_retained_is_lost() -> None:
    bench = Bench()
    sequence = unplaced(bench)
    bench.now_ns += 9 * 86_400 * 10**9
    bench.start = 1
    bench.settle()
    assert bench.found() == [("lost-write", -1, sequence)]


def test_an_unplaced_probe_that_is_read_and_gone_again_is_lost_once() -> None:
    bench = Bench()
    sequence = unplaced(bench)
    (offset,) = bench.append(sequence)
    bench.poll(RU)
    del bench.log[offset]
    bench.poll(RC)
    bench.answer()
    bench.settle()
    assert bench.found("lost-write") == [("lost-write", offset, sequence)]


def test_a_transaction_is_fractured_once_however_much_of_it_is_lost() -> None:
    bench = Bench(mode="transactional")
    key = (PRODUCER, 1, 1)
    bench.fold(f.TransactionBegan(bench.now_ns, bench.mode, *key))
    bench.sequence = 4
    bench.fold(*(f.Sent(bench.now_ns, TOPIC, 0, PRODUCER, 1, i, bench.mode, 1) for i in range(4)))
    bench.append(0, 1, 2, 3)
    for sequence in range(4):
        bench.ack(sequence, sequence)
    bench.fold(f.CommitAsked(bench.now_ns, *key), f.Committed(bench.now_ns, *key))
    del bench.log[0], bench.log[2]
    bench.end = 5
    bench.settle()
    assert bench.found() == [("fractured-transaction", 0, 0), ("lost-write", 0, 0), ("lost-write", 2, 2)]


def test_who_took_a_place_while_it_was_read_again_is_not_missed_there() -> None:
    bench = Bench()
    bench.write(5)
    bench.poll()
    bench.answering = False
    bench.epoch += 1
    bench.round()
    (request,) = bench.requests
    bench.requests.clear()
    number = request.request_id
    bench.deliver(f"reread-{number}", RC, 0, 3)
    bench.truncate(3, epoch=False)
    bench.write(2)
    bench.fold(f.RereadEnded(bench.now_ns, number, RC, TOPIC, 0, 0, 5, 5, complete=True))
    for _ in range(4):
        bench.round()
    assert bench.found("lost-write") == []
    bench.answering = True
    bench.settle()
    assert bench.found("lost-write") == [("lost-write", 3, 3), ("lost-write", 4, 4)]


def test_a_write_of_an_open_transaction_that_is_not_where_it_was_acknowledged_is_not_lost() -> None:
    bench = Bench(mode="transactional")
    bench.fold(f.TransactionBegan(bench.now_ns, bench.mode, PRODUCER, 1, 1))
    bench.fold(f.Sent(bench.now_ns, TOPIC, 0, PRODUCER, 1, 0, bench.mode, 1))
    bench.ack(0, 1)
    bench.end = 3
    bench.fold(f.Polled(bench.now_ns, RU, RU, TOPIC, 0, 2, PRODUCER, 1, 0, 1))
    bench.answer()
    assert bench.tracker.state.next_request == 2
    bench.now_ns += 9 * 86_400 * 10**9
    bench.start = bench.positions[RU] = 3
    bench.settle()
    assert bench.found() == []


def test_one_loss_is_said_once_though_two_rereads_miss_it() -> None:
    bench = Bench()
    bench.write(5)
    bench.poll(RU)
    bench.answering = False
    bench.epoch += 1
    bench.round()
    bench.hidden = {2, 3}
    bench.poll(RC)
    tail, confirm = bench.requests
    bench.requests.clear()
    del bench.log[3]
    for request, complete in ((tail, True), (confirm, True)):
        number, start, end = request.request_id, request.start, request.end
        bench.deliver(f"reread-{number}", RC, start, end, hidden=False)
        bench.fold(f.RereadEnded(bench.now_ns, number, RC, TOPIC, 0, start, end, end, complete))
        bench.log.pop(2, None)
    bench.answering = True
    bench.settle()
    assert bench.found("lost-write") == [("lost-write", 2, 2), ("lost-write", 3, 3)]
    assert [(v.offset, v.count) for v in bench.said if v.kind == "lost-write"] == [(2, 2)]


def test_a_cut_is_waited_for_until_it_is_said_though_its_losses_are() -> None:
    b = Bench()
    b.write(20)
    b.settle()
    b.answering = False
    b.truncate(10)
    for _ in range(6):
        b.round()
    later = [one for one in b.requests if one.reason != "confirm"]
    b.requests = [one for one in b.requests if one.reason == "confirm"]  # only what is missed is read again for now
    b.answer()
    b.requests += later
    for _ in range(3):
        b.round()
    assert [kind for kind, _, _ in b.found("lost-write", "truncation")] == ["lost-write"] * 10
    assert suspects(b.tracker.state) == {"lost-write": 0, "truncation": 1}
    b.answering = True
    b.settle()
    assert b.found("truncation") == [("truncation", 10, -1)]
    assert sum(suspects(b.tracker.state).values()) == 0


def epoch_goes_back(bench: Bench, to: int = 0) -> None:
    """The metadata was restored: leaders have lower epochs from here on."""
    bench.epoch = to
    bench.settle(6)
    assert [kind for kind, *_ in bench.found()] == ["leader-epoch-regression"]


def test_after_the_leader_epoch_went_back_what_is_lost_is_said() -> None:
    bench = Bench(epoch=7)
    bench.write(10)
    bench.settle()
    epoch_goes_back(bench)
    bench.truncate(6, epoch=False)
    bench.settle()
    assert bench.found("lost-write") == [("lost-write", n, n) for n in range(6, 10)]
    assert bench.found("truncation") == [("truncation", 6, -1)]


def test_after_the_leader_epoch_went_back_a_new_process_knows_the_partition() -> None:
    bench = Bench(epoch=7)
    bench.write(10)
    bench.settle()
    epoch_goes_back(bench)
    bench.restart()
    assert bench.tracker.state.topics[TOPIC].logs[0].listed_ordinal > 0


def test_what_was_written_before_the_leader_epoch_went_back_bears_its_epoch_and_tells_of_no_new_leader() -> None:
    bench = Bench(epoch=7)
    bench.write(10)
    bench.settle()
    epoch_goes_back(bench)
    log = bench.tracker.state.topics[TOPIC].logs[0]
    for epoch, believed in ((7, 0), (8, 8)):
        place = (bench.now_ns, "reread-9", RC, TOPIC, 0, 3, PRODUCER, 1, 3)
        bench.fold(f.Polled(*place, leader_epoch=epoch))
        assert log.epoch == believed
    bench.epoch = 8
    bench.settle()
    assert log.listed_ordinal > 0


def wiped(bench: Bench) -> None:
    """Every replica is empty: the log begins anew at 0."""
    bench.log.clear()
    bench.start = bench.end = 0
    bench.epoch += 1


def test_of_a_log_that_begins_lower_than_before_everything_is_read_again() -> None:
    bench = Bench()
    bench.write(50)
    bench.settle()
    bench.now_ns += 9 * 86_400 * 10**9
    bench.start = 50
    bench.log.clear()
    bench.settle()
    wiped(bench)
    bench.settle(2)
    bench.write(30)
    bench.settle()
    assert bench.found() == []
    lose(bench, *range(10, 20))
    assert bench.found("lost-write") == [("lost-write", n, 50 + n) for n in range(10, 20)]


def test_what_expired_and_is_there_again_under_a_leader_that_has_deleted_less_is_no_copy() -> None:
    bench = Bench()
    bench.write(10)
    bench.settle()
    bench.now_ns += 9 * 86_400 * 10**9
    bench.start = 6
    bench.settle()
    bench.start, bench.epoch = 2, 1
    bench.settle()
    assert bench.found() == []
    lose(bench, 3)
    assert bench.found() == [("lost-write", 3, 3)], "and promised again"


def test_what_was_looked_for_when_it_expired_is_not_lost_when_the_log_begins_lower_again() -> None:
    bench = Bench()
    bench.write(10)
    bench.settle()
    bench.truncate(4, epoch=False)
    bench.answering = False
    bench.write(4)  # where others were promised, who are looked for
    bench.now_ns += 9 * 86_400 * 10**9
    bench.start = 8
    bench.round()
    wiped(bench)
    bench.answering = True
    bench.settle()
    assert {offset for _, offset, _ in bench.found("lost-write")} <= {8, 9}


def test_what_expired_in_a_log_that_began_lower_unseen_is_not_lost_though_its_start_is_told_where_it_was() -> None:
    bench = Bench()
    bench.write(10)
    bench.settle()
    bench.now_ns += 9 * 86_400 * 10**9
    bench.start = 10
    bench.settle()
    wiped(bench)
    bench.write(12)  # acknowledged below the start that is known
    bench.now_ns += 9 * 86_400 * 10**9
    bench.start = 10
    bench.round()
    wiped(bench)
    bench.settle()
    assert bench.found("lost-write") == [("lost-write", 10, 20), ("lost-write", 11, 21)]


def test_what_the_next_loss_of_the_same_place_displaced_is_lost_though_the_log_ends_before_it() -> None:
    bench = Bench()
    bench.write(10)
    bench.settle()
    bench.truncate(5)
    bench.answering = False
    bench.write(3)
    bench.truncate(2)
    for _ in range(5):
        bench.round()
    bench.answering = True
    bench.settle()
    assert {sequence for _, _, sequence in bench.found("lost-write")} == set(range(2, 13))


def lone_acknowledgements(bench: Bench, rounds: int = 12) -> list[int]:
    """The leader acknowledges ten probes that no follower has fetched yet: consumers and ListOffsets end before."""
    bench.write(10)
    bench.settle(2)
    sequences = bench.send(10)
    for sequence in sequences:
        bench.ack(sequence, sequence)
    for _ in range(rounds):
        bench.round()
    return sequences


def test_what_a_leader_acknowledged_alone_is_not_gone_while_its_follower_pauses() -> None:
    bench = Bench(mode="plain")
    bench.append(*lone_acknowledgements(bench))
    bench.settle()
    assert bench.found() == []


@pytest.mark.parametrize("read", [False, True])
def test_what_a_new_leader_acknowledged_alone_before_its_epoch_was_heard_of_is_not_gone(*, read: bool) -> None:
    bench = Bench(mode="plain")
    bench.write(10)
    bench.settle(2)
    bench.epoch += 1
    sequences = bench.send(10)
    for sequence in sequences:
        bench.ack(sequence, sequence)
    if read:  # the followers have fetched the first
        (offset,) = bench.append(sequences.pop(0))
        place = (bench.now_ns, RU, RU, TOPIC, 0, offset, PRODUCER, 1, offset)
        bench.fold(f.Polled(*place, leader_epoch=bench.epoch))
        bench.positions[RU] = bench.end
    for _ in range(8):
        bench.round()
    bench.append(*sequences)
    bench.settle()
    assert bench.found() == []


@pytest.mark.parametrize(("newer", "rounds"), [(True, 4), (False, 10)])
def test_what_all_acknowledged_is_gone_when_the_log_ends_before_it(rounds: int, *, newer: bool) -> None:
    """Sooner under a newer leader: the same one may be a former one, which does not know of it yet."""
    bench = Bench()
    lone_acknowledgements(bench, 4)
    assert bench.found("lost-write") == []
    bench.epoch += newer
    for _ in range(rounds):
        bench.round()
    assert len(bench.found("lost-write")) == 10


class Resumed(Bench):
    """Leader 1 was paused; another one has acknowledged probes since; now it answers again, as it knows the log."""

    former: tuple[int, int] | None = None
    """While it answers: the end and the epoch that it knows."""

    @classmethod
    def after(cls, *, read: bool, known: bool, hidden: set[int] | None = None) -> Resumed:
        """``known``: the successor's epoch has been seen; ``read``: so has what it acknowledged."""
        bench = cls()
        bench.write(10)
        bench.settle(3)
        bench.former = bench.end, bench.epoch
        bench.epoch += 1
        if known:
            former, bench.former = bench.former, None
            bench.round()
            bench.former = former
        bench.write(5)
        bench.hidden = hidden or set()
        if read:
            bench.poll()
        return bench

    def round(self) -> None:
        end, epoch = self.end, self.epoch
        self.end, self.epoch = self.former or (end, epoch)
        try:
            super().round()
        finally:
            self.end, self.epoch = end, epoch


@pytest.mark.parametrize("writing", [False, True])
@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_what_a_leader_that_was_paused_does_not_know_is_not_lost(*, read: bool, known: bool, writing: bool) -> None:
    bench = Resumed.after(read=read, known=known)
    for _ in range(30 if writing or known else 8):
        if writing:
            bench.write()
        bench.round()
    bench.former = None
    bench.settle()
    assert [kind for kind, *_ in bench.found() if kind != "leader-epoch-regression"] == []


@pytest.mark.parametrize("named", [False, True])
def test_a_leader_that_is_no_longer_named_proves_nothing_though_its_successor_has_not_answered(*, named: bool) -> None:
    bench = Resumed()
    bench.write(10)
    bench.settle(5)
    bench.former = bench.end, bench.epoch
    bench.leader, bench.epoch = 1 if named else 2, bench.epoch + 1
    bench.round()
    bench.write(3)
    for _ in range(20):
        bench.round()
    assert bench.tracker.state.topics[TOPIC].logs[0].missing == [] or named
    assert len(bench.found("lost-write")) == 3 * named
    if not named:
        bench.former = None
        bench.settle()
        assert bench.found() == []


def test_nothing_is_lost_beyond_the_end_of_a_deleted_topic_whose_leader_has_a_higher_epoch() -> None:
    """It was cut off, and answers now and then; the present topic's log has grown beyond that end."""
    bench = Resumed(epoch=1)
    bench.round()
    bench.former, bench.epoch = (0, 1), 0
    for _ in range(4):
        bench.write(2)
        former, bench.former = bench.former, None
        bench.settle(6)
        bench.former = former
        for _ in range(12):
            bench.round()
    assert bench.found() == [("leader-epoch-regression", -1, -1)]
    bench.former = None
    bench.truncate(6)
    bench.settle()
    assert bench.found("lost-write") == [("lost-write", n, n) for n in (6, 7)]


@pytest.mark.parametrize("later", [False, True, None])
@pytest.mark.parametrize("recreated", [False, True])
def test_a_reread_that_a_leader_of_a_deleted_topic_answers_proves_nothing(
    *, recreated: bool, later: bool | None
) -> None:
    """It was cut off when the topic was deleted and made again: what it has bears the tag of the former one.

    Or it has transaction markers there, and gives nothing (``later`` is None).
    """
    bench = Bench()
    bench.write(5)
    bench.settle(3)
    bench.tracker.state.topology.topics[TOPIC].dead_ids += ["former"] * recreated
    bench.answering = False
    bench.fold(f.ScrubAsked(bench.now_ns, TOPIC, 0, 1000))
    (request,) = bench.requests
    for offset in range(5) if later is not None else ():
        place = (bench.now_ns, f"reread-{request.request_id}", RC, TOPIC, 0, offset)
        bench.fold(f.Refused(*place, "foreign", "its tag is another's", bench.epoch + 4 * bool(later)))
    number = request.request_id
    bench.fold(f.RereadEnded(bench.now_ns, number, RC, TOPIC, 0, 0, 5, 5, True, None))
    bench.requests.clear()
    bench.answering = True
    bench.settle()
    assert len(bench.found("lost-write")) == (0 if recreated else 5)


@pytest.mark.parametrize(("lost", "rounds"), [({3, 4}, 3), ({0, 1}, 3), ({0, 1, 2, 3, 4}, 35)], ids=str)
def test_a_loss_in_a_topic_that_was_made_again_is_found(lost: set[int], rounds: int) -> None:
    """A record beside it shows who answers; where none is left, a former leader is not waited for for ever."""
    bench = Bench()
    bench.write(5)
    bench.round()
    bench.tracker.state.topology.topics[TOPIC].dead_ids.append("former")
    for offset in lost:
        del bench.log[offset]
    bench.settle(rounds)
    assert bench.found() == [("lost-write", offset, offset) for offset in sorted(lost)]


@pytest.mark.parametrize("recreated", [False, True])
def test_a_tail_that_reads_the_log_of_a_deleted_topic_passes_nothing_of_the_present_one(*, recreated: bool) -> None:
    """A leader that was cut off gives it what was written to the former topic, beyond the present one's end."""
    bench = Bench()
    bench.write(5)
    bench.settle(3)
    bench.tracker.state.topology.topics[TOPIC].dead_ids += ["former"] * recreated
    for offset in range(5, 9):
        bench.fold(f.Refused(bench.now_ns, RC, RC, TOPIC, 0, offset, "foreign", "its tag is another's", bench.epoch))
    bench.positions[RC] = 9
    bench.write(5)
    bench.settle()
    assert bench.found() == ([] if recreated else [("poll-skip", offset, offset) for offset in range(5, 9)])


@pytest.mark.parametrize("recreated", [False, True])
@pytest.mark.parametrize("acknowledged", ["before", "after"])
def test_a_tail_that_reads_the_log_of_a_deleted_topic_passes_nothing_below_the_end_of_the_present_one(
    *, recreated: bool, acknowledged: str
) -> None:
    """The present one reached as far before; the former one has records at 0 to 2, and a transaction marker at 3."""
    bench = Bench()
    bench.tracker.state.topology.topics[TOPIC].dead_ids += ["former"] * recreated
    sequences = bench.send(4)
    offsets = bench.append(*sequences)
    bench.round()

    def acknowledge() -> None:
        for sequence, offset in zip(sequences, offsets, strict=True):
            bench.ack(sequence, offset)

    if acknowledged == "before":
        acknowledge()
    for offset in range(3):
        bench.fold(f.Refused(bench.now_ns, RC, RC, TOPIC, 0, offset, "foreign", "its tag is another's", bench.epoch))
    bench.fold(f.EndOfPartition(bench.now_ns, RC, RC, TOPIC, 0, 4))
    if acknowledged == "after":
        acknowledge()
    bench.positions[RC] = 4
    bench.settle()
    assert bench.found() == ([] if recreated else [("poll-skip", offset, offset) for offset in range(4)])


@pytest.mark.parametrize("acknowledged", ["before", "after"])
def test_a_tail_that_is_given_the_present_log_again_skips_what_it_passes_there(acknowledged: str) -> None:
    bench = Bench()
    bench.tracker.state.topology.topics[TOPIC].dead_ids.append("former")
    bench.write(6)
    bench.settle(3)
    bench.fold(f.Refused(bench.now_ns, RC, RC, TOPIC, 0, 6, "foreign", "its tag is another's", bench.epoch))
    bench.write(2)
    bench.positions[RC] = 7
    bench.poll()
    sequences = bench.send(2)
    offsets = bench.append(*sequences)
    if acknowledged == "before":
        bench.ack(sequences[0], offsets[0])
    bench.hidden = {8}
    bench.poll()
    bench.ack(sequences[0], offsets[0])
    bench.ack(sequences[1], offsets[1])
    bench.settle()
    assert bench.found() == [("poll-skip", 8, 8)]


def test_a_tail_that_reads_the_log_of_a_deleted_topic_passes_nothing_in_whose_place_another_was_acknowledged() -> None:
    bench = Bench()
    bench.tracker.state.topology.topics[TOPIC].dead_ids.append("former")
    sequence, other = bench.send(2)
    bench.append(sequence)
    bench.ack(sequence, 0)
    bench.ack(other, 0)
    bench.fold(f.Refused(bench.now_ns, RC, RC, TOPIC, 0, 0, "foreign", "its tag is another's", bench.epoch))
    bench.fold(f.EndOfPartition(bench.now_ns, RC, RC, TOPIC, 0, 1))
    bench.positions[RC] = 1
    bench.settle(3)
    bench.write(2)
    bench.settle()
    assert bench.found("poll-skip", "lost-write") == [("lost-write", 0, other)]


def test_a_tail_that_is_put_where_it_stood_reads_on_there() -> None:
    bench = Bench()
    bench.write(5)
    bench.settle(3)
    bench.astray(RC)
    bench.put(RC, 5)
    bench.write(2)
    bench.hidden = {5}
    bench.settle()
    assert bench.found() == [("poll-skip", 5, 5)]


def test_a_record_of_a_deleted_topic_in_the_place_of_a_promise_is_a_lost_write() -> None:
    bench = Bench()
    bench.tracker.state.topology.topics[TOPIC].dead_ids.append("former")
    bench.write(5)
    for offset in range(5):
        bench.log[offset] = "foreign"
        bench.fold(f.Refused(bench.now_ns, RC, RC, TOPIC, 0, offset, "foreign", "its tag is another's", bench.epoch))
    bench.positions[RC] = 5
    bench.settle(35)
    assert bench.found() == [("lost-write", offset, offset) for offset in range(5)]


def test_what_a_former_leader_does_not_have_and_one_consumer_passed_is_not_lost() -> None:
    bench = Resumed.after(read=True, known=False, hidden={12})
    for _ in range(30):
        bench.write()
        bench.round()
    assert bench.found() == []
    bench.former = None
    bench.settle()
    assert bench.found() == [("poll-skip", 12, 12)]


@pytest.mark.parametrize("former", [False, True])
def test_a_reread_that_a_former_leader_answers_proves_nothing(*, former: bool) -> None:
    """A leader that was cut off has a log of its own, and fresh clients ask it; an unclean one has the topic now."""
    bench = Bench(hidden={10, 11, 12})
    bench.write(10)
    lone = bench.send(3)
    bench.settle()
    bench.epoch += 1
    bench.round()
    bench.answering = False
    bench.write(3)
    bench.poll(RC)
    own = [(n, n, 0) for n in range(10)] + [(n, lone[n - 10], bench.epoch - former) for n in range(10, 13)]
    asked = set()
    for _ in range(6):
        bench.round()
        requests, bench.requests = bench.requests, []
        for r in requests:
            number, start, end = r.request_id, r.start, r.end
            asked.add(r.reason)
            for offset, sequence, epoch in own[start:end]:
                place = (bench.now_ns, f"reread-{number}", RC, TOPIC, 0, offset, PRODUCER, 1, sequence)
                bench.fold(f.Polled(*place, leader_epoch=epoch))
            bench.fold(f.RereadEnded(bench.now_ns, number, RC, TOPIC, 0, start, end, end, True, None))
    assert asked >= {"confirm", "order"}
    assert bench.found("lost-write") == ([] if former else [("lost-write", n, n + 3) for n in range(10, 13)])
    if former:
        bench.answering = True
        bench.settle()
        assert bench.found("lost-write") == [("lost-write", n, n) for n in range(10, 13)]  # which it alone had
        assert bench.found("poll-skip") == [("poll-skip", n, n + 3) for n in range(10, 13)]


@pytest.mark.parametrize("cut", [False, True])
def test_what_a_former_leader_was_believed_about_is_read_again_when_the_log_is_longer(*, cut: bool) -> None:
    bench = Resumed.after(read=True, known=False)
    for _ in range(10):
        bench.round()
    assert bench.tracker.state.topics[TOPIC].logs[0].missing[0].by_end
    bench.former = None
    if cut:
        bench.truncate(10)
        bench.end = 20  # by records of others
    bench.settle()
    assert bench.found("lost-write") == ([("lost-write", n, n) for n in range(10, 15)] if cut else [])


def test_what_is_beyond_the_end_of_a_log_that_was_cut_and_grows_is_lost_before_it_is_reached() -> None:
    """It grows at each look, and a re-read shows two records more that are not there."""
    bench = Bench()
    bench.write(20)
    bench.settle(3)
    bench.truncate(0)
    bench.round()
    bench.round()
    for _ in range(8):
        bench.write()
        bench.round()
    assert bench.found("lost-write") == [("lost-write", n, n) for n in range(20)]


@pytest.mark.parametrize("looks", [1, 2], ids=["wanted", "missed"])
def test_what_an_open_transaction_hides_is_not_asked_for_with_every_look_and_is_not_forgotten(looks: int) -> None:
    """A fresh read_committed consumer ends at the last stable offset, and can say nothing of what is above."""
    bench = Bench()
    bench.write(10)
    bench.settle(3)
    bench.truncate(8)
    for _ in range(looks):
        bench.round()
    bench.end, bench.stable = 12, 8  # by a transaction that is open
    asked = []
    for _ in range(30):
        bench.round()
        asked.append(bench.tracker.state.next_request)
    assert asked[4] == asked[-1]
    assert bench.found("lost-write") == []
    bench.stable = None
    for _ in range(6):
        bench.round()
    assert bench.found("lost-write") == [("lost-write", 8, 8), ("lost-write", 9, 9)]


def test_an_end_that_is_listed_too_low_is_no_loss_while_a_fetch_gives_the_records() -> None:
    """Tansu 0.6 lists an end one batch too low, and serves what lies above it."""
    bench = Bench()
    bench.write(20)
    bench.settle()
    listed = bench.end - 5
    for _ in range(40):
        bench.sample += 1
        bench.now_ns += bench.pace_ns
        bench.fold(
            f.WatchAsked(bench.now_ns, bench.sample),
            f.TopicSeen(bench.now_ns, bench.sample, TOPIC, bench.topic_id, 1),
            f.Listed(bench.now_ns, bench.sample, TOPIC, 0, 0, listed, listed, bench.epoch),
        )
        bench.answer()
    assert bench.found() == []
    bench.truncate(18, epoch=False)
    listed = 18
    bench.settle()
    assert bench.found("lost-write") == [("lost-write", 18, 18), ("lost-write", 19, 19)]


def test_an_end_that_goes_back_is_suspected_and_no_loss_while_nobody_can_fetch() -> None:
    bench = Bench()
    bench.write(20)
    bench.settle()
    bench.answering = False
    bench.truncate(10)
    for _ in range(30):
        bench.round()
    assert bench.found("lost-write", "truncation") == []
    assert suspects(bench.tracker.state)["lost-write"] == 10
    bench.answering = True
    bench.settle()
    assert bench.found("lost-write") == [("lost-write", n, n) for n in range(10, 20)]


@pytest.mark.parametrize("present", [True, False])
def test_a_former_leader_whose_log_was_lost_proves_nothing_however_often_it_answers(*, present: bool) -> None:
    """All is gone under the present leader, and was written again; the former one, cut off, has the lost records.

    Where the present one never answers a re-read, that does not go on for ever.
    """
    bench = Bench()
    bench.write(10)
    bench.settle(3)
    bench.truncate(0)
    bench.settle()
    assert len(bench.found("lost-write")) == 10
    bench.write(5)  # sequences 10 to 14
    bench.settle(3)
    bench.answering = False
    for n in range(100):
        bench.fold(f.ScrubAsked(bench.now_ns, TOPIC, 0, 1000))
        bench.round()
        requests, bench.requests = bench.requests, []
        is_former = not present or n % 3 > 0
        end, shift, epoch = (10, 0, bench.epoch - 1) if is_former else (5, 10, bench.epoch)
        for r in requests:
            name, reached = f"reread-{r.request_id}", min(r.end, end)
            for offset in range(r.start, reached):
                place = (bench.now_ns, name, RC, TOPIC, 0, offset)
                bench.fold(f.Polled(*place, PRODUCER, 1, offset + shift, leader_epoch=epoch))
            complete = reached == r.end
            error = None if complete else f"end of log at {reached}"
            bench.fold(
                f.RereadEnded(bench.now_ns, r.request_id, RC, TOPIC, 0, r.start, r.end, reached, complete, error)
            )
    assert len(bench.found("lost-write")) == (10 if present else 15)


@pytest.mark.parametrize("grown", [0, 20])
def test_what_a_leader_acknowledged_alone_and_the_next_one_does_not_have_is_gone(grown: int) -> None:
    bench = Bench(mode="plain")
    lone_acknowledgements(bench)
    if grown:  # under the same leader, by records of others
        bench.end += grown
    else:
        bench.epoch += 1
    bench.settle()
    assert {v.severity for v in bench.violations.values()} == {"warning"}
    assert bench.found("lost-write") == [("lost-write", n, n) for n in range(10, 20)]


def test_what_a_leader_acknowledged_alone_excuses_nothing_that_had_been_read_or_stands_behind_it() -> None:
    bench = Bench(mode="plain")
    lone_acknowledgements(bench)
    bench.truncate(7, epoch=False)
    bench.settle()
    assert bench.found("lost-write") == [("lost-write", n, n) for n in range(7, 10)]


def listed_low(bench: Bench, end: int, leader_epoch: int | None, rounds: int) -> int:
    """Ends are listed at ``end``, and re-reads end there without a record, by a client that knows ``leader_epoch``.

    Returns how many re-reads were asked for.
    """
    asked = 0
    for _ in range(rounds):
        bench.sample += 1
        bench.now_ns += bench.pace_ns
        bench.fold(
            f.WatchAsked(bench.now_ns, bench.sample),
            f.TopicSeen(bench.now_ns, bench.sample, TOPIC, bench.topic_id, 1),
            f.Listed(bench.now_ns, bench.sample, TOPIC, 0, 0, end, end, bench.epoch),
        )
        requests, bench.requests = bench.requests, []
        for r in requests:
            place = (r.request_id, r.isolation, TOPIC, 0, r.start, r.end)
            error = f"end of log at {end}"
            bench.fold(f.RereadEnded(bench.now_ns, *place, min(end, r.start), False, error, leader_epoch))
        asked += len(requests)
    return asked


@pytest.mark.parametrize("leader_epoch", [5, None])
def test_an_end_of_the_log_decides_where_the_present_leader_told_it(leader_epoch: int | None) -> None:
    bench = Bench()
    bench.epoch = 5
    bench.write(10)
    bench.poll()
    bench.settle()
    assert listed_low(bench, 8, leader_epoch, rounds=20) > 0
    assert [kind for kind, *_ in bench.found("lost-write")] == ["lost-write"] * 2


def test_an_end_of_the_log_that_a_former_leader_told_decides_nothing_however_often_the_end_is_listed_there() -> None:
    bench = Bench()
    bench.epoch = 5
    bench.write(10)
    bench.poll()
    bench.settle()
    assert listed_low(bench, 8, leader_epoch=4, rounds=20) > 2
    assert bench.found() == []
    bench.settle()  # the end is listed where it is, and the present leader answers
    assert bench.found() == []
    assert not bench.tracker.state.topics[TOPIC].logs[0].missing
