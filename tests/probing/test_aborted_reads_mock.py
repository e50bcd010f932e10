"""librdkafka's mock cluster shows aborted records to read_committed readers: the canary must say so of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from canary.anomalies.online import Tracker
from canary.facts import Aborted, GenerationBegan, Polled, RunnerStarted, Sent
from canary.kafka.quiet import calm
from canary.probing.base import Renewal
from canary.probing.readers import consumer as reading
from canary.probing.readers.tail import Start, TailConsumer
from canary.probing.transactional import TransactionalProducer
from canary.threads.ports import SteadyClock
from simulation.histories.retelling import one_by_one
from tests.support.recording import Recording
from tests.support.waiting import in_time
from tests.support.wiring import wired

if TYPE_CHECKING:
    from canary.facts import Fact

TAG, TOPIC = b"tagg", "t"


@pytest.fixture(autouse=True)
def no_checksums(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mock cluster writes transaction markers without a checksum."""

    def lenient(config: Any, client: str, *, forced: Any) -> dict[str, Any]:
        return calm(config, client, forced={**forced, "check.crcs": False})

    monkeypatch.setattr(reading, "calm", lenient)


def test_each_aborted_record_that_is_shown_is_flagged_within_a_second_of_its_reading() -> None:
    cluster = Producer({"test.mock.num.brokers": 1, "allow.auto.create.topics": True})
    cluster.produce(TOPIC, b"not ours", partition=0)
    in_time(cluster.flush(60) == 0, "all acknowledgements")
    address = next(iter(cluster.list_topics(timeout=30).brokers.values()))
    config: dict[str, Any] = {"bootstrap.servers": f"{address.host}:{address.port}"}
    inbox, clock = Recording(), SteadyClock()
    tail = TailConsumer(config, "read_committed", "read_committed", TOPIC, Start({0: 0}, TAG), inbox, clock)
    producer = TransactionalProducer(
        lambda one: config | {"transactional.id": one, "transaction.timeout.ms": 20000, "message.timeout.ms": 10000},
        wired(
            inbox,
            "transactional",
            TOPIC,
            clock=clock,
            under=Renewal(1, TAG, (0,)),
            renew=lambda _reason: Renewal(2, TAG, (0,)),
            interval=0.05,
            partitions=1,
            abort_percent=50,
            abandon_every=3600,
            timeout=20,
            most_ids=1,
        ),
    )
    inbox.put(
        [RunnerStarted(clock.now_ns(), "r", "test"), GenerationBegan(clock.now_ns(), TOPIC, "transactional", 7, 1)]
    )
    tail.start()
    producer.start()
    try:
        inbox.wait(lambda: len(inbox.of(Aborted)) >= 10)
        in_time(producer.stop(30))
        aborted = {(fact.generation, fact.transaction_id) for fact in inbox.of(Aborted)}
        expected = {(s.generation, s.sequence) for s in inbox.of(Sent) if (s.generation, s.transaction_id) in aborted}
        inbox.wait(lambda: expected <= {(p.generation, p.sequence) for p in inbox.of(Polled)})
    finally:
        for part in (producer, tail):
            part.ask_stop()
        ended_too = [part.stop(30) for part in (producer, tail)]
    assert all(ended_too)
    flagged = folded(inbox.facts)
    assert set(flagged) == expected
    assert len(expected) >= 20
    known = {(p.generation, p.sequence): p.at_ns for p in inbox.of(Polled)}
    ended = {(fact.generation, fact.transaction_id): fact.at_ns for fact in inbox.of(Aborted)}
    of = {(s.generation, s.sequence): (s.generation, s.transaction_id) for s in inbox.of(Sent)}
    late = {key: at_ns - max(known[key], ended[of[key]]) for key, at_ns in flagged.items()}  # type: ignore[index]
    assert max(late.values()) < 1_000_000_000


def folded(facts: list[Fact]) -> dict[tuple[int, int], int]:
    """Fold fact by fact; return by (generation, sequence) of what G1a is said, and at which fact's time."""
    tracker = Tracker()
    found: dict[tuple[int, int], int] = {}
    for fact in facts:
        tracker.fold([fact])
        for violation in (one for several in tracker.drain().violations for one in one_by_one(several)):
            if violation.kind == "G1a" and violation.identity is not None:
                key = (violation.identity.generation, violation.identity.sequence)
                assert key not in found, "each is flagged once"
                found[key] = fact.at_ns
    return found
