"""An incident on real brokers: digests, receipts and salvage name the same records, and these are what is gone.

A Java and a Python application write to one topic, each with a receipt for every record. Acknowledged records are lost
in two of the ways that Kafka has for it (call-me-maybe, fsync-loss). What is gone is known from a plain consumer that
has read everything before and after.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from spark_reconcile.digests.tree import LEAF
from spark_reconcile.job import session
from tests.support.applications import PARTITIONS, TOPIC, Applications, Writer
from tests.support.command import canary
from tests.support.records import PATIENCE_S, Content, content_of, read, salvaged
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from canary.lab import Lab

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.spark, pytest.mark.quick]

HELD: Final = (192, 200, 181)
"""Ends of the partitions when the last record that survives was written; the first is where a leaf of digests ends."""
ACKED: Final = (448, 431, 400)
REFILLED: Final = (256, 237, 481)
"""Their ends after the loss: two are shorter than they were, one has grown beyond."""

Truth = dict[int, dict[int, Content]]
"""What a plain consumer finds, by partition and offset."""
Named = set[tuple[str, int, int]]
"""Records that are said to be gone: "lost" or "changed", partition, offset."""


def of_brokers(lab: Lab, *brokers: int) -> str:
    """Return the bootstrap servers of some brokers: one that is frozen would be waited for."""
    return ",".join(f"127.0.0.1:{lab.port(broker)}" for broker in brokers)


def truth(bootstrap: str, topic: str = TOPIC) -> Truth:
    return {partition: read(bootstrap, topic, partition) for partition in PARTITIONS}


class CallMeMaybe:
    """A leader that is alone in the ISR acknowledges, and dies; a follower that lacks it all is elected uncleanly."""

    replicas: Final = [[1, 2, 3], [1, 3, 2], [1, 2, 3]]
    config: Final = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}
    promising: Final = (1,)

    @staticmethod
    def begin(lab: Lab) -> None:
        """From here on what is acknowledged will be lost."""
        lab.pause(2)
        lab.pause(3)
        in_sync(lab, 1)

    @staticmethod
    def happen(lab: Lab) -> Path:
        """Lose it; return a copy of the disk that has it."""
        lab.kill(1)
        kept = lab.copy_data(1)
        lab.resume(2)
        lab.resume(3)
        for partition in PARTITIONS:
            until(partial(_led_by, lab, partition, {2, 3}), PATIENCE_S, "a follower leads")
        lab.start_broker(1)
        return kept


class FsyncLoss:
    """Two brokers in sync acknowledge; one is isolated, the other loses its page cache, comes back and leads."""

    replicas: Final = [[2, 3, 1]] * 3
    config: Final[dict[str, str]] = {}
    promising: Final = (2, 3)

    @staticmethod
    def begin(lab: Lab) -> None:
        """From here on what is acknowledged will be lost."""
        lab.kill(1)
        in_sync(lab, 2, 3)

    @staticmethod
    def happen(lab: Lab) -> Path:
        """Lose it; return a copy of the disk that has it."""
        lab.pause(3)
        in_sync(lab, 2)
        lab.kill(2)
        for partition in PARTITIONS:
            lab.truncate(2, TOPIC, partition, to_offset=HELD[partition])
        lab.kill(3)
        kept = lab.copy_data(3)
        lab.start_broker(1, timeout=0)
        lab.start_broker(2, timeout=0)
        in_sync(lab, 1, 2)
        lab.start_broker(3)
        return kept


def in_sync(lab: Lab, *brokers: int) -> None:
    for partition in PARTITIONS:
        lab.wait_isr(TOPIC, partition, set(brokers))


def _led_by(lab: Lab, partition: int, brokers: set[int]) -> bool:
    return lab.leader(TOPIC, partition) in brokers


@dataclass(frozen=True)
class Incident:
    """What was in the topic before and after, and the disk that still has it."""

    before: Truth
    after: Truth
    disk: Path

    @cached_property
    def named(self) -> Named:
        """What is gone, by the truth: nothing, or another record, is where it was."""
        return {
            ("changed" if offset in self.after[partition] else "lost", partition, offset)
            for partition, records in self.before.items()
            for offset, one in records.items()
            if self.after[partition].get(offset) != one
        }

    @cached_property
    def gone(self) -> Truth:
        """The records that are gone, in their order."""
        places = {(partition, offset) for _, partition, offset in self.named}
        return {
            partition: {offset: one for offset, one in sorted(records.items()) if (partition, offset) in places}
            for partition, records in self.before.items()
        }


class Commands:
    """The canary's command line, about the cluster that some brokers lead to."""

    def __init__(self, folder: Path, bootstrap: str) -> None:
        self.folder = folder
        self.config = folder / "canary.yaml"
        clusters = [{"name": "prod", "kafka": {"bootstrap.servers": bootstrap}}]
        self.config.write_text(json.dumps({"clusters": clusters}), encoding="utf-8")

    def run(self, *words: object, status: int = 0) -> Any:
        """Return what a command says."""
        ended = canary("--config", self.config, *words, "--json")
        assert ended.status == status, ended
        return json.loads(ended.out)

    def digest(self, *words: object, status: int = 0) -> Any:
        against = "--topic", TOPIC, "--against", self.folder / "digests"
        return self.run("digest", *against, *words, status=status)["prod"]


def receipts_of(folder: Path) -> dict[str, set[tuple[int, int]]]:
    """Return the places that each application has receipts for."""
    found: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for file in folder.rglob("*.parquet"):
        table = pq.read_table(file, columns=["partition", "offset"])
        found[file.name.split("--")[0]].update(zip(*(column.to_pylist() for column in table.columns), strict=True))
    return found


def named(ranges: Iterable[dict[str, Any]], kind: str) -> Named:
    """Return what the JSON of a command names in "offsets": [first, last] of one range or several."""
    found: Named = set()
    for one in ranges:
        runs = one["offsets"] if isinstance(one["offsets"][0], list) else [one["offsets"]]
        for first, last in runs:
            found |= {(one[kind].removeprefix("record-"), one["partition"], o) for o in range(first, last + 1)}
    return found


@pytest.fixture(params=[CallMeMaybe, FsyncLoss], ids=lambda way: way.__name__)
def incident(
    request: pytest.FixtureRequest, lab: Lab, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Incident:
    """Digests of what both applications have written were kept, then some of it was lost, and more was written."""
    way: type[CallMeMaybe | FsyncLoss] = request.param
    monkeypatch.setattr(session, "session", lambda *_, **__: nullcontext(spark))
    monkeypatch.setenv("CANARY_RECEIPTS_DIRECTORY", str(tmp_path / "receipts"))
    monkeypatch.setenv("CANARY_RECEIPTS_PER_SECOND", "all")
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    new = NewTopic(TOPIC, len(PARTITIONS), replica_assignment=way.replicas, config=way.config)
    admin.create_topics([new])[TOPIC].result(PATIENCE_S)
    in_sync(lab, *lab.brokers)
    applications = Applications(lab, tmp_path)
    applications.write(*HELD)
    way.begin(lab)
    applications.write(*ACKED)
    applications.close()
    promising = of_brokers(lab, *way.promising)
    before = truth(promising)
    made = Commands(tmp_path, promising).digest("--keep")
    assert (made["records"], made["findings"]) == (sum(ACKED), [])
    disk = way.happen(lab)
    in_sync(lab, *lab.brokers)
    writer = Writer(lab.bootstrap)
    writer.fill(HELD, REFILLED)
    writer.close()
    return Incident(before, truth(lab.bootstrap), disk)


def test_digests_receipts_and_salvage_name_exactly_the_records_that_are_gone_and_these_come_back(
    incident: Incident, lab: Lab, tmp_path: Path
) -> None:
    commands = Commands(tmp_path, lab.bootstrap)
    for partition in PARTITIONS:
        assert list(incident.gone[partition]) == list(range(HELD[partition], ACKED[partition]))
        assert len(incident.after[partition]) == REFILLED[partition]

    digests = commands.digest(status=1)
    assert named(digests["findings"], "kind") == incident.named
    assert {(one["partition"], one["cut_at"]) for one in digests["findings"]} == set(enumerate(HELD))
    assert digests["not_compared"] == sum(held % LEAF for held in HELD), (
        "records just before a cut, in leaves that differ"
    )
    assert digests["unknown"] == []

    folder = tmp_path / "receipts"
    places = {(partition, offset) for partition in PARTITIONS for offset in incident.before[partition]}
    gone = {(partition, offset) for _, partition, offset in incident.named}
    promised = receipts_of(folder)
    assert promised["java"] | promised["python"] >= places
    assert all(gone & some for some in promised.values())
    receipts = commands.run("receipts", "check", "--receipts", folder, "--topic", TOPIC, status=1)
    assert named(receipts["ranges"], "verdict") == incident.named
    verdicts = {verdict: count for verdict, count in receipts["verdicts"].items() if count}
    kinds = Counter(kind for kind, _, _ in incident.named)
    assert verdicts == kinds | {"present": sum(REFILLED)}

    out = tmp_path / "salvaged"
    salvage = commands.run(
        "salvage", "--log-dir", incident.disk, "--epochs-from", "prod", "--topic", TOPIC, "--out", out
    )
    assert (salvage["unknown"], salvage["total"]["salvaged"]) == ([], len(gone))
    for partition in PARTITIONS:
        rows = salvaged(out, TOPIC, partition)
        assert list(rows) == list(incident.gone[partition])
        assert {offset: content_of(row) for offset, row in rows.items()} == incident.gone[partition]

    again = f"{TOPIC}.salvaged"
    commands.run("salvage", "replay", out, "--to-topic", again, "--create", "--replication-factor", 2)
    for partition, back in truth(lab.bootstrap, again).items():
        assert list(back.values()) == list(incident.gone[partition].values())
