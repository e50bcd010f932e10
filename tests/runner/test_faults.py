"""The main job on a real three-broker Kafka, under faults: nothing missed, nothing false."""

from __future__ import annotations

import random
import statistics
import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient

from tests.support.process import LOSS_KINDS, Canary, acknowledged, identities
from tests.support.waiting import BUSY

if TYPE_CHECKING:
    from pathlib import Path

    from canary.lab import Lab

pytestmark = pytest.mark.kafka


@pytest.mark.quick
def test_a_rolling_kill_and_restart_of_each_broker_is_no_violation(lab: Lab, tmp_path: Path) -> None:
    """Shows (a): 60 s, each broker killed -9 and restarted in turn; all acknowledged probes seen."""
    with Canary(tmp_path, lab.bootstrap, "rolling") as canary:
        canary.until_probing()
        end = time.monotonic() + 60
        for broker in lab.brokers:
            lab.kill(broker)
            time.sleep(5)  # the outage itself
            lab.restart(broker)
            time.sleep(max(min(end - time.monotonic(), 10), 0))
        time.sleep(max(end - time.monotonic(), 0))
        canary.until_probing()
        canary.until_all_seen()
        assert canary.broken_promises() == []
        assert canary.metric("canary_violations_total") == sum(v["count"] for v in canary.violations())
        assert canary.stop() == [0, 0]


@pytest.mark.quick
def test_brokers_paused_for_20_s_are_no_loss_and_metrics_answer_meanwhile(lab: Lab, tmp_path: Path) -> None:
    """Shows (e)."""
    with Canary(tmp_path, lab.bootstrap, "paused") as canary:
        canary.until_probing()
        for broker in lab.brokers:
            lab.pause(broker)
        before, took = waited_long(canary), []
        end = time.monotonic() + 20
        while time.monotonic() < end:
            began = time.monotonic()
            assert canary.get("/metrics").status_code == 200
            took.append(time.monotonic() - began)
            time.sleep(0.5)
        for broker in lab.brokers:
            lab.resume(broker)
        canary.until_probing()
        canary.until_all_seen()
        assert statistics.median(took) < 2.0
        assert max(took) < 2.0 * BUSY
        assert waited_long(canary) > before  # unseen all the while, and seen at last
        assert canary.broken_promises() == []


def waited_long(canary: Canary) -> float:
    """Return how many promised probes were seen more than 10 s after they had been sent."""
    signs = {"+Inf": 1, "10.0": -1}  # all, without those that were seen sooner; in one answer
    return sum(
        signs.get(sample.labels["le"], 0) * sample.value
        for sample in canary.scrape()
        if sample.name == "canary_end_to_end_latency_seconds_bucket"
    )


def test_the_canary_killed_five_times_forgets_and_repeats_nothing(lab: Lab, tmp_path: Path) -> None:
    """Shows (b): no false alarm, no identity twice, no acknowledged probe forgotten, by reading the topic itself."""
    dice = random.Random(7)  # noqa: S311  # moments, no secrets
    canary = Canary(tmp_path, lab.bootstrap, "killed")
    try:
        for _ in range(5):
            canary.start()
            canary.until_probing()
            time.sleep(dice.uniform(0.0, 2.0))
            canary.kill()
        canary.start()
        canary.until_probing()
        canary.until_all_seen()
        assert canary.broken_promises() == []
        assert canary.stop() == [0, 0]
        acked = acknowledged(tmp_path)
    finally:
        canary.kill()
    held = identities(lab.bootstrap, "killed")
    assert {identity: offsets for identity, offsets in held.items() if len(offsets) > 1} == {}
    assert len({identity.generation for identity in held}) >= 6
    forgotten = {identity: offset for identity, offset in acked.items() if held.get(identity, []) != [offset]}
    assert forgotten == {}
    assert len(acked) > 100


def test_a_recreated_topic_is_named_once_and_probing_goes_on(lab: Lab, tmp_path: Path) -> None:
    with Canary(tmp_path, lab.bootstrap, "recreated") as canary:
        canary.until_probing()
        admin = AdminClient({"bootstrap.servers": lab.bootstrap})
        admin.delete_topics(["recreated"])["recreated"].result(20)
        canary.until(lambda: canary.violations("topic-recreated"), 60, "the new incarnation is recognised")
        canary.until_probing()
        canary.until_all_seen()
        kinds = [v["kind"] for v in canary.unexplained()]
        assert kinds == ["topic-recreated"]
        assert LOSS_KINDS.isdisjoint(kinds)


def test_two_installations_on_one_topic_and_a_fresh_one_on_an_old_topic_ignore_each_other(
    lab: Lab, tmp_path: Path
) -> None:
    with (
        Canary(tmp_path / "a", lab.bootstrap, "shared") as one,
        Canary(tmp_path / "b", lab.bootstrap, "shared") as two,
    ):
        one.until_probing()
        two.until_probing()
        two.until(lambda: two.metric("canary_foreign_records_total") > 20, 30, "the other one's probes are foreign")
        one.until_all_seen()
        two.until_all_seen()
        assert one.broken_promises() == two.broken_promises() == []
        one.stop()
        with Canary(tmp_path / "fresh", lab.bootstrap, "shared") as fresh:
            fresh.until_probing()
            fresh.until_all_seen()
            assert fresh.broken_promises() == []
