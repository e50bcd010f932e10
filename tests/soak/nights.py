"""A night of each cluster of a fleet, on one PostgreSQL and one S3, while schedulers fail in the middle.

Once with one release for all clusters, and once with a release for each.
"""

from __future__ import annotations

import os
import random
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from canary.drills.rig.installation import Installation
from canary.lab import Lab
from storage.store import Store
from tests.support.families import kill
from tests.support.postgres import Postgres
from tests.support.s3 import object_store, shipped
from tests.support.scheduling import pod

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from threading import Event

    from storage.store.values import Reconciliation

_LOG: Final = "s3://canary/probe-log"
_FAILS_EVERY: Final = 10
"""In every tenth night the scheduler's node fails."""
_AT_ONCE: Final = 2
"""A release for each cluster could do all nights at once; this machine has two cores."""
_PATIENCE_S: Final = 300.0


def reconciled(directory: Path, stopping: Event, tell: Callable[[str], None], *, clusters: int, seed: int) -> list[str]:
    """Do both; return what is wrong."""
    names = [f"prod-{number:02d}" for number in range(clusters)]
    with ExitStack() as stack:
        os.environ |= stack.enter_context(object_store("canary"))
        url = stack.enter_context(Postgres()).database()
        lab = stack.enter_context(Lab(directory / "lab", brokers=1))
        store = stack.enter_context(Store.connect(url, timeout=60))
        store.upgrade()
        fleet = _installation(directory / "fleet", lab.bootstrap, url, names)
        _probe(fleet, names, stopping, tell)
        wrong = _nights(store, url, {"fleet": fleet.config}, names, stopping, tell, seed)
        each = {name: _installation(directory / name, lab.bootstrap, url, [name]).config for name in names}
        wrong += _nights(store, url, each, names, stopping, tell, seed + 1)
        wrong += [f"said: {one.kind} in {one.topic}" for one in store.violations.page().items]
    return wrong


def _installation(directory: Path, bootstrap: str, url: str, names: Sequence[str]) -> Installation:
    clusters: list[dict[str, Any]] = [
        {
            "name": name,
            "kafka": {"bootstrap.servers": bootstrap},
            "topic": {"name": f"canary-{name}", "partitions": 1, "replication_factor": 1},
            "modes": {"idempotent": {"interval": "1s"}},
        }
        for name in names
    ]
    settings = {"store": {"url": url}, "probe_log": {"url": _LOG}, "runner": {"name": "r", "segment_age": "5s"}}
    return Installation(directory, clusters, settings, parts=("run",))


def _probe(fleet: Installation, names: Sequence[str], stopping: Event, tell: Callable[[str], None]) -> None:
    """Let one runner probe all clusters until each has something in the object store."""
    fleet.start()
    try:
        began, here = time.monotonic(), set[str]()
        while here != set(names) and not stopping.wait(1.0):
            if time.monotonic() - began > _PATIENCE_S or (ended := fleet.ended()):
                raise RuntimeError(f"probes of {set(names) - here} do not come: {ended}")
            here = shipped(_LOG)
        tell(f"{len(here)} clusters are probed, after {time.monotonic() - began:.0f} s")
    finally:
        fleet.stop()


def _nights(
    store: Store,
    url: str,
    configs: dict[str, Path],
    names: Sequence[str],
    stopping: Event,
    tell: Callable[[str], None],
    seed: int,
) -> list[str]:
    """Ask for a night of each cluster, some at a time; let every tenth one's scheduler fail in the middle."""
    chance = random.Random(seed)  # noqa: S311  # moments, no secrets
    began, failures = time.monotonic(), 0
    wrong: list[str] = []
    with ExitStack() as stack:
        pods = {name: stack.enter_context(pod(config, url)) for name, config in configs.items()}
        waiting, asked = iter(names), dict[str, str]()
        doomed = set(names[_FAILS_EVERY - 1 :: _FAILS_EVERY])
        done = 0
        while not stopping.wait(0.2):
            while len(asked) < _AT_ONCE and (name := next(waiting, None)) is not None:
                asked[name] = store.reconciliations.request(name, "api", time.time_ns()).id
            if not asked:
                break
            for name, night in list(asked.items()):
                row = store.reconciliations.get(night)
                assert row is not None
                if time.time_ns() - row.requested_ns > _PATIENCE_S * 1e9:
                    return [*wrong, f"{name} is not done: {row}"]
                if row.state == "running" and name in doomed and row.progress and chance.random() < 0.05:
                    doomed.remove(name)
                    whose = name if name in pods else "fleet"
                    kill(pods[whose])
                    pods[whose] = stack.enter_context(pod(configs[whose], url))
                    failures += 1
                if row.state in {"succeeded", "failed"}:
                    del asked[name]
                    done += 1
                    wrong += _judged(row)
                    tell(f"{done} of {len(names)} nights, {failures} schedulers failed: {row.cluster} {row.verdicts}")
        tell(f"{len(configs)} releases: {done} nights in {time.monotonic() - began:.0f} s, {failures} failures")
    return wrong


def _judged(row: Reconciliation) -> list[str]:
    if row.state == "failed":
        return [f"{row.cluster}: {row.error}"]
    if not row.verdicts.get("survived") or not row.verdicts.keys() <= {"survived", "pending", "unacked-found"}:
        return [f"{row.cluster}: {row.verdicts}"]
    return []
