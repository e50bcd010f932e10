"""``canary run``: all clusters of the settings in one process, until SIGTERM or Ctrl-C."""

from collections.abc import Sequence
from pathlib import Path

import structlog

from canary.errors import FAILED
from canary.extras import require_for_url
from canary.processes.store_start import open_store
from canary.runner.cluster.cluster import ClusterRunner
from canary.settings import Settings, UserError
from canary.threads import system
from canary.threads.backoff import Pauses
from canary.threads.worker import stop_together

_log = structlog.get_logger(__name__)

GRACE_S = 12.0
"""How long clusters may take to stop: send the last, make it durable, write it to the store."""
_LOOK_S = 0.5
_STILL_S = 60.0
"""A judge that has not turned for so long hangs: an fsync that never returns, say."""
UNUSABLE = 3
"""Exit status of a runner whose ledger cannot be used, which may pass: too many open files, no room, read-only."""


def require_reachable(settings: Settings) -> None:
    """Refuse settings with an embedded cluster: only canary up starts one.

    Raises:
        UserError: one is embedded.
    """
    embedded = [cluster.name for cluster in settings.clusters if cluster.embedded]
    if embedded:
        raise UserError(
            f"cluster {embedded[0]} has no bootstrap.servers: say where it is (clusters[].kafka), or use canary up, "
            "which starts the embedded lab",
            2,
        )


def run(settings: Settings, stopping: system.Event) -> int:
    """Probe every cluster until ``stopping``; return the exit status.

    A cluster that ends for a reason of its own (its name is taken, say) does not end the others; when all have ended,
    the first one's status is the process's. A cluster whose ledger could not be used is started again, with growing
    pauses, while others run. A cluster that failed ends the process, and its supervisor starts another process.

    Raises:
        UserError: the settings cannot be run; the last cluster ended, with its reason.
    """
    require_reachable(settings)
    require_for_url(settings.probe_log.url, "probe_log.url")
    store = open_store(settings, stopping)
    if store is None:
        return 0
    with store:
        runners = [ClusterRunner(settings, cluster, store) for cluster in settings.clusters]
        for runner in runners:
            runner.start()
        pauses = Pauses()
        while not stopping.wait(_LOOK_S):
            _touch(settings.runner.alive_file, runners)
            if any(map(_failed, runners)) or not any(runner.alive for runner in runners):
                break
            for number, cluster in enumerate(settings.clusters):
                if runners[number].status == UNUSABLE and pauses.may_start(cluster.name):
                    runners[number] = ClusterRunner(settings, cluster, store)
                    runners[number].start()
        stop_together(runners, GRACE_S)
        failed = [runner for runner in runners if _failed(runner)]
        if failed:
            raise UserError("; ".join(one.message or f"{one.name} failed: {one.failure!r}" for one in failed), FAILED)
        ended = next((runner for runner in runners if runner.status is not None), None)
        if ended is not None and not stopping.is_set():
            raise UserError(ended.message or "the runner ended", ended.status or FAILED)
    return 0


def _touch(alive_file: Path | None, runners: Sequence[ClusterRunner]) -> None:
    """Show a liveness probe that every judge turns; a process that cannot touch a file is not well either."""
    if alive_file is not None and all(runner.still_s < _STILL_S for runner in runners):
        try:
            alive_file.touch()
        except OSError as error:
            _log.warning("alive_file_not_touched", path=str(alive_file), error=str(error))


def _failed(runner: ClusterRunner) -> bool:
    return runner.status == FAILED or runner.failure is not None
