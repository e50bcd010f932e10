"""The promises of the online engine, one test each."""

from __future__ import annotations

import pytest

from canary import facts as f
from canary.anomalies.online import Tracker
from canary.metrics import measured
from canary.metrics.published import ConsumerView
from tests.support.bench import PRODUCER, RC, RU, TOPIC, Bench


def test_a_healthy_log_has_no_violation_and_nothing_unseen() -> None:
    b = Bench()
    for _ in range(20):
        b.write(5)
        b.poll()
        b.round()
    assert b.found() == []
    (partition,) = measured(b.tracker.state).partitions
    assert partition.acked == 100
    assert partition.consumers[RC] == ConsumerView(
        isolation=RC, position=100, seen=100, unseen=0, oldest_unseen_s=0.0, stalled=False
    )


def test_an_acked_probe_that_nobody_read_yet_is_unseen_and_not_lost() -> None:
    b = Bench()
    b.write(3)
    for _ in range(5):
        b.round()
    assert b.found() == []
    consumer = measured(b.tracker.state).partitions[0].consumers[RC]
    assert consumer.unseen == 3
    assert consumer.oldest_unseen_s > 4
    assert consumer.stalled is False
    b.poll()
    assert measured(b.tracker.state).partitions[0].consumers[RC].unseen == 0


def test_a_consumer_with_something_to_read_and_no_progress_is_stalled() -> None:
    b = Bench()
    b.write(3)
    for _ in range(12):
        b.round()
    assert measured(b.tracker.state).partitions[0].consumers[RC].stalled is True


def test_a_hole_in_the_log_is_a_lost_write_once_a_fresh_client_confirms_it() -> None:
    b = Bench()
    b.write(10)
    del b.log[4]
    b.poll()
    assert b.found() == []  # only suspected
    b.settle()
    assert b.found() == [("lost-write", 4, 4)]
    b.settle(20)
    assert b.found() == [("lost-write", 4, 4)]


def test_a_probe_that_only_the_tail_consumer_skips_is_a_poll_skip_and_not_lost() -> None:
    b = Bench()
    b.write(10)
    b.hidden = {4}
    b.settle()
    assert b.found("lost-write", "poll-skip") == [("poll-skip", 4, 4)]


def test_an_ack_that_arrives_after_the_consumer_passed_is_judged_like_any_other() -> None:
    b = Bench()
    sequences = b.send(3)
    b.append(*sequences)
    del b.log[1]
    b.poll()
    for sequence in sequences:
        b.ack(sequence, sequence)
    b.settle()
    assert b.found() == [("lost-write", 1, 1)]


def test_an_ack_that_arrives_after_its_own_read_is_nothing() -> None:
    b = Bench()
    sequences = b.send(3)
    b.append(*sequences)
    b.poll()
    for sequence in sequences:
        b.ack(sequence, sequence)
    b.settle()
    assert b.found() == []
    assert measured(b.tracker.state).partitions[0].consumers[RC].unseen == 0


def test_a_reread_is_not_a_duplicate() -> None:
    b = Bench()
    b.write(10)
    b.poll()
    b.positions[RC] = 0
    b.fold(f.Positioned(b.now_ns, RC, RC, TOPIC, 0, 0, "overlap"))
    b.settle()
    assert b.found() == []


def test_a_copy_at_another_offset_is_one_duplicate_for_each_extra_copy_and_nothing_else() -> None:
    b = Bench()
    b.write(10)
    b.append(3)
    b.write(2)
    b.append(3)
    b.settle()
    assert b.found() == [("duplicate", 10, 3), ("duplicate", 13, 3)]


@pytest.mark.parametrize(("gone", "lost"), [([3], []), ([10], []), ([3, 10], []), ([3, 10, 13], [3])])
def test_a_probe_whose_copy_stands_is_not_lost(gone: list[int], lost: list[int]) -> None:
    b = Bench()
    b.write(10)
    b.append(3)
    b.write(2)
    b.append(3)
    b.settle()
    for offset in gone:
        del b.log[offset]
        b.epoch += 1  # the tail is read again
        b.settle()
    assert b.found() == [("duplicate", 10, 3), ("duplicate", 13, 3), *(("lost-write", 13, n) for n in lost)]


def test_a_copy_of_a_probe_whose_first_offset_expired_is_still_a_duplicate() -> None:
    b = Bench()
    b.write(10)
    b.settle(2)
    b.now_ns += 8 * 86_400 * 10**9
    b.start = 8
    b.settle(2)
    b.append(3)
    b.settle()
    assert b.found() == [("duplicate", 10, 3)]


def test_a_log_cut_below_acked_records_is_a_truncation_and_a_lost_write_for_each() -> None:
    b = Bench()
    b.write(10)
    b.poll()
    b.truncate(7)
    b.settle()
    assert b.found() == [("lost-write", 7, 7), ("lost-write", 8, 8), ("lost-write", 9, 9), ("truncation", 7, -1)]


def test_a_log_cut_without_a_new_leader_epoch_is_seen_too() -> None:
    b = Bench()
    b.write(10)
    b.poll()
    b.truncate(7, epoch=False)
    b.settle()
    assert b.found("lost-write") == [("lost-write", 7, 7), ("lost-write", 8, 8), ("lost-write", 9, 9)]
    assert b.found("truncation") == [("truncation", 7, -1)]


def test_a_cut_that_new_writes_have_grown_over_is_found_by_the_conflicting_ack_and_the_reread() -> None:
    b = Bench()
    b.write(10)
    b.poll()
    b.truncate(7)
    b.write(20)
    b.settle()
    assert b.found("lost-write") == [("lost-write", 7, 7), ("lost-write", 8, 8), ("lost-write", 9, 9)]
    assert [o for _, o, _ in b.found("inconsistent-offsets")] == [7, 8, 9]
    assert b.found("truncation") == [("truncation", 7, -1)]
    assert b.found("reorder", "nonmonotonic-send", "duplicate", "phantom") == []


def test_a_cut_that_a_reread_finds_before_new_writes_come_is_a_truncation_too() -> None:
    b = Bench()
    b.write(10)
    b.poll()
    b.truncate(7)
    for offset in range(7, 11):
        b.log[offset] = "foreign"
    b.end = 11
    b.round()
    b.round()
    b.write(20)
    b.settle()
    assert b.found("lost-write") == [("lost-write", 7, 7), ("lost-write", 8, 8), ("lost-write", 9, 9)]
    assert b.found("truncation") == [("truncation", 7, -1)]


def test_a_cut_that_foreign_records_have_grown_over_is_found_too() -> None:
    b = Bench()
    b.write(10)
    b.poll()
    b.truncate(7)
    for offset in range(7, 30):
        b.log[offset] = "foreign"
    b.end = 30
    b.settle()
    assert b.found("lost-write") == [("lost-write", 7, 7), ("lost-write", 8, 8), ("lost-write", 9, 9)]


def test_a_record_that_was_read_but_never_acked_and_is_gone_is_reported() -> None:
    b = Bench()
    b.write(5)
    (sequence,) = b.send()
    b.append(sequence)
    b.poll()
    b.fold(f.Indeterminate(b.now_ns, TOPIC, 0, PRODUCER, 1, sequence, "timed out"))
    b.truncate(5)
    b.settle()
    assert b.found("lost-write") == [("lost-write", 5, 5)]


def test_an_indeterminate_probe_that_never_shows_up_is_fine_and_one_that_does_too() -> None:
    b = Bench()
    a, c = b.send(2)
    b.fold(f.Indeterminate(b.now_ns, TOPIC, 0, PRODUCER, 1, a, "timed out"))
    b.fold(f.Indeterminate(b.now_ns, TOPIC, 0, PRODUCER, 1, c, "timed out"))
    b.write(3)
    b.append(a)
    b.settle()
    assert b.found() == []


def test_a_probe_destroyed_and_appended_again_by_a_retry_was_never_twice() -> None:
    b = Bench()
    b.write(10)
    b.poll()
    b.truncate(7)
    b.append(9)  # the retry of what stood at 9 lands at 7
    b.settle()
    assert b.found("duplicate", "reorder") == []
    assert ("lost-write", 9, 9) not in b.found("lost-write")
    assert b.found("lost-write") == [("lost-write", 7, 7), ("lost-write", 8, 8)]


def test_an_aborted_read_is_a_failed_send_that_is_read() -> None:
    b = Bench()
    (sequence,) = b.send()
    b.fold(f.Failed(b.now_ns, TOPIC, 0, PRODUCER, 1, sequence, "queue full"))
    b.append(sequence)
    b.poll()
    assert b.found() == [("G1a", 0, 0)]


def test_a_failure_that_is_known_only_after_the_read_is_an_aborted_read_too() -> None:
    b = Bench()
    (sequence,) = b.send()
    b.append(sequence)
    b.poll()
    b.fold(f.Failed(b.now_ns, TOPIC, 0, PRODUCER, 1, sequence, "queue full"))
    assert b.found() == [("G1a", 0, 0)]


def test_a_damaged_record_is_corrupt_once_and_not_lost() -> None:
    b = Bench()
    b.write(5)
    b.log[2] = "corrupt"
    b.settle()
    b.epoch += 1
    b.settle()
    assert b.found() == [("corrupt", 2, -1)]


def test_a_foreign_record_is_silent() -> None:
    b = Bench()
    b.write(5)
    b.log[5] = "foreign"
    b.end = 6
    b.write(5)
    b.settle()
    assert b.found() == []
    assert any(
        m.name == "canary_foreign_records_total" and m.labels[2] == RC and m.value == 1
        for m in measured(b.tracker.state).series()
    )


def test_a_foreign_record_in_the_place_of_an_acked_one_is_a_lost_write() -> None:
    b = Bench()
    b.write(5)
    b.log[2] = "foreign"
    b.settle()
    assert b.found() == [("lost-write", 2, 2)]


def test_a_probe_that_was_never_sent_is_a_phantom() -> None:
    b = Bench()
    b.write(5)
    b.log[5] = (PRODUCER, 1, 99)
    b.end = 6
    b.settle()
    assert b.found() == [("phantom", 5, 99)]


def test_the_unrecorded_tail_of_a_dead_generation_is_no_phantom() -> None:
    b = Bench()
    b.write(5)
    b.log[5] = (PRODUCER, 1, 5)  # sent in the last moment before the kill, never made durable
    b.end = 6
    b.restart()
    b.write(3)
    b.settle()
    assert b.found() == []


def test_a_producer_that_the_store_knows_is_another_runner_and_one_that_it_does_not_is_a_phantom() -> None:
    b = Bench()
    b.write(2)
    b.log[2] = (500, 1, 0)
    b.log[3] = (501, 1, 0)
    b.end = 4
    b.settle(1)
    assert b.found() == []
    b.looked_up(500, 1)
    b.looked_up(501)
    b.settle()
    assert [(k, o) for k, o, _ in b.found()] == [("phantom", 3)]


def test_a_recreated_topic_voids_everything_and_calls_nothing_lost() -> None:
    b = Bench()
    b.write(50)
    b.poll()
    old = b.send(3)
    b.topic_id, b.end, b.log, b.epoch = "incarnation-2", 0, {}, 0
    for i, sequence in enumerate(old):  # acks of the new incarnation before anybody knows of it
        b.append(sequence)
        b.ack(sequence, i)
    b.round()
    b.generation, b.sequence = 2, 0
    b.positions = {RC: 0, RU: 0}
    b.fold(f.GenerationBegan(b.now_ns, TOPIC, "idempotent", PRODUCER, 2, b.topic_id))
    for name in (RC, RU):
        b.fold(f.Positioned(b.now_ns, name, name, TOPIC, 0, 0, "recreated", b.topic_id))
    b.write(20)
    b.settle()
    assert b.renewed == [TOPIC]
    assert [k for k, _, _ in b.found()] == ["topic-recreated"]
    (violation,) = b.violations.values()
    assert violation.severity == "critical", "promises are void"
    assert violation.evidence["promises_voided"] >= 50


def test_a_stale_broker_that_still_tells_the_old_topic_id_does_not_bring_it_back() -> None:
    b = Bench()
    b.write(5)
    b.topic_id, b.end, b.log = "incarnation-2", 0, {}
    b.round()
    b.topic_id = "incarnation-1"
    b.round()
    b.topic_id = "incarnation-2"
    b.round()
    assert [k for k, _, _ in b.found()] == ["topic-recreated"]


def test_retention_that_removes_unread_probes_is_counted_and_no_loss() -> None:
    b = Bench()
    b.write(10)
    b.round()
    b.now_ns += 8 * 86_400 * 10**9
    b.start = 6
    b.settle()
    b.fold(f.TopicConfigured(b.now_ns, TOPIC, 7 * 86_400_000, -1, "delete", 2))
    b.settle()
    assert b.found() == []
    unverified = [m.value for m in measured(b.tracker.state).series() if m.name == "canary_unverified_expired_total"]
    assert unverified == [6]


def test_a_start_that_retention_does_not_explain_is_early_expiry() -> None:
    b = Bench()
    b.write(10)
    b.settle(3)
    b.start = 6
    b.settle()
    b.fold(f.TopicConfigured(b.now_ns, TOPIC, 7 * 86_400_000, -1, "delete", 2))
    b.settle()
    assert b.found() == [("early-expiry", 0, -1)]


def test_a_listed_end_that_is_low_only_once_is_nothing() -> None:
    b = Bench()
    b.write(10)
    b.poll()
    end, b.end = b.end, 3
    b.round()
    b.end = end
    b.settle()
    assert b.found() == []


def test_a_leader_of_yesterday_proves_nothing() -> None:
    b = Bench()
    b.epoch = 5
    b.write(10)
    b.settle()
    for _ in range(4):
        b.sample += 1
        b.fold(f.WatchAsked(b.now_ns, b.sample), f.Listed(b.now_ns, b.sample, TOPIC, 0, 0, 2, 2, 4))
        b.fold(f.TopicSeen(b.now_ns, b.sample, TOPIC, b.topic_id, 1))
    b.settle()
    assert b.found() == []


def test_an_answer_without_offsets_or_epoch_is_no_answer() -> None:
    b = Bench()
    b.write(10)
    b.settle()
    for _ in range(4):
        b.sample += 1
        b.fold(f.WatchAsked(b.now_ns, b.sample), f.Listed(b.now_ns, b.sample, TOPIC, 0, -1001, -1001, -1001, None))
        b.fold(f.TopicSeen(b.now_ns, b.sample, TOPIC, b.topic_id, 1))
        b.sample += 1
        b.fold(f.WatchAsked(b.now_ns, b.sample), f.Listed(b.now_ns, b.sample, TOPIC, 0, 0, 3, 3, None))
        b.fold(f.TopicSeen(b.now_ns, b.sample, TOPIC, b.topic_id, 1))
    b.settle()
    assert b.found() == []


def test_nothing_is_called_lost_while_rereads_get_no_answer_and_the_cluster_is_silent() -> None:
    b = Bench()
    b.write(10)
    del b.log[4]
    b.answering = False
    b.poll()
    for _ in range(30):
        b.fold(f.Tick(b.now_ns + 1_000_000_000))
    assert b.found() == []


def test_a_loss_while_the_canary_was_down_is_found_at_its_start() -> None:
    b = Bench()
    b.write(10)
    b.poll()
    b.truncate(6)
    b.log |= dict.fromkeys(range(6, 20), "foreign")
    b.end = 20
    b.restart()
    b.settle()
    assert b.found("lost-write") == [("lost-write", o, o) for o in range(6, 10)]


def test_sequences_that_stand_in_another_order_than_sent_are_a_reorder() -> None:
    b = Bench()
    one, two = b.send(2)
    b.append(two, one)
    b.ack(one, 1)
    b.ack(two, 0)
    b.settle()
    assert [k for k, _, _ in b.found()] == ["nonmonotonic-send"]


def test_an_ack_without_offset_is_judged_by_its_neighbours() -> None:
    b = Bench()
    b.write(3)
    (kept,) = b.send()
    b.append(kept)
    b.ack(kept, None)
    b.write(2)
    b.settle()
    assert b.found() == []
    (gone,) = b.send()
    b.ack(gone, None)
    b.write(2)
    b.settle()
    assert b.found() == [("lost-write", -1, gone)]


def test_another_cluster_behind_the_address_ends_all_judging() -> None:
    b = Bench()
    b.write(5)
    b.fold(f.ClusterSeen(b.now_ns, 99, "another", "1"))
    b.truncate(0)
    b.settle()
    assert [k for k, _, _ in b.found()] == ["another-cluster"]


def test_the_state_survives_its_own_dump_to_the_last_byte() -> None:
    b = Bench()
    b.write(10)
    del b.log[4]
    b.poll()
    b.write(3)
    data = b.tracker.dump()
    again = Tracker.load(data)
    assert again.dump() == data
    assert again.state == b.tracker.state


def test_a_replay_of_the_same_facts_gives_the_same_verdicts() -> None:
    one, two = Bench(), Bench()
    for b in (one, two):
        b.write(10)
        del b.log[4]
        b.poll()
        b.truncate(8)
        if b is two:
            b.tracker = Tracker.load(b.tracker.dump())
        b.write(4)
        b.settle()
    assert one.found() == two.found()
    assert one.tracker.dump() == two.tracker.dump()


def test_no_consumer_is_needed_to_know_the_high_water_of_both(  # both tails judge duplicates, only one losses
) -> None:
    b = Bench()
    b.write(4)
    b.append(2)
    b.poll(RU)
    for _ in range(6):
        b.round()
    assert b.found() == [("duplicate", 4, 2)]


# transactions


def transaction(b: Bench, number: int, n: int) -> list[int]:
    b.fold(f.TransactionBegan(b.now_ns, b.mode, PRODUCER, b.generation, number))
    first = b.sequence
    b.sequence += n
    for i in range(n):
        b.fold(f.Sent(b.now_ns, TOPIC, 0, PRODUCER, b.generation, first + i, b.mode, number))
    return list(range(first, first + n))


def read(b: Bench, number: int, sequence: int, offset: int, consumer: str = RC) -> None:
    b.fold(f.Polled(b.now_ns, consumer, consumer, TOPIC, 0, offset, PRODUCER, b.generation, sequence, number))


def test_a_write_read_before_its_commit_was_asked_for_is_a_precommitted_read() -> None:
    b = Bench(mode="transactional")
    (sequence,) = transaction(b, 1, 1)
    b.ack(sequence, 0)
    read(b, 1, sequence, 0)
    assert b.found() == [("precommitted-read", 0, 0)]
    read(b, 1, sequence, 0, RU)
    assert b.found() == [("precommitted-read", 0, 0)]


@pytest.mark.parametrize("outcome", ["none yet", "committed", "indeterminate"])
def test_a_read_before_the_commit_is_one_however_late_its_reader_tells_it(outcome: str) -> None:
    """Readers gather for up to half a second: far longer than a commit takes."""
    b = Bench(mode="transactional")
    sequences = transaction(b, 1, 3)
    for sequence in sequences:
        b.ack(sequence, sequence)
    asked_ns = b.now_ns + 100
    taken_ns = (asked_ns - 2, asked_ns - 1, asked_ns)
    b.fold(f.CommitAsked(asked_ns, PRODUCER, 1, 1))
    if outcome == "committed":
        b.fold(f.Committed(asked_ns + 100, PRODUCER, 1, 1))
    elif outcome == "indeterminate":
        b.fold(f.TransactionIndeterminate(asked_ns + 100, PRODUCER, 1, 1, "no answer"))
    transaction(b, 2, 1)
    b.fold(f.CommitAsked(asked_ns + 10**9, PRODUCER, 1, 2))
    b.fold(
        *(f.Polled(ns, RC, RC, TOPIC, 0, s, PRODUCER, 1, s, 1) for ns, s in zip(taken_ns, sequences, strict=True)),
    )
    assert b.found() == [("precommitted-read", 0, 0), ("precommitted-read", 1, 1)]


def test_a_read_after_the_commit_is_none_though_told_when_many_others_were_asked_for() -> None:
    b = Bench(mode="transactional")
    for number in range(1, 40):
        (sequence,) = transaction(b, number, 1)
        b.ack(sequence, sequence)
        b.now_ns += 10**9
        b.fold(f.CommitAsked(b.now_ns, PRODUCER, 1, number), f.Committed(b.now_ns, PRODUCER, 1, number))
    for number in range(1, 40):
        read(b, number, number - 1, number - 1)
    assert b.found() == []
    assert len(b.tracker.state.asked) < 15, "what no reader can tell any more is forgotten"


def test_a_write_read_after_its_commit_was_asked_for_is_fine() -> None:
    b = Bench(mode="transactional")
    (sequence,) = transaction(b, 1, 1)
    b.ack(sequence, 0)
    b.fold(f.CommitAsked(b.now_ns, PRODUCER, 1, 1))
    read(b, 1, sequence, 0)
    b.fold(f.Committed(b.now_ns, PRODUCER, 1, 1))
    b.append(sequence)
    b.positions[RC] = 1
    b.settle()
    assert b.found() == []
    assert b.tracker.state.next_request == 1


def test_a_write_of_an_aborted_transaction_that_is_read_committed_is_g1a_in_either_order() -> None:
    for late in (False, True):
        b = Bench(mode="transactional")
        (sequence,) = transaction(b, 1, 1)
        b.ack(sequence, 0)
        b.fold(f.CommitAsked(b.now_ns, PRODUCER, 1, 1))
        if late:
            read(b, 1, sequence, 0)
        b.fold(f.Aborted(b.now_ns, PRODUCER, 1, 1))
        if not late:
            read(b, 1, sequence, 0)
        assert b.found() == [("G1a", 0, 0)]


def test_read_uncommitted_may_see_aborted_writes() -> None:
    b = Bench(mode="transactional")
    (sequence,) = transaction(b, 1, 1)
    b.ack(sequence, 0)
    read(b, 1, sequence, 0, RU)
    b.fold(f.Aborted(b.now_ns, PRODUCER, 1, 1))
    assert b.found() == []


def test_a_committed_transaction_seen_only_in_part_is_fractured() -> None:
    b = Bench(mode="transactional")
    sequences = transaction(b, 1, 3)
    b.append(*sequences)
    for sequence in sequences:
        b.ack(sequence, sequence)
    b.fold(f.CommitAsked(b.now_ns, PRODUCER, 1, 1), f.Committed(b.now_ns, PRODUCER, 1, 1))
    del b.log[1]
    b.end = 4  # the marker
    b.settle()
    assert b.found() == [("fractured-transaction", 1, 1), ("lost-write", 1, 1)]


def test_an_indeterminate_transaction_is_proven_whole_by_one_read() -> None:
    b = Bench(mode="transactional")
    sequences = transaction(b, 1, 3)
    b.append(*sequences)
    for sequence in sequences:
        b.ack(sequence, sequence)
    b.fold(f.CommitAsked(b.now_ns, PRODUCER, 1, 1), f.TransactionIndeterminate(b.now_ns, PRODUCER, 1, 1, "timed out"))
    read(b, 1, 0, 0)
    b.positions[RC] = 1
    del b.log[1]
    b.end = 4
    b.settle()
    assert b.found() == [("fractured-transaction", 1, 1), ("lost-write", 1, 1)]


def test_an_indeterminate_transaction_that_nobody_reads_promises_nothing() -> None:
    b = Bench(mode="transactional")
    (sequence,) = transaction(b, 1, 1)
    b.ack(sequence, 0)
    b.fold(f.CommitAsked(b.now_ns, PRODUCER, 1, 1), f.TransactionIndeterminate(b.now_ns, PRODUCER, 1, 1, "timed out"))
    b.end = 2
    b.settle()
    assert b.found() == []
