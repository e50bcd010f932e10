"""What stands still is said with its age and what it waits for, and taken back; what is caught up is not."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from canary import facts as f
from canary.anomalies.online import Tracker
from canary.anomalies.online.gauges import stalled
from canary.metrics.measuring import measured
from tests.support.bench import PRODUCER, RC, RU, TOPIC, Bench

S = 10**9


class Watched(Bench):
    """A bench whose last stable offset may stand, and that knows which conditions ended."""

    def rounds(self, n: int, stable: int | None = None) -> None:
        for _ in range(n):
            self.sample += 1
            self.now_ns += 1_000_000_000
            self.fold(f.WatchAsked(self.now_ns, self.sample))
            self.fold(
                f.TopicSeen(self.now_ns, self.sample, TOPIC, self.topic_id, 1),
                f.Listed(self.now_ns, self.sample, TOPIC, 0, 0, self.end, self.end if stable is None else stable, 0),
            )
            self.answer()

    def fold(self, *facts: f.Fact) -> None:
        self.now_ns += 1_000_000
        self.tracker.fold(facts)
        found = self.tracker.drain()
        self.requests.extend(found.rereads)
        self.said.extend(found.violations)
        self.violations |= {violation.key("test"): violation for violation in found.violations}
        for violation in found.ended:
            self.violations.pop(violation.key("test"))

    def says(self) -> list[str]:
        return [f"{v.kind}: {v.summary}" for v in self.violations.values()]


def test_a_consumer_that_is_given_nothing_is_stalled_after_its_time_and_not_before() -> None:
    bench = Watched()
    bench.write(5)
    bench.rounds(55)
    assert bench.says() == []
    bench.rounds(10)
    assert len(bench.says()) == 1  # both consumers stand at one place
    assert "stands at 0 and may read up to 5" in bench.says()[0]
    bench.poll()
    bench.rounds(2)
    assert bench.says() == []


def test_a_consumer_at_the_end_of_a_quiet_log_is_caught_up() -> None:
    bench = Watched()
    bench.write(5)
    bench.poll()
    bench.rounds(200)
    assert bench.says() == []


def test_a_last_stable_offset_that_does_not_move_is_named_as_what_all_wait_for() -> None:
    bench = Watched()
    bench.write(5)
    bench.poll()
    bench.write(3)
    bench.poll("read_uncommitted")
    bench.rounds(65, stable=5)
    assert len(bench.says()) == 1
    assert "last stable offset stands at 5" in bench.says()[0]
    bench.rounds(2)
    bench.poll()
    bench.rounds(2)
    assert bench.says() == []


def _asked(bench: Bench) -> list[tuple[int, int, str]]:
    return [(one.start, one.end, one.isolation) for one in bench.requests]


def test_the_scrubber_reads_above_a_last_stable_offset_that_stands_and_finds_a_loss_there() -> None:
    bench = Watched()
    bench.write(5)
    bench.poll()
    bench.write(3)
    bench.poll(RU)
    bench.rounds(5, stable=5)
    for asked in ([(0, 5, RC)], []):  # what is open may be ended yet
        bench.fold(f.ScrubAsked(bench.now_ns, TOPIC, 0, 100))
        assert _asked(bench) == asked
        bench.answer()
    bench.rounds(65, stable=5)
    del bench.log[6]
    bench.fold(f.ScrubAsked(bench.now_ns, TOPIC, 0, 100))
    assert _asked(bench) == [(0, 5, RC)]
    bench.answer()
    bench.fold(f.ScrubAsked(bench.now_ns, TOPIC, 0, 100))
    assert _asked(bench) == [(5, 8, RU)]
    bench.answer()
    bench.rounds(5, stable=5)
    assert [(v.kind, v.offset) for v in bench.said] == [("stalled", 5), ("lost-write", 6)]


@pytest.mark.parametrize(("rounds", "asked"), [(5, [(0, 5, RC)]), (65, [(0, 5, RC), (5, 8, RU)])])
def test_a_tail_above_a_last_stable_offset_is_read_once_that_has_moved_or_uncommitted_where_it_stands(
    rounds: int, asked: list[tuple[int, int, str]]
) -> None:
    bench = Watched()
    bench.write(5)
    bench.poll()
    bench.write(3)
    bench.poll(RU)
    bench.rounds(rounds, stable=5)
    bench.fold(f.WatchAsked(bench.now_ns, bench.sample + 1))
    bench.fold(f.Listed(bench.now_ns, bench.sample + 1, TOPIC, 0, 0, 8, 5, 1))
    assert _asked(bench) == asked


@pytest.mark.parametrize("stands", [False, True])
def test_what_was_acknowledged_without_an_offset_is_looked_for_above_a_last_stable_offset_that_stands(
    *, stands: bool
) -> None:
    """No read_committed consumer will be given a later write, which would show where it has to be."""
    bench = Watched()
    bench.write(5)
    bench.poll()
    bench.write(3)
    bench.poll(RU)
    bench.rounds(65 if stands else 5, stable=5)
    (sequence,) = bench.send()
    bench.ack(sequence, None)  # and it was never written: the next one stands in its place
    bench.write()
    bench.poll(RU)
    bench.rounds(5, stable=5)
    assert [v.identity for v in bench.said if v.kind == "lost-write"] == [(PRODUCER, 1, 0, sequence)] * stands


def test_a_last_stable_offset_that_moves_on_is_well_however_far_behind() -> None:
    bench = Watched()
    bench.write(100)
    bench.poll("read_uncommitted")
    bench.positions[RC] = 100
    bench.fold(f.Positioned(bench.now_ns, RC, RC, TOPIC, 0, 100, "test"))
    for stable in range(90):
        bench.rounds(1, stable=stable)
    assert bench.says() == []


def test_a_producer_without_acknowledgements_says_so_until_one_comes() -> None:
    bench = Watched()
    (sequence,) = bench.send()
    bench.rounds(65)
    assert len(bench.says()) == 1
    assert "1 probes of the mode idempotent wait" in bench.says()[0]
    bench.fold(f.Indeterminate(bench.now_ns, TOPIC, 0, PRODUCER, 1, sequence, "_MSG_TIMED_OUT"))
    bench.rounds(200)
    assert len(bench.says()) == 1, "nothing waits any more, and nothing was acknowledged"
    bench.write()
    bench.poll()
    bench.rounds(1)
    assert bench.says() == []


@pytest.mark.parametrize(("leader", "said"), [(1, ["unwritable"]), (-1, [])])
def test_a_partition_that_has_not_answered_since_the_start_waits_for_an_acknowledgement(
    leader: int, said: list[str]
) -> None:
    """Nothing is sent where no reader stands; that a partition has no leader is reported by itself."""
    bench = Watched()
    bench.write()
    bench.poll()
    for seconds in (40, 70):
        bench.fold(f.RunnerStarted(bench.now_ns, "canary-0", "test", remembered_ns=bench.now_ns))
        bench.fold(f.PartitionSeen(bench.now_ns, bench.sample, TOPIC, 0, leader, "1", "1"))
        for _ in range(seconds):
            silence(bench, 1)
            bench.fold(f.Skipped(bench.now_ns, TOPIC, 0, "idempotent", 10))
    shown = measured(bench.tracker.state).columns
    ((waited_s,),) = (one.values for one in shown if one.name == "canary_unacknowledged_seconds")
    assert waited_s is not None
    assert 105 < waited_s < 112
    assert [v.kind for v in bench.violations.values()] == said
    assert all("has not answered since the start" in v.summary for v in bench.violations.values())
    bench.rounds(1)
    assert bench.tracker.state.topics[TOPIC].logs[0].tried_ns == 0, "until something is sent nothing waits"
    assert [v.kind for v in bench.violations.values()] == said, "and nothing was acknowledged"
    bench.generation, bench.sequence = 2, 0
    bench.fold(f.GenerationBegan(bench.now_ns, TOPIC, "idempotent", PRODUCER, 2, bench.marked_id))
    bench.rounds(1)
    bench.write()
    bench.poll()
    bench.rounds(3)
    assert bench.says() == []


def outage(bench: Watched, seconds: int) -> None:
    """The partition's leader is not reached: what is sent is given up after 30 s, and its offsets are not known."""
    for _ in range(seconds // 30):
        for sequence in bench.send(2):
            silence(bench, 15)
            bench.fold(f.Indeterminate(bench.now_ns, TOPIC, 0, PRODUCER, bench.generation, sequence, "_MSG_TIMED_OUT"))


def silence(bench: Watched, seconds: int) -> None:
    """It is asked once a second, and nothing is answered."""
    for _ in range(seconds):
        bench.sample += 1
        bench.now_ns += S
        bench.fold(f.WatchAsked(bench.now_ns, bench.sample))


@pytest.mark.parametrize("restarted", [False, True])
def test_an_outage_of_a_partition_is_one_violation_until_a_probe_is_acknowledged(*, restarted: bool) -> None:
    bench = Watched()
    bench.write(5)
    bench.poll()
    outage(bench, 90)
    (first,) = bench.violations.values()
    if restarted:
        bench.tracker = Tracker.load(bench.tracker.dump())
        bench.fold(f.RunnerStarted(bench.now_ns, "canary-0", "test"))
        bench.generation, bench.sequence = 2, 0
        bench.fold(f.GenerationBegan(bench.now_ns, TOPIC, "idempotent", PRODUCER, 2, bench.marked_id))
    outage(bench, 300)
    silence(bench, 300)
    assert {v.key("c") for v in bench.said} == {first.key("c")}, "one, however often it is reported again"
    assert [v.at_ns - first.at_ns >= 300 * 10**9 for v in bench.said] == [False, True, True], "each five minutes"
    assert {v.key("c") for v in bench.violations.values()} == {first.key("c")}
    bench.write()
    bench.poll()
    bench.rounds(3)
    assert bench.says() == []


def test_producers_that_stand_are_reported_though_a_consumer_that_stands_was_before() -> None:
    """Refused writes wake somebody; that a consumer is stalled does not."""
    bench = Watched()
    bench.write(5)
    bench.poll()
    bench.write(3)
    bench.rounds(1, stable=5)
    bench.deliver(RU, RU, 5, 7)
    bench.positions[RU] = 7
    outage(bench, 150)
    assert [(v.kind, v.severity, v.offset) for v in bench.said] == [
        ("stalled", "warning", 7),
        ("unwritable", "critical", None),
    ], "nor does the last stable offset stand, of which nothing is known"
    bench.poll(RU)
    bench.rounds(1, stable=5)
    silence(bench, 1)
    assert [v.kind for v in bench.violations.values()] == ["unwritable"], "no probe is acknowledged yet"
    bench.write()
    bench.poll()
    bench.rounds(3)
    assert bench.says() == []


def test_consumers_that_stand_where_producers_are_said_to_stand_are_no_other_violation() -> None:
    bench = Watched()
    bench.write(5)
    bench.poll()
    bench.append(*bench.send(2))  # which the leader does not acknowledge, nor give to anyone
    bench.rounds(200)
    assert [v.offset for v in bench.said] == [None]


def test_a_consumer_that_a_start_has_not_made_yet_stands_nowhere() -> None:
    """In an outage a start may wait for minutes before it reads, while partitions tell where they end."""
    bench = Watched()
    bench.write(5)
    bench.tracker = Tracker.load(bench.tracker.dump())
    bench.fold(f.RunnerStarted(bench.now_ns, "canary-0", "test"))
    bench.rounds(100)
    assert bench.says() == []
    for name in (RC, RU):
        bench.put(name, 0)
    bench.rounds(65)
    assert [v.offset for v in bench.violations.values()] == [0]


def test_a_probe_that_failed_alone_is_no_standstill_until_the_next_ones_fail() -> None:
    bench = Watched()
    bench.write()
    bench.poll()
    (sequence,) = bench.send()
    bench.fold(f.Failed(bench.now_ns, TOPIC, 0, PRODUCER, 1, sequence, "Local: Queue full"))
    bench.rounds(200)  # the mode sends rarely
    assert bench.says() == []
    bench.send()
    bench.rounds(1)
    assert len(bench.says()) == 1


def test_what_an_older_release_said_of_a_probe_ends_with_the_next_acknowledgement() -> None:
    bench = Watched()
    bench.write()
    outage(bench, 90)
    (first,) = bench.violations.values()
    stalls = bench.tracker.state.stalls
    stalls[f"producer/{TOPIC}/0/0/2"] = stalls.pop(f"producer/{TOPIC}/0")
    bench.tracker = Tracker.load(bench.tracker.dump())
    bench.fold(f.RunnerStarted(bench.now_ns, "canary-0", "test"))
    silence(bench, 100)
    assert list(bench.violations.values()) == [first]
    bench.write()
    bench.poll()
    bench.rounds(3)
    assert bench.says() == []


def test_a_reader_that_stood_before_a_start_stands_until_it_has_read_on() -> None:
    bench = Watched()
    bench.tracker.state.probed[TOPIC].readers.append("rack-a")
    bench.write(5)
    bench.poll()
    bench.fold(f.Positioned(bench.now_ns, "rack-a", RC, TOPIC, 0, 3, "test", bench.marked_id))
    bench.rounds(65)
    (first,) = bench.violations.values()
    bench.tracker = Tracker.load(bench.tracker.dump())
    bench.fold(f.RunnerStarted(bench.now_ns, "canary-0", "test"))
    bench.rounds(100)
    assert list(bench.violations.values()) == [first]
    bench.fold(f.Positioned(bench.now_ns, "rack-a", RC, TOPIC, 0, 3, "test", bench.marked_id))
    bench.rounds(2)
    assert list(bench.violations.values()) == [first]
    bench.fold(f.EndOfPartition(bench.now_ns, "rack-a", RC, TOPIC, 0, 5))
    bench.rounds(4)  # what it jumped over is in question until then
    assert [one.kind for one in bench.violations.values()] == ["poll-skip"]


def test_two_producers_of_a_partition_that_wait_are_one_violation_and_of_a_topic_that_is_gone_none() -> None:
    bench = Watched()
    bench.send()
    bench.fold(
        f.GenerationBegan(bench.now_ns, TOPIC, "plain", PRODUCER + 1, 1),
        f.Sent(bench.now_ns, TOPIC, 0, PRODUCER + 1, 1, 0, "plain"),
    )
    bench.rounds(65)
    assert [(v.kind, v.offset) for v in bench.said] == [("unwritable", None)]
    bench.sample += 1
    bench.fold(f.WatchAsked(bench.now_ns, bench.sample), f.TopicGone(bench.now_ns, bench.sample, TOPIC))
    bench.fold(f.Tick(bench.now_ns))
    bench.sample += 1
    bench.now_ns += 1_000_000_000
    bench.fold(f.WatchAsked(bench.now_ns, bench.sample), f.TopicGone(bench.now_ns, bench.sample, TOPIC))
    assert bench.says() == []


def test_who_reads_what_is_not_committed_yet_may_read_to_the_logs_end() -> None:
    bench = Watched()
    bench.write(100)
    for name, position in ((RC, 100), (RU, 90)):
        bench.positions[name] = position
        bench.fold(f.Positioned(bench.now_ns, name, name, TOPIC, 0, position, "test"))
    for stable in range(65):
        bench.rounds(1, stable=stable)
    assert [v.offset for v in bench.violations.values()] == [90]


def test_a_consumer_stands_since_it_last_moved() -> None:
    bench = Watched()
    bench.write(5)
    bench.poll()
    bench.rounds(3)
    moved_ns = bench.now_ns
    bench.now_ns += 100 * 10**9
    bench.write(5)
    bench.rounds(65)
    (found,) = bench.violations.values()
    assert found.evidence["since_ns"] < moved_ns
    assert found.offset == 5


def test_rounds_that_take_long_are_watched() -> None:
    """While a broker answers nothing, on a machine that is busy."""
    bench = Watched()
    bench.write(5)
    for _ in range(8):
        bench.rounds(1)
        bench.now_ns += 12 * 10**9
    assert [v.kind for v in bench.said] == ["stalled"]


def test_time_that_nobody_watched_is_no_time_that_something_stood() -> None:
    bench = Watched()
    bench.write(5)
    for _ in range(3):
        bench.rounds(1)
        bench.now_ns += 3600 * 10**9
    bench.rounds(40)
    assert bench.says() == []


def test_what_stood_before_a_restart_and_was_not_said_begins_anew() -> None:
    bench = Watched()
    bench.write(5)
    bench.poll()
    bench.rounds(50, stable=3)
    bench.fold(f.RunnerStarted(bench.now_ns, "canary-0", "test"))
    bench.rounds(30, stable=3)
    assert bench.says() == []


def test_a_refused_client_is_blind_until_it_is_not_refused_any_more() -> None:
    bench = Watched()
    for _ in range(5):
        bench.fold(f.ClientError(bench.now_ns, "tail", "_AUTHENTICATION", "invalid credentials"))
        bench.rounds(30)
    assert [v.kind for v in bench.said] == ["blind"]
    bench.fold(f.ClientError(bench.now_ns, "tail", "_AUTHENTICATION", "invalid credentials"))
    silence(bench, 600)
    assert len(bench.says()) == 1, "nothing is refused, because nothing is asked"
    bench.rounds(1)
    silence(bench, 1)
    assert bench.says() == []


def test_a_refusal_by_a_clock_that_was_ahead_is_over_by_the_clock_of_now() -> None:
    bench = Watched()
    bench.now_ns += 7200 * S
    bench.fold(f.ClientError(bench.now_ns, "tail", "_AUTHENTICATION", "invalid credentials"))
    bench.now_ns -= 7200 * S
    bench.restart()
    assert len(bench.says()) == 1
    bench.rounds(95)
    assert bench.says() == []


def test_of_a_transaction_that_was_open_before_a_start_nothing_is_said_before_an_answer() -> None:
    bench = Watched()
    bench.write(5)
    bench.poll()
    bench.rounds(5, stable=3)
    bench.tracker = Tracker.load(bench.tracker.dump())
    bench.fold(f.RunnerStarted(bench.now_ns, "canary-0", "test"))
    silence(bench, 100)
    assert bench.says() == []


def test_a_refused_write_is_blind_until_a_write_is_taken_whatever_else_is_answered() -> None:
    bench = Watched()
    bench.write()
    bench.poll()
    (sequence,) = bench.send()
    bench.fold(f.Indeterminate(bench.now_ns, TOPIC, 0, PRODUCER, 1, sequence, REFUSED))
    bench.rounds(300)  # the writer waits before it tries again
    assert [v.kind for v in bench.violations.values()] == ["blind"]
    bench.write()
    bench.poll()
    bench.rounds(1)
    assert bench.says() == []


REFUSED = "TOPIC_AUTHORIZATION_FAILED: Broker: Topic authorization failed"
RAISED = 'KafkaError{code=TOPIC_AUTHORIZATION_FAILED,val=29,str="Unable to produce message"}'


@pytest.mark.parametrize(
    "fact",
    [
        f.Indeterminate(1, TOPIC, 0, PRODUCER, 1, 0, REFUSED),
        f.Failed(1, TOPIC, 0, PRODUCER, 1, 0, RAISED),
        f.Aborted(1, PRODUCER, 1, 0, REFUSED),
        f.TransactionIndeterminate(1, PRODUCER, 1, 0, REFUSED),
    ],
    ids=lambda fact: type(fact).__name__,
)
def test_a_write_that_is_refused_is_blind_until_writes_are_not_refused_any_more(fact: f.Fact) -> None:
    """Neither the client's error callback nor a question of the watcher tells of a right to write that is gone."""
    bench = Watched()
    for _ in range(5):
        bench.fold(fact)
        bench.rounds(30)
    assert [v.kind for v in bench.said] == ["blind"]
    assert "TOPIC_AUTHORIZATION_FAILED" in bench.said[0].summary
    bench.rounds(95)
    assert bench.says() == []


def test_a_write_that_failed_for_another_reason_is_not_blind() -> None:
    bench = Watched()
    bench.fold(f.Indeterminate(1, TOPIC, 0, PRODUCER, 1, 0, "_MSG_TIMED_OUT: sasl_ssl://b1: timed out"))
    bench.fold(f.Failed(1, TOPIC, 0, PRODUCER, 1, 1, "Local: Queue full"))
    bench.fold(f.Aborted(1, PRODUCER, 1, 0, None))
    assert bench.says() == []


def test_a_question_that_needs_more_rights_is_blind_and_one_that_timed_out_is_not() -> None:
    bench = Watched()
    bench.fold(f.WatchFailed(bench.now_ns, 1, "describe_topics p: _TIMED_OUT: sasl_ssl://b1: timed out"))
    bench.fold(f.ClientError(bench.now_ns, "tail", "_TRANSPORT", "connection refused"))
    assert bench.says() == []
    bench.fold(f.WatchFailed(bench.now_ns, 1, "describe_topics p: TOPIC_AUTHORIZATION_FAILED: no"))
    assert [line.split(":")[0] for line in bench.says()] == ["blind"]


def test_what_was_said_is_taken_back_by_the_next_process_too() -> None:
    bench = Watched()
    bench.write(5)
    bench.rounds(65)
    bench.tracker = Tracker.load(bench.tracker.dump())
    bench.fold(f.RunnerStarted(bench.now_ns, "canary-0", "test"))
    bench.poll()
    bench.rounds(2)
    assert bench.says() == []


def read(bench: Watched, shift_ns: int | None, *, after_ns: int = 0) -> None:
    """A probe is sent, appended by a clock that differs from ours by ``shift_ns``, and read ``after_ns`` later."""
    (offset,) = bench.write(1)
    sent_ns = bench.now_ns - after_ns
    stamp_ms = None if shift_ns is None else (sent_ns + shift_ns) // 1_000_000
    place = (bench.now_ns, RC, RC, TOPIC, 0, offset, PRODUCER, 1, offset)
    bench.fold(f.Polled(*place, timestamp_ms=stamp_ms, sent_at_ns=sent_ns))


def test_clocks_that_disagree_are_named_while_they_do() -> None:
    for shift_ns, said in ((None, 0), (0, 0), (9 * S, 0), (-9 * S, 0), (11 * S, 1), (-11 * S, 1)):
        bench = Watched()
        for _ in range(3):
            read(bench, shift_ns)
        assert [v.kind for v in bench.said] == ["clock-skew"] * said


def test_clocks_that_agree_again_are_taken_back_and_old_records_do_not_bring_it_up_again() -> None:
    bench = Watched()
    for _ in range(4):
        read(bench, -11 * S)
        bench.rounds(30)
    assert len(skews(bench)) == [v.kind for v in bench.said].count("clock-skew") == 1, "it goes on, and is said once"
    silence(bench, 600)
    read(bench, -11 * S + 30 * S, after_ns=30 * S)  # it may have been appended just now, or by a clock that is ahead
    assert len(skews(bench)) == 1
    read(bench, 0)
    assert skews(bench) == []
    read(bench, -11 * S)
    read(bench, None)  # the topic has the producers' time from now on
    assert skews(bench) == []
    read(bench, -11 * S, after_ns=3600 * S)  # sent while clocks disagreed, read again
    assert skews(bench) == []
    read(bench, 11 * S)
    assert len(skews(bench)) == 1
    assert "appended" in skews(bench)[0]


def skews(bench: Watched) -> list[str]:
    return [line for line in bench.says() if line.startswith("clock-skew")]


SILENT = "members: _TIMED_OUT: no answer"


@dataclass
class Asking(Watched):
    """A bench whose cluster may answer nothing."""

    now_ns: int = 10**18

    def ask(self, seconds: int, error: str = SILENT, *, every_s: int = 3, rounds: bool = True) -> None:
        """Ask for so long; every question gets ``error``. Without ``rounds`` it is that for the cluster's id."""
        for _ in range(seconds // every_s):
            self.now_ns += every_s * 10**9
            self.sample += 1
            begun = [f.WatchAsked(self.now_ns, self.sample)] if rounds else []
            self.fold(*begun, f.WatchFailed(self.now_ns, self.sample, error))


def test_a_silence_is_in_the_timeline_from_the_last_answer_to_the_next_and_a_slow_answer_is_none() -> None:
    bench = Asking()
    bench.rounds(1)
    bench.ask(2, every_s=1)
    bench.fold(f.TopologySeen(bench.now_ns, bench.sample, "probe"))
    quick_ns = bench.now_ns
    bench.ask(12)
    bench.now_ns += 10**9
    bench.tracker.fold([f.TopologySeen(bench.now_ns, bench.sample, "probe")])
    silences = [one for one in bench.tracker.drain().changes if one.subject == "cluster"]
    assert [(one.detail, one.at_ns) for one in silences] == [
        ("silent", pytest.approx(quick_ns, abs=10**8)),
        ("", bench.now_ns),
    ]


def test_a_cluster_that_never_answered_is_blind_in_less_than_a_minute() -> None:
    bench = Asking()
    bench.tracker = Tracker()  # which has not met the cluster
    bench.ask(45, "cluster id: _TRANSPORT: refused", rounds=False)
    assert bench.says() == []
    bench.ask(6, "cluster id: _TRANSPORT: refused", rounds=False)
    assert [line.split(":")[0] for line in bench.says()] == ["blind"]
    assert "has answered no question for 45 s (cluster id: _TRANSPORT" in bench.said[0].summary
    bench.ask(603, rounds=False)
    assert {v.key("c") for v in bench.said} == {bench.said[0].key("c")}
    assert len(bench.said) == 3, "each five minutes, though no round begins"


def test_a_cluster_that_answers_no_more_is_blind_until_it_answers() -> None:
    bench = Asking()
    bench.ask(60)
    assert [v.kind for v in bench.said] == ["blind"]
    bench.rounds(2)
    assert bench.says() == []
    bench.ask(60)
    assert [v.kind for v in bench.said] == ["blind", "blind"]


def test_a_cluster_that_answers_some_questions_is_seen() -> None:
    bench = Asking()
    answers = (
        lambda: f.ClusterSeen(bench.now_ns, 1, "cluster", "1,2"),
        lambda: f.TopicSeen(bench.now_ns, 1, TOPIC, bench.topic_id, 1),
        lambda: f.Listed(bench.now_ns, 1, TOPIC, 0, 0, bench.end, bench.end, 0),
        lambda: f.TopologySeen(bench.now_ns, 1, "probe"),
    )
    for answer in answers:
        for _ in range(10):
            bench.ask(30)
            bench.fold(answer())
    assert bench.says() == []


def test_what_answers_with_an_error_is_not_silent() -> None:
    bench = Asking()
    bench.ask(600, "topic: INVALID_REPLICATION_FACTOR: too few brokers")
    bench.ask(600, "the address leads elsewhere")
    assert bench.says() == []


def test_silence_goes_on_over_a_restart_and_what_nobody_watched_is_none() -> None:
    bench = Asking()
    bench.ask(30)
    bench.now_ns += 3600 * 10**9
    bench.tracker = Tracker.load(bench.tracker.dump())
    bench.fold(f.RunnerStarted(bench.now_ns, "canary-0", "test"))
    bench.ask(9)
    assert bench.says() == []
    bench.ask(15)
    assert [line.split(":")[0] for line in bench.says()] == ["blind"]


def switched_off(bench: Watched) -> None:
    """The canary starts again, and this topic's mode is no more among its settings: nobody asks for it."""
    bench.tracker = Tracker.load(bench.tracker.dump())
    bench.requests.clear()
    bench.tracker.state.probed.clear()
    bench.fold(f.RunnerStarted(bench.now_ns, "canary-0", "test"))
    for _ in range(200):
        bench.sample += 1
        bench.now_ns += 1_000_000_000
        bench.fold(f.WatchAsked(bench.now_ns, bench.sample))


@pytest.mark.parametrize("before_s", [5, 65])
def test_a_mode_that_was_switched_off_is_not_stalled(before_s: int) -> None:
    bench = Watched()
    bench.write(5)
    bench.poll()
    bench.write(3)
    bench.rounds(before_s, stable=5)
    assert len(bench.says()) == (before_s > 60)
    switched_off(bench)
    assert bench.says() == []
    (log,) = bench.tracker.state.topics[TOPIC].logs.values()
    assert not any(stalled(bench.tracker.state, log, reader) for reader in log.readers.values())


def test_what_is_stalled_before_a_start_and_after_it_is_stalled_all_the_while() -> None:
    bench = Watched()
    bench.write(5)
    bench.rounds(65)
    (first,) = bench.violations.values()
    bench.tracker = Tracker.load(bench.tracker.dump())
    bench.fold(f.RunnerStarted(bench.now_ns, "canary-0", "test"))
    for _ in range(3):  # the cluster takes its time
        bench.sample += 1
        bench.now_ns += 1_000_000_000
        bench.fold(f.WatchAsked(bench.now_ns, bench.sample))
    assert list(bench.violations.values()) == [first]
    bench.rounds(1)
    assert list(bench.violations.values()) == [first]
    bench.poll()
    bench.rounds(2)
    assert bench.says() == []


def test_a_machine_that_slept_between_two_questions_has_not_watched_a_silence() -> None:
    bench = Asking()
    bench.ask(6)
    bench.now_ns += 3600 * 10**9
    bench.ask(6)
    assert bench.says() == []


def test_a_cluster_that_refuses_and_then_is_silent_is_blind_until_it_does_neither() -> None:
    bench = Asking()
    bench.fold(f.ClientError(bench.now_ns, "tail", "_AUTHENTICATION", "invalid credentials"))
    bench.ask(300)
    assert {v.key("c") for v in bench.said} == {bench.said[0].key("c")}
    assert len(bench.says()) == 1
    bench.rounds(2)
    assert bench.says() == []


def test_silence_counts_from_the_last_answer() -> None:
    bench = Asking()
    bench.ask(3)
    bench.now_ns += 1000 * 10**9
    bench.fold(f.ClusterSeen(bench.now_ns, 1, "cluster", "1,2"))
    bench.ask(42)
    assert bench.says() == []
    bench.ask(6)
    assert len(bench.says()) == 1


def test_of_a_mode_that_was_switched_off_nothing_is_read_again() -> None:
    bench = Watched()
    bench.write(5)
    del bench.log[2]
    bench.answering = False
    bench.poll()
    assert bench.requests
    switched_off(bench)
    assert bench.requests == []


def test_what_stands_is_said_in_its_time_though_the_clock_of_an_earlier_process_was_ahead() -> None:
    bench = Watched()
    bench.write(5)
    bench.now_ns += 7200 * 10**9
    bench.rounds(5)
    bench.now_ns -= 7200 * 10**9
    bench.restart()
    bench.rounds(65)
    (found,) = bench.violations.values()
    assert (found.kind, found.at_ns <= bench.now_ns) == ("stalled", True)


def test_a_consumer_that_last_moved_by_a_clock_that_was_ahead_stands_since_the_start() -> None:
    bench = Watched()
    bench.write(5)
    bench.now_ns += 7200 * 10**9
    bench.poll()
    bench.write(5)
    bench.now_ns -= 7200 * 10**9
    bench.tracker = Tracker.load(bench.tracker.dump())
    bench.fold(f.RunnerStarted(started_ns := bench.now_ns, "canary-0", "test"))
    bench.rounds(65)
    (found,) = bench.violations.values()
    assert (found.kind, found.evidence["since_ns"]) == ("stalled", started_ns)


def test_an_outage_is_over_with_an_acknowledgement_though_consumers_are_behind_since_a_moment_ago() -> None:
    bench = Watched()
    bench.write(5)
    bench.poll()
    outage(bench, 90)
    assert len(bench.says()) == 1
    (sequence,) = bench.send()
    (offset,) = bench.append(sequence)
    bench.rounds(5)
    bench.ack(sequence, offset)
    bench.rounds(1)
    assert bench.says() == []


def test_probes_that_were_acknowledged_together_do_not_hide_that_the_next_one_never_is() -> None:
    """The judge folds the sends of an interval before its acknowledgements, which have times of their own."""
    bench = Watched()
    bench.rounds(1)
    bench.fold(f.PartitionSeen(bench.now_ns, bench.sample, TOPIC, 0, 1, "1", "1"))
    sequences = bench.send(4)
    offsets = bench.append(*sequences[:3])
    acked = zip(sequences, offsets, strict=False)
    bench.fold(*(f.Acked(bench.now_ns + i, TOPIC, 0, PRODUCER, 1, s, o, 2_000_000) for i, (s, o) in enumerate(acked)))
    bench.poll()
    bench.rounds(70)
    assert [one.partition(":")[0] for one in bench.says()] == ["unwritable"]


def test_what_holds_is_reported_again_though_the_clock_was_set_back_an_hour() -> None:
    """Each five minutes by the clock of now: what was said in the future would not be said again for an hour."""
    bench = Watched()
    bench.write(5)
    bench.poll()
    outage(bench, 90)
    (first,) = bench.said
    bench.tracker = Tracker.load(bench.tracker.dump())
    bench.now_ns -= 3600 * S
    bench.fold(f.RunnerStarted(bench.now_ns, "canary-0", "test"))
    silence(bench, 610)
    assert [(one.key("c"), one.at_ns < first.at_ns) for one in bench.said[1:]] == [(first.key("c"), True)] * 2
