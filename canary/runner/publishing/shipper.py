"""Sealed segments become the probe log: converted, shipped, and only then dropped (ARCHITECTURE decision 11)."""

from pathlib import Path

import structlog

from canary.runner.context import ClusterContext
from canary.runner.publishing.judge import Judge
from canary.threads import system
from canary.threads.worker import Worker
from storage.ledger import LedgerError
from storage.probe_log.errors import ProbeLogError
from storage.probe_log.shipping import drop_old, ship_segment

log = structlog.get_logger(__name__)

_LOOK_S = 5.0
"""How often what could not be shipped is tried again; the judge wakes it for a new segment."""
_TIDY_S = 3600.0


class Shipper(Worker):
    """Ships each sealed segment, oldest first, and tries again for ever while the URL does not answer.

    The judge owns the ledger, and drops the segments that were shipped. ``failing`` is why the last try failed, if it
    did.
    """

    def __init__(self, context: ClusterContext, judge: Judge) -> None:
        super().__init__("shipper")
        self._context = context
        self._settings = context.settings.probe_log
        self._judge = judge
        self._shipped: set[Path] = set()
        self.failing: str | None = None
        self._tidied = 0.0

    def run(self) -> None:
        """Ship until stopped, then ship the segment that the judge seals at its end."""
        while not self.stopping.is_set():
            self.ship()
            self._tidy()
            self.wait(_LOOK_S)
        self.ship()

    def ship(self) -> int:
        """Ship the sealed segments that this process has not shipped yet; return how many they were."""
        done = 0
        sealed = self._judge.sealed
        self._shipped &= set(sealed)
        for path in sealed:
            if path in self._shipped:
                continue
            try:
                shipped = ship_segment(
                    path,
                    url=self._settings.url,
                    cluster=self._context.cluster.name,
                    runner=self._context.runner,
                    disk=self._context.disk,
                )
            except (ProbeLogError, LedgerError, OSError) as error:  # whatever fails is tried again
                if self.failing is None:
                    log.warning("probe_log_unreachable", segment=path.name, error=str(error))
                self.failing = str(error)
                return done
            self.failing = None
            self._shipped.add(path)
            self._judge.drop(path)
            log.debug("segment_shipped", segment=path.name, probes=shipped.probes, polls=shipped.polls)
            done += 1
        return done

    def _tidy(self) -> None:
        """Delete files of days beyond retention, once an hour."""
        if system.monotonic() - self._tidied < _TIDY_S:
            return
        self._tidied = system.monotonic()
        try:
            dropped = drop_old(self._settings.url, system.wall_ns(), self._settings.retention)
        except ProbeLogError as error:
            log.warning("probe_log_not_tidied", error=str(error))
        else:
            log.debug("probe_log_tidied", files=dropped)
