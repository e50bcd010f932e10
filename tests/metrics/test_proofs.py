"""What is verified of each mode's writes, until when, and what is not known: from the tracker's state."""

from __future__ import annotations

from typing import Any

from canary import facts as f
from canary.anomalies.online.state import Probed
from canary.metrics import measured
from canary.metrics.proofs import Proof, Shortfall, merged
from tests.support.bench import PRODUCER, RC, RU, TOPIC, Bench

S = 10**9


def probing(*modes: str, partitions: int = 1, **more: Any) -> Bench:
    bench = Bench(**more)
    wanted = list(modes or ("idempotent",))
    bench.tracker.state.probed[TOPIC] = Probed(wanted, list(range(partitions)), intervals=dict.fromkeys(wanted, 1.0))
    return bench


def proof(bench: Bench, mode: str = "idempotent") -> Proof:
    (found,) = [one for one in measured(bench.tracker.state).proofs if one.mode == mode]
    return found


def pass_time(bench: Bench, seconds: float) -> None:
    bench.now_ns += round(seconds * S)
    bench.fold(f.Tick(bench.now_ns))


def test_what_was_read_back_is_verified_until_it_was_acknowledged() -> None:
    bench = probing()
    bench.write(5)
    bench.poll()
    found = proof(bench)
    assert found.acknowledged_ns == found.verified_ns > bench.now_ns - S
    assert (found.partitions, found.unverified, found.silent, found.late) == (1, 0, None, None)


def test_what_nobody_reads_is_verified_until_it_was_sent_and_late_after_half_a_minute() -> None:
    bench = probing()
    bench.write(5)
    bench.poll()
    pass_time(bench, 5)
    unread_ns = bench.now_ns
    bench.write(5)
    pass_time(bench, 29)
    assert proof(bench).late is None
    pass_time(bench, 2)
    found = proof(bench)
    assert found.late is not None
    assert (found.late.partitions, found.late.of) == ((0,), 1)
    assert abs(found.late.since_ns - unread_ns) < S
    assert found.verified_ns == found.late.since_ns < found.acknowledged_ns


def test_one_consumer_that_was_given_everything_is_enough() -> None:
    bench = probing()
    bench.write(5)
    bench.poll(RU)
    pass_time(bench, 40)
    assert proof(bench).late is None
    assert proof(bench).verified_ns == proof(bench).acknowledged_ns


def test_what_a_canary_without_readers_acknowledged_is_not_verified() -> None:
    bench = probing(positions={})
    bench.write(5)
    pass_time(bench, 40)
    found = proof(bench)
    assert found.verified_ns == 0
    assert found.late is not None


def test_what_expired_unread_waits_no_more_and_is_unverified() -> None:
    bench = probing()
    bench.write(5)
    bench.poll()
    bench.write(40)
    bench.now_ns += 8 * 86_400 * S
    bench.start = bench.end = 45
    bench.log.clear()
    bench.settle(3)
    bench.write(3)
    bench.poll()
    found = proof(bench)
    assert (found.unverified, found.late) == (40, None)
    assert bench.now_ns - found.unverified_ns < 60 * S
    assert bench.found("lost-write") == []


def test_what_went_with_its_topic_before_it_was_read_is_unverified() -> None:
    bench = probing()
    bench.write(5)
    bench.poll()
    bench.write(7)
    bench.poll(RU)
    bench.write(2)
    bench.topic_id, bench.log, bench.start, bench.end = "incarnation-2", {}, 0, 0
    bench.round()
    assert proof(bench).unverified == 9


def test_a_mode_that_promises_nothing_is_silent_after_a_minute_though_another_goes_on() -> None:
    bench = probing("idempotent", "transactional")
    began_ns = bench.tracker.state.started[1]
    for _ in range(11):
        bench.write()
        bench.poll()
        pass_time(bench, 5)
    assert proof(bench, "transactional").silent is None
    pass_time(bench, 5)
    silent = proof(bench, "transactional").silent
    assert silent is not None
    assert silent == Shortfall((0,), 1, silent.since_ns)
    assert began_ns <= silent.since_ns <= began_ns + 2 * S
    assert (proof(bench, "transactional").acknowledged_ns, proof(bench, "transactional").verified_ns) == (0, 0)
    assert proof(bench).silent is None
    series = {
        one.labels: one.value for one in measured(bench.tracker.state).series() if one.name == "canary_mode_silent"
    }
    assert series == {(TOPIC, "idempotent"): 0, (TOPIC, "transactional"): 1}


def test_an_interval_of_a_minute_is_silent_after_ten() -> None:
    bench = probing()
    bench.tracker.state.probed[TOPIC].intervals["idempotent"] = 60.0
    pass_time(bench, 590)
    assert proof(bench).silent is None
    pass_time(bench, 20)
    assert proof(bench).silent is not None


def test_a_partition_that_acknowledges_nothing_is_named_where_each_round_writes_to_all() -> None:
    bench = probing("idempotent", "transactional", partitions=5)
    for number in range(1, 5):
        bench.fold(f.PartitionSeen(bench.now_ns, bench.sample, TOPIC, number, 1, "1,2,3", "1,2,3"))
        bench.tracker.state.topics[TOPIC].logs[number].listed_ordinal = 1
    pass_time(bench, 70)
    bench.write()
    bench.poll()
    silent = proof(bench).silent
    assert silent is not None
    assert (silent.partitions, silent.of) == ((1, 2, 3), 4)


def committing(bench: Bench, reason: str, offset: int | None) -> None:
    bench.now_ns += S
    bench.fold(f.GroupOffset(bench.now_ns, "g", TOPIC, 0, offset, reason))


def test_a_group_that_never_commits_is_named_though_it_writes_nothing() -> None:
    bench = probing(partitions=2)
    bench.tracker.state.probed[TOPIC].committing.append("group")
    bench.write(3)
    bench.poll()
    committing(bench, "fetched", None)
    pass_time(bench, 62)
    silent = proof(bench, "group").silent
    assert silent is not None
    assert proof(bench, "group").verified_ns == 0
    assert proof(bench, "group").promise == "commit of the mode group in"


def test_what_a_group_committed_is_verified_when_it_is_answered_that_or_more() -> None:
    bench = probing()
    bench.tracker.state.probed[TOPIC].committing.append("group")
    bench.write(9)
    bench.poll()
    committing(bench, "fetched", None)
    committing(bench, "committed", 3)
    first_ns = bench.tracker.state.now_ns
    assert (proof(bench, "group").acknowledged_ns, proof(bench, "group").verified_ns) == (first_ns, 0)
    committing(bench, "fetched", 3)
    assert proof(bench, "group").verified_ns == first_ns
    committing(bench, "committed", 5)
    second_ns = bench.tracker.state.now_ns
    committing(bench, "committed", 7)
    found = proof(bench, "group")
    assert (found.acknowledged_ns, found.verified_ns) == (bench.tracker.state.now_ns, second_ns)
    committing(bench, "fetched", 7)
    assert (proof(bench, "group").silent, proof(bench, "group").late) == (None, None)
    assert proof(bench, "group").verified_ns == proof(bench, "group").acknowledged_ns
    committing(bench, "committed", 8)
    committing(bench, "fetched", 6)  # it has gone back
    pass_time(bench, 32)
    assert proof(bench, "group").late is not None


def test_a_restart_does_not_make_a_mode_silent_that_was_not() -> None:
    bench = probing()
    bench.write(3)
    bench.poll()
    bench.now_ns += 3600 * S
    bench.restart()
    pass_time(bench, 50)
    assert proof(bench).silent is None
    assert proof(bench).verified_ns < bench.now_ns - 3600 * S
    pass_time(bench, 20)
    assert proof(bench).silent is not None


def test_when_the_cluster_was_asked_last_is_known_however_long_the_judge_goes_on_alone() -> None:
    bench = probing()
    bench.round()
    asked_ns = measured(bench.tracker.state).watched_ns
    assert bench.now_ns - S < asked_ns <= bench.now_ns
    pass_time(bench, 100)
    assert measured(bench.tracker.state).watched_ns == asked_ns
    bench.restart()
    started_ns = measured(bench.tracker.state).watched_ns
    assert asked_ns + 90 * S < started_ns <= bench.tracker.state.now_ns


def test_a_question_without_an_answer_is_unknown_until_a_whole_round_has_passed_without_that() -> None:
    bench = probing()
    bench.round()
    since_ns = bench.now_ns
    for _ in range(3):
        bench.round()
        bench.fold(f.WatchFailed(bench.now_ns, bench.sample, "describe_topics orders: _TIMED_OUT: no controller"))
        bench.fold(f.TopicSeen(bench.now_ns, bench.sample, TOPIC, bench.topic_id, 1))
    (found,) = measured(bench.tracker.state).unanswered
    assert (found.question, found.error) == ("describe_topics orders", "_TIMED_OUT: no controller")
    assert since_ns < found.since_ns < since_ns + 2 * S
    assert measured(bench.tracker.state).waiting_for == "describe_topics orders: _TIMED_OUT: no controller"
    bench.round()
    assert measured(bench.tracker.state).unanswered != ()
    bench.round()
    assert measured(bench.tracker.state).unanswered == ()


def test_a_reader_that_only_one_consumer_waits_for_is_told_by_its_consumer() -> None:
    bench = probing()
    bench.write(5)
    bench.poll(RC)
    (row,) = measured(bench.tracker.state).partitions
    assert {name: one.unseen for name, one in row.consumers.items()} == {RC: 0, RU: 5}


def test_a_partition_that_was_never_read_is_late_however_long_writing_goes_on() -> None:
    bench = probing(partitions=2)
    bench.poll()
    for sequence in range(600):
        bench.write()
        bench.poll()
        who = (TOPIC, 1, PRODUCER, 1, sequence)
        bench.fold(f.Sent(bench.now_ns, *who, "idempotent"), f.Acked(bench.now_ns, *who, sequence, 1_000))
        pass_time(bench, 1)
    found = proof(bench)
    assert found.late is not None
    assert found.late.partitions == (1,)
    assert found.verified_ns < bench.now_ns - 590 * S


def test_a_reader_of_the_settings_that_begins_at_the_end_has_not_read_what_is_below() -> None:
    bench = probing()
    bench.write(50)
    bench.restart()
    bench.fold(f.Positioned(bench.now_ns, "rack-a", RC, TOPIC, 0, bench.end, "start", bench.marked_id))
    for _ in range(60):
        bench.write()
        bench.deliver("rack-a", RC, bench.end - 1, bench.end)
        pass_time(bench, 1)
    late = proof(bench).late
    assert late is not None


def test_nothing_happened_later_than_now_by_a_clock_that_was_ahead() -> None:
    bench = probing()
    bench.now_ns += 86_400 * S
    bench.write(5)
    bench.poll()
    bench.now_ns -= 86_400 * S
    bench.restart()
    bench.tracker.state.probed[TOPIC] = Probed(["idempotent"], [0], intervals={"idempotent": 1.0})
    pass_time(bench, 90)
    assert proof(bench).silent is not None


def test_a_share_without_partitions_has_no_proof_and_several_shares_are_one() -> None:
    bench = probing()
    bench.tracker.state.probed[TOPIC].share = [1, 2]
    bench.tracker.state.topics[TOPIC].logs.clear()
    assert measured(bench.tracker.state).proofs == ()
    one = Proof("t", "idempotent", 3, 90, 80, 1, 70, silent=Shortfall((0,), 1, 50))
    other = Proof("t", "idempotent", 2, 95, 60, 2, 75, silent=Shortfall((1, 3), 2, 40), late=Shortfall((1,), 1, 30))
    assert merged([one, other]) == [
        Proof("t", "idempotent", 5, 95, 60, 3, 75, Shortfall((0, 1, 3), 3, 40), Shortfall((1,), 1, 30))
    ]


def test_what_is_unverified_in_a_topic_that_is_no_longer_probed_stays_known() -> None:
    bench = probing()
    bench.write(5)
    bench.poll()
    bench.write(7)
    bench.tracker.state.probed.clear()
    bench.fold(f.RunnerStarted(bench.now_ns, "canary-0", "test"))
    (found,) = measured(bench.tracker.state).proofs
    assert (found.topic, found.mode, found.partitions, found.unverified) == (TOPIC, "idempotent", 0, 7)
