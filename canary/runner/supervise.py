"""``canary run``: all clusters of the settings in one process, until SIGTERM or Ctrl-C."""

from __future__ import annotations

import signal
import threading
import time
from typing import TYPE_CHECKING

import structlog

from canary.runner.cluster import ClusterRunner
from canary.settings import UserError
from storage.store import Store, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from canary.settings import Settings

log = structlog.get_logger(__name__)

GRACE_S = 12.0
"""How long clusters may take to stop: send the last, make it durable, tell the store."""
_LOOK_S = 0.2
_PATIENCE_S = 2.0


def stop_on_signals() -> threading.Event:
    """Return an event that SIGTERM and SIGINT set. Only from the main thread."""
    stopping = threading.Event()

    def handle(number: int, _frame: FrameType | None) -> None:
        log.info("stopping", signal=signal.Signals(number).name)
        stopping.set()

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)
    return stopping


def open_store(settings: Settings, stopping: threading.Event) -> Store | None:
    """Return the store, migrated, as soon as it answers; None when told to stop before (a start waits: decision 4)."""
    said: str | None = None
    url = settings.store.url.get_secret_value()
    while not stopping.is_set():
        try:
            store = Store.connect(url, timeout=0)
            store.upgrade()
        except StoreError as error:
            if str(error) != said:
                said = str(error)
                log.warning("waiting_for_store", reason=said)
            stopping.wait(_PATIENCE_S)
        else:
            return store
    return None


def require_reachable(settings: Settings) -> None:
    """Refuse settings with an embedded cluster that nobody has started.

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


def run(settings: Settings, stopping: threading.Event) -> int:
    """Probe every cluster until ``stopping``; return the exit status.

    A cluster that ends for a reason of its own (its name is taken, say) does not end the others; when all have ended,
    the first one's status is the process's.

    Raises:
        UserError: the settings cannot be run; the last cluster ended, with its reason.
    """
    require_reachable(settings)
    store = open_store(settings, stopping)
    if store is None:
        return 0
    with store:
        runners = [ClusterRunner(settings, cluster, store) for cluster in settings.clusters]
        for runner in runners:
            runner.start()
        while not stopping.wait(_LOOK_S):
            if not any(runner.alive for runner in runners):
                break
        stop_all(runners)
        ended = next((runner for runner in runners if runner.status is not None), None)
        if ended is not None and not stopping.is_set():
            raise UserError(ended.message or "the runner ended", ended.status or 70)
        failed = next((runner for runner in runners if runner.failure is not None), None)
        if failed is not None:
            raise UserError(f"{failed.name} failed: {failed.failure!r}", 70)
    return 0


def stop_all(runners: list[ClusterRunner]) -> None:
    """Stop them at the same time, within GRACE_S."""
    for runner in runners:
        runner.ask_stop()
    deadline = time.monotonic() + GRACE_S
    for runner in runners:
        runner.stop(max(deadline - time.monotonic(), 0.1))


def views(runners: list[ClusterRunner]) -> Iterator[dict[str, object]]:
    """Yield what is known of each cluster."""
    for runner in runners:
        if runner.published is not None:
            yield runner.published.view
