"""``canary schedule``: decides when to reconcile, and starts the processes that do it (ARCHITECTURE decision 9).

Several schedulers may run, with the same settings or others. Each cluster has a lease. The scheduler that holds it acts
for the cluster; the others watch the lease's counter on their own clocks, and take over when it stops. APScheduler only
knows the hours; whether a cluster is due follows from the table `reconciliations`, so a restart neither forgets a night
nor does one twice. The scheduler that leads a cluster claims its requests, scheduled or through REST, within seconds,
and runs one child process at a time.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import structlog

from spark_reconcile.nightly import children
from spark_reconcile.nightly.drilling import Drilling
from storage.store import Store, StoreError
from storage.store.repositories.leases import Leadership, scheduler_lease
from storage.store.repositories.reconciliations import TRIES
from storage.store.values import Purged

if TYPE_CHECKING:
    from canary.settings import Settings

log = structlog.get_logger(__name__)

BY_THE_CLOCK: Final = "schedule"
"""`requested_by` of a scheduled run."""
RETRY_S: Final = 900.0
"""A failing night is tried TRIES times, so far apart; one that was interrupted is begun again at once."""
_TICK_S: Final = 1.0
_LOOK_S: Final = 30.0
"""How often the table is asked whether a night is due, besides at the scheduled hours."""
PURGE_S: Final = 3600.0
"""How often rows beyond the store's retention are deleted."""
COMPACT_S: Final = 3600.0
"""How often the probe log's small files are merged."""
CHILD: Final = (sys.executable, "-m", "spark_reconcile.nightly.run")
COMPACTS: Final = (sys.executable, "-m", "spark_reconcile.nightly.compaction")


@dataclass(frozen=True, slots=True)
class Ticket:
    """A claimed row of `reconciliations`, and the holder that claimed it."""

    reconciliation_id: str
    holder: str
    cluster: str


def leadership(
    store: Store, holder: str, clusters: Iterable[str], monotonic: Callable[[], float] = time.monotonic
) -> Leadership:
    """Return which clusters a scheduler leads: those whose leases it holds."""
    return Leadership(
        store.leases, holder, {scheduler_lease(one): one for one in clusters}, "schedule_leads", monotonic=monotonic
    )


@dataclass(slots=True)
class Job:
    """A reconciliation at work."""

    ticket: Ticket
    process: subprocess.Popen[bytes]


def due(store: Store, cluster: str, fired: Callable[[datetime], datetime | None], now: datetime) -> bool:
    """Return whether a night is due: a scheduled hour has come since the last one, or that one failed a while ago.

    ``fired`` returns the first hour of the schedule after a time. A cluster that was never reconciled is not due: its
    first night begins at a scheduled hour.
    """
    rows = store.reconciliations.page(cluster, limit=TRIES, now_ns=int(now.timestamp() * 1e9)).items
    if not rows or rows[0].state in {"requested", "running"}:
        return False
    newest = rows[0]
    struck = fired(datetime.fromtimestamp(newest.requested_ns / 1e9, UTC))
    if struck is not None and struck <= now:
        return True
    if newest.state != "failed" or newest.requested_by != BY_THE_CLOCK:
        return False
    asked = (datetime.fromtimestamp(row.requested_ns / 1e9, UTC) for row in rows if row.state == "failed")
    tried = sum(1 for since in asked if fired(since) == struck)
    ended = (newest.ended_ns or newest.requested_ns) / 1e9
    return tried < TRIES and now.timestamp() - ended >= RETRY_S


def trigger(cron: str | None) -> Any:
    """Return the hours of a cron expression as an APScheduler trigger, None for none."""
    from apscheduler.triggers.cron import CronTrigger  # noqa: PLC0415  # only where it runs

    return CronTrigger.from_crontab(cron) if cron else None


def following(hours: Any, after: datetime) -> datetime | None:
    """Return the first hour of a `trigger` after a time."""
    fired: datetime | None = hours.get_next_fire_time(None, after.astimezone(hours.timezone))
    return fired


class Scheduler:
    """The loop of ``canary schedule``.

    Its children get ``options`` (``--config`` and the like). ``command`` reconciles. ``compacts`` merges the probe
    log's small files every COMPACT_S, but never during a reconciliation.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        options: Sequence[str] = (),
        command: Sequence[str] = CHILD,
        compacts: Sequence[str] = COMPACTS,
    ) -> None:
        self._settings = settings
        self._store = store
        self._command = [*command, *options]
        self._compacts = [*compacts, *options]
        self._compaction: subprocess.Popen[bytes] | None = None
        self._merging: frozenset[str] = frozenset()
        """The clusters whose files are being merged."""
        self._compacted = time.monotonic()
        self._holder = f"schedule-{secrets.token_hex(8)}"
        self._leadership = leadership(store, self._holder, [cluster.name for cluster in settings.clusters])
        self._purge_due = float("-inf")
        self._swept: frozenset[str] = frozenset()
        """The led clusters whose rows of dead schedulers were ended."""
        self._job: Job | None = None
        self._struck = False
        self._looked = float("-inf")
        self._trigger = trigger(settings.schedule.reconcile)
        drilled = trigger(settings.schedule.drill)
        fired = None if drilled is None else partial(following, drilled)
        self._drills = Drilling(store, settings.clusters, fired, options)

    def run(self, stopping: threading.Event) -> None:
        """Act until ``stopping`` is set; then end the children and release the leases, in a few s more than GRACE_S."""
        from apscheduler.schedulers.background import BackgroundScheduler  # noqa: PLC0415  # only where it runs

        clock = BackgroundScheduler(timezone=self._trigger.timezone if self._trigger is not None else UTC)
        if self._trigger is not None:
            clock.add_job(self._strike, self._trigger, coalesce=True, misfire_grace_time=None, max_instances=1)
        clock.start()
        logged: str | None = None
        try:
            while not stopping.is_set():
                try:
                    self._tick()
                    logged = None
                except StoreError as error:
                    if str(error) != logged:
                        logged = str(error)
                        log.warning("schedule_without_store", reason=logged)
                stopping.wait(_TICK_S)
        finally:
            clock.shutdown(wait=False)
            self._stop()

    def _tick(self) -> None:
        led = self._leadership.renewed()
        if self._job is not None and self._job.ticket.cluster not in led:
            self._end("another scheduler has taken over")
        if not self._merging <= led:
            self._end_compaction()
        if gained := led - self._swept:
            left = self._store.reconciliations.abandon(self._holder, time.time_ns(), gained)
            if left:
                log.warning("reconciliations_abandoned", count=left)
        self._swept = led
        if not led:
            return
        if self._struck or time.monotonic() - self._looked >= _LOOK_S:
            self._ask(led)
        if self._job is not None and self._job.process.poll() is not None:
            self._ended(self._job)
            self._job = None
        if self._job is None and not self._compacting(led):
            claimed = self._store.reconciliations.claim(self._holder, time.time_ns(), led)
            if claimed is not None:
                self._job = self._begin(Ticket(claimed.id, self._holder, claimed.cluster))
        self._drills.tick(led)
        self._purge(led)  # last: if the store refuses it, nights are done nevertheless

    def _purge(self, led: frozenset[str]) -> None:
        """Delete some rows beyond retention; continue in the next tick while there are more."""
        now = time.monotonic()
        if now < self._purge_due:
            return
        self._purge_due = now + PURGE_S
        before_ns = time.time_ns() - int(self._settings.store.retention * 1e9)
        purged = [self._store.retention.purge(cluster, before_ns) for cluster in sorted(led)]
        if any(one != Purged(0, 0, 0, 0) for one in purged):
            log.info("store_purged", violations=sum(one.violations for one in purged))
            self._purge_due = now

    def _compacting(self, led: frozenset[str]) -> bool:
        """Return whether small files are being merged; begin it if it is time. Called while no reconciliation runs.

        Only files of led clusters are merged: the leaders of the others may be reading theirs.
        """
        if self._compaction is not None and self._compaction.poll() is not None:
            self._compaction, self._merging, self._compacted = None, frozenset(), time.monotonic()
        elif self._compaction is None and time.monotonic() - self._compacted >= COMPACT_S:
            named = (word for cluster in sorted(led) for word in ("--cluster", cluster))
            self._compaction, self._merging = children.child([*self._compacts, *named]), led
        return self._compaction is not None

    def _strike(self) -> None:
        """A scheduled hour has come: ask the table in the next tick (APScheduler's thread does nothing else)."""
        self._struck = True

    def _ask(self, led: frozenset[str]) -> None:
        """Request a night for each led cluster that is due; a scheduled hour counts until all were asked for."""
        struck, self._looked = self._struck, time.monotonic()
        if self._trigger is None:
            return
        now = datetime.now(UTC)
        for cluster in sorted(led):
            never = not self._store.reconciliations.page(cluster, limit=1, now_ns=int(now.timestamp() * 1e9)).items
            if (never and struck) or due(self._store, cluster, partial(following, self._trigger), now):
                self._store.reconciliations.request(cluster, BY_THE_CLOCK, time.time_ns())
        if struck:
            self._struck = False

    def _begin(self, ticket: Ticket) -> Job:
        named = ("--cluster", ticket.cluster, "--reconciliation", ticket.reconciliation_id, "--holder", ticket.holder)
        process = children.child([*self._command, *named])
        log.info("reconciliation_begins", cluster=ticket.cluster, pid=process.pid)
        return Job(ticket, process)

    def _ended(self, job: Job) -> None:
        """End the row of a child that ended without doing so itself."""
        ticket, status = job.ticket, job.process.returncode
        children.kill(job.process)
        why = f"its process ended with status {status}"
        self._store.reconciliations.finish(ticket.reconciliation_id, ticket.holder, time.time_ns(), error=why)
        log.info("reconciliation_ended", cluster=ticket.cluster, status=status)

    def _stop(self) -> None:
        try:
            if self._job is not None:
                self._end("the scheduler was stopped")
            self._end_compaction()
            self._drills.stop()
            self._leadership.release()
        except StoreError as error:
            log.warning("schedule_left_without_store", reason=str(error))

    def _end(self, reason: str) -> None:
        """End the child; its row waits for who leads next, if the child did not see to that."""
        job, self._job = self._job, None
        assert job is not None  # noqa: S101  # both callers check it
        children.end(job.process)
        self._store.reconciliations.interrupt(job.ticket.reconciliation_id, job.ticket.holder, time.time_ns(), reason)

    def _end_compaction(self) -> None:
        compaction, self._compaction, self._merging = self._compaction, None, frozenset()
        if compaction is not None:
            children.end(compaction)
