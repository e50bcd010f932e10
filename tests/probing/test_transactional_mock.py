"""Transactions against librdkafka's mock cluster: each one that begins ends as exactly one fact."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from canary.facts import Aborted, Acked, CommitAsked, Committed, Sent, TransactionBegan, TransactionIndeterminate
from canary.probing.base import Renewal
from canary.probing.transactional import TransactionalProducer
from tests.support.recording import Recording
from tests.support.waiting import in_time
from tests.support.wiring import wired

if TYPE_CHECKING:
    from collections.abc import Iterator

TAG = b"tagg"
OUTCOMES = (Committed, Aborted, TransactionIndeterminate)


class Owner:
    def __init__(self, inbox: Recording) -> None:
        self.generation = 1
        self.reasons: list[str] = []
        self.inbox = inbox

    def renew(self, reason: str) -> Renewal:
        self.generation += 1
        self.reasons.append(reason)
        return Renewal(self.generation, TAG, (0, 1, 2))


@pytest.fixture
def inbox() -> Recording:
    return Recording()


@pytest.fixture
def owner(inbox: Recording) -> Owner:
    return Owner(inbox)


@pytest.fixture
def producer(inbox: Recording, owner: Owner) -> Iterator[TransactionalProducer]:
    part = TransactionalProducer(
        lambda one: {
            "test.mock.num.brokers": 1,
            "allow.auto.create.topics": True,
            "transactional.id": one,
            "transaction.timeout.ms": 10000,
            "message.timeout.ms": 10000,
        },
        wired(
            inbox,
            "transactional",
            under=Renewal(1, TAG, (0, 1, 2)),
            renew=owner.renew,
            interval=0.01,
            partitions=2,
            records=3,
            abort_percent=30,
            abandon_every=0.4,
            timeout=10,
            most_ids=3,
        ),
    )
    part.start()
    yield part
    in_time(part.stop(30))


def key(fact: Any) -> tuple[int, int, int]:
    return fact.producer_id, fact.generation, fact.transaction_id


def test_each_transaction_ends_as_exactly_one_fact(producer: TransactionalProducer, inbox: Recording) -> None:
    inbox.wait(lambda: len(inbox.of(Committed)) > 20 and len(inbox.of(Aborted)) > 5)
    in_time(producer.stop(30))
    began = Counter(key(fact) for fact in inbox.of(TransactionBegan))
    ended = Counter(key(fact) for kind in OUTCOMES for fact in inbox.of(kind))
    assert set(began.values()) == {1}
    assert began == ended


def test_what_is_committed_was_asked_for_and_acknowledged_before(
    producer: TransactionalProducer, inbox: Recording
) -> None:
    inbox.wait(lambda: len(inbox.of(Committed)) > 20)
    in_time(producer.stop(30))
    facts = inbox.facts
    kinds = (*OUTCOMES, TransactionBegan, CommitAsked)
    at = {(type(fact), key(fact)): i for i, fact in enumerate(facts) if isinstance(fact, kinds)}
    sent: dict[tuple[int, int, int], list[Sent]] = {}
    acked = {(a.partition, a.generation, a.sequence): i for i, a in enumerate(facts) if isinstance(a, Acked)}
    for fact in inbox.of(Sent):
        sent.setdefault(key(fact), []).append(fact)
    for committed in inbox.of(Committed):
        one = key(committed)
        assert at[TransactionBegan, one] < at[CommitAsked, one] < at[Committed, one]
        assert len(sent[one]) == 6
        assert all(acked[s.partition, s.generation, s.sequence] < at[CommitAsked, one] for s in sent[one])
    asked = {key(fact) for fact in inbox.of(CommitAsked)}
    assert {key(fact) for fact in inbox.of(Aborted)} & asked == set()


def test_one_left_open_is_followed_by_a_client_that_goes_on(producer: TransactionalProducer, inbox: Recording) -> None:
    inbox.wait(lambda: sum("left open" in (fact.error or "") for fact in inbox.of(Aborted)) >= 2)
    count = len(inbox.of(Committed))
    inbox.wait(lambda: len(inbox.of(Committed)) > count + 5)
    assert producer.alive


def test_sequences_have_no_gap_within_a_generation(producer: TransactionalProducer, inbox: Recording) -> None:
    inbox.wait(lambda: len(inbox.of(Committed)) > 20)
    in_time(producer.stop(30))
    following: Counter[tuple[int, int]] = Counter()
    for fact in inbox.of(Sent):
        place = (fact.generation, fact.partition)
        assert fact.sequence == following[place]
        following[place] += 1


def test_another_incarnation_of_the_topic_is_written_under_its_own_values(
    producer: TransactionalProducer, inbox: Recording
) -> None:
    inbox.wait(lambda: len(inbox.of(Committed)) > 3)
    producer.retarget(9, b"othr", (0,))
    inbox.wait(lambda: any(fact.generation == 9 for fact in inbox.of(Committed)))
    assert {fact.partition for fact in inbox.of(Sent) if fact.generation == 9} == {0}
