"""The raw requests on real brokers: what they answer, of which replica, and what the bytes hold."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic

from canary.kafka.responses import topic_id_of
from canary.watching.topic_ids import answers
from canary.wire.client import opened
from canary.wire.epochs import Boundaries, Boundary, EpochEnd, Led, boundaries, ends
from canary.wire.errors import WireError
from canary.wire.fetch import Fetched, fetch
from canary.wire.quorum import quorum
from canary.wire.records import Batch, Record, batches
from canary.wire.replicas import PartitionReplicas, described
from tests.support.waiting import in_time, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from canary.lab import Lab

pytestmark = [pytest.mark.kafka]

_numbers = itertools.count()
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(name="client")
def _client(lab: Lab) -> Iterator[Any]:
    with opened({"bootstrap.servers": lab.bootstrap}) as client:
        yield client


def topic(lab: Lab, replicas: int = 1, **settings: str) -> str:
    name = f"wire-{next(_numbers)}"
    config = {"retention.ms": "-1"} | {key.replace("_", "."): value for key, value in settings.items()}
    made = NewTopic(name, 1, replicas, config=config)
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    admin.create_topics([made])[name].result(30)
    return name


def produce(lab: Lab, name: str, records: list[tuple[bytes | None, bytes | None]], **config: str) -> None:
    producer = Producer({"bootstrap.servers": lab.bootstrap, "linger.ms": 200, **config})
    for number, (key, value) in enumerate(records):
        producer.produce(name, value, key, 0, timestamp=1000 + number, headers=[("n", b"%d" % number), ("none", None)])
    in_time(producer.flush(60) == 0, "all acknowledgements")


def everything(fetched: Fetched) -> list[tuple[Batch, list[Record]]]:
    return [(batch, list(batch.records())) for batch in batches(fetched.batches)]


def whole(client: Any, name: str, broker: int, end: int) -> Fetched:
    def there() -> Fetched | None:
        found = fetch(client, name, 0, broker, 0)
        return found if found.high_watermark == end else None

    found: Fetched = until(there, 60, "the replica has it all")
    return found


def placed(client: Any, name: str) -> dict[str, Any]:
    """Return where the topic's one partition is, once the broker that is asked has learned of it."""
    (state,) = until(lambda: client.describe_topics([name])[0]["partitions"], 60, f"topic {name} is described")
    found: dict[str, Any] = state
    return found


@pytest.mark.parametrize("writer", ["librdkafka", "java"])
def test_each_codec_is_read_as_it_was_written(lab: Lab, client: Any, writer: str) -> None:
    records = [(None if n % 3 else b"key-%d" % n, None if n % 7 == 6 else b"value %d " % n * 300) for n in range(200)]
    for codec in CODECS:
        java = writer == "java"  # the broker compresses again
        name = topic(lab, compression_type="uncompressed" if codec == "none" else codec) if java else topic(lab)
        produce(lab, name, records, **{} if java else {"compression.type": codec})
        found = everything(whole(client, name, placed(client, name)["leader_id"], 200))
        assert {batch.codec for batch, _ in found} == {codec}
        assert [
            (one.offset, one.timestamp_ms, one.key, one.value, one.headers) for _, many in found for one in many
        ] == [(n, 1000 + n, key, value, ((b"n", b"%d" % n), (b"none", None))) for n, (key, value) in enumerate(records)]
        assert [batch.last_offset + 1 for batch, _ in found[:-1]] == [batch.base_offset for batch, _ in found[1:]]
        assert {(one.leader_epoch, one.transactional, one.control) for one, _ in found} == {(0, False, False)}


def test_each_replica_answers_for_its_own_log(lab: Lab, client: Any) -> None:
    name = topic(lab, replicas=2)
    produce(lab, name, [(b"k", b"v")] * 10)
    state = placed(client, name)
    (follower,) = set(state["replica_nodes"]) - {state["leader_id"]}
    (stranger,) = set(lab.brokers) - set(state["replica_nodes"])
    of_leader, of_follower = (whole(client, name, broker, 10) for broker in (state["leader_id"], follower))
    assert of_leader.batches == of_follower.batches
    assert (of_follower.last_stable_offset, of_follower.log_start_offset) == (10, 0)
    for broker in state["replica_nodes"]:
        assert fetch(client, name, 0, broker, 10, wait_ms=0).batches == b""
        with pytest.raises(WireError, match="from offset 11 on") as beyond:
            fetch(client, name, 0, broker, 11, wait_ms=0)
        assert beyond.value.code == "OFFSET_OUT_OF_RANGE"
    for broker, place, code in (
        (stranger, name, "NOT_LEADER_OR_FOLLOWER"),
        (stranger, "no-such-topic", "UNKNOWN_TOPIC_OR_PARTITION"),
        (77, name, ""),
    ):
        with pytest.raises(WireError) as refused:
            fetch(client, place, 0, broker, 0, wait_ms=0)
        assert refused.value.code == code, refused.value
    limited = fetch(client, name, 0, follower, 3, max_bytes=10)
    (batch,) = batches(limited.batches)
    assert batch.base_offset <= 3 <= batch.last_offset, "at least one whole batch, with the offset"


def test_a_transaction_has_its_marker(lab: Lab, client: Any) -> None:
    name = topic(lab)
    producer = Producer({"bootstrap.servers": lab.bootstrap, "transactional.id": name})
    producer.init_transactions(60)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        producer.produce(name, b"v", partition=0)
        producer.flush(60)
        end(60)
    leader = placed(client, name)["leader_id"]
    found = [batch for batch, _ in everything(whole(client, name, leader, 4))]
    assert [batch.marker() for batch in found] == [None, "commit", None, "abort"]
    assert {(batch.transactional, batch.producer_id, batch.producer_epoch) for batch in found[:1]} == {
        (True, found[1].producer_id, 0)
    }
    assert found[0].producer_id >= 0


@pytest.mark.quick
def test_epochs_have_exact_boundaries_and_who_is_in_sync_is_known_by_each_broker(lab: Lab, client: Any) -> None:
    name = topic(lab, replicas=3)

    def state(broker: int | None = None) -> PartitionReplicas:
        found = described(client, [name], broker)[name]
        assert not isinstance(found, WireError), found
        return found[0]

    produce(lab, name, [(None, b"v")] * 5)
    first = until(lambda: one if len((one := state()).isr) == 3 else None, 30, "all are in sync")
    assert (first.leader_epoch, first.elr, first.last_known_elr, first.offline) == (
        0,
        frozenset(),
        frozenset(),
        frozenset(),
    )
    lab.restart(first.leader)
    until(lambda: len(state().isr) == 3, 60, "it is back in sync")
    produce(lab, name, [(None, b"v")] * 7)

    def settled() -> tuple[PartitionReplicas, int] | None:
        with contextlib.suppress(WireError):  # a broker that no other one knows yet is not asked
            return agreed({state(broker) for broker in lab.brokers})
        return None

    def agreed(seen: set[PartitionReplicas]) -> tuple[PartitionReplicas, int] | None:
        (one, *others) = seen
        return None if others or one.leader is None or one.leader_epoch == 0 else (one, one.leader)

    second, leader = until(settled, 60, "all brokers know the same")
    led = {(name, 0): Led(leader, second.leader_epoch)}
    (found,) = boundaries(client, led).values()
    assert isinstance(found, Boundaries), found
    assert (found.epochs[0], found.end_offset, found.whole) == (Boundary(0, 0), 12, True)
    assert {one.start_offset for one in found.epochs[1:]} == {5}
    assert found.epochs[-1].epoch == second.leader_epoch
    assert ends(client, {(name, 0): (led[name, 0], 0)}) == {(name, 0): EpochEnd(0, 5)}
    ((stale,),) = [ends(client, {(name, 0): (Led(leader, 0), 0)}).values()]
    assert isinstance(stale, WireError)
    assert stale.code == "FENCED_LEADER_EPOCH"
    (follower, *_) = set(second.replicas) - {leader}
    (other,) = ends(client, {(name, 0): (Led(follower), 0)}).values()
    assert isinstance(other, WireError)
    assert other.code == "NOT_LEADER_OR_FOLLOWER"
    absent = described(client, [name, "no-such-topic"])["no-such-topic"]
    assert isinstance(absent, WireError)
    assert absent.code == "UNKNOWN_TOPIC_OR_PARTITION"


def test_the_quorum_has_its_real_leader(lab: Lab, client: Any) -> None:
    found = quorum(client)
    assert (found.leader, [one.node for one in found.voters]) == (lab.controllers[0], list(lab.controllers))
    assert [one.node for one in found.observers] == list(lab.brokers)
    assert found.epoch >= 1
    assert all(one.lag is not None and one.caught_up_ms is not None for one in found.observers)
    assert found.voters[0].lag == 0


def test_each_broker_gives_the_id_of_a_topic_that_clients_are_given(lab: Lab) -> None:
    name = topic(lab, replicas=3)
    config = {"bootstrap.servers": lab.bootstrap}
    admin = AdminClient(config)
    told = topic_id_of(admin.describe_topics(TopicCollection([name]))[name].result(30))

    def everywhere() -> bool:
        seen = answers(config, [name])
        assert (seen.brokers, seen.controller in seen.brokers) == (sorted(lab.brokers), True)
        return seen.topics == {broker: {name: (told, 1)} for broker in lab.brokers}

    until(everywhere, 30, "all brokers know the topic")
