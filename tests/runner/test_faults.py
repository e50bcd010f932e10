"""The main job on a real three-broker Kafka, under faults: nothing missed, nothing false."""

from __future__ import annotations

import random
import statistics
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.process import Canary, acknowledged, identities
from tests.support.waiting import BUSY

if TYPE_CHECKING:
    from pathlib import Path

    from canary.lab import Lab

pytestmark = pytest.mark.kafka


@pytest.mark.quick
def test_brokers_paused_for_12_s_are_no_loss_and_metrics_answer_meanwhile(lab: Lab, tmp_path: Path) -> None:
    """Shows (e)."""
    with Canary(tmp_path, lab.bootstrap, "paused", interval="250ms") as canary:
        canary.until_probing()
        for broker in lab.brokers:
            lab.pause(broker)
        before, took = waited_long(canary), []
        end = time.monotonic() + 12  # longer than what waited_long() counts
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


def test_the_canary_killed_at_any_moment_forgets_and_repeats_nothing(lab: Lab, tmp_path: Path, *, long: bool) -> None:
    """Shows (b): no false alarm, no identity twice, no acknowledged probe forgotten, by reading the topic itself."""
    dice = random.Random(7)  # noqa: S311  # moments, no secrets
    kills = 5 if long else 2
    canary = Canary(tmp_path, lab.bootstrap, "killed")
    try:
        for _ in range(kills):
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
    assert len({identity.generation for identity in held}) >= kills + 1
    forgotten = {identity: offset for identity, offset in acked.items() if held.get(identity, []) != [offset]}
    assert forgotten == {}
    assert len(acked) > 10 * (kills + 1)
