"""Schedulers with different settings on one store, one release for each cluster: each does its own clusters' nights."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from canary.settings import load
from simulation.nights.nights import arrow, probe
from spark_reconcile.errors import BadInputError
from spark_reconcile.job.inputs import look
from spark_reconcile.nightly.scheduler import Scheduler, leadership
from storage.probe_log.compacting import compact
from storage.store import Store
from storage.store.repositories.leases import scheduler_lease
from storage.store.values import Held, Lease
from tests.spark_reconcile.test_schedule import until
from tests.support import stores
from tests.support.scheduling import at_work, light_child

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

HOUR_NS = 3600 * 10**9


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    with Store.connect(store_url, timeout=60) as connected:
        stores.upgrade(connected)
        yield connected


@contextmanager
def scheduler(folder: Path, url: str, name: str, *clusters: str) -> Iterator[None]:
    """A scheduler of some clusters, whose child knows only those; ``name`` stands in what it reconciled."""
    config = folder / f"{name}.yaml"
    config.write_text(
        f"store: {{url: '{url}'}}\nclusters:\n"
        + "".join(f"  - {{name: {one}, kafka: {{bootstrap.servers: '127.0.0.1:9'}}}}\n" for one in clusters)
        + "schedule: {reconcile: '0 3 * * *'}\n"
    )
    with Store.connect(url, timeout=60) as store:

        def reconcile(named: Mapping[str, str]) -> None:
            ours = named["--reconciliation"], named["--holder"]
            error = None if named["--cluster"] in clusters else "not in the settings"
            store.reconciliations.finish(*ours, time.time_ns(), error=error, report=name)

        with light_child(reconcile) as program:
            command = [sys.executable, "-c", program]
            with at_work(Scheduler(load(config, {}), store, (), command)):
                yield


def succeeded(store: Store, *clusters: str) -> dict[str, str | None]:
    """Return who reconciled each of the clusters, once all of them are."""
    until(lambda: all(store.reconciliations.page(cluster, "succeeded").items for cluster in clusters))
    assert not store.reconciliations.page(state="failed").items
    return {cluster: store.reconciliations.page(cluster, "succeeded").items[0].report for cluster in clusters}


def turn(store: Store, cluster: str) -> int:
    """Return how often the leader of a cluster has held on to its lease."""
    answer = store.leases.hold([scheduler_lease(cluster)], "nobody")[scheduler_lease(cluster)]
    if isinstance(answer, Lease):
        store.leases.release(scheduler_lease(cluster), "nobody")
        return 0
    return answer.counter


def test_each_scheduler_does_what_its_own_clusters_are_asked_for(store: Store, store_url: str, tmp_path: Path) -> None:
    with scheduler(tmp_path, store_url, "one", "prod-a"), scheduler(tmp_path, store_url, "two", "prod-b"):
        for cluster in ("prod-b", "prod-a"):
            store.reconciliations.request(cluster, "api", time.time_ns())
        assert succeeded(store, "prod-a", "prod-b") == {"prod-a": "one", "prod-b": "two"}


def test_each_scheduler_makes_up_for_its_own_clusters_missed_night(
    store: Store, store_url: str, tmp_path: Path
) -> None:
    before = time.time_ns() - 25 * HOUR_NS
    for cluster in ("prod-a", "prod-b"):
        missed = store.reconciliations.request(cluster, "schedule", before)
        store.reconciliations.claim("x", before)
        store.reconciliations.finish(missed.id, "x", before)
    with scheduler(tmp_path, store_url, "one", "prod-a"), scheduler(tmp_path, store_url, "two", "prod-b"):
        until(lambda: all(len(store.reconciliations.page(one, "succeeded").items) == 2 for one in ("prod-a", "prod-b")))
    assert succeeded(store, "prod-a", "prod-b") == {"prod-a": "one", "prod-b": "two"}


@pytest.mark.dear("two schedulers with children")
def test_a_cluster_of_two_schedulers_is_done_by_the_one_that_leads_it(
    store: Store, store_url: str, tmp_path: Path
) -> None:
    with scheduler(tmp_path, store_url, "one", "prod-a", "prod-b"):
        until(lambda: turn(store, "prod-b"))
        with scheduler(tmp_path, store_url, "two", "prod-b", "prod-c"):
            until(lambda: turn(store, "prod-c"))
            for cluster in ("prod-a", "prod-b", "prod-c"):
                store.reconciliations.request(cluster, "api", time.time_ns())
            done = succeeded(store, "prod-a", "prod-b", "prod-c")
    assert done == {"prod-a": "one", "prod-b": "one", "prod-c": "two"}


def test_nobody_else_touches_what_a_cluster_that_it_does_not_have_waits_for_or_runs(
    store: Store, store_url: str, tmp_path: Path
) -> None:
    running = store.reconciliations.request("prod-b", "api", 1)
    store.reconciliations.claim("alive", time.time_ns())
    waiting = store.reconciliations.request("prod-c", "api", 2)
    with scheduler(tmp_path, store_url, "one", "prod-a"):
        store.reconciliations.request("prod-a", "api", time.time_ns())
        assert succeeded(store, "prod-a") == {"prod-a": "one"}
        first = until(lambda: turn(store, "prod-a"))
        until(lambda: turn(store, "prod-a") >= first + 3)  # two whole ticks in which nothing must happen
    for asked, state in ((running, "running"), (waiting, "requested")):
        row = store.reconciliations.get(asked.id)
        assert row is not None
        assert row.state == state


def test_a_dead_schedulers_clusters_go_to_who_has_them_and_no_others_do(store: Store) -> None:
    now = [0.0]
    dead = leadership(store, "dead", ["a", "b"], lambda: now[0])
    heir = leadership(store, "heir", ["b", "c"], lambda: now[0])
    assert dead.renew() == {"a", "b"}
    led = [heir.renew() for _ in range(20) if (now.__setitem__(0, now[0] + 1) is None)]
    turns = led.index(frozenset("bc"))
    assert led == [{"c"}] * turns + [{"b", "c"}] * (20 - turns)
    assert turns in range(14, 17)
    assert dead.renew() == {"a"}
    heir.release()
    assert dead.renew() == {"a", "b"}


def test_leases_are_held_all_at_once(store: Store) -> None:
    leases = store.leases
    assert leases.hold(["a", "b"], "one") == {"a": Lease("a", "one", 1), "b": Lease("b", "one", 1)}
    assert leases.hold(["b", "c"], "two") == {"b": Held("b", "one", 1), "c": Lease("c", "two", 1)}
    leases.release("b", "one")
    assert leases.hold(["b", "c"], "two") == {"b": Lease("b", "two", 3), "c": Lease("c", "two", 2)}
    assert leases.hold(["a", "b"], "one") == {"a": Lease("a", "one", 2), "b": Held("b", "two", 3)}
    assert leases.hold([], "one") == {}


def shipped(folder: Path, cluster: str, files: int) -> None:
    for table in ("probes", "transactions", "polls"):
        day = folder / "log" / table / "2026-11-03"
        day.mkdir(parents=True, exist_ok=True)
        for number in range(files):
            rows = [probe(number, number, cluster=cluster)] if table == "probes" else []
            pq.write_table(arrow(rows, table), day / f"{cluster}--r--ab-{number:010d}.parquet")


def test_a_night_opens_no_file_of_another_cluster_and_only_our_own_are_merged(tmp_path: Path) -> None:
    for cluster in ("prod-a", "prod-b"):
        shipped(tmp_path, cluster, 3)
    for table in ("records", "bounds"):
        (tmp_path / "dump" / table).mkdir(parents=True)
        pq.write_table(arrow([], table), tmp_path / "dump" / table / "a.parquet")
    log, probes = str(tmp_path / "log"), tmp_path / "log" / "probes" / "2026-11-03"
    assert compact(log, ["prod-a"], keep=0, at_least=1) == 6
    assert sorted(one.name for one in probes.iterdir()) == [
        "prod-a--r--ab-0000000000-0000000002.parquet",
        *(f"prod-b--r--ab-{number:010d}.parquet" for number in range(3)),
    ]
    for broken in probes.glob("prod-b*"):
        broken.write_bytes(b"")  # as if it were gone between listing and reading
    assert len(look(log, str(tmp_path / "dump"), cluster="prod-a").files["probes"]) == 1
    with pytest.raises(BadInputError, match="no file of cluster prod-c"):
        look(log, str(tmp_path / "dump"), cluster="prod-c")
