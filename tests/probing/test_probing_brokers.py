"""Sending, reading on and reading again on real brokers, while they are well and while they are not."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from canary.anomalies.violation import RereadRequest
from canary.facts import (
    Aborted,
    Acked,
    ClientError,
    Committed,
    EndOfPartition,
    Failed,
    Indeterminate,
    OutOfRange,
    Polled,
    Positioned,
    ProducerEpochBumped,
    Refused,
    Relayed,
    RereadEnded,
    Sent,
)
from canary.kafka.topic_creation import TopicError, ensure_topic
from canary.lab import CONTROLLER
from canary.probing.base import Renewal
from canary.probing.idempotent import IdempotentProducer
from canary.probing.readers.reread import RereadWorker
from canary.probing.readers.tail import Start, TailConsumer
from canary.probing.relay import Relay
from canary.threads.ports import SteadyClock
from tests.support.topics import as_known
from tests.support.waiting import in_time, until
from tests.support.wiring import TAG, wired

if TYPE_CHECKING:
    from collections.abc import Callable

    from canary.facts import Isolation
    from canary.kafka.topic_creation import Found
    from canary.lab import Lab
    from tests.support.recording import Recording

pytestmark = pytest.mark.kafka

CLOCK = SteadyClock()


def sender(config: dict[str, object], topic: str, inbox: Recording, **others: Any) -> IdempotentProducer:
    bounds: dict[str, Any] = {  # a stop waits for an ack on a busy machine
        "flush_s": others.pop("flush_s", 30),
        **{name: others.pop(name) for name in ("max_in_flight", "patience_s") if name in others},
    }
    under = Renewal(others.pop("generation", 1), TAG, others.pop("partitions", range(3)))
    values = {"interval": 0.05, "clock": CLOCK, "renew": lambda _: Renewal(2, TAG, range(3)), **others}
    return IdempotentProducer(config, wired(inbox, topic=topic, under=under, **values), **bounds)


def tail(
    config: dict[str, object],
    topic: str,
    inbox: Recording,
    isolation: Isolation = "read_committed",
    positions: dict[int, int] | None = None,
) -> TailConsumer:
    at = positions or dict.fromkeys(range(3), 0)
    return TailConsumer(config, isolation, isolation, topic, Start(at, TAG), inbox, CLOCK)


def rereader(config: dict[str, object], inbox: Recording, **others: Any) -> RereadWorker:
    return RereadWorker(lambda: config, lambda _: TAG, inbox, CLOCK, **others)


def identities(facts: list[Any]) -> set[tuple[int, int, int]]:
    return {(fact.generation, fact.partition, fact.sequence) for fact in facts}


def stopped(producer: IdempotentProducer) -> None:
    in_time(producer.stop(45))


def test_where_the_broker_stamps_records_its_clock_is_told(
    config: dict[str, object], admin: AdminClient, inbox: Recording, started: Callable[[Any], Any]
) -> None:
    settings = {"min.insync.replicas": "2", "message.timestamp.type": "LogAppendTime"}
    ensure_topic(admin, "stamped", 3, 3, settings, timeout_s=60)
    assert started(tail(config, "stamped", inbox)).ready.wait(120)
    stopped_after = started(sender(config, "stamped", inbox))
    inbox.wait(lambda: len(inbox.of(Polled)) >= 10, 120)
    stopped(stopped_after)
    for fact in inbox.of(Polled):
        sent_ns, stamp_ns = fact.sent_at_ns or 0, (fact.timestamp_ms or 0) * 1_000_000
        assert sent_ns - 1_000_000 <= stamp_ns <= fact.at_ns + 1_000_000, "one machine, one clock"


def test_what_is_acked_is_read_at_its_offset_by_both_readers(
    config: dict[str, object], topic: str, inbox: Recording, started: Callable[[Any], Any]
) -> None:
    for isolation in ("read_committed", "read_uncommitted"):
        in_time(started(tail(config, topic, inbox, isolation)).ready.wait(120), "what is waited for")
    producer = started(sender(config, topic, inbox))
    inbox.wait(lambda: len(inbox.of(Acked)) >= 90, 120)
    stopped(producer)
    acked = {(f.partition, f.sequence): f.offset for f in inbox.of(Acked)}
    assert len(acked) == len(inbox.of(Sent))
    inbox.wait(lambda: len(inbox.of(Polled)) >= 2 * len(acked))
    for isolation in ("read_committed", "read_uncommitted"):
        polled = [f for f in inbox.of(Polled) if f.consumer == isolation]
        assert {(f.partition, f.sequence): f.offset for f in polled} == acked
        assert all(f.leader_epoch is not None and f.sent_at_ns for f in polled)
        assert {f.timestamp_ms for f in polled} == {None}, "the topic has CreateTime: it would be our own"
        assert all(0 < f.at_ns - (f.sent_at_ns or 0) < 120_000_000_000 for f in polled)
    inbox.wait(lambda: {f.offset for f in inbox.of(EndOfPartition)} >= {max(v for v in acked.values() if v) + 1})


@pytest.mark.quick
def test_no_probe_is_left_without_outcome_when_a_broker_is_killed_and_another_frozen(
    lab: Lab, config: dict[str, object], topic: str, inbox: Recording, started: Callable[[Any], Any]
) -> None:
    in_time(started(tail(config, topic, inbox)).ready.wait(120), "what is waited for")
    producer = started(sender(config, topic, inbox, interval=0.1))
    inbox.wait(lambda: len(inbox.of(Acked)) >= 30, 120)
    lab.kill(1)
    before = len(inbox.facts)
    inbox.wait(lambda: {f.partition for f in inbox.of(Acked, since=before)} == {0, 1, 2}, 120)
    lab.start_broker(1)
    for partition in range(3):
        lab.wait_isr(topic, partition, {1, 2, 3}, 120)
    lab.pause(2)
    before = len(inbox.facts)
    frozen = len(inbox.of(Sent))
    inbox.wait(
        lambda: {f.partition for f in inbox.of(Acked, since=before) if f.sequence * 3 > frozen + 60} == {0, 1, 2}, 120
    )
    lab.resume(2)
    inbox.wait(lambda: producer.in_flight < 10, 120)
    stopped(producer)
    resolved = [f for f in inbox.facts if isinstance(f, Acked | Failed | Indeterminate)]
    assert identities(resolved) == identities(inbox.of(Sent))
    assert len(resolved) == len(inbox.of(Sent))
    inbox.wait(lambda: identities(inbox.of(Polled)) >= identities(inbox.of(Acked)), 120)
    assert inbox.of(OutOfRange) == []


def test_a_new_producer_epoch_is_told_before_the_outcome_of_what_is_sent_under_it(
    lab: Lab, config: dict[str, object], topic: str, inbox: Recording, started: Callable[[Any], Any]
) -> None:
    """librdkafka takes one when a message times out that may have been written (and in other cases, its issue 4953)."""
    impatient = config | {"message.timeout.ms": 2500, "socket.timeout.ms": 1000}
    producer = started(sender(impatient, topic, inbox))
    inbox.wait(lambda: len(inbox.of(Acked)) >= 30, 120)
    leader = lab.leader(topic, 0)
    assert leader is not None
    before = len(inbox.facts)  # a stall may have cost an epoch already
    lab.pause(leader)
    inbox.wait(lambda: inbox.of(ProducerEpochBumped, since=before), 120)
    lab.resume(leader)
    bump = inbox.of(ProducerEpochBumped, since=before)[0]
    assert (bump.topic, bump.producer_id, bump.generation) == (topic, 7, 1)
    before = len(inbox.facts)
    inbox.wait(lambda: {f.partition for f in inbox.of(Acked, since=before)} == {0, 1, 2}, 120)
    stopped(producer)


def test_a_reread_gives_the_range_and_nothing_else(
    config: dict[str, object], admin: AdminClient, topic: str, inbox: Recording, started: Callable[[Any], Any]
) -> None:
    stopped_at = filled(config, topic, inbox, started, 20)
    reader = started(rereader(config, inbox, silence_s=30))
    reader.ask(RereadRequest(1, topic, 0, "read_committed", 5, 12, "confirm"))
    reader.ask(RereadRequest(2, topic, 1, "read_uncommitted", 15, stopped_at[1] + 10, "epoch"))
    admin.delete_records([TopicPartition(topic, 2, 8)])[TopicPartition(topic, 2)].result(60)
    reader.ask(RereadRequest(3, topic, 2, "read_committed", 5, 12, "start"))
    reader.ask(RereadRequest(4, topic, 2, "read_committed", 0, 6, "start"))
    reader.ask(RereadRequest(5, "no-such-topic", 0, "read_committed", 0, 6, "start"))
    inbox.wait(lambda: len(inbox.of(RereadEnded)) == 5, 120)
    ended = {f.request_id: f for f in inbox.of(RereadEnded)}

    def offsets(request: int) -> list[int]:
        return [f.offset for f in inbox.of(Polled) if f.consumer == f"reread-{request}"]

    assert (ended[1].reached, ended[1].complete, ended[1].error, offsets(1)) == (12, True, None, list(range(5, 12)))
    assert (ended[2].reached, ended[2].complete) == (stopped_at[1], False)
    assert ended[2].error == f"end of log at {stopped_at[1]}"
    assert (ended[3].reached, ended[3].complete, offsets(3)) == (12, True, list(range(8, 12)))
    assert ended[3].error == "the log starts at 8"
    assert (ended[4].complete, offsets(4)) == (True, [])
    assert not ended[5].complete
    assert "UNKNOWN" in (ended[5].error or "")


def filled(
    config: dict[str, object], topic: str, inbox: Recording, started: Callable[[Any], Any], each: int
) -> dict[int, int]:
    """Write at least ``each`` probes to every partition; return the end of each."""
    producer = started(sender(config, topic, inbox, interval=0.01))
    inbox.wait(lambda: all(sum(f.partition == p for f in inbox.of(Acked)) >= each for p in range(3)), 120)
    stopped(producer)
    return {p: 1 + max(f.offset or 0 for f in inbox.of(Acked) if f.partition == p) for p in range(3)}


def test_silence_ends_a_reread_and_a_dead_partition_does_not_hold_up_the_rest(
    lab: Lab, config: dict[str, object], topic: str, inbox: Recording, started: Callable[[Any], Any]
) -> None:
    filled(config, topic, inbox, started, 10)
    lab.pause(CONTROLLER)  # nobody else becomes leader: the partition stays dead
    dead = lab.leader(topic, 0)
    assert dead is not None
    alive = next(p for p in range(3) if lab.leader(topic, p) != dead)
    lab.pause(dead)
    hasty = started(rereader(config, inbox, silence_s=2.0))
    hasty.ask(RereadRequest(10, topic, 0, "read_committed", 0, 5, "confirm"))
    inbox.wait(lambda: inbox.of(RereadEnded))
    (silent,) = inbox.of(RereadEnded)
    assert (silent.request_id, silent.reached, silent.complete) == (10, 0, False)
    before = len(inbox.facts)
    reader = started(rereader(config, inbox, silence_s=60.0, threads=2))  # the live one ends long before
    for number in range(5):
        reader.ask(RereadRequest(number, topic, 0, "read_committed", 0, 5, "confirm"))
    reader.ask(RereadRequest(9, topic, alive, "read_committed", 0, 5, "confirm"))
    inbox.wait(lambda: any(f.request_id == 9 for f in inbox.of(RereadEnded, since=before)), 120)
    ended = inbox.of(RereadEnded, since=before)
    assert [f.request_id for f in ended].index(9) <= 1  # asked last
    assert [f.complete for f in ended if f.request_id == 9] == [True]
    in_time(reader.stop(20))  # with a re-read of the dead one under way


def test_a_position_that_expired_is_told_and_reading_goes_on_where_the_log_begins(
    config: dict[str, object], admin: AdminClient, topic: str, inbox: Recording, started: Callable[[Any], Any]
) -> None:
    filled(config, topic, inbox, started, 20)
    admin.delete_records([TopicPartition(topic, 0, 12)])[TopicPartition(topic, 0)].result(60)
    in_time(started(tail(config, topic, inbox)).ready.wait(120), "what is waited for")
    inbox.wait(lambda: [f for f in inbox.of(Polled) if f.partition == 0])
    (gone,) = inbox.of(OutOfRange)
    assert (gone.partition, gone.offset) == (0, 0)
    placed = [f for f in inbox.of(Positioned) if f.partition == 0]
    assert [(f.offset, f.reason) for f in placed] == [(0, "assigned"), (12, "expired: the log starts at 12")]
    assert next(f.offset for f in inbox.of(Polled) if f.partition == 0) == 12
    inbox.wait(lambda: {f.partition for f in inbox.of(Polled)} >= {1, 2})


def test_a_topic_made_again_is_read_from_its_beginning_after_retargeting(
    lab: Lab, config: dict[str, object], admin: AdminClient, topic: str, inbox: Recording, started: Callable[[Any], Any]
) -> None:
    reader = started(tail(config, topic, inbox))
    in_time(reader.ready.wait(120), "what is waited for")
    producer = started(sender(config, topic, inbox))
    inbox.wait(lambda: len(inbox.of(Polled)) >= 30, 120)
    first = ensure_topic(admin, topic, 3, 3, {}, timeout_s=60)
    admin.delete_topics([topic])[topic].result(60)

    def made_again() -> Found | None:
        try:
            found = ensure_topic(admin, topic, 4, 3, {"min.insync.replicas": "2"})
        except TopicError:
            return None
        return found if found.topic_id != first.topic_id else None

    assert until(made_again, 60, "the topic made again").partitions == 4
    until(lambda: all(states and len(states) == 4 for states in as_known(lab, topic)), 30, "every broker knows it")
    before = len(inbox.facts)
    reader.retarget(dict.fromkeys(range(4), 0), b"tag2", "another")
    producer.retarget(2, b"tag2", range(4))
    inbox.wait(lambda: {f.partition for f in inbox.of(Polled, since=before) if f.generation == 2} == set(range(4)), 120)
    stopped(producer)
    polled = [f for f in inbox.of(Polled) if f.generation == 2]
    assert {f.partition for f in polled if f.sequence == 0} == set(range(4))
    put = [f.topic_id for f in inbox.of(Positioned)]
    assert put[-4:] == ["another"] * 4, "by its order, and never before"
    assert not any(put[:-4])
    assert [f for f in inbox.of(Refused) if f.refusal != "foreign"] == []
    resolved = [f for f in inbox.facts if isinstance(f, Acked | Failed | Indeterminate)]
    assert identities(resolved) == identities(inbox.of(Sent))


@pytest.mark.quick
def test_acked_writes_that_are_cut_off_kill_the_client_and_move_the_reader_back_and_both_go_on(
    lab: Lab, config: dict[str, object], admin: AdminClient, inbox: Recording, started: Callable[[Any], Any]
) -> None:
    """The order of why-fsync, on one partition with replicas [leader 2, follower 3, 1] (FIELD-NOTES)."""
    topic = "why-fsync"
    new = NewTopic(topic, replica_assignment=[[2, 3, 1]], num_partitions=1, config={"min.insync.replicas": "2"})
    lab.wait_ready()
    admin.create_topics([new])[topic].result(60)
    lab.wait_isr(topic, 0, {1, 2, 3}, 120)
    assert started(tail(config, topic, inbox, positions={0: 0})).ready.wait(120)
    asked: list[str] = []

    def renew(reason: str) -> Renewal:
        asked.append(reason)
        return Renewal(2, TAG, [0])

    lab.kill(1)
    lab.wait_isr(topic, 0, {2, 3}, 120)
    # no write times out before the brokers are back, and no second request in flight decides what the client is told
    lasting = config | {"message.timeout.ms": 900000, "max.in.flight.requests.per.connection": 1}
    producer = started(sender(lasting, topic, inbox, partitions=[0], renew=renew))
    inbox.wait(lambda: len(inbox.of(Acked)) >= 60, 120)
    lab.pause(3)
    lab.wait_isr(topic, 0, {2}, 120)
    inbox.wait(lambda: identities(inbox.of(Polled)) >= identities(inbox.of(Acked)))
    lab.kill(2)
    some = max(f.offset for f in inbox.of(Polled)) - 2
    kept = lab.truncate(2, topic, 0, to_offset=some).after  # what stays holds records of this producer
    before = len(inbox.facts)
    lab.start_broker(2)
    lab.start_broker(1)
    inbox.wait(lambda: inbox.of(OutOfRange, since=before), 120)
    inbox.wait(lambda: any(f.generation == 2 for f in inbox.of(Acked)), 120)
    (cut,) = inbox.of(OutOfRange)
    facts = inbox.facts
    assert cut.offset == 1 + max(f.offset for f in facts[: facts.index(cut)] if isinstance(f, Polled))
    inbox.wait(lambda: inbox.of(Positioned, since=before))
    assert inbox.of(Positioned, since=before)[0].offset == kept
    assert asked
    assert [f for f in inbox.of(ClientError) if f.fatal]
    stopped(producer)
    inbox.wait(lambda: identities(inbox.of(Polled)) >= identities([f for f in inbox.of(Acked) if f.generation == 2]))
    resolved = [f for f in inbox.facts if isinstance(f, Acked | Failed | Indeterminate)]
    assert identities(resolved) == identities(inbox.of(Sent))


def test_a_rebalance_in_a_relays_transaction_aborts_it_and_everything_is_taken_once(
    lab: Lab, config: dict[str, object], admin: AdminClient, topic: str, inbox: Recording, started: Callable[[Any], Any]
) -> None:
    out = f"{topic}-relay"
    lab.wait_ready()
    ensure_topic(admin, out, 3, 3, {"min.insync.replicas": "2"}, timeout_s=60)
    started(sender(config, topic, inbox))
    relay = Relay(
        {**config, "transactional.id": out, "transaction.timeout.ms": 60000, "message.timeout.ms": 60000},
        {**config, "group.id": out, "session.timeout.ms": 6000, "heartbeat.interval.ms": 300},
        topic,
        wired(
            inbox,
            "relay",
            out,
            producer_id=9,
            clock=CLOCK,
            renew=lambda _: Renewal(2, TAG, range(3)),
            interval=0.2,
            timeout=5.0 / 0.6,
            rebalance_every=3.0,
        ),
    )
    started(relay)
    inbox.wait(lambda: sum("rebalance" in (f.error or "") for f in inbox.of(Aborted)) >= 2, 180)
    aborted = len(inbox.facts)

    def taken(partition: int) -> list[tuple[int, int]]:
        committed = {(f.generation, f.transaction_id) for f in inbox.of(Committed)}
        told = [f for f in inbox.of(Relayed) if (f.generation, f.transaction_id) in committed]
        return sorted((f.start, f.end) for f in told if f.partition == partition)

    inbox.wait(lambda: len(inbox.of(Committed, since=aborted)) >= 5 and all(len(taken(p)) > 3 for p in range(3)), 180)
    for ranges in map(taken, range(3)):
        assert [end for _, end in ranges[:-1]] == [start for start, _ in ranges[1:]]


def test_frozen_brokers_cost_no_core_and_do_not_hold_up_the_stop(
    lab: Lab, config: dict[str, object], topic: str, inbox: Recording, started: Callable[[Any], Any]
) -> None:
    readers = [started(tail(config, topic, inbox, i)) for i in ("read_committed", "read_uncommitted")]
    producer = started(sender(config, topic, inbox, interval=0.1, flush_s=0.5))
    inbox.wait(lambda: len(inbox.of(Polled)) >= 60, 120)
    for broker in lab.brokers:
        lab.pause(broker)
    began, used = time.monotonic(), time.process_time()
    time.sleep(8)  # what is measured is what happens in this time
    share = (time.process_time() - used) / (time.monotonic() - began)
    for part in (producer, *readers):
        part.ask_stop()
    assert all([part.stop(30) for part in (producer, *readers)])  # noqa: C419  # what waits for a broker waits minutes
    assert share < 0.5  # what spins takes a core
    resolved = [f for f in inbox.facts if isinstance(f, Acked | Failed | Indeterminate)]
    assert identities(resolved) == identities(inbox.of(Sent))


def test_an_existing_topic_is_taken_as_it_is(lab: Lab, admin: AdminClient) -> None:
    lab.wait_ready()
    new = NewTopic("theirs", replica_assignment=[[2], [2]], num_partitions=2, config={"retention.ms": "5000"})
    admin.create_topics([new])["theirs"].result(60)
    found = ensure_topic(admin, "theirs", 6, 3, {"min.insync.replicas": "2"}, timeout_s=60)
    assert (found.partitions, found.created) == (2, False)
    assert found.topic_id


def test_a_topic_is_not_made_with_fewer_brokers_than_replicas(admin: AdminClient) -> None:
    with pytest.raises(TopicError, match=r"replication factor 4: the cluster has [1-3] live brokers"):
        ensure_topic(admin, "too-wide", 3, 4, {}, timeout_s=60)
    assert "too-wide" not in admin.list_topics(timeout=30).topics


def test_a_cluster_that_does_not_answer_is_not_a_cluster_without_the_topic() -> None:
    nobody = AdminClient({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
    with pytest.raises(TopicError, match="Nothing was concluded"):
        ensure_topic(nobody, "canary", 3, 3, {}, timeout_s=1.0)
