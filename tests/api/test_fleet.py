"""Fifty clusters on one PostgreSQL: every runner writes its view, one API shows all of it."""

from __future__ import annotations

import re
import threading
import time
from typing import TYPE_CHECKING

import pytest

from api import create_app
from api.knowledge import views
from canary.runner.supervision.lease import claim
from storage.store import Store
from tests.api.serving import Client, ProbeLogFake, lost, settings, view
from tests.support.contexts import context
from tests.support.waiting import joined

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.postgres import Postgres

pytestmark = pytest.mark.postgres

CLUSTERS = 50
SHARES = 3
"""Runners of each fifth cluster, which they share."""
ROUNDS = 3


def runners() -> Iterator[tuple[str, str, int, int]]:
    """Cluster, runner, share, shares. Runners of different clusters have the same names."""
    for number in range(CLUSTERS):
        shares = SHARES if number % 5 == 0 else 1
        for share in range(shares):
            yield f"cluster-{number:02}", f"canary-{share}", share, shares


@pytest.mark.dear("fills a store with a fleet")
def test_a_fleet_is_shown_whole(postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = postgres.database()
    trouble: list[str] = []
    gate = threading.Barrier(10)
    everybody = list(runners())

    def work(mine: list[tuple[str, str, int, int]]) -> None:
        with Store.connect(url, timeout=120) as store:
            store.upgrade()  # all at once, as after an upgrade of the fleet
            gate.wait(300)
            for turn in range(1, ROUNDS + 1):
                for cluster, runner, share, shares in mine:
                    if turn == 1:
                        ledger = tmp_path / cluster / runner
                        ledger.mkdir(parents=True)
                        if claim(context(store, cluster, runner), ledger) is None:
                            trouble.append(f"{cluster} {runner} has no lease")
                    shown = view(acked=100 * turn, shard=[share, shares])
                    store.views.save(cluster, runner, time.time_ns(), shown)

    threads = [threading.Thread(target=work, args=(everybody[at::10],)) for at in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        joined(thread, 400)
    assert trouble == []
    assert not any(thread.is_alive() for thread in threads)
    monkeypatch.setattr(views, "FRESH_S", 600.0)  # reported a moment ago, however long the machine took since
    with Store.connect(url, timeout=60) as store:
        assert len(store.views.all()) == len(everybody) == CLUSTERS + 10 * (SHARES - 1)
        client = Client(create_app(settings(), store, ProbeLogFake()))
        listed = client.get("/api/v1/clusters").json()["items"]
        assert [one["name"] for one in listed] == sorted({cluster for cluster, *_ in everybody})
        assert all(one["healthy"] for one in listed)
        assert {len(one["runners"]) for one in listed} == {1, SHARES}
        samples = _samples(client, "canary_probes_acked_total")
        assert samples == {
            name: (SHARES if number % 5 == 0 else 1) * 900 for number, name in enumerate(sorted(samples))
        }
        assert set(_samples(client, "canary_shards_missing").values()) == {0}
        assert len(_samples(client, "canary_violations_total")) == CLUSTERS  # each kind of each cluster, at 0
        assert len(set(re.findall(r'href="/clusters/(cluster-\d+)"', client.get("/").text))) == CLUSTERS

        store.violations.record("cluster-07", [lost(1)])
        store.views.save("cluster-10", "canary-1", time.time_ns() - 3600 * 10**9, view(shard=[1, 3]))
        assert "cluster-07 has lost 1 acknowledged write" in client.get("/").text
        unwell = [one["name"] for one in client.get("/api/v1/clusters").json()["items"] if not one["healthy"]]
        assert unwell == ["cluster-07", "cluster-10"]
        missing = _samples(client, "canary_shards_missing")
        assert {name for name, count in missing.items() if count} == {"cluster-10"}


def _samples(client: Client, name: str) -> dict[str, float]:
    """The sum of a metric by cluster."""
    found: dict[str, float] = {}
    for line in client.get("/metrics").text.splitlines():
        if line.startswith(name + "{"):
            cluster = re.findall(r'cluster="([^"]+)"', line)[0]
            found[cluster] = found.get(cluster, 0) + float(line.rsplit(" ", 1)[1])
    return found
