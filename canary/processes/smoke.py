"""One bounded round of every enabled probe, then a re-read of all of it by fresh clients: a gate for deployments.

It is a canary of its own: store, ledger, probe log and installation are temporary, so a running canary takes its
records for foreign ones, and keeps its own state. The procedure is that of Jepsen's final reads: stop writing, wait for
outcomes, recreate every client, assign everything, read to the end.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog
from pydantic import SecretStr

from canary.metrics import Published
from canary.processes.run import GRACE_S, require_reachable
from canary.runner.cluster.cluster import ClusterRunner
from canary.settings import Settings
from canary.threads import system
from canary.threads.worker import stop_together
from storage.store import Store

log = structlog.get_logger(__name__)

CLEAN, VIOLATION, INCONCLUSIVE = 0, 1, 3
"""Exit statuses."""
_LOOK_S = 0.1
_START_S = 60.0
"""How long a cluster may take to be probed, before the round begins; a longer round waits as long as itself."""
_SETTLE_S = 30.0
"""How long it may take until everything sent was seen."""
_REREAD_S = 60.0
"""How long it may take until everything was read again."""
_ASK_AGAIN_S = 6.0
"""Between two requests for a re-read that ended early; longer than a re-read waits for a silent broker."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a round. ``doubts`` say why it proves nothing, if so; ``counts`` are of all clusters."""

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


def smoke(settings: Settings, seconds: float, stopping: system.Event) -> Outcome:
    """Probe every cluster for ``seconds``, read everything again, and return the outcome.

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
                for v in store.violations.counts()
                if v.severity != "info"
            ]
        doubts += reasons
        status = VIOLATION if found else INCONCLUSIVE if doubts else CLEAN
        return Outcome(status, counts, found, doubts)


def _alone(settings: Settings, directory: Path) -> Settings:
    """Return the settings with a store, ledger and probe log of their own, deleted after the round."""
    return settings.model_copy(
        update={
            "store": settings.store.model_copy(update={"url": SecretStr(f"sqlite:///{directory}/store.db")}),
            "ledger": settings.ledger.model_copy(update={"directory": directory / "ledger"}),
            "probe_log": settings.probe_log.model_copy(update={"url": str(directory / "probe-log")}),
            "runner": settings.runner.model_copy(update={"name": "smoke", "scrub_rate": 0}),
        }
    )


def _probe(runners: list[ClusterRunner], seconds: float, stopping: system.Event) -> list[str]:
    """Go through the procedure; return the doubts."""

    def until(reached: Callable[[ClusterRunner], bool], deadline: float) -> list[str]:
        while not stopping.is_set() and system.monotonic() < deadline:
            if all(reached(runner) or not runner.alive for runner in runners):
                break
            stopping.wait(_LOOK_S)
        return [runner.name for runner in runners if not reached(runner)]

    patience = max(seconds, _START_S)
    silent = until(lambda runner: runner.probing.is_set(), system.monotonic() + patience)
    if silent:
        return [f"{name} did not answer within {patience:g} s" for name in silent]
    stopping.wait(seconds)
    until(
        lambda runner: not (_unproven(runner, "acknowledged") or _unproven(runner, "read back")),
        system.monotonic() + patience,
    )
    for runner in runners:
        runner.silence()
    settled = system.monotonic() + _SETTLE_S
    doubts = [
        f"{name}: not everything acknowledged was seen" for name in until(lambda one: _shown(one).all_seen, settled)
    ]
    asked = {runner.name: runner.read_again() for runner in runners}
    settled = system.monotonic() + _REREAD_S
    unread = [runner.name for runner in runners]
    while unread and not stopping.is_set() and (now := system.monotonic()) < settled:
        unread = until(lambda runner: _read_since(runner, asked[runner.name]), min(now + _ASK_AGAIN_S, settled))
        for runner in runners:
            if runner.name in unread and runner.alive:
                runner.read_again(asked[runner.name])
    doubts += [f"{name}: not everything could be read again" for name in unread]
    doubts += [f"{name}: suspicions without an answer" for name in until(lambda one: not _shown(one).suspects, settled)]
    doubts += [
        f"{runner.name}: no {of} was {what}"
        for runner in runners
        for what in ("acknowledged", "read back")
        for of in _unproven(runner, what)
    ]
    doubts += [
        f"{runner.name}: partition {one.partition} of {one.topic} did not answer: nothing is known of it"
        for runner in runners
        for one in _shown(runner).partitions
        if not one.fresh
    ]
    if stopping.is_set():
        doubts.append("stopped before its end")
    return doubts


def _unproven(runner: ClusterRunner, what: str) -> list[str]:
    """Return of which modes and topics nothing was acknowledged, or nothing of what was is read back."""
    found = [one for one in _shown(runner).proofs if one.partitions]
    bare = [one for one in found if not (one.acknowledged_ns if what == "acknowledged" else one.verified_ns)]
    return [f"{one.promise} {one.topic}" for one in bare if what == "acknowledged" or one.acknowledged_ns]


def _shown(runner: ClusterRunner) -> Published:
    return runner.published or Published()


def _read_since(runner: ClusterRunner, at_ns: int) -> bool:
    partitions = [one for one in _shown(runner).partitions if one.fresh]
    return bool(partitions) and all(one.scrubbed_ns > at_ns and not one.rereading for one in partitions)


def _counts(runners: list[ClusterRunner]) -> dict[str, int]:
    partitions = [one for runner in runners for one in _shown(runner).partitions]
    counts = {
        name: sum(getattr(one, name) for one in partitions) for name in ("sent", "acked", "failed", "indeterminate")
    }
    return counts | {"seen": sum(reader.seen for one in partitions for reader in one.consumers.values())}
