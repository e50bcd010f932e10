"""One bounded round of every enabled probe, then a re-read of all of it by fresh clients: a gate for deployments.

It is a canary of its own: store, ledger and probe log are temporary, and so is its installation, so that a running
canary takes its records for foreign ones and nothing that it knows is touched. The procedure is that of Jepsen's final
reads: stop writing, wait for outcomes, recreate every client, assign everything, read to the end.
"""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import structlog
from pydantic import SecretStr

from canary.client.worker import stop_together
from canary.runner.cluster import ClusterRunner
from canary.runner.supervise import GRACE_S, require_reachable
from storage.store import Store

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from canary.settings import Settings

log = structlog.get_logger(__name__)

CLEAN, VIOLATION, INCONCLUSIVE = 0, 1, 3
"""Exit statuses."""
_LOOK_S = 0.1
_START_S = 60.0
"""How long a cluster may take to be probed, before the round begins; a longer round waits as long as itself."""
_SETTLE_S = 30.0
"""How long what was sent may take to be seen."""
_REREAD_S = 60.0
"""How long it may take until everything was read again."""
_ASK_AGAIN_S = 6.0
"""A re-read that ended early is asked for again, so often; longer than a re-read waits for a silent broker."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a round came to. ``doubts`` say why it proves nothing, if it does not; ``counts`` are of all clusters."""

    status: int
    counts: dict[str, int]
    violations: list[dict[str, Any]]
    doubts: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return JSON values."""
        words = {CLEAN: "clean", VIOLATION: "violation", INCONCLUSIVE: "inconclusive"}
        return {
            "outcome": words[self.status],
            "probes": self.counts,
            "violations": self.violations,
            "doubts": self.doubts,
        }


def smoke(settings: Settings, seconds: float, stopping: threading.Event) -> Outcome:
    """Probe every cluster for ``seconds``, read everything again, and say what came of it.

    Raises:
        UserError: the settings cannot be run.
    """
    require_reachable(settings)
    with tempfile.TemporaryDirectory(prefix="canary-smoke-") as directory:
        alone = _alone(settings, Path(directory))
        with Store.connect(alone.store.url.get_secret_value(), timeout=10) as store:
            store.upgrade()
            runners = [ClusterRunner(alone, cluster, store) for cluster in alone.clusters]
            for runner in runners:
                runner.start()
            try:
                doubts = _probe(runners, seconds, stopping)
                counts = _counts(runners)
                reasons = [f"{runner.name}: {runner.message}" for runner in runners if runner.message]
            finally:
                stop_together(runners, GRACE_S)
            found = [
                {"cluster": v.cluster, "kind": v.kind, "severity": v.severity, "count": v.total}
                for v in store.violation_counts()
                if v.severity != "info"
            ]
        doubts += reasons
        status = VIOLATION if found else INCONCLUSIVE if doubts else CLEAN
        return Outcome(status, counts, found, doubts)


def _alone(settings: Settings, directory: Path) -> Settings:
    """Return the settings with a memory of their own, that goes with the round."""
    return settings.model_copy(
        update={
            "store": settings.store.model_copy(update={"url": SecretStr(f"sqlite:///{directory}/store.db")}),
            "ledger": settings.ledger.model_copy(update={"directory": directory / "ledger"}),
            "probe_log": settings.probe_log.model_copy(update={"url": str(directory / "probe-log")}),
            "runner": settings.runner.model_copy(update={"name": "smoke", "scrub_rate": 0}),
        }
    )


def _probe(runners: list[ClusterRunner], seconds: float, stopping: threading.Event) -> list[str]:
    """Go through the procedure; return the doubts."""

    def until(reached: Callable[[ClusterRunner], bool], deadline: float) -> list[str]:
        while not stopping.is_set() and time.monotonic() < deadline:
            if all(reached(runner) or not runner.alive for runner in runners):
                break
            stopping.wait(_LOOK_S)
        return [runner.name for runner in runners if not reached(runner)]

    patience = max(seconds, _START_S)
    silent = until(lambda runner: runner.probing.is_set(), time.monotonic() + patience)
    if silent:
        return [f"{name} did not answer within {patience:g} s" for name in silent]
    stopping.wait(seconds)
    for runner in runners:
        runner.silence()
    settled = time.monotonic() + _SETTLE_S
    doubts = [f"{name}: not everything acknowledged was seen" for name in until(_all_seen, settled)]
    asked = {runner.name: runner.read_again() for runner in runners}
    settled = time.monotonic() + _REREAD_S
    unread = [runner.name for runner in runners]
    while unread and not stopping.is_set() and (now := time.monotonic()) < settled:
        unread = until(lambda runner: _read_since(runner, asked[runner.name]), min(now + _ASK_AGAIN_S, settled))
        for runner in runners:
            if runner.name in unread and runner.alive:
                runner.read_again(asked[runner.name])
    doubts += [f"{name}: not everything could be read again" for name in unread]
    doubts += [f"{name}: suspicions without an answer" for name in until(_no_suspects, settled)]
    doubts += [f"{runner.name}: no probe was acknowledged" for runner in runners if not _counts([runner])["acked"]]
    if stopping.is_set():
        doubts.append("stopped before its end")
    return doubts


def _view(runner: ClusterRunner) -> dict[str, Any]:
    return runner.published.view if runner.published is not None else {}


def _all_seen(runner: ClusterRunner) -> bool:
    return all(c["unseen"] == 0 for p in _view(runner).get("partitions", []) for c in p["consumers"].values())


def _read_since(runner: ClusterRunner, at_ns: int) -> bool:
    partitions = _view(runner).get("partitions", [])
    return bool(partitions) and all(p["scrubbed_ns"] > at_ns and not p["rereading"] for p in partitions)


def _no_suspects(runner: ClusterRunner) -> bool:
    return not _view(runner).get("suspects")


def _counts(runners: list[ClusterRunner]) -> dict[str, int]:
    names = ("sent", "acked", "failed", "indeterminate")
    partitions = [p for runner in runners for p in _view(runner).get("partitions", [])]
    counts = {name: sum(int(p[name]) for p in partitions) for name in names}
    return counts | {"seen": sum(int(c["seen"]) for p in partitions for c in p["consumers"].values())}
