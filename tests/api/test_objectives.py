"""Objectives as the API serves them, and what it may say of durability: over what was verified, and nothing else."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from api.judgement.durability import durability, stated
from api.knowledge.views import read_views
from canary.metrics import METRICS
from canary.metrics.objectives import OBJECTIVES, Objective
from storage.store.values import View
from tests.api.serving import NOW_NS, lost, scrape, view

if TYPE_CHECKING:
    from api.judgement.durability import Durability
    from storage.store import Store
    from tests.api.serving import Client

ASKED = [asdict(Objective("availability", 0.999)), asdict(Objective("produce", 0.99, 0.5, 604_800.0))]


def known(*more: Any, acked: int = 1000, seen: int | None = None) -> Durability:
    rows = [View("prod", "canary-0", NOW_NS, view(acked=acked, seen=seen, more=more))]
    return durability(read_views(rows, NOW_NS)["prod"], ())


def test_what_was_acknowledged_and_not_read_verifies_nothing() -> None:
    unread = known(seen=0)
    assert (unread.verified, unread.upper_95) == (0, None)
    assert "nothing is known" in unread.sentence
    assert known(seen=400).verified == 3 * 400
    assert known().verified == 3 * 1000


def test_more_deliveries_than_acknowledgements_verify_no_more_than_these() -> None:
    assert known(seen=1010).verified == 3 * 1000


def test_deliveries_that_may_be_of_writes_of_unknown_outcome_verify_nothing() -> None:
    unknown = ["canary_probes_indeterminate_total", ["durability-canary", "0", "transactional"], 30]
    assert known(unknown).verified == 3 * 1000 - 30
    many = ["canary_probes_indeterminate_total", ["durability-canary", "0", "transactional"], 5000]
    assert known(many).verified == 2 * 1000


def test_the_sentence_says_of_how_many_and_how_sure() -> None:
    """The rule of three: 3 / 3,000 is 1 in 1,000; the exact bound is a little better, and is rounded for the worse."""
    one = stated("prod", 3000, 0)
    assert one.sentence == (
        "Of 3,000 acknowledged writes of prod that were verified, 0 were lost: with 95 % confidence at most 1 in 1,001 "
        "is lost."
    )
    assert one.upper_95 == pytest.approx(0.00099807, rel=1e-4)
    assert stated("prod", 1, 0).sentence.startswith("Of 1 acknowledged write of prod that was verified, 0 were lost")
    assert stated("prod", 1, 1).sentence.endswith("1 was lost: with 95 % confidence at most 100% is lost.")


def test_the_api_serves_objectives_and_durability(client: Client, store: Store) -> None:
    store.views.save("prod", "canary-0", time.time_ns(), view(objectives=ASKED))
    store.violations.record("prod", [lost(1)])
    body = client.get("/api/v1/clusters/prod/objectives").json()
    assert body["objectives"] == [
        {"name": "availability", "target": 0.999, "within_s": None, "window_s": 2_592_000.0},
        {"name": "produce", "target": 0.99, "within_s": 0.5, "window_s": 604_800.0},
    ]
    assert body["durability"]["verified"] == 300
    assert body["durability"]["lost"] == 1
    assert body["durability"]["loss_rate_upper"] == pytest.approx(0.015717, rel=1e-3)
    assert client.get("/api/v1/clusters/none/objectives").status_code == 404


def test_metrics_have_the_objectives_of_the_newest_runner_also_after_it_has_died(client: Client, store: Store) -> None:
    """Rules compare with them: a target that goes with its runner would end an alert that fires."""
    store.views.save("prod", "canary-0", time.time_ns() - 3_600 * 10**9, view(objectives=ASKED))
    samples = scrape(client)
    assert samples["canary_objective_target_ratio", (("cluster", "prod"), ("objective", "availability"))] == 0.999
    assert (
        samples["canary_objective_bound_seconds", (("bucket", "0.5"), ("cluster", "prod"), ("objective", "produce"))]
        == 0.5
    )
    assert samples["canary_objective_window_seconds", (("cluster", "prod"),)] == 604_800
    assert samples["canary_verified_writes", (("cluster", "prod"),)] == 300
    les = {dict(labels)["le"] for name, labels in samples if name == "canary_produce_latency_seconds_bucket"}
    assert "0.5" in les  # rules join the two by this text


def test_every_bound_is_a_bucket_and_a_runner_of_an_older_release_has_no_objectives() -> None:
    assert all(kind.bound_s in METRICS[kind.histogram].buckets for kind in OBJECTIVES.values() if kind.histogram)
    old = orjson.loads(view())
    assert "objectives" not in old
    assert read_views([View("prod", "canary-0", NOW_NS, view())], NOW_NS)["prod"].objectives == ()
