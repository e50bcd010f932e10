"""One replica harmed on its broker's disk is found by broker and offset; a healthy topic beside it is silent."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.command import canary
from tests.support.harm import change_byte, remove_batch
from tests.support.process import Canary
from tests.support.waiting import in_time

if TYPE_CHECKING:
    from pathlib import Path

    from canary.lab import Lab

pytestmark = [pytest.mark.kafka, pytest.mark.quick]

HARMED, WELL = "harmed", "well"


def produce(bootstrap: str, topic: str, batches: int, *, partition: int = 0, first: int = 0) -> None:
    """Write batches of five records, each in a batch of its own."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 60_000, "batch.num.messages": 5})
    for number in range(first, first + batches):
        for i in range(5):
            producer.produce(topic, b"value %d.%d" % (number, i), b"key %d" % (number % 7), partition=partition)
        in_time(producer.flush(60) == 0, "all acknowledgements")


def config(folder: Path, bootstrap: str) -> Path:
    """Settings of the cluster."""
    file = folder / "canary.json"
    cluster = {"name": "t", "kafka": {"bootstrap.servers": bootstrap}}
    file.write_text(json.dumps({"store": {"url": f"sqlite:///{folder}/s.db"}, "clusters": [cluster]}))
    return file


def test_a_batch_cut_out_and_a_byte_changed_are_found_by_broker_and_offset(lab: Lab, tmp_path: Path) -> None:
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    for topic, partitions in ((HARMED, 2), (WELL, 1)):
        assignment = [[1, 2, 3]] * partitions
        admin.create_topics([NewTopic(topic, partitions, replica_assignment=assignment)])[topic].result(60)
        produce(lab.bootstrap, topic, 10)
    produce(lab.bootstrap, HARMED, 3, partition=1)
    settings = config(tmp_path, lab.bootstrap)
    same = canary("replicas", "compare", HARMED, "--config", settings)
    assert (same.status, "65 offsets of 2 partitions" in same.out, "no difference" in same.out) == (0, True, True), same

    for broker in (2, 3):
        lab.stop_broker(broker)
    assert remove_batch(lab, 2, HARMED, 0, 12) == (10, 14)
    assert change_byte(lab, 3, HARMED, 0, 23) == (20, 24)
    assert change_byte(lab, 3, HARMED, 1, 7, mend_crc=False) == (5, 9)
    for broker in (2, 3):
        lab.start_broker(broker)
    for topic, partition in ((HARMED, 0), (HARMED, 1), (WELL, 0)):
        lab.wait_isr(topic, partition, {1, 2, 3})

    told = canary("replicas", "compare", HARMED, "--config", settings, "--json")
    assert told.status == 1, told
    report = json.loads(told.out)
    assert report["unknown"] == []
    assert [brief(one) for one in report["divergences"]] == [
        (0, 10, 14, [2], "missing"),
        (0, 24, 24, [3], "different"),
        (1, 5, 9, [3], "bad-crc"),
    ]
    assert "value" not in told.out
    assert report["divergences"][0]["digests"]["10"]["2"] == "missing"
    table = canary("replicas", "compare", HARMED, "--config", settings, "--partition", 0, "--from", 12, "--to", 20)
    assert (table.status, table.out.splitlines()[1].split()) == (
        1,
        f"{HARMED}-0 12 to 14 3 2 broker 2 lacks what the others have".split(),
    )
    assert canary("replicas", "compare", HARMED, "--config", settings, "--partition", 0, "--from", 25).status == 0
    assert canary("replicas", "compare", WELL, "--config", settings).status == 0

    by_the_runner(lab, tmp_path)

    lab.stop_broker(2)
    some = canary("replicas", "compare", WELL, "--config", settings, "--json")
    assert some.status == 3, "a replica could not be read"
    assert [one["broker"] for one in json.loads(some.out)["unknown"]] == [2]


def by_the_runner(lab: Lab, folder: Path) -> None:
    """A runner whose settings name the topics finds the same, and says how far it is."""
    cluster = {
        "name": "t",
        "kafka": {"bootstrap.servers": lab.bootstrap},
        "topic": {"name": "probes", "partitions": 1},
        "modes": {"idempotent": {}},
        "watch": {"replicas": ["harm*", WELL]},
    }
    with Canary(folder / "runner", lab.bootstrap, "probes", partitions=1, settings={"clusters": [cluster]}) as runner:
        runner.until(lambda: runner.metric("canary_replicas_divergent_ranges", topic=HARMED) == 3, 60, "all are found")
        runner.until(
            lambda: runner.metric("canary_replicas_compared_to_offset", topic=WELL) == 50, 60, "all is compared"
        )
        assert runner.metric("canary_replicas_divergent_ranges", topic=WELL) == 0
        assert runner.metric("canary_replicas_unknown") == 0
        assert runner.metric("canary_part_failing", part="replica-scrubber") == 0

        def said() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = runner.get("/api/v1/violations?kind=replica-divergence").json()["items"]
            return found

        runner.until(lambda: len(said()) == 3, 30, "violations")
        places = sorted((one["partition"], one["offset"], one["severity"]) for one in said())
        assert places == [(0, 10, "critical"), (0, 24, "critical"), (1, 5, "critical")]


def brief(one: dict[str, Any]) -> tuple[object, ...]:
    return one["partition"], one["first_offset"], one["last_offset"], one["brokers"], one["how"]


def test_bad_input_is_one_sentence(tmp_path: Path, lab: Lab) -> None:
    settings = config(tmp_path, lab.bootstrap)
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    admin.create_topics([NewTopic(WELL, 1, 1)])[WELL].result(60)
    for words, status, says in (
        (["none-such"], 3, "there is no topic none-such"),
        ([WELL, "--partition", 7], 2, "has no partition 7"),
        ([WELL, "--cluster", "other"], 2, "there is no cluster other; there are: t"),
        ([WELL, "--bytes-per-second", "many"], 2, "is no size"),
        ([WELL], 3, ""),
    ):
        ended = canary("replicas", "compare", *words, "--config", settings)
        assert (ended.status, says in " ".join(ended.err.split())) == (status, True), ended
    assert "it has one replica" in ended.out
