"""call-me-maybe on real brokers, and back: what a lone leader acknowledged is salvaged from its disk, and replayed."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.command import Ended, canary
from tests.support.records import PATIENCE_S, content_of, read, salvaged
from tests.support.waiting import in_time, until

if TYPE_CHECKING:
    from pathlib import Path

    from canary.lab import Lab
    from tests.support.records import Content

pytestmark = [pytest.mark.kafka, pytest.mark.quick]

TOPIC, EMPTY, AGAIN = "orders", "empty", "orders.salvaged"
UNSAFE = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true", "retention.ms": "-1"}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS = (0, 1)


class Writers:
    """Producers of each codec, and what was acknowledged: by partition, offset and content."""

    def __init__(self, bootstrap: str) -> None:
        client = {"bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 50}
        self.producers = {codec: Producer(client | {"compression.type": codec}) for codec in CODECS}
        self.acked: dict[int, list[tuple[int, Content]]] = defaultdict(list)
        self.number = 0

    def write(self, count: int) -> None:
        """Write so many to each partition; every key comes again, some have no key, some no value."""
        for _ in range(count):
            self.number += 1
            codec = CODECS[self.number // 20 % len(CODECS)]
            key = None if self.number % 7 == 0 else b"key %d" % (self.number % 50)
            value = None if self.number % 11 == 0 else b"value %d " % self.number + b"." * 50
            headers = [("number", b"%d" % self.number), ("none", None)]
            for partition in PARTITIONS:
                stamp = 1_700_000_000_000 + self.number
                sent = (stamp, key, value, tuple((name.encode(), one) for name, one in headers))
                told = partial(self.reported, sent)
                self.producers[codec].produce(
                    TOPIC, value, key, partition, headers=headers, timestamp=stamp, on_delivery=told
                )
            if self.number % 20 == 0:
                assert self.producers[codec].flush(PATIENCE_S) == 0
        for producer in self.producers.values():
            in_time(producer.flush(PATIENCE_S) == 0, "all acknowledgements")

    def reported(self, sent: Content, error: object, message: Message) -> None:
        assert error is None
        self.acked[message.partition()].append((message.offset(), sent))


def ran(*words: object, status: int = 0) -> Ended:
    ended = canary(*words)
    assert ended.status == status, ended
    return ended


def led_by_a_follower(lab: Lab, partition: int) -> bool:
    return lab.leader(TOPIC, partition) in {2, 3}


@pytest.fixture
def torn(lab: Lab) -> tuple[Writers, Path]:
    """Brokers 2 and 3 lead without what broker 1 acknowledged alone; a copy of its disk. A transaction was open."""
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    new = NewTopic(TOPIC, num_partitions=2, replica_assignment=[[1, 2, 3], [1, 3, 2]], config=UNSAFE)
    empty = NewTopic(EMPTY, num_partitions=1, replica_assignment=[[2, 1]])
    for made in admin.create_topics([new, empty]).values():
        made.result(PATIENCE_S)
    writers = Writers(lab.bootstrap)
    writers.write(100)
    payments = Producer({"bootstrap.servers": lab.bootstrap, "transactional.id": "payments", "linger.ms": 0})
    payments.init_transactions(PATIENCE_S)
    payments.begin_transaction()
    payments.produce(TOPIC, b"of a transaction, held", b"payment", 0)
    in_time(payments.flush(PATIENCE_S) == 0, "all acknowledgements")
    lab.pause(2)
    lab.pause(3)
    for partition in PARTITIONS:
        lab.wait_isr(TOPIC, partition, {1})
    payments.produce(TOPIC, b"of a transaction, gone", b"payment", 0)
    in_time(payments.flush(PATIENCE_S) == 0, "all acknowledgements")
    writers.write(200)
    lab.kill(1)
    kept = lab.copy_data(1)
    lab.resume(2)
    lab.resume(3)
    for partition in PARTITIONS:
        until(partial(led_by_a_follower, lab, partition), PATIENCE_S, "a follower leads")
    lab.start_broker(1)  # the coordinator waits for it; its log is cut, the copy is not
    payments.commit_transaction(PATIENCE_S)
    return writers, kept


def test_what_a_lone_leader_acknowledged_comes_back_from_its_disk_exactly(
    lab: Lab, torn: tuple[Writers, Path], tmp_path: Path
) -> None:
    writers, kept = torn
    acked = {partition: list(writers.acked[partition]) for partition in PARTITIONS}
    writers.write(30)
    config = tmp_path / "canary.yaml"
    config.write_text(
        json.dumps({"clusters": [{"name": "prod", "kafka": {"bootstrap.servers": lab.bootstrap}}]}), encoding="utf-8"
    )
    from_copy = (
        "--config",
        config,
        "salvage",
        "--log-dir",
        kept,
        "--epochs-from",
        "prod",
        "--topic",
        TOPIC,
        "--topic",
        EMPTY,
    )
    dry = json.loads(ran(*from_copy, "--dry-run", "--verify", "--json").out)
    out = tmp_path / "salvaged"
    wet = json.loads(ran(*from_copy, "--out", out, "--verify", "--json").out)
    for document in (dry, wet):
        assert document["total"] == wet["total"]
    assert [one["counts"] for one in dry["partitions"]] == [one["counts"] for one in wet["partitions"]]
    assert (wet["unknown"], wet["partitions"][0]["counts"]["records"]) == ([], 0)
    for entry in wet["partitions"][1:]:
        partition, counts = entry["partition"], entry["counts"]
        there = set(read(lab.bootstrap, TOPIC, partition).values())
        gone = {offset: one for offset, one in acked[partition] if one not in there}
        assert len(gone) == 200
        rows = salvaged(out, TOPIC, partition)
        assert {offset: content_of(row) for offset, row in rows.items()} == gone
        assert list(rows) == sorted(rows)
        later = {one[1] for _, one in writers.acked[partition][len(acked[partition]) :]}
        collided = {offset for offset, row in rows.items() if row["collision"]}
        assert collided == {offset for offset, one in gone.items() if one[1] is not None and one[1] in later}
        assert collided
        undecided = 1 if partition == 0 else 0
        assert {name: counts[name] for name in ("committed", "salvaged", "undecided", "aborted", "expired")} == {
            "committed": 200,
            "salvaged": 200,
            "undecided": undecided,
            "aborted": 0,
            "expired": 0,
        }
        assert counts["records"] == 300 + 2 * undecided
        assert counts["held"] == 100 + undecided
        assert (counts["missing"], counts["changed"], counts["unverified"], entry["damage"]) == (0, 0, 0, [])
        assert [one["cluster_says"] for one in entry["undecided"]] == ["commit"] * undecided
    replay = ("--config", config, "salvage", "replay", out, "--topic", TOPIC, "--to-topic")
    ran(*replay, TOPIC, status=2)
    replayed = ran(*replay, AGAIN, "--create")
    assert "400 records read back: 0 missing, 0 added, in order." in replayed.out
    for partition in PARTITIONS:
        back = read(lab.bootstrap, AGAIN, partition)
        rows = salvaged(out, TOPIC, partition)
        assert list(back) == list(range(200))
        assert [one[2] for one in back.values()] == [row["value"] for row in rows.values()]
        assert [one[0] for one in back.values()] == [row["timestamp_ms"] for row in rows.values()]
    again = ran(*replay, AGAIN, "--json")
    assert [(one["before"], one["written"]) for one in json.loads(again.out)["partitions"]] == [(200, 0), (200, 0)]
