"""When to reconcile, and who does it: ``canary schedule`` (ARCHITECTURE decision 9).

Several may run, with the same settings or others. Each cluster has a lease; the scheduler that holds it acts for that
cluster, and every other one that has the cluster in its settings watches the lease's counter on its own clock and takes
over when it stands still. APScheduler only knows the hours: its job asks for a reconciliation of each cluster that is
due, and due is what the table `reconciliations` says, so a restart neither forgets a night nor does one twice. What is
asked for, by the clock or through REST, is claimed within seconds by the scheduler that leads the cluster, and done by
a child process, one at a time.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import structlog

from spark_reconcile.ticket import BY_THE_CLOCK, Ticket
from storage.store import AHEAD_NS, Held, Lease, Purged, Store, StoreError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Sequence

    from canary.settings import Settings

log = structlog.get_logger(__name__)

DEAD_AFTER_S: Final = 15.0
"""A lease whose counter stands still for so long has a dead holder."""
GRACE_S: Final = 10.0
"""What a child is given to stop by itself."""
TRIES: Final = 3
"""A night that fails is tried again so often, RETRY_S apart."""
RETRY_S: Final = 900.0
_TICK_S: Final = 1.0
_LOOK_S: Final = 30.0
"""How often the table is asked whether a night is due, besides when an hour strikes."""
_PR_SET_PDEATHSIG: Final = 1


PURGE_S: Final = 3600.0
"""How often what is beyond the store's retention is looked for."""
COMPACT_S: Final = 3600.0
"""How often the probe log's small files are merged."""
CHILD: Final = (sys.executable, "-m", "spark_reconcile.nightly")
COMPACTS: Final = (sys.executable, "-m", "spark_reconcile.compaction")


def lease_name(cluster: str) -> str:
    """Return the name of the lease whose holder reconciles a cluster."""
    return f"scheduler/{cluster}"


class Leadership:
    """Which of our clusters we lead: those whose leases we hold; asked once a tick."""

    def __init__(
        self, store: Store, holder: str, clusters: Iterable[str], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._holder = holder
        self._names = {lease_name(cluster): cluster for cluster in clusters}
        self._monotonic = monotonic
        self._seen: dict[str, tuple[int, float]] = {}
        self.mine: frozenset[str] = frozenset()

    def renew(self) -> frozenset[str]:
        """Keep, get or wait for the leases; return the clusters that are ours.

        Raises:
            StoreError: the store does not answer; what was ours may still be.
        """
        answers = self._store.leases.hold(list(self._names), self._holder)
        mine = frozenset(self._names[name] for name, answer in answers.items() if self._ours(answer))
        if lost := self.mine - mine:
            log.warning("schedule_leases_lost", clusters=sorted(lost))
        if gained := mine - self.mine:
            log.info("schedule_leads", clusters=sorted(gained))
        self.mine = mine
        return mine

    def _ours(self, answer: Lease | Held) -> bool:
        """Return whether a lease is ours, also because its holder's counter has stood still for so long."""
        if isinstance(answer, Lease):
            return True
        now = self._monotonic()
        counter, since = self._seen.get(answer.name, (-1, now))
        if counter != answer.counter:
            self._seen[answer.name] = answer.counter, now
        elif now - since >= DEAD_AFTER_S:
            return isinstance(self._store.leases.take_over(answer.name, self._holder, answer.counter), Lease)
        return False

    def release(self) -> None:
        """Let the next one act at once."""
        mine, self.mine = self.mine, frozenset()
        for cluster in sorted(mine):
            self._store.leases.release(lease_name(cluster), self._holder)


@dataclass(slots=True)
class Job:
    """A reconciliation at work."""

    ticket: Ticket
    process: subprocess.Popen[bytes]


def due(store: Store, cluster: str, fired: Callable[[datetime], datetime | None], now: datetime) -> bool:
    """Return whether a cluster's night is due: an hour has struck since the last one, or that one failed a while ago.

    A cluster that was never reconciled is not: its first night comes when an hour strikes.

    Args:
        store: whose `reconciliations` decide.
        cluster: its name.
        fired: returns the first hour of the schedule after a time.
        now: the time.
    """
    rows = store.reconciliations(cluster, limit=TRIES, until_ns=_dated(now)).items
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


def _dated(now: datetime) -> int:
    """Return until when (ns) something may be dated; what is later was by a clock that was ahead."""
    return int(now.timestamp() * 1e9) + AHEAD_NS


def trigger(settings: Settings) -> Any:
    """Return the hours of the schedule as APScheduler has them, None without any."""
    from apscheduler.triggers.cron import CronTrigger  # noqa: PLC0415  # only where it runs

    cron = settings.schedule.reconcile
    return CronTrigger.from_crontab(cron) if cron else None


def following(hours: Any, after: datetime) -> datetime | None:
    """Return the first hour of a `trigger` after a time."""
    fired: datetime | None = hours.get_next_fire_time(None, after.astimezone(hours.timezone))
    return fired


class Scheduler:
    """The loop of ``canary schedule``.

    Args:
        settings: all of them.
        store: connected and migrated.
        options: what the child is told besides its ticket (``--config`` and the like).
        command: the child that reconciles.
        compacts: the child that merges the probe log's small files, every COMPACT_S, never while the other one reads.
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
        """Clusters whose files the compaction merges."""
        self._compacted = time.monotonic()
        self._holder = f"schedule-{secrets.token_hex(8)}"
        self._leadership = Leadership(store, self._holder, (cluster.name for cluster in settings.clusters))
        self._purge_due = float("-inf")
        self._swept: frozenset[str] = frozenset()
        """Clusters that we lead and in whose name nothing runs that a dead scheduler began."""
        self._job: Job | None = None
        self._struck = False
        self._looked = float("-inf")
        self._trigger = trigger(settings)

    def run(self, stopping: threading.Event) -> None:
        """Act until told to stop; then end the child and give the lease back, within GRACE_S and a few seconds."""
        from apscheduler.schedulers.background import BackgroundScheduler  # noqa: PLC0415  # only where it runs

        clock = BackgroundScheduler(timezone=self._trigger.timezone if self._trigger is not None else UTC)
        if self._trigger is not None:
            clock.add_job(self._strike, self._trigger, coalesce=True, misfire_grace_time=None, max_instances=1)
        clock.start()
        said: str | None = None
        try:
            while not stopping.is_set():
                try:
                    self._tick()
                    said = None
                except StoreError as error:
                    if str(error) != said:
                        said = str(error)
                        log.warning("schedule_without_store", reason=said)
                stopping.wait(_TICK_S)
        finally:
            clock.shutdown(wait=False)
            self._stop()

    def _tick(self) -> None:
        led = self._leadership.renew()
        if self._job is not None and self._job.ticket.cluster not in led:
            self._end("another scheduler has taken over")
        if not self._merging <= led:
            self._end_compaction()
        if gained := led - self._swept:
            left = self._store.abandon_reconciliations(self._holder, time.time_ns(), gained)
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
            claimed = self._store.claim_reconciliation(self._holder, time.time_ns(), led)
            if claimed is not None:
                self._job = self._begin(Ticket(claimed.id, self._holder, claimed.cluster))
        self._purge(led)  # last: where the store refuses it, nights go on

    def _purge(self, led: frozenset[str]) -> None:
        """Delete a little of what is beyond retention; while there is more, go on in the next tick."""
        now = time.monotonic()
        if now < self._purge_due:
            return
        self._purge_due = now + PURGE_S
        before_ns = time.time_ns() - int(self._settings.store.retention * 1e9)
        purged = [self._store.purge(cluster, before_ns) for cluster in sorted(led)]
        if any(one != Purged(0, 0, 0, 0) for one in purged):
            log.info("store_purged", violations=sum(one.violations for one in purged))
            self._purge_due = now

    def _compacting(self, led: frozenset[str]) -> bool:
        """Return whether small files are being merged now; begin it if it is time. Asked while nothing reconciles.

        Only files of clusters that we lead are: those of others may be read at this moment by who leads them.
        """
        if self._compaction is not None and self._compaction.poll() is not None:
            self._compaction, self._merging, self._compacted = None, frozenset(), time.monotonic()
        elif self._compaction is None and time.monotonic() - self._compacted >= COMPACT_S:
            named = (word for cluster in sorted(led) for word in ("--cluster", cluster))
            self._compaction, self._merging = _child([*self._compacts, *named]), led
        return self._compaction is not None

    def _strike(self) -> None:
        """It is time: look at the table in the next tick (APScheduler's thread touches nothing else)."""
        self._struck = True

    def _ask(self, led: frozenset[str]) -> None:
        """Ask for each of our clusters that is due; an hour that struck counts until the store has answered for all."""
        struck, self._looked = self._struck, time.monotonic()
        if self._trigger is None:
            return
        now = datetime.now(UTC)
        for cluster in sorted(led):
            never = not self._store.reconciliations(cluster, limit=1, until_ns=_dated(now)).items
            if (never and struck) or due(self._store, cluster, partial(following, self._trigger), now):
                self._store.request_reconciliation(cluster, BY_THE_CLOCK, time.time_ns())
        if struck:
            self._struck = False

    def _begin(self, ticket: Ticket) -> Job:
        named = ("--cluster", ticket.cluster, "--reconciliation", ticket.reconciliation_id, "--holder", ticket.holder)
        process = _child([*self._command, *named])
        log.info("reconciliation_begins", cluster=ticket.cluster, pid=process.pid)
        return Job(ticket, process)

    def _ended(self, job: Job) -> None:
        """See to it that a child that died without a word has an end in the table, too."""
        status = job.process.returncode
        self._store.finish_reconciliation(
            job.ticket.reconciliation_id,
            job.ticket.holder,
            time.time_ns(),
            error=f"its process ended with status {status}",
        )
        log.info("reconciliation_ended", cluster=job.ticket.cluster, status=status)

    def _stop(self) -> None:
        try:
            if self._job is not None:
                self._end("the scheduler was stopped")
            self._end_compaction()
            self._leadership.release()
        except StoreError as error:
            log.warning("schedule_left_without_store", reason=str(error))

    def _end(self, reason: str) -> None:
        """End the child, gently first, and everything it started."""
        job, self._job = self._job, None
        assert job is not None  # noqa: S101  # asked by both callers
        _ended(job.process)
        self._store.finish_reconciliation(job.ticket.reconciliation_id, job.ticket.holder, time.time_ns(), error=reason)

    def _end_compaction(self) -> None:
        compaction, self._compaction, self._merging = self._compaction, None, frozenset()
        if compaction is not None:
            _ended(compaction)


def _child(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own that ends when we do."""
    parent = os.getpid()
    libc = ctypes.CDLL(None, use_errno=True)

    def die_with_parent() -> None:
        os.setsid()
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(0)

    return subprocess.Popen(  # noqa: S603  # ourselves
        command,
        preexec_fn=die_with_parent,  # noqa: PLW1509  # two system calls and one of libc
    )


def _ended(process: subprocess.Popen[bytes]) -> None:
    """End a child and everything it started, gently first."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
