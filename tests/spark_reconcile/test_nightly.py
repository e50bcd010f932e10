"""A night from end to end on real brokers: what Spark finds is in the store, under the keys that online uses."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka.admin import AdminClient

from canary.anomalies.online import Tracker
from canary.anomalies.violation import Records, Violation
from canary.facts import MemoryLost
from canary.probe.identity import Identity
from canary.settings import Settings, UserError, load
from canary.settings.watch import DigestsSettings
from simulation.nights.nights import arrow, probe
from spark_reconcile.dump.kept_dump import FULL_EVERY_NS
from spark_reconcile.nightly import run
from spark_reconcile.nightly.scheduler import Ticket
from storage.store import Store
from storage.store.values import Reconciliation
from tests.spark_reconcile.test_dump import PATIENCE_S, Writer, made
from tests.support.harm import destroy
from tests.support.topics import as_known
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from canary.lab import Lab

HOUR_US = 3_600_000_000


@pytest.fixture
def settings(lab: Lab, tmp_path: Path) -> Settings:
    (tmp_path / "canary.yaml").write_text(
        f"""
clusters:
  - name: c
    kafka: {{bootstrap.servers: "{lab.bootstrap}"}}
    topic: {{name: night-{tmp_path.name}}}
store: {{url: "sqlite:///{tmp_path}/store.db"}}
ledger: {{directory: {tmp_path}/ledger}}
probe_log: {{url: {tmp_path}/log}}
"""
    )
    return load(tmp_path / "canary.yaml", {})


@pytest.fixture
def store(settings: Settings) -> Iterator[Store]:
    with Store.connect(settings.store.url.get_secret_value(), timeout=5) as connected:
        connected.upgrade()
        yield connected


class Nights:
    """Probes in a topic, the log of them, and nights that reconcile the two."""

    def __init__(self, spark: SparkSession, lab: Lab, settings: Settings, store: Store) -> None:
        self.spark, self.lab, self.settings, self.store = spark, lab, settings, store
        self.topic = settings.clusters[0].topic.name
        self.make()

    def make(self) -> None:
        """Make the topic, which must not exist."""
        self.topic_id = made(self.lab, self.topic)
        self.writer = Writer(self.lab, self.topic, self.topic_id, self.store.identities.installation())

    def ship(self, count: int) -> None:
        """Write the log of ``count`` probes in partition 0, acked an hour ago at offsets equal to their sequences."""
        now = time.time_ns() // 1000 - HOUR_US
        at: dict[str, Any] = {"topic": self.topic, "topic_id": self.topic_id, "sent_at": now, "acked_at": now}
        rows = [probe(sequence, sequence, **at) for sequence in range(count)]
        for table, content in (("probes", rows), ("transactions", []), ("polls", [])):
            folder = self.settings.ledger.directory.parent / "log" / table
            folder.mkdir(parents=True, exist_ok=True)
            pq.write_table(arrow(content, table), folder / "c.parquet")

    def digest(self) -> None:
        """Have the nights digest the topic, too, as if an application wrote it."""
        (cluster,) = self.settings.clusters
        cluster = cluster.model_copy(update={"digests": DigestsSettings(topics=(self.topic,))})  # type: ignore[call-arg]
        self.settings = self.settings.model_copy(update={"clusters": (cluster,)})

    def claim(self, by: str) -> Ticket:
        """Request a reconciliation and claim it."""
        self.store.reconciliations.request("c", by, time.time_ns())
        row = self.store.reconciliations.claim("me", time.time_ns())
        assert row is not None
        return Ticket(row.id, "me", "c")

    def row(self, which: Ticket) -> Reconciliation:
        row = self.store.reconciliations.get(which.reconciliation_id)
        assert row is not None
        return row

    def reconcile(self, by: str = "test", **options: Any) -> tuple[run.Outcome, Reconciliation]:
        """Run a night; return its outcome and its row in the store."""
        claimed = self.claim(by)
        outcome = run.run(self.settings, self.store, claimed, self.spark, settle_s=0, **options)
        return outcome, self.row(claimed)


@pytest.fixture
def nights(spark: SparkSession, lab: Lab, settings: Settings, store: Store) -> Nights:
    return Nights(spark, lab, settings, store)


def forgotten(at_ns: int) -> list[Violation]:
    """Return what a runner says that has lost its memory."""
    tracker = Tracker()
    tracker.fold([MemoryLost(at_ns, None, "wiped")])
    return tracker.drain().violations


@pytest.mark.kafka
@pytest.mark.spark
def test_a_night_twice_is_one_violation_with_two_sightings(nights: Nights) -> None:
    nights.writer.probes(0, 20)
    nights.ship(22)  # two more than there are: the tail was destroyed
    nights.digest()
    outcome, row = nights.reconcile()
    assert (outcome.violations, outcome.new) == (2, 2)
    assert (row.state, row.verdicts) == ("succeeded", {"survived": 20, "lost": 2})
    assert row.bounds[nights.topic]["0"] == {"read_committed": [0, 20], "read_uncommitted": [0, 20]}
    assert row.summary["summary"]["acked_lost"] == 2
    assert row.report is not None
    assert nights.store.reconciliations.report(row.id) == Path(row.report).read_bytes(), "every API can show it"
    assert "2 of 22 acknowledged probes lost" in Path(row.report).read_text()
    outcome, second = nights.reconcile()
    assert outcome.new == 0
    digests = [{name: one.summary["digests"][name] for name in ("records", "verified")} for one in (row, second)]
    assert digests == [{"records": 20, "verified": 0}, {"records": 20, "verified": 20}]
    assert "20 records in 2 partitions are known" in Path(row.report).read_text()
    found = nights.store.violations.page().items
    lost = Identity(7, 1, 0, 20)
    online = Violation(
        kind="lost-write",
        severity="critical",
        topic=nights.topic,
        topic_id=nights.topic_id or "",
        partition=0,
        at_ns=0,
        by="online",
        summary="",
    )
    assert [one.id for one in found] == [online.about([Records(20, 2, lost)]).key("c")]
    assert found[0].count == 2
    assert row.started_ns is not None
    assert (found[0].happened_after_ns or 0) < row.started_ns < (found[0].happened_before_ns or 0) < (row.ended_ns or 0)
    assert all([sighting.by for sighting in one.sightings] == ["reconcile"] * 2 for one in found)
    kept = sorted(one.name for one in run.folder_of(nights.settings, "c", "").iterdir())
    assert kept == sorted([row.id, second.id])
    assert not (run.folder_of(nights.settings, "c", row.id) / "dump").exists()


@pytest.mark.kafka
@pytest.mark.spark
def test_a_generation_that_the_log_does_not_hold_yet_is_late_and_no_phantom(nights: Nights) -> None:
    for _ in range(2):
        generation = nights.store.identities.next_generation(7, 1, "c")
    writer = nights.writer
    writer.probes(0, 5)
    writer.sequences[0] = 0
    writer.probes(0, 3, generation=generation)
    nights.store.identities.next_generation(8, 1, "c")  # a start of which no segment has been shipped
    writer.sequences[0] = 0
    writer.producer_id = 8
    writer.probes(0, 2)
    nights.ship(5)
    outcome, row = nights.reconcile()
    assert outcome.violations == 0
    assert row.verdicts == {"survived": 5, "pending": 3}


@pytest.mark.kafka
@pytest.mark.spark
def test_a_run_by_the_clock_reads_what_is_new_and_judges_everything(nights: Nights) -> None:
    def reads(by: str, probes: int, full_every_ns: int = FULL_EVERY_NS) -> tuple[Any, ...]:
        """Run, and return what was read: everything or not, how many records of both levels; and the verdicts."""
        nights.ship(probes)
        outcome, row = nights.reconcile(by, full_every_ns=full_every_ns)
        assert outcome.violations == 0
        assert row.summary["bytes"] > 0
        return row.summary["full"], row.summary["records_read"], row.verdicts

    nights.writer.probes(0, 20)
    assert reads("schedule", 20) == (True, 40, {"survived": 20})
    nights.writer.probes(0, 5)
    assert reads("schedule", 20) == (False, 10, {"survived": 20, "pending": 5}), "late segments are no loss"
    nights.writer.probes(0, 1)
    assert reads("schedule", 26) == (False, 2, {"survived": 26}), "and picked up by the next run"
    assert reads("api", 26) == (True, 52, {"survived": 26}), "who asks wants to know what is there now"
    assert reads("schedule", 26) == (False, 0, {"survived": 26})
    assert reads("schedule", 26, full_every_ns=0) == (True, 52, {"survived": 26}), "and all of it once a week"
    nights.store.violations.record("c", forgotten(time.time_ns()))
    assert reads("schedule", 26) == (True, 52, {"survived": 26}), "and when a runner has lost its memory"
    assert [one.state for one in nights.store.violations.page().items] == ["resolved"], "nothing is unknown any more"
    assert reads("schedule", 26) == (False, 0, {"survived": 26})


@pytest.mark.kafka
@pytest.mark.spark
def test_where_the_log_goes_back_everything_is_read_again(nights: Nights) -> None:
    lab, topic = nights.lab, nights.topic
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    for turn in range(2):
        if turn:
            nights.make()
        nights.writer.probes(0, 10 - turn)
        nights.ship(10 - turn)
        outcome, row = nights.reconcile("schedule")
        assert outcome.violations == 0
        assert row.summary["full"]
        assert row.verdicts == {"survived": 10 - turn}
        admin.delete_topics([topic])[topic].result(PATIENCE_S)
        until(lambda: all(partitions == [] for partitions in as_known(lab, topic)), 60, f"no broker knows {topic}")


@pytest.mark.kafka
@pytest.mark.spark
def test_a_cut_that_was_filled_beyond_the_old_end_is_found_by_the_next_run(nights: Nights) -> None:
    writer = nights.writer
    for _ in range(10):
        writer.raw(1, b"another's, in a partition that stays whole")
    for count in (15, 5):  # each flushed: a cut takes whole batches
        writer.probes(0, count)
    nights.ship(20)
    outcome, row = nights.reconcile("schedule")
    assert outcome.violations == 0
    assert row.summary["records_read"] == 2 * (10 + 20)
    assert destroy(nights.lab, nights.topic, 0, 5) == 15
    for _ in range(30):
        writer.raw(0, b"another's, where probes were")
    writer.flush()
    outcome, row = nights.reconcile("schedule")
    assert outcome.violations == 5
    assert row.verdicts == {"survived": 15, "lost": 5}
    assert (row.summary["full"], row.summary["records_read"]) == (False, 2 * (15 + 30)), "of that partition, all"
    outcome, row = nights.reconcile("schedule")
    assert outcome.new == 0
    assert row.summary["records_read"] == 0, "and it is gone on from"


@pytest.mark.kafka
@pytest.mark.spark
def test_a_night_that_fails_says_why(nights: Nights) -> None:
    claimed = nights.claim("test")
    with pytest.raises(UserError):
        run.run(nights.settings, nights.store, claimed, nights.spark, settle_s=0)
    row = nights.row(claimed)
    assert row.state == "failed"
    assert "log/probes: there is no such folder" in (row.error or "")
