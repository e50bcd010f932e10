"""What many partitions cost in CPU time: ``python -m tests.benchmarks.many [partitions ...]``.

For each number of partitions (30, 300 and 1,000), in one runner: to publish a view (measured, written as JSON and saved
in SQLite by the real flusher), to snapshot, to start again from the snapshot and the half minute of facts after it, to
render /metrics and the status page; the bytes of both, and the resident memory of a process that holds the tracker.
Then ten shards of 1,000 on one PostgreSQL: ten flushers save a view each in every round, as in a second of ten runners.

Prints a line of JSON for each. Subjects take turns in five rounds, and the median counts. The limits of issue 16 are
told in ms, but what fails is the comparison with orjson in the same rounds: it reads a view of the first version with
as many partitions, which for 1,000 takes 14 ms on a machine of 2026.
"""

from __future__ import annotations

import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from tests.support.contexts import context
from tests.support.postgres import Postgres

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from canary.anomalies.online.state import State

ROUNDS, SHARDS = 5, 10
MANY = 1_000
BASELINE_MS = 14.0
"""What the baseline takes for MANY partitions where the limits hold as they are."""
LIMITS_MS = {"publish": 20.0, "snapshot": 50.0}
RSS_MIB = 250.0
RESTART_S, RESTARTED = 1.0, 30
"""What a restart of so many partitions may take."""
BEATS, SEGMENT_S = 10, 30


def cpu_ms(subjects: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Return the median CPU (ms) of each of the subjects, which take turns."""
    took: dict[str, list[float]] = {name: [] for name in subjects}
    for _ in range(ROUNDS):
        for name, subject in subjects.items():
            gc.collect()
            began = time.process_time()
            subject()
            took[name].append(time.process_time() - began)
    return {name: statistics.median(times) * 1e3 for name, times in took.items()}


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


def one_runner(partitions: int) -> dict[str, Any]:
    """Return what one runner costs."""
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
                "baseline": lambda: orjson.loads(rows),
                "publish": flusher.flush,
                "snapshot": lambda: snapshot.seal(tracker, ()),
                "restart": restart,
                **asked(store),
            }
        )
        (row,) = store.views.all()
    return {
        "partitions": partitions,
        **{f"{name}_ms": round(value, 2) for name, value in found.items()},
        "view_bytes": len(row.view),
        "snapshot_bytes": len(sealed),
        **resident(partitions),
    }


def resident(partitions: int) -> dict[str, float]:
    """Return the memory (MiB) of another process that holds the tracker."""
    command = [sys.executable, "-m", "tests.benchmarks.many_lives", str(partitions)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    found: dict[str, float] = json.loads(done.stdout)
    return found


def shards() -> dict[str, Any]:
    """Return what SHARDS runners of MANY partitions cost on one PostgreSQL, and the API that reads all of them."""
    tracker, _ = lived(MANY)
    with Postgres() as server, Store.connect(server.database(), timeout=60) as store:
        store.upgrade()
        flushers = [flusher_of(store, tracker.state, shard, SHARDS) for shard in range(SHARDS)]
        before = postgres_s()
        found = cpu_ms({"publish": lambda: [flusher.flush() for flusher in flushers], **asked(store)})
        return {
            "partitions": SHARDS * MANY,
            "shards": SHARDS,
            "rows_a_second": SHARDS,
            **{f"{name}_ms": round(value, 2) for name, value in found.items()},
            "postgres_ms_a_round": round((postgres_s() - before) * 1e3 / ROUNDS, 2),
        }


def postgres_s() -> float:
    """Return the CPU seconds of the databases that this process has started."""
    started = [one for one in psutil.process_iter(["name"]) if one.info["name"] == "postgres"]
    return sum(sum(one.cpu_times()[:2]) for one in started)


def missed(row: Mapping[str, Any]) -> list[str]:
    """Return the limits that are not held."""
    if row["partitions"] == RESTARTED:
        scale = row["baseline_ms"] / BASELINE_MS * MANY / RESTARTED
        return ["restart"] if row["restart_ms"] > RESTART_S * 1e3 * scale else []
    if row["partitions"] != MANY:
        return []
    scale = row["baseline_ms"] / BASELINE_MS
    slow = [name for name, limit in LIMITS_MS.items() if row[f"{name}_ms"] > limit * scale]
    return [*slow, *(["rss"] if row["rss_mib"] > RSS_MIB else [])]


def main(sizes: list[int]) -> int:
    """Measure all; return how many limits are not held."""
    bad = 0
    for size in sizes:
        row = one_runner(size)
        late = missed(row)
        bad += len(late)
        sys.stdout.write(json.dumps({**row, "missed": late}) + "\n")
        sys.stdout.flush()
    sys.stdout.write(json.dumps(shards()) + "\n")
    return bad


if __name__ == "__main__":
    sys.exit(main([int(one) for one in sys.argv[1:]] or [30, 300, MANY]))
