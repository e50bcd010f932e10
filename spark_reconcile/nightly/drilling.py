"""The drills by the clock: the alarm of each cluster that has a drill topic is tried, one cluster after the other."""

import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

import structlog

from canary.settings import ClusterSettings
from spark_reconcile.nightly import children
from storage.store import Store
from storage.store.values import DrillRun

log = structlog.get_logger(__name__)

COMMAND: Final = (sys.executable, "-m", "canary.cli", "drill", "run")
LIVE: Final = ("duplicate", "corrupt", "phantom")
"""The drills, in turn; each proves the same way."""
_LOOK_S: Final = 30.0
_AGAIN_S: Final = 86_400.0
"""How long after one that failed the next one is tried: each one pages somebody."""
_RETRY_S: Final = 600.0
"""How long after one that could not begin: no runner lives, for example."""


class Drilling:
    """Starts a drill of a led cluster when it is due: the hour has struck since the last one, or none was ever proven.

    Args:
        store: has the drills that were.
        clusters: of the settings.
        fired: returns the first hour for drills after a time; None: nothing is due by the clock.
        options: of the command (``--config`` and the like).
        command: performs a drill, given its name.
    """

    def __init__(
        self,
        store: Store,
        clusters: Iterable[ClusterSettings],
        fired: Callable[[datetime], datetime | None] | None,
        options: Sequence[str] = (),
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._store = store
        self._clusters = [one.name for one in clusters if one.drill_topic is not None]
        self._fired = fired
        self._options = options
        self._command = command
        self._looked = float("-inf")
        self._tried: dict[str, float] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def tick(self, led: Collection[str]) -> None:
        """Begin the next drill that is due, unless one runs.

        Raises:
            StoreError: the store does not answer.
        """
        now = time.monotonic()
        if self._fired is None or now - self._looked < _LOOK_S:
            return
        if self._process is not None and self._process.poll() is None:
            return
        self._looked, self._process = now, None
        for cluster in self._clusters:
            if cluster not in led or now - self._tried.get(cluster, float("-inf")) < _RETRY_S:
                continue
            self._store.end_abandoned_drills(cluster, time.time_ns())
            last = self._store.drills.last(cluster)
            if self.due(last, datetime.now(UTC)):
                name = LIVE[(LIVE.index(last.name) + 1) % len(LIVE)] if last and last.name in LIVE else LIVE[0]
                self._tried[cluster] = now
                self._process = children.child([*self._command, name, "--cluster", cluster, *self._options])
                log.info("drill_begins", cluster=cluster, drill=name, pid=self._process.pid)
                return

    def due(self, last: DrillRun | None, now: datetime) -> bool:
        """Tell whether a cluster whose last drill is this one is to be drilled now."""
        if last is None:
            return True
        began = datetime.fromtimestamp(last.began_ns / 1e9, UTC)
        struck = self._fired(began) if self._fired is not None else None
        if struck is not None and struck <= now:
            return True
        return last.error is not None and (now - began).total_seconds() >= _AGAIN_S

    def stop(self) -> None:
        """End the drill that runs: it ends what it began."""
        if self._process is not None:
            children.end(self._process)
