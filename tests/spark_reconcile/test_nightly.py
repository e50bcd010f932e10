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
from spark_reconcile import nightly
from spark_reconcile.keeping import FULL_EVERY_NS
from spark_reconcile.ticket import Ticket
from storage.store import Reconciliation, Store
from tests.generators.reconciliation_nights import arrow, probe
from tests.runner.test_losses import destroy
from tests.spark_reconcile.test_dump import PATIENCE_S, Writer, made
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


def ticket(store: Store, by: str = "test") -> Ticket:
    store.request_reconciliation("c", by, time.time_ns())
    row = store.claim_reconciliation("me", time.time_ns())
    assert row is not None
    return Ticket(row.id, "me", "c")


def shipped(settings: Settings, topic: str, topic_id: str | None, count: int) -> None:
    """Write the log of ``count`` probes in partition 0, acked an hour ago at offsets equal to their sequences."""
    now = time.time_ns() // 1000 - HOUR_US
    at: dict[str, Any] = {"topic": topic, "topic_id": topic_id, "sent_at": now, "acked_at": now}
    rows = [probe(sequence, sequence, **at) for sequence in range(count)]
    for table, content in (("probes", rows), ("transactions", []), ("polls", [])):
        folder = settings.ledger.directory.parent / "log" / table
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(arrow(content, table), folder / "c.parquet")


def forgotten(at_ns: int) -> list[Violation]:
    """Return what a runner says that has lost its memory."""
    tracker = Tracker()
    tracker.fold([MemoryLost(at_ns, None, "wiped")])
    return tracker.drain().violations


def finished(store: Store, which: Ticket) -> Reconciliation:
    row = store.reconciliation(which.reconciliation_id)
    assert row is not None
    return row


@pytest.mark.kafka
@pytest.mark.spark
def test_a_night_twice_is_one_violation_with_two_sightings(
    spark: SparkSession, lab: Lab, settings: Settings, store: Store
) -> None:
    topic = settings.clusters[0].topic.name
    topic_id = made(lab, topic)
    Writer(lab, topic, topic_id, store.installation()).probes(0, 20)
    shipped(settings, topic, topic_id, 22)  # two more than there are: the tail was destroyed
    first, second = ticket(store), None
    outcome = nightly.run(settings, store, first, spark, settle_s=0)
    assert (outcome.violations, outcome.new) == (2, 2)
    row = finished(store, first)
    assert (row.state, row.verdicts) == ("succeeded", {"survived": 20, "lost": 2})
    assert row.bounds[topic]["0"] == {"read_committed": [0, 20], "read_uncommitted": [0, 20]}
    assert row.summary["summary"]["acked_lost"] == 2
    assert row.report is not None
    assert "2 of 22 acknowledged probes lost" in Path(row.report).read_text()
    second = ticket(store)
    assert nightly.run(settings, store, second, spark, settle_s=0).new == 0
    found = store.violations().items
    online = Violation(
        "lost-write", "critical", topic, topic_id or "", 0, 20, Identity(7, 1, 0, 20), "idempotent", 0, "online", ""
    )
    assert [one.id for one in found] == [online.about([Records(20, 2, online.identity)]).key("c")]
    assert found[0].count == 2
    assert all([sighting.by for sighting in one.sightings] == ["reconcile"] * 2 for one in found)
    kept = sorted(one.name for one in nightly.folder_of(settings, "c", "").iterdir())
    assert kept == sorted([first.reconciliation_id, second.reconciliation_id])
    assert not (nightly.folder_of(settings, "c", first.reconciliation_id) / "dump").exists()


@pytest.mark.kafka
@pytest.mark.spark
def test_a_generation_that_the_log_does_not_hold_yet_is_late_and_no_phantom(
    spark: SparkSession, lab: Lab, settings: Settings, store: Store
) -> None:
    topic = settings.clusters[0].topic.name
    topic_id = made(lab, topic)
    for _ in range(2):
        generation = store.next_generation(7, 1, "c")
    writer = Writer(lab, topic, topic_id, store.installation())
    writer.probes(0, 5)
    writer.sequences[0] = 0
    writer.probes(0, 3, generation=generation)
    store.next_generation(8, 1, "c")  # a start of which no segment has been shipped
    writer.sequences[0] = 0
    writer.producer_id = 8
    writer.probes(0, 2)
    shipped(settings, topic, topic_id, 5)
    claimed = ticket(store)
    assert nightly.run(settings, store, claimed, spark, settle_s=0).violations == 0
    assert finished(store, claimed).verdicts == {"survived": 5, "pending": 3}


@pytest.mark.kafka
@pytest.mark.spark
def test_a_run_by_the_clock_reads_what_is_new_and_judges_everything(
    spark: SparkSession, lab: Lab, settings: Settings, store: Store
) -> None:
    topic = settings.clusters[0].topic.name
    topic_id = made(lab, topic)
    writer = Writer(lab, topic, topic_id, store.installation())

    def reads(by: str, probes: int, full_every_ns: int = FULL_EVERY_NS) -> tuple[Any, ...]:
        """Run, and return what was read: everything or not, how many records of both levels; and the verdicts."""
        shipped(settings, topic, topic_id, probes)
        claimed = ticket(store, by)
        assert nightly.run(settings, store, claimed, spark, settle_s=0, full_every_ns=full_every_ns).violations == 0
        row = finished(store, claimed)
        assert row.summary["bytes"] > 0
        return row.summary["full"], row.summary["records_read"], row.verdicts

    writer.probes(0, 20)
    assert reads("schedule", 20) == (True, 40, {"survived": 20})
    writer.probes(0, 5)
    assert reads("schedule", 20) == (False, 10, {"survived": 20, "pending": 5}), "late segments are no loss"
    writer.probes(0, 1)
    assert reads("schedule", 26) == (False, 2, {"survived": 26}), "and picked up by the next run"
    assert reads("api", 26) == (True, 52, {"survived": 26}), "who asks wants to know what is there now"
    assert reads("schedule", 26) == (False, 0, {"survived": 26})
    assert reads("schedule", 26, full_every_ns=0) == (True, 52, {"survived": 26}), "and all of it once a week"
    store.record("c", forgotten(time.time_ns()))
    assert reads("schedule", 26) == (True, 52, {"survived": 26}), "and when a runner has lost its memory"
    assert [one.state for one in store.violations().items] == ["resolved"], "nothing is unknown any more"
    assert reads("schedule", 26) == (False, 0, {"survived": 26})


@pytest.mark.kafka
@pytest.mark.spark
def test_where_the_log_goes_back_everything_is_read_again(
    spark: SparkSession, lab: Lab, settings: Settings, store: Store
) -> None:
    topic = settings.clusters[0].topic.name
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    for turn in range(2):
        topic_id = made(lab, topic)
        Writer(lab, topic, topic_id, store.installation()).probes(0, 10 - turn)
        shipped(settings, topic, topic_id, 10 - turn)
        claimed = ticket(store, "schedule")
        assert nightly.run(settings, store, claimed, spark, settle_s=0).violations == 0
        assert finished(store, claimed).summary["full"]
        assert finished(store, claimed).verdicts == {"survived": 10 - turn}
        admin.delete_topics([topic])[topic].result(PATIENCE_S)
        until(lambda: all(partitions == [] for partitions in as_known(lab, topic)), 60, f"no broker knows {topic}")


@pytest.mark.kafka
@pytest.mark.spark
def test_a_cut_that_was_filled_beyond_the_old_end_is_found_by_the_next_run(
    spark: SparkSession, lab: Lab, settings: Settings, store: Store
) -> None:
    topic = settings.clusters[0].topic.name
    topic_id = made(lab, topic)
    writer = Writer(lab, topic, topic_id, store.installation())
    for _ in range(10):
        writer.raw(1, b"another's, in a partition that stays whole")
    for count in (15, 5):  # each flushed: a cut takes whole batches
        writer.probes(0, count)
    shipped(settings, topic, topic_id, 20)
    claimed = ticket(store, "schedule")
    assert nightly.run(settings, store, claimed, spark, settle_s=0).violations == 0
    assert finished(store, claimed).summary["records_read"] == 2 * (10 + 20)
    assert destroy(lab, topic, 0, 5) == 15
    for _ in range(30):
        writer.raw(0, b"another's, where probes were")
    writer.flush()
    claimed = ticket(store, "schedule")
    assert nightly.run(settings, store, claimed, spark, settle_s=0).violations == 5
    row = finished(store, claimed)
    assert row.verdicts == {"survived": 15, "lost": 5}
    assert (row.summary["full"], row.summary["records_read"]) == (False, 2 * (15 + 30)), "of that partition, all"
    claimed = ticket(store, "schedule")
    assert nightly.run(settings, store, claimed, spark, settle_s=0).new == 0
    assert finished(store, claimed).summary["records_read"] == 0, "and it is gone on from"


@pytest.mark.kafka
@pytest.mark.spark
def test_a_night_that_fails_says_why(spark: SparkSession, lab: Lab, settings: Settings, store: Store) -> None:
    made(lab, settings.clusters[0].topic.name)
    claimed = ticket(store)
    with pytest.raises(UserError):
        nightly.run(settings, store, claimed, spark, settle_s=0)
    row = finished(store, claimed)
    assert row.state == "failed"
    assert "log/probes: there is no such folder" in (row.error or "")
