"""What many partitions cost in CPU time.

For 30, 300 and 1,000 partitions, in one runner: to publish a view (measured, written as JSON and saved in SQLite by the
real flusher), to snapshot, to start again from the snapshot and the half minute of facts after it, to render /metrics
and the status page; the bytes of both, and the resident memory of a process that holds the tracker. Then ten shards of
1,000 on one PostgreSQL: ten flushers save a view each in every round, as in a second of ten runners.

Limits are in ms of a machine on which orjson reads a view of the first version of 1,000 partitions in 14 ms; it does so
in the same rounds.
"""

from __future__ import annotations

import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING

import orjson
import psutil

from api import create_app
from canary.metrics import measured
from canary.runner.publishing import snapshot
from canary.runner.publishing.flusher import Flusher
from storage.store import Store
from tests.api.serving import Client, ProbeLogFake, settings
from tests.benchmarks.api_store import wide_view
from tests.benchmarks.many_lives import fold, lived
from tests.benchmarks.measuring import ROOT, Figure, command
from tests.support.contexts import context
from tests.support.postgres import Postgres

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from canary.anomalies.online.state import State

SHARDS = 10
MANY = 1_000
BASELINE_MS = 14.0
"""What the baseline takes for MANY partitions where the limits hold as they are."""
RSS_MIB = 250.0
RESTARTED = 30
"""The restart of so many partitions has a limit."""
BEATS, SEGMENT_S = 10, 30


def cpu_ms(subjects: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Return the CPU (ms) of each of the subjects in each round; they take turns."""
    took: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(rounds):
        for name, subject in subjects.items():
            gc.collect()
            began = time.process_time()
            subject()
            took[name].append((time.process_time() - began) * 1e3)
    return took


def flusher_of(store: Store, state: State, shard: int = 0, shards: int = 1) -> Flusher:
    """Return the flusher of one of the runners of a cluster; it publishes anew with each flush."""
    share = {"shard": f"{shard}/{shards}"} if shards > 1 else {}
    return Flusher(context(store, "prod", f"canary-{shard}", **share), lambda: measured(state))


def asked(store: Store) -> dict[str, Callable[[], object]]:
    """Return what is asked of the API over a store."""
    client = Client(create_app(settings("prod", metrics_cache="0s", answers_cache="0s"), store, ProbeLogFake()))

    def get(path: str) -> None:
        assert client.get(path).status_code == 200

    return {"metrics": lambda: get("/metrics"), "page": lambda: get("/")}


def one_runner(partitions: int, rounds: int) -> Iterator[Figure]:
    """Measure what one runner costs."""
    subject = f"{partitions:,} partitions"
    tracker, life = lived(partitions)
    rows, sealed = wide_view(partitions), snapshot.seal(tracker, ())
    following = [fact for _ in range(SEGMENT_S) for fact in life.second(BEATS)] if partitions == RESTARTED else []

    def restart() -> None:
        fold(snapshot.unseal(sealed).tracker, following)

    with (
        tempfile.TemporaryDirectory() as directory,
        Store.connect(f"sqlite:///{directory}/store.db", timeout=5) as store,
    ):
        store.upgrade()
        flusher = flusher_of(store, tracker.state)
        assert flusher.flush()
        found = cpu_ms(
            {
                "orjson reads a view of version 1": lambda: orjson.loads(rows),
                "publish": flusher.flush,
                "snapshot": lambda: snapshot.seal(tracker, ()),
                "restart": restart,
                **asked(store),
            },
            rounds,
        )
        (row,) = store.views.all()
    baseline = statistics.median(found["orjson reads a view of version 1"]) / BASELINE_MS
    limits = {MANY: {"publish": 20.0, "snapshot": 50.0}, RESTARTED: {"restart": 1000.0 * MANY / RESTARTED}}
    for what, took in found.items():
        limit = limits.get(partitions, {}).get(what)
        yield Figure.of(subject, what, took, "ms CPU", most=None if limit is None else limit * baseline)
    yield Figure(subject, "view", len(row.view), "bytes")
    yield Figure(subject, "snapshot", len(sealed), "bytes")
    yield Figure(subject, "resident", resident(partitions), "MiB", most=RSS_MIB if partitions == MANY else None)


def resident(partitions: int) -> float:
    """Return the memory (MiB) of another process that holds the tracker."""
    command = [sys.executable, "-m", "tests.benchmarks.many_lives", str(partitions)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    found: dict[str, float] = json.loads(done.stdout)
    return found["rss_mib"]


def shards(rounds: int) -> Iterator[Figure]:
    """Measure what SHARDS runners of MANY partitions cost on one PostgreSQL, and the API that reads all of them."""
    subject = f"{SHARDS * MANY:,} partitions in {SHARDS} shards on PostgreSQL"
    tracker, _ = lived(MANY)
    with Postgres() as server, Store.connect(server.database(), timeout=60) as store:
        store.upgrade()
        flushers = [flusher_of(store, tracker.state, shard, SHARDS) for shard in range(SHARDS)]
        before = postgres_s()
        found = cpu_ms({"publish": lambda: [flusher.flush() for flusher in flushers], **asked(store)}, rounds)
        for what, took in found.items():
            yield Figure.of(subject, what, took, "ms CPU")
        yield Figure(subject, "the database, a round", (postgres_s() - before) * 1e3 / rounds, "ms CPU")


def postgres_s() -> float:
    """Return the CPU seconds of the databases that this process has started."""
    started = [one for one in psutil.process_iter(["name"]) if one.info["name"] == "postgres"]
    return sum(sum(one.cpu_times()[:2]) for one in started)


def measure(rounds: int = 5) -> Iterator[Figure]:
    """Measure one runner of some sizes, and many runners."""
    for partitions in (RESTARTED, 300, MANY):
        yield from one_runner(partitions, rounds)
    yield from shards(rounds)


if __name__ == "__main__":
    command(measure)
