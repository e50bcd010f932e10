"""Replicas of a topic whose old segments are in a remote tier (KIP-405): silence, words for the rest, and a find."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from canary.anomalies.online import Tracker
from canary.facts import EpochSeen, RunnerStarted
from canary.threads.ports import SteadyClock
from canary.watching.elections.epoch_watcher import EpochWatcher
from canary.watching.replicas.comparing import Comparison
from canary.watching.replicas.source import Source
from canary.wire.client import opened
from tests.support import tiers
from tests.support.command import canary
from tests.support.harm import remove_batch
from tests.support.labs import Watched
from tests.support.waiting import in_time, until
from tests.watching.replicas.test_replicas_brokers import brief, config, produce

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from canary.anomalies.replicas.divergence import Divergence
    from canary.lab import Lab
    from canary.watching.replicas.outcomes import Outcome
    from canary.wire.replicas import PartitionReplicas
    from tests.support.recording import Recording

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

TOPIC = "tiered"
LOCAL = 500
"""From there on two segments and more are on the brokers' disks when there are 600 records."""


@pytest.fixture(name="lab")
def _lab(tmp_path: Path) -> Iterator[Lab]:
    """Brokers with a tier."""
    properties = tiers.properties(tmp_path / "tier")
    with Watched(tmp_path / "lab", profile="quick", properties=properties, die_with_parent=True) as lab:
        yield lab


class Compared:
    """What ``canary replicas compare`` says of the topic, while no segment goes to the tier."""

    def __init__(self, lab: Lab, settings: Path, *words: object) -> None:
        words = ("replicas", "compare", TOPIC, "--config", settings, "--json", *words)
        before = None
        while before != (before := tiers.starts(lab, TOPIC)):
            ended = canary(*words)
        report = json.loads(ended.out)
        self.status = ended.status
        (self.range,) = report["compared"]
        self.found = [brief(one) for one in report["divergences"]]
        self.unknown = {(one["reason"], one["broker"]): one["text"] for one in report["unknown"]}
        self.local = {broker: local for broker, (_, local) in before.items()}

    def says_what_is_tiered(self, end: int) -> bool:
        """Whether it found nothing in what all have on their disks, and names of each broker what it has not."""
        start = max(self.local.values())
        assert (self.status, self.found) == (3, [])
        assert (self.range["from"], self.range["to"], self.range["offsets"]) == (start, end, end - start)
        return self.unknown == {
            ("tiered", broker): f"broker {broker} has offsets 0 to {local - 1} in a remote tier only"
            for broker, local in self.local.items()
        }


def compared_since_before_the_tier(lab: Lab) -> tuple[Outcome, list[Divergence]]:
    """What a pass says that began when all of the topic was on the brokers' disks, and reads only now."""

    class Late(Source):
        asked = 0

        def starts(self, place: PartitionReplicas, broker: int) -> tuple[int, int]:
            self.asked += 1
            return (0, 0) if self.asked <= len(lab.brokers) else super().starts(place, broker)

    with opened({"bootstrap.servers": lab.bootstrap}) as admin:
        comparison = Comparison(Late(admin), TOPIC, 0)
        said = [one for step in comparison.run() for one in step.found]
        return comparison.outcome, said


def test_a_tier_is_silent_what_is_in_it_only_is_named_and_a_loss_from_a_disk_is_found(
    lab: Lab, tmp_path: Path, inbox: Recording
) -> None:
    admin = AdminClient({"bootstrap.servers": lab.bootstrap})
    new = NewTopic(TOPIC, 1, replica_assignment=[[1, 2, 3]], config=tiers.TIERED)
    admin.create_topics([new])[TOPIC].result(60)
    settings = config(tmp_path, lab.bootstrap)
    watcher = EpochWatcher({"bootstrap.servers": lab.bootstrap}, [TOPIC], [], inbox, SteadyClock(), 0.2)
    watcher.start()
    try:
        produce(lab.bootstrap, TOPIC, 60)
        tiers.wait_until_tiered(lab, TOPIC, 150)
        assert Compared(lab, settings).says_what_is_tiered(300)

        lab.stop_broker(1)
        produce(lab.bootstrap, TOPIC, 60)
        lab.stop_broker(3)
        kept = lab.copy_data(3)
        shutil.rmtree(lab._site.data(3) / f"{TOPIC}-0")
        for broker in (1, 3):
            lab.start_broker(broker, timeout=0)
        lab.wait_ready(including=(1, 3))
        lab.wait_isr(TOPIC, 0, {1, 2, 3})
        tiers.wait_until_tiered(lab, TOPIC, 400)
        assert Compared(lab, settings).says_what_is_tiered(600), "broker 3 has filled its empty disk"
        assert Compared(lab, settings, "--from", LOCAL).status == 0
        admin.elect_leaders(ElectionType.PREFERRED, [TopicPartition(TOPIC, 0)]).result(60)
        inbox.wait(lambda: inbox.of(EpochSeen)[-1].leader_epoch == 2)
        until(lambda: watcher.latest is not None and watcher.latest.unknown == 0, 30, "all is known")
    finally:
        in_time(watcher.stop(20))
    tracker = Tracker()
    tracker.fold([RunnerStarted(1, "canary-0", "test"), *inbox.facts])
    assert tracker.drain().violations == []
    assert {one.leader_epoch: one.start for one in inbox.of(EpochSeen)} == {0: 0, 1: 300, 2: 600}

    own = ("--config", settings, "salvage", "--log-dir", kept, "--epochs-from", "t", "--topic", TOPIC)
    counts = json.loads(canary(*own, "--dry-run", "--verify", "--json").out)["total"]
    assert 0 < counts["records"] == counts["held"] < 600
    assert not any(counts[name] for name in ("salvaged", "missing", "changed", "unverified", "expired", "damaged"))

    lab.stop_broker(3)
    harmed = remove_batch(lab, 3, TOPIC, 0, LOCAL + 12)
    lab.start_broker(3)
    lab.wait_isr(TOPIC, 0, {1, 2, 3})
    after = Compared(lab, settings)
    assert (after.status, after.found) == (1, [(0, *harmed, [3], "missing")])

    tiers.hurry(lab)
    outcome, said = compared_since_before_the_tier(lab)
    assert [(one.first, one.last, one.brokers) for one in said] == [(*harmed, (3,))]
    local = max(after.local.values())
    assert (outcome.start, outcome.compared_to, outcome.offsets) == (0, 600, 600 - local)
    assert set(outcome.unknown) == {("tiered", broker) for broker in after.local}
