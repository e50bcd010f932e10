"""The producer against librdkafka's own mock cluster: order of facts, outcomes, bounds. No broker is started."""

from __future__ import annotations

import itertools
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from canary.facts import Acked, ClientError, Failed, Indeterminate, Sent, Skipped
from canary.kafka import opening
from canary.probing import idempotent
from canary.probing.base import Renewal
from canary.probing.idempotent import IdempotentProducer
from tests.support.messages import Message
from tests.support.recording import Recording
from tests.support.unmet import Unmet
from tests.support.waiting import in_time, until
from tests.support.wiring import TAG, wired

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MOCK = {"test.mock.num.brokers": 3, "allow.auto.create.topics": True}  # nobody else makes the mock's topic


def producer(inbox: Recording, partitions: Sequence[int] = range(3), **others: Any) -> IdempotentProducer:
    bounds = {  # however long this thread stalls, the sender goes on
        "max_in_flight": others.pop("max_in_flight", 1_000_000),
        "patience_s": others.pop("patience_s", 3600),
    }
    values = {"interval": 0.02, "under": Renewal(1, TAG, partitions), **others}
    return IdempotentProducer(MOCK, wired(inbox, topic="canary", **values), **bounds)


class StandingClock:
    """Stands still until somebody moves it."""

    def __init__(self) -> None:
        self.at_ns = 1

    def now_ns(self) -> int:
        return self.at_ns


class FakeClient(Unmet):
    """A client that takes what it is given and reports what the test tells it to."""

    def __init__(self, inbox: Recording) -> None:
        self.inbox = inbox
        self.raising: Exception | None = None
        """What the next produce() raises."""
        self.taken: list[Any] = []
        self._reports: deque[Callable[[], None]] = deque()
        self.sent_before: list[int] = []
        self.purged = False

    def produce(self, *_: object, partition: int, on_delivery: Any) -> None:
        self.sent_before.append(len(self.inbox.of(Sent)))
        if self.raising is not None:
            raising, self.raising = self.raising, None
            raise raising
        self.taken.append((partition, on_delivery))

    def poll(self, timeout: float) -> None:
        time.sleep(min(timeout, 0.005))
        while self._reports:
            self._reports.popleft()()

    def report(self, delivered: Any, error: KafkaError | None, message: object = None) -> None:
        """Have the next poll() tell an outcome: in the sender's own thread, as the real client does."""
        self._reports.append(partial(delivered, error, message))

    def purge(self) -> None:
        self.purged = True

    def list_topics(self, *_: object, timeout: float) -> None:
        """Do nothing."""


@pytest.fixture
def inbox() -> Recording:
    return Recording()


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch, inbox: Recording) -> list[FakeClient]:
    made: list[FakeClient] = []

    def make(*_: object, **__: object) -> FakeClient:
        made.append(FakeClient(inbox))
        return made[-1]

    monkeypatch.setattr(opening, "producer", make)
    monkeypatch.setattr(idempotent, "require", lambda *_: None)  # a fake has no properties to tell
    return made


def test_every_partition_gets_a_probe_a_beat_and_each_is_acked_once_with_its_offset(inbox: Recording) -> None:
    sender = producer(inbox)
    sender.start()
    inbox.wait(lambda: len(inbox.of(Acked)) >= 60)
    in_time(sender.stop(30))
    sent, acked = inbox.of(Sent), inbox.of(Acked)
    assert {fact.partition for fact in sent} == {0, 1, 2}
    for partition in range(3):
        assert [f.sequence for f in sent if f.partition == partition] == list(
            range(sum(f.partition == partition for f in sent))
        )
        offsets = {f.sequence: f.offset for f in acked if f.partition == partition}
        assert all(offsets[sequence] == sequence for sequence in offsets)
    assert len({(f.partition, f.sequence) for f in acked}) == len(acked)
    assert all(f.latency_ns is not None and 0 < f.latency_ns < 60_000_000_000 for f in acked)


def test_a_probe_is_told_before_the_client_has_it(inbox: Recording, fakes: list[FakeClient]) -> None:
    sender = producer(inbox)
    sender.start()
    inbox.wait(lambda: len(inbox.of(Sent)) >= 9)
    in_time(sender.stop(30))
    told = fakes[0].sent_before
    assert all(before >= nth for nth, before in enumerate(told, start=1))


def test_only_an_exception_of_produce_itself_is_a_failure(inbox: Recording, fakes: list[FakeClient]) -> None:
    sender = producer(inbox, partitions=[0], interval=0.05)
    sender.start()
    inbox.wait(lambda: len(inbox.of(Sent)) >= 2)
    fakes[0].raising = BufferError("Local: Queue full")
    inbox.wait(lambda: inbox.of(Failed))
    delivered = fakes[0].taken[0][1]
    fakes[0].report(delivered, KafkaError(KafkaError._MSG_TIMED_OUT))
    fakes[0].report(delivered, KafkaError(KafkaError._MSG_TIMED_OUT))
    inbox.wait(lambda: inbox.of(Indeterminate))
    in_time(sender.stop(30))
    (failed,) = inbox.of(Failed)
    assert "Queue full" in failed.error
    resolved = [(f.partition, f.sequence) for f in inbox.facts if isinstance(f, Acked | Failed | Indeterminate)]
    assert sorted(resolved) == sorted({(f.partition, f.sequence) for f in inbox.of(Sent)})


def test_an_ack_without_an_offset_says_so(inbox: Recording, fakes: list[FakeClient]) -> None:
    sender = producer(inbox, partitions=[0])
    sender.start()
    inbox.wait(lambda: len(inbox.of(Sent)) >= 4)
    for (_, delivered), offset in zip(fakes[0].taken[:3], (-1, -1001, 17), strict=True):
        fakes[0].report(delivered, None, Message(offset))
    inbox.wait(lambda: len(inbox.of(Acked)) == 3)
    in_time(sender.stop(30))
    assert [fact.offset for fact in inbox.of(Acked)] == [None, None, 17]


def test_a_partition_that_does_not_answer_is_not_given_more_and_holds_up_no_other(
    inbox: Recording, fakes: list[FakeClient]
) -> None:
    sender = producer(inbox, partitions=[0, 1], max_in_flight=3)
    sender.start()
    until(lambda: fakes and len(fakes[0].taken) == 6, 30, "all of them taken")  # a probe is told before it is taken
    for partition, delivered in list(fakes[0].taken):
        if partition == 1:
            fakes[0].report(delivered, KafkaError(KafkaError._MSG_TIMED_OUT))
    inbox.wait(lambda: sum(f.partition == 1 for f in inbox.of(Sent)) == 6)
    in_time(sender.stop(30))
    assert sum(f.partition == 0 for f in inbox.of(Sent)) == 3
    assert sender.skipped[0] > 0


def test_what_the_canary_itself_does_not_send_is_late_and_what_has_no_room_is_not(
    inbox: Recording, fakes: list[FakeClient]
) -> None:
    """An outage of the cluster is held against it, a queue that is full or a process that was frozen is not."""
    inbox.paused = True
    sender = producer(inbox, partitions=[0], max_in_flight=3)
    sender.start()
    inbox.wait(lambda: inbox.of(Skipped))
    assert all(one.late == one.count for one in inbox.of(Skipped))
    assert not fakes[0].taken
    inbox.paused = False
    inbox.wait(lambda: any(one.late < one.count for one in inbox.of(Skipped)))
    assert len(fakes[0].taken) == 3
    in_time(sender.stop(30))


def test_silence_is_answered_with_few_probes_and_slowness_is_not_taken_for_it(
    inbox: Recording, fakes: list[FakeClient]
) -> None:
    clock = StandingClock()
    sender = producer(inbox, partitions=[0], interval=0.005, patience_s=0.1, clock=clock)
    sender.start()
    inbox.wait(lambda: len(inbox.of(Sent)) >= 8)  # as long as the oldest is young
    assert sender.skipped[0] == 0
    clock.at_ns += 200_000_000
    until(lambda: sender.skipped[0], 30, "a beat skipped")  # it puts no fact to wait for
    before = len(inbox.of(Sent))
    until(lambda: sender.skipped[0] > 10, 30, "more of them skipped")
    assert len(inbox.of(Sent)) == before
    taken = list(fakes[0].taken)
    for _, delivered in taken[3:]:
        fakes[0].report(delivered, KafkaError(KafkaError._MSG_TIMED_OUT))
    inbox.wait(lambda: len(inbox.of(Sent)) == before + 1)  # three old ones: few, with one more
    few = sender.skipped[0]
    until(lambda: sender.skipped[0] > few + 10, 30, "beats skipped again")
    assert len(inbox.of(Sent)) == before + 1
    for _, delivered in taken[:3]:
        fakes[0].report(delivered, KafkaError(KafkaError._MSG_TIMED_OUT))
    inbox.wait(lambda: len(inbox.of(Sent)) > before + 8)
    in_time(sender.stop(30))


def test_a_fatal_error_ends_the_client_and_a_new_generation_counts_from_zero(
    inbox: Recording, fakes: list[FakeClient]
) -> None:
    asked: list[str] = []

    def renew(reason: str) -> Renewal:
        asked.append(reason)
        if len(asked) == 1:
            raise OSError("the store is away")
        return Renewal(9, TAG, [0])

    sender = producer(inbox, partitions=[0], renew=renew)
    sender.start()
    inbox.wait(lambda: len(inbox.of(Sent)) >= 3)
    fakes[0].raising = KafkaException(KafkaError(KafkaError._FATAL, "out of order", True))
    inbox.wait(lambda: any(fact.generation == 9 for fact in inbox.of(Sent)))
    in_time(sender.stop(30))
    assert len(asked) == 2
    assert "out of order" in asked[0]
    assert fakes[0].purged
    assert [fact.fatal for fact in inbox.of(ClientError)] == [True]
    old, new = ([f.sequence for f in inbox.of(Sent) if f.generation == generation] for generation in (1, 9))
    assert new[0] == 0
    given_up = [f.sequence for f in inbox.of(Indeterminate) if f.generation == 1]
    (refused,) = (f.sequence for f in inbox.of(Failed))
    assert sorted([*given_up, refused]) == old  # a stalled sender has more to send in the same beat
    facts = inbox.facts
    last_old = max(n for n, f in enumerate(facts) if isinstance(f, Indeterminate) and f.generation == 1)
    first_new = min(n for n, f in enumerate(facts) if isinstance(f, Sent) and f.generation == 9)
    assert last_old < first_new


def test_added_partitions_keep_client_and_sequences_a_new_incarnation_keeps_neither(
    inbox: Recording, fakes: list[FakeClient]
) -> None:
    sender = producer(inbox, partitions=[0])
    sender.start()
    inbox.wait(lambda: len(inbox.of(Sent)) >= 2)
    sender.retarget(1, TAG, [0, 1])
    inbox.wait(lambda: any(f.partition == 1 for f in inbox.of(Sent)))
    assert len(fakes) == 1
    sender.retarget(2, b"tag2", [0])
    inbox.wait(lambda: any(f.generation == 2 for f in inbox.of(Sent)))
    in_time(sender.stop(30))
    assert len(fakes) == 2
    for generation, partition in itertools.product((1, 2), (0, 1)):
        sequences = [f.sequence for f in inbox.of(Sent) if (f.generation, f.partition) == (generation, partition)]
        assert sequences == list(range(len(sequences)))


def test_what_is_in_flight_when_the_topic_is_made_again_is_of_the_generation_that_sent_it(
    inbox: Recording, fakes: list[FakeClient]
) -> None:
    sender = producer(inbox, partitions=[0], interval=3600)
    sender.start()
    inbox.wait(lambda: len(inbox.of(Sent)) == 1)
    until(lambda: fakes and len(fakes[0].taken) == 1, 30, "it is taken")
    sender.retarget(2, b"tag2", [0])
    inbox.wait(lambda: len(inbox.of(Sent)) == 2)
    assert [(f.generation, f.sequence) for f in inbox.of(Indeterminate)] == [(1, 0)]
    until(lambda: len(fakes[1].taken) == 1, 30, "the next one is taken, too")
    _, late = fakes[0].taken[0]
    fakes[1].report(late, None, Message(17))
    fakes[1].report(fakes[1].taken[0][1], None, Message(17))
    inbox.wait(lambda: inbox.of(Acked))
    in_time(sender.stop(30))
    assert [(f.generation, f.sequence) for f in inbox.of(Acked)] == [(2, 0)]


def test_stop_resolves_what_is_in_flight_though_no_report_comes(inbox: Recording, fakes: list[FakeClient]) -> None:
    sender = producer(inbox)
    sender.start()
    inbox.wait(lambda: len(inbox.of(Sent)) >= 9)
    in_time(sender.stop(20))  # it waits for half a second, plus what the machine is busy
    assert len(fakes[0].taken) == len(inbox.of(Indeterminate))
    assert sender.in_flight == 0


def test_reports_are_told_together_and_what_is_held_is_told_when_the_client_is_given_up(
    inbox: Recording, fakes: list[FakeClient]
) -> None:
    sender = producer(inbox)
    sender._open_client()
    for beat in range(2):
        sender._beat(1)
        for _, delivered in fakes[0].taken[3 * beat : 3 * beat + 2]:
            fakes[0].report(delivered, None, Message(17))
            sender._serve(0)
            assert len(inbox.of(Acked)) == 3 * beat
        if not beat:
            fakes[0].report(fakes[0].taken[2][1], None, Message(17))
            sender._serve(0)
            assert len(inbox.of(Acked)) == 3
    sender.end()
    assert (len(inbox.of(Acked)), len(inbox.of(Indeterminate))) == (5, 1)


def test_a_report_does_not_wait_for_another_that_never_comes(inbox: Recording, fakes: list[FakeClient]) -> None:
    sender = producer(inbox, interval=3600)
    sender.start()
    until(lambda: len(fakes) == 1 and len(fakes[0].taken) == 3, 30, "all of them taken")
    fakes[0].report(fakes[0].taken[0][1], None, Message(17))
    inbox.wait(lambda: len(inbox.of(Acked)) == 1)
    in_time(sender.stop(30))
    assert len(inbox.of(Indeterminate)) == 2


def test_a_producer_that_fails_resolves_what_is_in_flight(
    inbox: Recording, fakes: list[FakeClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else its probes would wait for an acknowledgement for ever: its successor knows nothing of them."""
    sender = producer(inbox)
    beat = sender._beat
    monkeypatch.setattr(sender, "_beat", lambda beats: 1 / 0 if len(inbox.of(Sent)) >= 6 else beat(beats))
    sender.start()
    until(lambda: not sender.alive, 30, "it has ended")
    assert isinstance(sender.failure, ZeroDivisionError)
    assert len(fakes[0].taken) == len(inbox.of(Indeterminate)) >= 6
    assert sender.in_flight == 0


def test_a_burst_is_handed_over_without_waiting_and_is_acked_in_its_order(inbox: Recording) -> None:
    sender = producer(inbox, interval=0.05, burst=50, linger=0.002, batch=2000, record_lengths=(64, 640), headers=1)
    sender.start()
    inbox.wait(lambda: len(inbox.of(Acked)) >= 600)
    in_time(sender.stop(30))
    sent = inbox.of(Sent)
    assert len([f for f in sent if f.at_ns == sent[0].at_ns]) == 150
    offsets = {(f.partition, f.sequence): f.offset for f in inbox.of(Acked)}
    assert all(offsets[partition, sequence] == sequence for partition, sequence in offsets)


def test_of_a_burst_what_has_no_room_is_skipped(inbox: Recording, fakes: list[FakeClient]) -> None:
    sender = producer(inbox, partitions=[0, 1], burst=8, max_in_flight=10)
    sender._open_client()
    sender._beat(1)
    assert (len(fakes[0].taken), sender.skipped.total()) == (16, 0)
    sender._beat(1)
    assert [f.partition for f in inbox.of(Sent)] == [0] * 8 + [1] * 8 + [0] * 2 + [1] * 2
    assert sender.skipped == {0: 6, 1: 6}
    sender.end()
    assert len(inbox.of(Indeterminate)) == 20


@pytest.mark.usefixtures("fakes")
def test_a_paused_sender_skips_whole_bursts(inbox: Recording) -> None:
    inbox.paused = True
    sender = producer(inbox, partitions=[0], interval=0.01, burst=5)
    sender.start()
    until(lambda: sender.skipped[0] >= 20, 30, "bursts skipped")
    in_time(sender.stop(30))
    assert sender.skipped[0] % 5 == 0
    assert inbox.of(Sent) == []
