"""Sealed segments become the probe log: converted, shipped, and only then dropped (ARCHITECTURE decision 11)."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import structlog

from canary.client.worker import Worker
from storage.ledger import LedgerError
from storage.probe_log import ProbeLogError, drop_old, ship_segment

if TYPE_CHECKING:
    from pathlib import Path

    from canary.runner.judge import Judge

log = structlog.get_logger(__name__)

_LOOK_S = 1.0
_TIDY_S = 3600.0


class Shipper(Worker):
    """Ships each sealed segment, oldest first; a URL that does not answer is tried again for ever.

    Args:
        url: where the probe log is.
        cluster: the cluster's name.
        runner: the runner's name.
        judge: owns the ledger; told which segments may be dropped.
        retention_s: how long files are kept.

    ``failing`` says why a segment could not be shipped at the last try; None if it could, or there was none.
    """

    def __init__(self, url: str, cluster: str, runner: str, judge: Judge, *, retention_s: float) -> None:
        super().__init__("shipper")
        self._url = url
        self._cluster = cluster
        self._runner = runner
        self._judge = judge
        self._retention_s = retention_s
        self._shipped: set[Path] = set()
        self.failing: str | None = None
        self._tidied = 0.0

    def run(self) -> None:
        """Ship until stopped, and what the judge has sealed at its end."""
        while not self.stopping.is_set():
            self.ship()
            self._tidy()
            self.stopping.wait(_LOOK_S)
        self.ship()

    def ship(self) -> int:
        """Ship what is sealed and was not shipped by this process; return how many segments were."""
        done = 0
        sealed = self._judge.published.sealed
        self._shipped &= set(sealed)
        for path in sealed:
            if path in self._shipped:
                continue
            try:
                shipped = ship_segment(path, url=self._url, cluster=self._cluster, runner=self._runner)
            except (ProbeLogError, LedgerError) as error:
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
        """Delete files of days beyond retention, now and then."""
        if time.monotonic() - self._tidied < _TIDY_S:
            return
        self._tidied = time.monotonic()
        try:
            dropped = drop_old(self._url, time.time_ns() - int(self._retention_s * 1e9))
        except ProbeLogError as error:
            log.warning("probe_log_not_tidied", error=str(error))
        else:
            log.debug("probe_log_tidied", files=dropped)
