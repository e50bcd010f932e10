"""What the API costs, against an empty FastAPI route and against prometheus-client, in one run on one machine.

The first figures are the server's CPU, which a busy machine changes least; requests a second are what it leaves.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import TYPE_CHECKING

import pytest
from prometheus_client import metrics

from api.knowledge.views import read_views
from storage.store import Store
from storage.store.values import View
from tests.benchmarks.api_asking import Load, Served, ask, serving
from tests.benchmarks.api_store import fill, wide_view
from tests.benchmarks.metrics_cost import cpu_ms, in_memory, ours, theirs

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.bench

VIOLATIONS = 100_000
ROUNDS = 5
REQUESTS = 2_000
PATHS = ("/api/v1/clusters/prod/summary", "/api/v1/violations")
PARTITIONS = 1_000


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    url = f"sqlite:///{tmp_path_factory.mktemp('store')}/store.db"
    fill(url, VIOLATIONS)
    with Store.connect(url, timeout=5) as store:
        store.views.save("prod", "canary-0", time.time_ns() + 3600 * 10**9, wide_view(3))
    with serving(url) as served:
        yield served


@pytest.mark.parametrize("path", PATHS)
def test_an_answer_costs_little_more_than_an_empty_one_and_nobody_waits_long(api: Served, path: str) -> None:
    size = ask(api, path, clients=1, requests=20).size
    with serving("--empty", str(size)) as nothing:
        ask(nothing, "/empty", clients=50, requests=200)
        ratios: list[float] = []
        tails: list[float] = []
        for _ in range(ROUNDS):  # one after the other, so that both see the same machine
            base = ask(nothing, "/empty", clients=50, requests=REQUESTS)
            ours = ask(api, path, clients=50, requests=REQUESTS)
            ratios.append(base.cpu_us / ours.cpu_us)
            tails.append(ours.percentile(99) / ours.percentile(50))
            _say(path, size, base, ours)
    assert statistics.median(ratios) >= 0.6
    assert statistics.median(tails) <= 5


def _say(path: str, size: int, base: Load, ours: Load) -> None:
    sys.stdout.write(
        f"{path} ({size:,} bytes): {ours.cpu_us:.0f} us CPU, {ours.per_second:,.0f}/s;"
        f" empty route {base.cpu_us:.0f} us,"
        f" {base.per_second:,.0f}/s: {base.cpu_us / ours.cpu_us:.2f} of its requests by CPU,"
        f" {ours.per_second / base.per_second:.2f} by clock; median {ours.percentile(50):.1f} ms,"
        f" p99 {ours.percentile(99):.1f} ms\n"
    )


def test_metrics_of_a_thousand_partitions_cost_no_more_than_prometheus_client_from_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics, "_use_created", False)  # the same series on both sides
    view = wide_view(PARTITIONS)
    registry = in_memory(read_views([View("prod", "canary-0", time.time_ns(), view)], time.time_ns())["prod"])
    mine = [line for line in ours(view).splitlines() if line.startswith(b"canary_p")]
    assert len(mine) > 20 * PARTITIONS
    assert sorted(mine) == sorted(line for line in theirs(registry).splitlines() if line.startswith(b"canary_p"))
    ratios = []
    for _ in range(ROUNDS):
        base, own = cpu_ms(lambda: theirs(registry), 2), cpu_ms(lambda: ours(view), 2)
        ratios.append(own / base)
        sys.stdout.write(f"/metrics, {PARTITIONS:,} partitions: {own:.0f} ms CPU; prometheus-client {base:.0f} ms\n")
    assert statistics.median(ratios) <= 1.1
