"""Zombies, relays and groups: what the tracker says of the modes beside the main one."""

from __future__ import annotations

import pytest

from canary import facts as f
from canary.anomalies.online import Tracker
from canary.metrics import measured
from canary.probe.identity import Identity
from tests.support.bench import PRODUCER, RC, RU, TOPIC, Bench

RELAY, OUT = 99, "probes-relay"


def zombie_bench() -> tuple[Bench, int]:
    """Return a bench whose generation 1 was fenced by generation 2 and has sent one probe since; its sequence."""
    bench = Bench(mode="fencing")
    bench.fold(f.TransactionBegan(bench.now_ns, "fencing", PRODUCER, 1, 0))
    bench.fold(f.Sent(bench.now_ns, TOPIC, 0, PRODUCER, 1, 0, "fencing", 0))
    bench.fold(f.GenerationBegan(bench.now_ns, TOPIC, "fencing", PRODUCER, 2))
    bench.fold(f.Aborted(bench.now_ns, PRODUCER, 1, 0, "fenced"))
    bench.fold(f.Sent(bench.now_ns, TOPIC, 0, PRODUCER, 1, 1, "fencing", 0))
    return bench, 1


def poll(bench: Bench, sequence: int, isolation: str = RC) -> None:
    bench.fold(f.Polled(bench.now_ns, isolation, isolation, TOPIC, 0, 0, PRODUCER, 1, sequence, 0))


def test_what_a_zombie_wrote_after_its_fencing_and_is_read_committed_is_a_zombie_write() -> None:
    bench, sequence = zombie_bench()
    poll(bench, sequence)
    assert bench.found() == [("zombie-write", 0, sequence)]


def test_what_it_wrote_before_is_an_aborted_read() -> None:
    bench, _ = zombie_bench()
    poll(bench, 0)
    assert [kind for kind, *_ in bench.found()] == ["G1a"]


def test_an_aborted_write_that_was_shown_once_and_is_not_found_again_is_no_loss() -> None:
    for aborted_first in (True, False):
        bench = Bench(mode="transactional")
        bench.fold(f.TransactionBegan(bench.now_ns, "transactional", PRODUCER, 1, 0))
        bench.fold(f.Sent(bench.now_ns, TOPIC, 0, PRODUCER, 1, 0, "transactional", 0), f.CommitAsked(1, PRODUCER, 1, 0))
        bench.end = 2  # the write and its marker
        events = [
            lambda b: b.fold(f.Aborted(b.now_ns, PRODUCER, 1, 0, "?")),
            lambda b: poll(b, 0),
        ]
        for event in events if aborted_first else reversed(events):
            event(bench)
        bench.positions[RC] = bench.positions[RU] = 2
        bench.settle(2)
        bench.epoch += 1  # the tail is read again
        bench.settle()
        assert bench.found() == [("G1a", 0, 0)]


def test_a_zombie_seen_by_read_uncommitted_alone_is_as_it_should_be() -> None:
    bench, sequence = zombie_bench()
    poll(bench, sequence, "read_uncommitted")
    bench.fold(f.Indeterminate(bench.now_ns, TOPIC, 0, PRODUCER, 1, sequence, "_FENCED"))
    assert bench.found() == []


@pytest.mark.parametrize("landed", [False, True])
def test_what_a_fenced_generation_was_acknowledged_without_an_offset_is_looked_for(*, landed: bool) -> None:
    """A broker takes it for a copy of what it has, rightly or not. No later write of that generation is committed."""
    bench = Bench(mode="fencing")
    bench.end = 4  # of generations before
    for generation in (1, 2, 3):
        bench.generation = generation
        bench.fold(f.GenerationBegan(bench.now_ns, TOPIC, "fencing", PRODUCER, generation))
        bench.fold(f.TransactionBegan(bench.now_ns, "fencing", PRODUCER, generation, 0))
        bench.fold(f.Sent(bench.now_ns, TOPIC, 0, PRODUCER, generation, 0, "fencing", 0))
        if generation != 2 or landed:
            bench.append(0)
        bench.ack(0, None if generation == 2 else bench.end - 1)
        bench.fold(
            f.CommitAsked(bench.now_ns, PRODUCER, generation, 0), f.Committed(bench.now_ns, PRODUCER, generation, 0)
        )
        bench.end += 1  # the marker
        bench.settle(4)
    lost = {v.identity for v in bench.said if v.kind == "lost-write"}
    assert lost == (set() if landed else {Identity(PRODUCER, 2, 0, 0)})
    assert landed == (bench.found() == [])


def test_a_commit_that_is_accepted_from_a_zombie_is_a_zombie_write() -> None:
    bench, _ = zombie_bench()
    bench.fold(f.Committed(bench.now_ns, PRODUCER, 1, 0))
    assert [kind for kind, *_ in bench.found()] == ["zombie-write"]


@pytest.mark.parametrize("begun", ["before it is sent", "before its commit is asked for", "before it is committed"])
def test_a_transaction_that_is_open_when_another_generation_begins_is_no_zombies(begun: str) -> None:
    """The runner begins one when it makes clients anew; no other client has fenced the present one yet."""
    bench = Bench(mode="fencing")
    began = f.GenerationBegan(bench.now_ns, TOPIC, "fencing", PRODUCER, 2)
    bench.fold(f.TransactionBegan(bench.now_ns, "fencing", PRODUCER, 1, 0))
    if begun == "before it is sent":
        bench.fold(began)
    bench.fold(f.Sent(bench.now_ns, TOPIC, 0, PRODUCER, 1, 0, "fencing", 0))
    bench.append(0)
    bench.ack(0, 0)
    if begun == "before its commit is asked for":
        bench.fold(began)
    bench.fold(f.CommitAsked(bench.now_ns, PRODUCER, 1, 0))
    if begun == "before it is committed":
        bench.fold(began)
    bench.fold(f.Committed(bench.now_ns, PRODUCER, 1, 0))
    poll(bench, 0)
    bench.positions[RC] = 1
    bench.settle()
    assert bench.found() == []


def test_what_acks_of_one_lose_is_a_warning_under_its_own_mode_and_what_all_acknowledged_is_critical() -> None:
    for mode, severity in (("plain", "warning"), ("idempotent", "critical")):
        bench = Bench(mode=mode)
        bench.write(10)
        bench.settle(2)
        bench.truncate(7)
        bench.poll()
        bench.write(1)
        bench.settle()
        assert {"lost-write", "truncation", "inconsistent-offsets"} == {kind for kind, *_ in bench.found()}
        assert {(v.severity, v.mode) for v in bench.violations.values()} == {(severity, mode)}


class Relaying:
    """A relay that takes the bench's probes."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.number = 0
        self.bench.write(30)
        self.bench.fold(f.GenerationBegan(self.bench.now_ns, OUT, "relay", RELAY, 1))

    def take(self, start: int, end: int, outcome: str = "committed") -> int:
        key = (RELAY, 1, self.number)
        self.number += 1
        at_ns, fold = self.bench.now_ns, self.bench.fold
        fold(
            f.TransactionBegan(at_ns, "relay", *key), f.Relayed(at_ns, *key, TOPIC, 0, start, end, self.bench.marked_id)
        )
        fold(f.Sent(at_ns, OUT, 0, *key[:2], key[2], "relay", key[2]), f.Acked(at_ns, OUT, 0, *key, key[2]))
        fold(f.CommitAsked(at_ns, *key))
        if outcome == "committed":
            fold(f.Committed(at_ns, *key))
        elif outcome == "aborted":
            fold(f.Aborted(at_ns, *key))
        else:
            fold(f.TransactionIndeterminate(at_ns, *key, "?"))
        return key[2]

    def prove(self, number: int) -> None:
        """A read_committed consumer is given what the transaction wrote."""
        self.bench.fold(f.Polled(self.bench.now_ns, RC, RC, OUT, 0, number, RELAY, 1, number, number))

    def restart(self) -> None:
        self.bench.tracker = Tracker.load(self.bench.tracker.dump())

    def kinds(self) -> list[tuple[str, int | None]]:
        return [(v.kind, v.offset) for v in self.bench.violations.values()]


def test_inputs_taken_one_after_the_other_are_exactly_once() -> None:
    relay = Relaying()
    for start in range(0, 30, 10):
        relay.take(start, start + 10)
        relay.restart()
    assert relay.kinds() == []


def test_inputs_taken_by_two_committed_transactions_are_a_duplicate() -> None:
    relay = Relaying()
    relay.take(0, 10)
    relay.take(7, 20)
    assert relay.kinds() == [("duplicate", 7)]


def test_inputs_of_an_aborted_transaction_are_taken_again() -> None:
    relay = Relaying()
    relay.take(0, 10)
    relay.take(10, 20, "aborted")
    relay.take(10, 20)
    assert relay.kinds() == []


def test_inputs_that_were_passed_over_are_each_said() -> None:
    relay = Relaying()
    relay.take(0, 10)
    relay.take(10, 20, "aborted")
    relay.take(20, 30)
    relay.bench.settle()
    assert relay.kinds() == [("poll-skip", offset) for offset in range(10, 20)]


def test_inputs_that_expired_before_they_were_taken_are_not_passed_over() -> None:
    relay = Relaying()
    relay.bench.settle(2)
    relay.take(0, 10)
    relay.take(15, 30)  # the relay is told where the log begins sooner than whoever watches
    relay.bench.start = 15
    for offset in range(15):
        del relay.bench.log[offset]
    relay.bench.fold(f.TopicConfigured(relay.bench.now_ns, TOPIC, 1000, 1, "delete", 2))
    relay.bench.settle()
    assert relay.kinds() == []


def test_going_on_behind_an_indeterminate_transaction_is_no_jump_and_before_it_no_copy() -> None:
    for following in (10, 20):
        relay = Relaying()
        relay.take(0, 10)
        relay.take(10, 20, "indeterminate")
        relay.take(following, 30)
        assert relay.kinds() == []


def test_an_indeterminate_transaction_that_a_read_proves_counts() -> None:
    relay = Relaying()
    relay.take(0, 10)
    number = relay.take(10, 20, "indeterminate")
    relay.prove(number)
    relay.take(10, 20)
    assert relay.kinds() == [("duplicate", 10)]


def test_a_coordinator_that_is_not_met_is_a_broker_without_probe() -> None:
    def without(bench: Bench) -> float:
        return next(m.value for m in measured(bench.tracker.state).series() if m.name == "canary_brokers_without_probe")

    bench = Bench()
    bench.round()
    assert without(bench) == 2  # the bench's one partition is led by broker 1
    bench.fold(f.CoordinatorsSeen(bench.now_ns, "transactional", "1,2"))
    assert without(bench) == 3
    bench.fold(f.CoordinatorsSeen(bench.now_ns, "transactional", ""))
    assert without(bench) == 2


def test_a_committed_offset_that_goes_back_is_said_once() -> None:
    bench = Bench()
    for offset, reason in ((5, "committed"), (5, "fetched"), (9, "committed"), (7, "fetched"), (7, "fetched")):
        bench.fold(f.GroupOffset(bench.now_ns, "g", TOPIC, 0, offset, reason))
    bench.settle(3)
    assert bench.found() == [("committed-offset-regression", 7, -1)]


def test_a_group_that_has_forgotten_is_said_and_one_that_never_knew_is_not() -> None:
    bench = Bench()
    bench.fold(f.GroupOffset(bench.now_ns, "new", TOPIC, 0, None, "fetched"))
    bench.fold(f.GroupOffset(bench.now_ns, "g", TOPIC, 0, 3, "committed"))
    bench.fold(f.GroupOffset(bench.now_ns, "g", TOPIC, 0, None, "fetched"))
    bench.settle(3)
    assert bench.found() == [("committed-offset-regression", -1, -1)]


@pytest.mark.parametrize("stands", [5, 7, 9])
def test_a_group_that_stands_at_its_last_commit_or_above_has_not_gone_back_though_it_once_stood_higher(
    stands: int,
) -> None:
    bench = Bench()
    for offset, reason in ((9, "committed"), (5, "committed"), (stands, "fetched")):
        bench.fold(f.GroupOffset(bench.now_ns, "g", TOPIC, 0, offset, reason))
    bench.settle(3)
    assert bench.found() == []


def polled(bench: Bench, *offsets: int) -> None:
    bench.fold(*(f.Polled(bench.now_ns, RC, RC, TOPIC, 0, o, PRODUCER, 1, o) for o in offsets))


def test_a_reader_that_settings_no_longer_have_is_forgotten_at_the_next_start() -> None:
    bench = Bench()
    bench.fold(f.Positioned(bench.now_ns, "rack-a", RC, TOPIC, 0, 0, "assigned"))
    bench.write(6)
    log, (stream,) = bench.tracker.state.topics[TOPIC].logs[0], bench.tracker.state.topics[TOPIC].streams
    assert stream.unseen.keys() == log.readers.keys() == {RC, RU, "rack-a"}
    bench.restart()
    log, stream = bench.tracker.state.topics[TOPIC].logs[0], bench.tracker.state.topics[TOPIC].streams[0]
    assert stream.unseen.keys() == log.readers.keys() == {RC, RU}


def test_what_any_reader_passes_without_being_given_it_is_looked_for() -> None:
    bench = Bench()
    bench.fold(f.Positioned(bench.now_ns, "rack-a", RC, TOPIC, 0, 0, "assigned"))
    bench.write(6)
    bench.poll()
    bench.fold(*(f.Polled(bench.now_ns, "rack-a", RC, TOPIC, 0, o, PRODUCER, 1, o) for o in (0, 1, 3, 4, 5)))
    bench.settle()
    assert bench.found() == [("poll-skip", 2, 2)]


def test_a_repeated_delivery_in_the_middle_of_others_hides_none_of_them() -> None:
    bench = Bench()
    bench.write(6)
    polled(bench, 0, 1, 2, 2, 3)
    polled(bench, 4, 5)
    bench.positions[RC] = 6
    bench.settle()
    assert bench.found() == [("nonmonotonic-poll", 2, -1)]


def test_two_deliveries_that_changed_places_are_no_skip() -> None:
    bench = Bench()
    bench.write(6)
    polled(bench, 0, 1, 3, 2, 4, 5)
    bench.positions[RC] = 6
    bench.settle()
    assert bench.found() == [("nonmonotonic-poll", 2, -1)]


def test_one_that_is_never_delivered_is_a_skip() -> None:
    bench = Bench()
    bench.write(6)
    polled(bench, 0, 1, 3, 4, 5)
    bench.positions[RC] = 6
    bench.settle()
    assert bench.found() == [("poll-skip", 2, 2)]


@pytest.mark.parametrize(("away_s", "said"), [(60, True), (86_000, True), (8 * 86_400, False)])
def test_a_group_whose_offsets_expired_while_it_had_no_members_has_not_gone_back(away_s: int, *, said: bool) -> None:
    bench = Bench()
    bench.fold(f.GroupOffset(bench.now_ns, "g", TOPIC, 0, 3, "committed"))
    bench.now_ns += away_s * 10**9
    bench.restart()
    bench.fold(f.GroupOffset(bench.now_ns, "g", TOPIC, 0, None, "fetched"))
    bench.settle(3)
    assert [kind for kind, *_ in bench.found()] == ["committed-offset-regression"] * said


def test_a_group_that_is_asked_for_now_and_then_is_not_forgotten() -> None:
    bench = Bench()
    for offset, reason in ((3, "committed"), (3, "fetched"), (3, "fetched"), (None, "fetched")):
        bench.fold(f.GroupOffset(bench.now_ns, "g", TOPIC, 0, offset, reason))
        bench.now_ns += 20 * 3600 * 10**9
    bench.settle(3)
    assert [kind for kind, *_ in bench.found()] == ["committed-offset-regression"]


def test_what_the_next_leader_acknowledged_alone_before_it_was_listed_is_not_lost() -> None:
    bench = Bench(mode="plain")
    bench.write(3)
    bench.settle()
    former = bench.send(2)
    bench.ack(former[0], 3)
    bench.ack(former[1], 4)
    bench.round()
    (sequence,) = bench.send()
    bench.ack(sequence, 3)
    bench.round()
    bench.epoch = 1
    for _ in range(6):
        bench.round()  # the ISR of the new leader waits for the former one
    bench.append(sequence)
    bench.settle()
    assert bench.found("lost-write") == [("lost-write", 3, former[0]), ("lost-write", 4, former[1])]


def test_what_the_next_leader_acknowledged_alone_below_the_end_of_the_former_one_is_not_lost() -> None:
    bench = Bench(mode="plain")
    bench.write(5)
    bench.settle()
    bench.epoch, bench.end = 1, 3  # it lacks two records
    sequences = bench.send(2)
    for offset, sequence in enumerate(sequences, bench.end):
        bench.ack(sequence, offset)
    for _ in range(12):
        bench.round()
    for sequence in sequences:
        bench.append(sequence)
    bench.settle()
    assert bench.found("lost-write") == [("lost-write", 3, 3), ("lost-write", 4, 4)]


def test_an_offset_that_is_given_again_when_its_first_probe_is_known_as_lost_is_the_next_leader_s() -> None:
    bench = Bench(mode="plain")
    bench.write(3)
    bench.settle()
    former = bench.send(2)
    bench.ack(former[0], 3)
    bench.round()
    bench.epoch = 1
    for _ in range(6):
        bench.round()
    assert bench.found("lost-write") == [("lost-write", 3, former[0])]
    bench.ack(former[1], 4)  # the former one is cut off, and goes on
    bench.round()
    (sequence,) = bench.send()
    bench.ack(sequence, 3)
    bench.epoch = 2
    for _ in range(12):
        bench.round()
    bench.append(sequence)
    bench.settle()
    assert bench.found("lost-write") == [("lost-write", 3, former[0]), ("lost-write", 4, former[1])]


@pytest.mark.parametrize(("epoch", "lost"), [(1, True), (0, False)])
def test_what_a_former_leader_acknowledged_alone_is_lost_when_the_present_one_shows_its_own_below(
    epoch: int, *, lost: bool
) -> None:
    """It went on after the present one was known. A record of its own epoch shows nothing."""
    bench = Bench(mode="plain")
    bench.write(3)
    bench.settle()
    bench.epoch = 1
    bench.settle()
    former = bench.send(4)
    for offset, sequence in enumerate(former, 3):
        bench.ack(sequence, offset)
    bench.round()
    (sequence,) = bench.send()
    bench.ack(sequence, 3)
    bench.append(sequence)
    bench.fold(f.Polled(bench.now_ns, RU, RU, TOPIC, 0, 3, PRODUCER, 1, sequence, leader_epoch=epoch))
    for _ in range(14):
        bench.round()
    first = ("lost-write", 3, former[0])
    assert bench.found("lost-write") == [first, *(("lost-write", n + 3, former[n]) for n in range(1, 4) if lost)]


def test_what_was_read_and_then_cut_off_is_not_lost_where_another_leader_acknowledges_it() -> None:
    bench = Bench(mode="plain")
    bench.write(3)
    bench.settle()
    (sequence,) = bench.send()
    bench.append(sequence)
    bench.poll()
    bench.truncate(2)
    bench.round()
    bench.round()
    bench.ack(sequence, 2)  # sent again by the client
    for _ in range(8):
        bench.round()
    bench.append(sequence)
    bench.settle()
    assert bench.found("lost-write", "duplicate") == [("lost-write", 2, 2)]


def test_what_two_leaders_gave_at_the_same_offsets_and_is_lost_is_said_in_a_range_for_each() -> None:
    bench = Bench(mode="plain")
    bench.write(3)
    bench.settle()
    lost = [*bench.send(6), *bench.send(6)]
    for i, sequence in enumerate(lost):
        bench.ack(sequence, 3 + i % 6)
    bench.epoch = 2
    bench.write(6)
    bench.settle()
    assert bench.found("lost-write") == sorted(("lost-write", 3 + i % 6, sequence) for i, sequence in enumerate(lost))
    assert [(one.offset, one.count) for one in bench.said if one.kind == "lost-write"] == [(3, 6), (3, 6)]
