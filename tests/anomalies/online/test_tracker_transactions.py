"""What transactions promise, and what is known of those whose outcome nobody was told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from canary import facts as f
from canary.anomalies.online.rules import transactions
from canary.anomalies.online.state import Producer, State
from tests.support.bench import PRODUCER, RC, RU, TOPIC, Bench


class Transactions(Bench):
    """A bench whose producer is transactional."""

    def begin(self) -> None:
        self.mode = "transactional"
        super().begin()

    def write_within(self, transaction: int, *offsets: int | None, stand: bool = True) -> list[int]:
        """Begin a transaction, and send one probe for each offset, acknowledged there unless it is None."""
        self.fold(f.TransactionBegan(self.now_ns, self.mode, PRODUCER, self.generation, transaction))
        sequences = []
        for offset in offsets:
            sequence, self.sequence = self.sequence, self.sequence + 1
            sequences.append(sequence)
            who = (PRODUCER, self.generation, sequence)
            self.fold(f.Sent(self.now_ns, TOPIC, 0, *who, self.mode, transaction))
            if offset is not None:
                self.fold(f.Acked(self.now_ns, TOPIC, 0, *who, offset, 1_000))
                self.end = max(self.end, offset + 1)
                if stand:
                    self.log[offset] = who
        return sequences

    def commit(self, transaction: int) -> None:
        self.ask(transaction)
        self.fold(f.Committed(self.now_ns, PRODUCER, self.generation, transaction))
        self.end += 1

    def ask(self, transaction: int) -> None:
        self.fold(f.CommitAsked(self.now_ns, PRODUCER, self.generation, transaction))

    def read(self, consumer: str, offset: int, transaction: int) -> None:
        who = self.log[offset]
        assert isinstance(who, tuple)
        self.fold(f.Polled(self.now_ns, consumer, consumer, TOPIC, 0, offset, *who, transaction))


def test_what_read_uncommitted_saw_of_an_aborted_transaction_is_no_promise() -> None:
    bench = Transactions()
    bench.write_within(1, 0)
    bench.read(RU, 0, 1)
    bench.fold(f.Aborted(bench.now_ns, PRODUCER, 1, 1, "?"))
    bench.log.clear()
    bench.end = 2
    bench.settle()
    assert bench.found() == []


def test_what_was_read_committed_must_stay_though_nobody_was_told_of_it() -> None:
    bench = Transactions()
    bench.write_within(1, None)
    bench.log[0], bench.end = (PRODUCER, 1, 0), 2
    bench.ask(1)
    bench.read(RC, 0, 1)
    bench.positions[RC] = 1
    bench.fold(f.TransactionIndeterminate(bench.now_ns, PRODUCER, 1, 1, "timed out"))
    bench.settle(2)
    bench.truncate(0)
    bench.write_within(2, 0)
    bench.commit(2)
    bench.settle()
    assert bench.found("lost-write") == [("lost-write", 0, 0)]


def test_a_read_before_nobody_knew_the_outcome_proves_all_of_the_transaction() -> None:
    bench = Transactions()
    bench.write_within(1, 0, 1)
    del bench.log[1]
    bench.ask(1)
    bench.read(RC, 0, 1)
    bench.fold(f.TransactionIndeterminate(bench.now_ns, PRODUCER, 1, 1, "timed out"))
    bench.positions[RC] = 1
    bench.end = 3
    bench.settle()
    assert bench.found() == [("fractured-transaction", 1, 1), ("lost-write", 1, 1)]


def test_a_write_whose_offset_was_given_to_another_before_its_commit_is_lost_by_the_commit() -> None:
    bench = Transactions()
    bench.write_within(1, 0, stand=False)
    bench.log[0] = (PRODUCER, 1, 1)
    bench.write_within(2, 0)
    for transaction in (2, 1):
        bench.commit(transaction)
    bench.settle()
    assert bench.found("lost-write", "inconsistent-offsets") == [
        ("inconsistent-offsets", 0, -1),
        ("lost-write", 0, 0),
    ]


def test_what_a_generation_wrote_before_its_successor_is_no_zombies_when_it_is_read_again() -> None:
    bench = Transactions()
    bench.write_within(1, 0)
    bench.commit(1)
    bench.poll()
    bench.restart()
    bench.write_within(2, bench.end)
    bench.commit(2)
    bench.poll()
    bench.fold(f.Positioned(bench.now_ns, RC, RC, TOPIC, 0, 0, "start"))
    bench.read(RC, 0, 1)
    assert bench.found() == []


def above_its_successor(
    topic_id: str = "incarnation-1", *, stands: bool = True, wrote: bool = True, second: bool = False, start: int = 0
) -> Bench:
    """A consumer is given a transaction at offset 9, when the next generation is known to have written at offset 0."""
    bench = Transactions()
    bench.end = 1
    for transaction in range(5):
        bench.write_within(transaction, bench.end)
        bench.commit(transaction)
    bench.generation, bench.sequence = 2, 0
    bench.fold(f.GenerationBegan(bench.now_ns, TOPIC, bench.mode, PRODUCER, 2, bench.topic_id))
    bench.fold(f.TransactionBegan(bench.now_ns, bench.mode, PRODUCER, 2, 9))
    bench.fold(f.Sent(bench.now_ns, TOPIC, 0, PRODUCER, 2, 0, bench.mode, 9))
    bench.fold(f.Acked(bench.now_ns, TOPIC, 0, PRODUCER, 2, 0, 0))
    if second:
        bench.fold(f.Sent(bench.now_ns, TOPIC, 0, PRODUCER, 2, 1, bench.mode, 9))
        bench.fold(f.Acked(bench.now_ns, TOPIC, 0, PRODUCER, 2, 1, 2))
        bench.log[2] = (PRODUCER, 2, 1)
    bench.commit(9)
    if wrote:
        bench.log[0] = (PRODUCER, 2, 0)
    bench.poll(RU)
    bench.read(RC, 9, 4)
    bench.topic_id, bench.start = topic_id, start
    if not stands:
        bench.truncate(1)
        bench.log[0] = (PRODUCER, 2, 0)
    for _ in range(8):
        bench.round()
    return bench


def test_what_was_fetched_before_the_topic_was_made_again_is_no_zombies() -> None:
    assert above_its_successor("incarnation-2").found("zombie-write") == []
    assert ("zombie-write", 9, 4) in above_its_successor().found()


def test_no_zombies_wrote_above_a_write_that_was_acknowledged_and_never_written() -> None:
    found = above_its_successor(wrote=False).found("zombie-write", "lost-write")
    assert found == [("lost-write", 0, 0)]
    assert ("zombie-write", 9, 4) in above_its_successor(wrote=False, second=True).found()


@pytest.mark.parametrize("committed", [True, False])
def test_no_zombies_wrote_above_an_aborted_write_that_was_taken_for_a_copy(committed: bool) -> None:  # noqa: FBT001
    """Nothing is lost by it, so no loss tells of it: what was taken for it is read there, or was read before."""
    bench = Transactions()
    bench.write_within(1, 0)
    if committed:
        bench.commit(1)
    else:
        bench.fold(f.Aborted(bench.now_ns, PRODUCER, 1, 1, "?"))
        bench.end += 1
        bench.poll(RU)
        del bench.log[0]  # read_committed consumers are not given it
    bench.poll()
    bench.restart()
    bench.write_within(2, 2)
    bench.commit(2)
    bench.poll()
    bench.restart()
    bench.write_within(3, 0, stand=False)
    bench.fold(f.Aborted(bench.now_ns, PRODUCER, 3, 3, "?"))
    for _ in range(8):
        bench.round()
    assert bench.found("zombie-write", "lost-write", "G1a") == []
    bench.write_within(4, bench.end)
    bench.commit(4)
    bench.log[bench.end] = (PRODUCER, 2, 1)
    bench.end += 1
    bench.settle()
    assert bench.found("zombie-write", "lost-write", "G1a") == [("zombie-write", bench.end - 1, 1)]


def test_no_zombies_wrote_above_an_aborted_write_that_the_next_leader_does_not_have() -> None:
    bench = Transactions()
    for transaction in range(3):
        bench.write_within(transaction, bench.end)
        bench.commit(transaction)
    bench.poll()
    log, end = dict(bench.log), bench.end
    bench.truncate(2)
    bench.restart()
    bench.write_within(3, 2)
    bench.fold(f.Aborted(bench.now_ns, PRODUCER, 2, 3, "?"))
    bench.poll(RU)
    bench.log, bench.end, bench.epoch = log, end, 2
    bench.read(RC, 4, 2)
    for _ in range(8):
        bench.round()
    assert bench.found("zombie-write", "lost-write") == []


@pytest.mark.parametrize("wrote", [True, False])
def test_what_was_written_after_a_later_generations_write_is_a_zombies_though_that_has_expired(*, wrote: bool) -> None:
    found = above_its_successor(wrote=wrote, start=5).found("zombie-write")
    assert found == ([("zombie-write", 5, 2), ("zombie-write", 7, 3), ("zombie-write", 9, 4)] if wrote else [])


def test_what_was_fetched_before_the_log_was_emptied_is_no_zombies() -> None:
    assert above_its_successor(stands=False).found("zombie-write") == []


def test_only_the_mode_that_fences_itself_has_zombies_of_its_own() -> None:
    bench = Bench()
    bench.fold(f.GenerationBegan(bench.now_ns, TOPIC, "idempotent", PRODUCER, 2))
    bench.write(2)
    bench.settle()
    assert bench.found() == []


def test_a_read_after_the_runner_died_proves_all_of_the_transaction() -> None:
    bench = Transactions()
    bench.write_within(1, 0, 1)
    del bench.log[1]
    bench.ask(1)
    bench.restart()
    bench.end = 3
    bench.read(RC, 0, 1)
    bench.positions[RC] = 1
    bench.settle()
    assert bench.found() == [("fractured-transaction", 1, 1), ("lost-write", 1, 1)]


def test_a_zombie_that_only_read_uncommitted_sees_is_none() -> None:
    bench = Transactions()
    bench.write_within(1, 0)
    bench.restart()
    bench.write_within(2, 2)
    bench.commit(2)
    bench.poll()
    bench.log[bench.end] = (PRODUCER, 1, 0)
    bench.end += 1
    bench.read(RU, bench.end - 1, 1)
    assert bench.found("zombie-write") == []


@pytest.mark.parametrize("told_by", [RU, "an acknowledgement", "a re-read"])
def test_a_zombies_write_is_one_though_that_of_its_successor_is_told_later(told_by: str) -> None:
    bench = Transactions()
    bench.write_within(1, 0)
    bench.commit(1)
    bench.poll()
    bench.restart()
    bench.write_within(2, None)
    bench.log |= {2: (PRODUCER, 2, 0), 3: (PRODUCER, 1, 1)}
    bench.end = 4
    bench.read(RC, 3, 2)
    if told_by == RU:
        bench.read(RU, 2, 2)
    else:
        if told_by == "a re-read":
            bench.hidden = {2}  # as if they had passed it in a log that was cut since
            bench.poll()
        bench.ack(0, 2)
        bench.commit(2)
    for _ in range(6):
        bench.round()
    assert bench.found("zombie-write") == [("zombie-write", 3, 1)]


def test_what_stood_above_a_successors_first_write_before_the_log_was_cut_is_no_zombies() -> None:
    bench = Transactions()
    for transaction in range(3):
        bench.write_within(transaction, bench.end)
        bench.commit(transaction)
    bench.poll()
    bench.truncate(2)
    bench.restart()
    bench.write_within(3, 2)
    bench.commit(3)
    bench.settle()
    assert bench.found("zombie-write", "lost-write") == [("lost-write", 2, 1), ("lost-write", 4, 2)]


def test_outcomes_of_an_incarnation_that_is_gone_say_nothing_of_the_next() -> None:
    for end in (f.Committed, f.Aborted):
        bench = Transactions()
        bench.write_within(1, 0)
        bench.ask(1)
        bench.read(RC, 0, 1)
        bench.topic_id, bench.log, bench.end = "incarnation-2", {}, 0
        bench.round()
        bench.fold(end(bench.now_ns, PRODUCER, 1, 1))
        bench.settle()
        assert bench.found() == [("topic-recreated", -1, -1)]


def committed_without_offset(bench: Transactions, *, there: bool) -> int:
    """A committed write between two others, acknowledged without an offset; returns its sequence."""
    bench.write_within(1, 0)
    bench.commit(1)
    (sequence,) = bench.write_within(2, None)
    offset, bench.end = bench.end, bench.end + 1
    if there:
        bench.log[offset] = (PRODUCER, 1, sequence)
    bench.fold(f.Acked(bench.now_ns, TOPIC, 0, PRODUCER, 1, sequence, None, 1_000))
    bench.commit(2)
    bench.write_within(3, bench.end)
    bench.commit(3)
    return sequence


def test_a_committed_write_that_was_acknowledged_without_an_offset_is_promised() -> None:
    bench = Transactions()
    sequence = committed_without_offset(bench, there=False)
    bench.settle()
    assert bench.found("lost-write") == [("lost-write", -1, sequence)]
    assert bench.tracker.state.topics[TOPIC].promises == 3


def test_a_committed_write_that_was_acknowledged_without_an_offset_and_is_there_is_not_lost() -> None:
    bench = Transactions()
    committed_without_offset(bench, there=True)
    bench.settle()
    assert bench.found() == []


def test_a_committed_write_without_an_offset_that_read_uncommitted_alone_was_given_must_stay() -> None:
    bench = Transactions()
    sequence = committed_without_offset(bench, there=True)
    (offset,) = (place for place, who in bench.log.items() if who == (PRODUCER, 1, sequence))
    bench.poll(RU)
    del bench.log[offset]
    bench.settle()
    assert bench.found("lost-write") == [("lost-write", offset, sequence)]


def test_an_aborted_write_that_was_acknowledged_without_an_offset_is_not_promised() -> None:
    bench = Transactions()
    bench.write_within(1, 0)
    bench.commit(1)
    (sequence,) = bench.write_within(2, None)
    bench.fold(f.Acked(bench.now_ns, TOPIC, 0, PRODUCER, 1, sequence, None, 1_000))
    bench.fold(f.Aborted(bench.now_ns, PRODUCER, 1, 2, "?"))
    bench.write_within(3, bench.end)
    bench.commit(3)
    bench.settle()
    assert bench.found() == []


def test_a_commit_that_was_read_before_the_canary_was_killed_promises_all_that_it_acknowledged() -> None:
    """Its outcome was never told: that one write of it was read shows that the other must be there."""
    bench = Transactions()
    bench.write_within(1, 0, 1)
    bench.ask(1)
    bench.read(RC, 0, 1)
    bench.restart()
    del bench.log[1]
    bench.settle()
    assert bench.found("lost-write") == [("lost-write", 1, 1)]


def test_a_commit_promises_what_was_acknowledged_and_nothing_else() -> None:
    bench = Transactions()
    bench.write_within(1, 0, None, 1)
    bench.commit(1)
    topic = bench.tracker.state.topics[TOPIC]
    (stream,) = topic.streams
    assert (topic.promises, list(stream.promised)) == (2, [(0, 1), (2, 3)])


def test_only_a_mode_that_fences_on_purpose_has_zombies() -> None:
    state = State()
    state.producers |= {1: Producer(TOPIC, "transactional", 5), 2: Producer(TOPIC, "fencing", 5)}
    scope: Any = SimpleNamespace(state=state)
    asked = [(1, 4), (2, 4), (2, 5), (3, 4)]
    assert [one for one in asked if transactions.fenced(scope, *one)] == [(2, 4)]
