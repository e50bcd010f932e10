"""Records and batches as applications send them, on real brokers: what is acknowledged comes back in order."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from canary.facts import Acked, Failed, Indeterminate, Polled, ProducerEpochBumped, Refused, Sent
from canary.probing.base import Renewal
from canary.probing.idempotent import IdempotentProducer
from canary.probing.readers.tail import Start, TailConsumer
from canary.threads.ports import SteadyClock
from tests.support.process import Canary
from tests.support.waiting import in_time
from tests.support.wiring import TAG, wired

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from canary.lab import Lab
    from tests.support.recording import Recording

pytestmark = pytest.mark.kafka

CLOCK = SteadyClock()
BURST: dict[str, Any] = {
    "interval": 0.1,
    "burst": 40,
    "linger": 0.002,
    "batch": 2000,
    "in_flight": 5,
    "record_lengths": (64, 96, 1024),
}
CODECS = {"none": "random", "gzip": "repeated", "snappy": "repeated", "lz4": "random", "zstd": "repeated"}


def sender(config: dict[str, object], topic: str, inbox: Recording, **others: Any) -> IdempotentProducer:
    under = Renewal(others.pop("generation", 1), TAG, range(3))
    values = {**BURST, "clock": CLOCK, "renew": lambda _: Renewal(100, TAG, range(3)), **others}
    return IdempotentProducer(config, wired(inbox, topic=topic, under=under, **values), flush_s=60)


def tail(config: dict[str, object], topic: str, inbox: Recording) -> TailConsumer:
    at = Start(dict.fromkeys(range(3), 0), TAG)
    return TailConsumer(config, "read_committed", "read_committed", topic, at, inbox, CLOCK)


def placed(facts: list[Any]) -> dict[tuple[int, int, int], int]:
    return {(fact.generation, fact.partition, fact.sequence): fact.offset for fact in facts}


def in_order(facts: list[Any]) -> bool:
    """Say whether in each partition of a generation the order of sequence numbers is the order of offsets."""
    by_stream: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
    for (generation, partition, _), offset in sorted(placed(facts).items()):
        by_stream[generation, partition].append(offset)
    return all(offsets == sorted(offsets) for offsets in by_stream.values())


def wait_acked(inbox: Recording, count: int) -> None:
    inbox.wait(lambda: len(inbox.of(Acked)) >= count, 120)


def test_bursts_of_each_codec_with_headers_and_without_keys_come_back_whole(
    config: dict[str, object], topic: str, inbox: Recording, started: Callable[[Any], Any]
) -> None:
    in_time(started(tail(config, topic, inbox)).ready.wait(120), "what is waited for")
    for generation, (codec, filling) in enumerate(CODECS.items()):
        shape = {"compression": codec, "filling": filling, "headers": 3, "key": "none"}
        producer = started(sender(config, topic, inbox, generation=generation, **shape))
        wait_acked(inbox, 480 + len(inbox.of(Acked)))
        in_time(producer.stop(90))
    acked = placed(inbox.of(Acked))
    assert len(acked) == len(inbox.of(Sent))
    inbox.wait(lambda: len(inbox.of(Polled)) >= len(acked), 120)
    assert placed(inbox.of(Polled)) == acked
    assert {generation for generation, _, _ in acked} == set(range(len(CODECS)))
    assert in_order(inbox.of(Polled))
    assert inbox.of(Refused) == []


@pytest.mark.quick
def test_a_leader_that_dies_with_five_batches_in_flight_puts_nothing_out_of_order(
    lab: Lab, config: dict[str, object], topic: str, inbox: Recording, started: Callable[[Any], Any]
) -> None:
    """What is sent again has its sequence number (idempotent-producer, "Pipelining": M1, M3, M2 without it)."""
    in_time(started(tail(config, topic, inbox)).ready.wait(120), "what is waited for")
    producer = started(sender(config, topic, inbox))
    inbox.wait(lambda: len(inbox.of(Acked)) >= 600, 120)
    leader = lab.leader(topic, 0)
    assert leader is not None
    lab.kill(leader)
    before = len(inbox.facts)
    inbox.wait(lambda: sum(f.partition == 0 for f in inbox.of(Acked, since=before)) >= 200, 120)
    lab.start_broker(leader)
    in_time(producer.stop(90))
    resolved = [f for f in inbox.facts if isinstance(f, Acked | Failed | Indeterminate)]
    assert len(resolved) == len(inbox.of(Sent))
    inbox.wait(lambda: placed(inbox.of(Polled)).keys() >= placed(inbox.of(Acked)).keys(), 120)
    places = [(f.generation, f.partition, f.sequence, f.offset) for f in inbox.of(Polled)]
    if not inbox.of(ProducerEpochBumped):  # else the client sends again under another epoch, and a copy is its own
        assert len({place[:3] for place in places}) == len(set(places))
        assert in_order(inbox.of(Polled))
    known = placed([f for f in inbox.of(Acked) if f.offset is not None])
    assert known.items() <= {(place[:3], place[3]) for place in places}


def test_a_canary_with_all_of_it_reads_old_records_at_random_and_says_nothing(lab: Lab, tmp_path: Path) -> None:
    shape = {"compression": "zstd", "filling": "repeated", "headers": 2, "record_lengths": [64, 640]}
    burst = {"interval": "200ms", "burst": 20, "linger": "20ms", "in_flight": 5}
    cluster = {
        "name": "t",
        "kafka": {"bootstrap.servers": lab.bootstrap},
        "topic": {"name": "realistic"},
        "modes": {"idempotent": {**burst, **shape}, "transactional": {"timeout": "5s", **shape}},
        "readers": {"random_every": "1s"},
    }
    with Canary(tmp_path, lab.bootstrap, "realistic", settings={"clusters": [cluster]}) as canary:
        canary.until_probing()
        canary.until(
            lambda: canary.metric("canary_random_reads_total", outcome="answered") >= 4, 120, "random reads answered"
        )
        canary.until(lambda: canary.metric("canary_probes_acked_total", mode="idempotent") > 600, 60, "bursts")
        canary.until(lambda: canary.metric("canary_probes_acked_total", mode="transactional") > 20, 60, "transactions")
        assert canary.metric("canary_probes_seen_total", consumer="read_committed") > 300
        assert [one for one in canary.unexplained() if one["severity"] != "info"] == []
