"""Two releases of a fleet: each has its cluster, runner and scheduler; both share a PostgreSQL and an object store.

The scheduler of one of them is killed in the middle of a night, and its standby does that night.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import pytest

from canary.settings import load
from spark_reconcile.nightly.scheduler import Scheduler
from spark_reconcile.report.comparison import KINDS
from storage.store import Store
from tests.spark_reconcile.test_schedule_fleet import turn
from tests.support.families import kill
from tests.support.process import Canary
from tests.support.s3 import object_store, shipped
from tests.support.scheduling import at_work, pod
from tests.support.waiting import until

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    from canary.lab import Lab
    from storage.store.values import Reconciliation
    from tests.support.postgres import Postgres

CLUSTERS = ("prod-a", "prod-b")
LOG = "s3://canary/probe-log"
NIGHT_S = 240.0


def release(folder: Path, lab: Lab, store_url: str, cluster: str) -> Canary:
    """What one release has; its scheduler is due every minute."""
    topic = {"name": f"{cluster}-{folder.name}", "partitions": 2}
    settings = {
        "clusters": [{"name": cluster, "kafka": {"bootstrap.servers": lab.bootstrap}, "topic": topic}],
        "probe_log": {"url": LOG},
        "schedule": {"reconcile": "* * * * *"},
    }
    return Canary(folder / cluster, lab.bootstrap, "", store=store_url, parts=("run",), settings=settings)


def scheduler(canary: Canary, store: Store) -> AbstractContextManager[None]:
    """Its scheduler, whose nights do not wait for the log: nothing is shipped any more."""
    options = ["--config", str(canary.config), "--settle", "0"]
    return at_work(Scheduler(load(canary.config, {}), store, options))


def at_work_on(store: Store, cluster: str) -> Reconciliation | None:
    """Return the night of a cluster that was asked for, whose dump is made and is being reconciled."""
    rows = (row for row in store.reconciliations.page(cluster, "running").items if row.requested_by == "api")
    return next((row for row in rows if (row.progress or "").startswith("reconciling")), None)


def nights(store: Store, cluster: str, by: str) -> list[Reconciliation]:
    """Return the good nights of a cluster; a bad one ends the test."""
    rows = store.reconciliations.page(cluster).items
    assert not [row.error for row in rows if row.state == "failed"]
    return [row for row in rows if row.state == "succeeded" and row.requested_by == by]


def enough(store: Store, cluster: str, by: str, count: int) -> bool:
    return len(nights(store, cluster, by)) >= count


def asked_for(store: Store, cluster: str) -> bool:
    """Ask for a night as REST does; False while the clock has asked for one that has not begun, and is enough."""
    return store.reconciliations.request(cluster, "api", time.time_ns()).requested_by == "api"


@pytest.mark.slow
@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.postgres
@pytest.mark.timeout(3600)
def test_both_clusters_are_reconciled_when_asked_and_by_the_clock(
    lab: Lab, postgres: Postgres, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, long: bool
) -> None:
    """In the long form by the clock before, too."""
    wanted = [("schedule", 1), ("api", 1), ("schedule", 2)] if long else [("api", 1), ("schedule", 1)]
    url = postgres.database()
    with ExitStack() as stack:
        for name, value in stack.enter_context(object_store("canary")).items():
            monkeypatch.setenv(name, value)
        releases = {cluster: release(tmp_path, lab, url, cluster) for cluster in CLUSTERS}
        store = stack.enter_context(Store.connect(url, timeout=60))
        store.upgrade()
        with ExitStack() as running:
            for canary in releases.values():
                running.enter_context(canary)
            until(lambda: shipped(LOG) == set(CLUSTERS), 60, "both runners have shipped a segment")
            assert [canary.stop() for canary in releases.values()] == [[0], [0]]
        first = stack.enter_context(pod(releases["prod-a"].config, url))
        until(lambda: turn(store, "prod-a"), 60, "it leads its cluster")
        stack.enter_context(scheduler(releases["prod-b"], store))
        standby = scheduler(releases["prod-a"], store)  # from the kill on: it would lead as soon as the first stalls
        for by, count in wanted:
            for cluster in CLUSTERS if by == "api" else ():
                until(partial(asked_for, store, cluster), 60, f"{cluster} can be asked for")
            if by == "api":
                until(lambda: at_work_on(store, "prod-a"), NIGHT_S, "it is in the middle of the night")
                stack.enter_context(standby)
                kill(first)
            for cluster in CLUSTERS:
                until(partial(enough, store, cluster, by, count), 60 + NIGHT_S, f"night {count} of {cluster} by {by}")
        assert nights(store, "prod-a", "api")[-1].interrupted == 1, "the one that stood by did it"
        for cluster, canary in releases.items():
            for row in (*nights(store, cluster, "schedule"), *nights(store, cluster, "api")):
                assert row.verdicts["survived"] > 0
                not_shipped = {"pending", "unacked-found", "unacked-absent"}  # the last segment, and acks in it
                assert row.verdicts.keys() <= {"survived"} | not_shipped
                assert str(row.report).startswith(f"{canary.directory}/"), "by its own release"
        assert not [row for row in store.violations.page().items if row.kind in KINDS]
