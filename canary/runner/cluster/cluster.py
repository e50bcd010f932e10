"""The life of one cluster's runner: ledger, lease, replay, judge, the known cluster, clients, and the end."""

import contextlib
import itertools
import queue
from importlib.metadata import version

import structlog

from canary.anomalies.online import Findings
from canary.errors import FAILED
from canary.facts import MemoryLost, RunnerStarted, ScrubAsked
from canary.metrics.published import Published
from canary.metrics.watched.watched import Watched
from canary.runner.cluster import memory, shares
from canary.runner.cluster.clients import ClusterClients
from canary.runner.cluster.connection import Connection
from canary.runner.cluster.memory import Memory, Predecessors
from canary.runner.context import ClusterContext
from canary.runner.publishing.flusher import Flusher
from canary.runner.publishing.inbox import FactQueue
from canary.runner.publishing.judge import Judge
from canary.runner.publishing.shipper import Shipper
from canary.runner.supervision.lease import TAKEN, LeaseRenewer, TakenError, claim
from canary.runner.supervision.supervisor import Supervisor
from canary.settings import ClusterSettings, Settings, UserError
from canary.threads import system
from canary.threads.ports import Clock, SteadyClock, clock_ahead_ns
from canary.threads.worker import Worker
from storage.ledger import Ledger
from storage.ledger.files import DISK, Disk
from storage.store import Store

log = structlog.get_logger(__name__)

_LOOP_S = 1.0
_WHOLE_LOG = 1 << 40
"""More records than a partition holds: a re-read that is bounded by the log alone."""
_SAMPLES_OF_A_WATCHER = 1 << 32


class ClusterRunner(Worker):
    """Probes one cluster, whose settings have bootstrap.servers, until stopped; the store is reachable and migrated.

    Without ``sending`` it reads again only what was promised before, and sends nothing.
    ``status`` is the exit status that it wants the process to end with, None while all is well; ``probing`` is set
    while producers run.
    """

    def __init__(
        self,
        settings: Settings,
        cluster: ClusterSettings,
        store: Store,
        clock: Clock | None = None,
        *,
        sending: bool = True,
        disk: Disk = DISK,
    ) -> None:
        super().__init__(f"cluster-{cluster.name}")
        self.status: int | None = None
        self.probing = system.event()
        self._reason: str | None = None
        self._sending = sending
        self._inbox = FactQueue(shares.keeps(cluster))
        self._clock: Clock = clock or SteadyClock()
        self._context = ClusterContext(settings, cluster, store, self._inbox, self._clock, self.stopping, disk)
        self._connection = Connection(self._context)
        self._findings: system.Queue[Findings] = system.new_queue()
        self._supervisor = Supervisor(self._inbox, self._give_up)
        self._first_samples = itertools.count(0, _SAMPLES_OF_A_WATCHER)
        self._judge: Judge | None = None  # until the ledger is replayed
        self._clients: ClusterClients | None = None

    @property
    def message(self) -> str | None:
        """Why it ended, or which cluster answers in place of the known one."""
        return self._reason or self._connection.wrong_cluster

    @property
    def published(self) -> Published | None:
        """What is known of the cluster now, None before the ledger is replayed."""
        judge, now_ns = self._judge, self._clock.now_ns()
        if judge is None:
            return None
        judge.wait_for(lambda shown: shown.now_ns >= now_ns, 1.0)
        return judge.published

    @property
    def still_s(self) -> float:
        """For how many seconds its judge has not turned; 0 before it is there, and after the end."""
        judge = self._judge
        return 0.0 if judge is None or not self.alive else system.monotonic() - judge.turned_s

    def ask_stop(self) -> None:
        """Ask it to end, without waiting; puts into a full queue return."""
        super().ask_stop()
        self._inbox.release()

    def run(self) -> None:
        """Probe until stopped."""
        try:
            self._live()
        except UserError as error:
            self.status, self._reason = error.exit_status, str(error)
            log.error("cluster_ended", cluster=self._context.cluster.name, reason=str(error))  # noqa: TRY400  # one line

    def silence(self) -> None:
        """Stop every writer for good, and read on."""
        self._sending = False
        if self._clients is not None:
            self._clients.silence()

    def read_again(self, since_ns: int | None = None) -> int:
        """Ask for a re-read of everything retained by fresh clients; only while ``probing`` is set.

        Args:
            since_ns: when it was asked for first. A re-read may end early (an election, a broker that does not
                answer): then only partitions that were not read to their end since, and are not being read, are asked
                for again.

        Returns:
            When it was asked for, in ns: ``scrubbed_ns`` of a partition is later once it was read to its end.
        """
        shown = self.published
        assert shown is not None  # noqa: S101  # it is there before ``probing`` is set
        assert self._clients is not None  # noqa: S101  # the same
        at_ns = self._clock.now_ns()
        wanted = [one for one in shown.partitions if one.topic in self._clients.probes]
        if since_ns is not None:
            wanted = [one for one in wanted if one.scrubbed_ns <= since_ns and not one.rereading]
        self._inbox.put([ScrubAsked(at_ns, one.topic, one.partition, _WHOLE_LOG, start=0) for one in wanted])
        return at_ns

    def _give_up(self, reason: str) -> None:
        """End with status FAILED, whatever this thread is waiting for."""
        self.status, self._reason = FAILED, f"cluster {self._context.cluster.name}: {reason}"
        log.error("cluster_ended", cluster=self._context.cluster.name, reason=reason)
        self.ask_stop()

    def _lease_lost(self) -> None:
        """End because another runner has the lease, whatever this thread is waiting for."""
        self.status, self._reason = TAKEN, str(TakenError(self._context.cluster.name, self._context.runner))
        self.ask_stop()

    def _live(self) -> None:
        context = self._context
        settings, name, runner = context.settings, context.cluster.name, context.runner
        ledger = Ledger(
            settings.ledger.directory / name / runner,
            segment_bytes=settings.runner.segment_bytes,
            segment_age_s=settings.runner.segment_age,
            disk=context.disk,
        )
        with ledger:
            holder = claim(context, ledger.directory)
            if holder is None:
                return
            recalled = memory.recall(context, self._connection, ledger)
            if recalled is None:
                return
            remembered, flusher = recalled
            self._announce_start(remembered, remembered.began_ns, remembered.lost)
            lease = LeaseRenewer(context.store, name, runner, holder, self._lease_lost)
            self._supervisor.begin(lease)
            judge = Judge(context, ledger, remembered.tracker, findings=self._findings, flusher=flusher)
            self._judge = judge
            self._clients = self._new_clients(judge, remembered)
            flusher.latest = lambda: judge.published
            flusher.audited = lambda: None if self._clients is None else self._clients.auditor.latest
            flusher.watched = lambda: Watched() if self._clients is None else self._clients.besides.latest
            flusher.troubles = lambda: self._supervisor.troubles(judge)
            flusher.forgotten = lambda lost: self._inbox.put([lost])
            shipper = Shipper(context, judge)
            judge.on_sealed = shipper.woken.set
            predecessors = remembered.predecessors()  # before the judge changes them
            self._supervisor.begin(judge, flusher, shipper)
            self._supervisor.start()
            try:
                self._probe(judge, self._clients, remembered, predecessors)
            finally:
                self._end(judge, shipper, flusher, lease)

    def _announce_start(self, remembered: Memory, at_ns: int, lost: MemoryLost | None = None) -> None:
        """Let the tracker know that no client is left of those that were there before; and what is forgotten.

        In this order, because a tracker that judges nothing ignores what is before the start; and together, because a
        view of the start alone would hide from the next one that anything is forgotten.
        """
        release = version("kafka-durability-canary")
        runner, installation = self._context.runner, remembered.installation
        ahead_ns = clock_ahead_ns(self._clock)
        started = RunnerStarted(at_ns, runner, release, installation, remembered.remembered_ns, ahead_ns)
        self._inbox.put([started] if lost is None else [started, lost])

    def _new_clients(self, judge: Judge, remembered: Memory) -> ClusterClients:
        return ClusterClients(
            self._context,
            self._connection,
            self._supervisor,
            remembered=remembered,
            published=lambda: judge.published,
            first_samples=self._first_samples,
            sending=self._sending,
        )

    def _probe(self, judge: Judge, clients: ClusterClients, remembered: Memory, predecessors: Predecessors) -> None:
        """Probe the known cluster until stopped; while another one answers in its place, wait for it."""
        cluster_id = self._connection.known_cluster()
        while (
            cluster_id is not None
            and self._wait_shown(judge, remembered.facts, stopped=False)
            and self._probe_one(judge, clients, cluster_id, predecessors)
        ):
            self.probing.clear()
            predecessors = clients.close()
            self._wait_shown(judge, remembered.facts, stopped=True)
            clients = self._clients = self._new_clients(judge, remembered)
            with contextlib.suppress(queue.Empty):
                while True:  # requests to clients that are closed
                    self._findings.get_nowait()
            cluster_id = self._connection.known_cluster()
            self._announce_start(remembered, self._clock.now_ns())

    def _wait_shown(self, judge: Judge, remembered_facts: int, *, stopped: bool) -> bool:
        """Wait until the view shows that judging is stopped, or that it is not; False when the runner ends before.

        A view of nothing but remembered facts does not count: it shows what a former process knew.
        """
        while not self.stopping.is_set():
            if judge.wait_for(lambda shown: shown.ordinal > remembered_facts and bool(shown.stopped) is stopped, 1.0):
                break
        return not self.stopping.is_set()

    def _probe_one(self, judge: Judge, clients: ClusterClients, cluster_id: str, predecessors: Predecessors) -> bool:
        """Probe until the runner is stopped (False) or another cluster answers (True)."""
        if not clients.open(cluster_id, predecessors):
            return False
        while not self.stopping.is_set():
            begins = not self.probing.is_set()
            if begins:
                judge.wait_for(clients.may_begin, _LOOP_S)
            try:
                findings = self._findings.get(timeout=0.0 if begins else _LOOP_S)
            except queue.Empty:
                pass
            else:
                if findings.stopped:
                    return True
                clients.act_on(findings)
            clients.look_after()
            if begins and clients.probing:
                self.probing.set()
                log.info("probing", cluster=self._context.cluster.name, topics=sorted(clients.probes))
        return False

    def _end(self, judge: Judge, shipper: Shipper, flusher: Flusher, lease: LeaseRenewer) -> None:
        """Stop sending, give the readers a moment, make the rest durable and deliver it."""
        self._supervisor.stop(1.0)
        if self._clients is not None:
            if self._clients.silence():
                silent_ns = self._clock.now_ns()
                judge.wait_for(lambda shown: shown.now_ns >= silent_ns and shown.all_seen, 2.0)
            self._clients.stop_reading()
        judge.stop(4.0)
        shipper.stop(2.0)
        flusher.stop(3.0)
        lease.stop(2.0)
        self._report_undurable(judge)
        log.info("cluster_stopped", cluster=self._context.cluster.name)

    def _report_undurable(self, judge: Judge) -> None:
        """End with status FAILED if the judge could not make every fact durable."""
        if judge.blocked is None and judge.failure is None and not judge.alive:
            return  # facts that a late thread still puts into the queue concern nothing that was promised
        name, pending = self._context.cluster.name, self._inbox.pending
        reason = judge.blocked or (f"its judge ended: {judge.failure!r}" if judge.failure else "its judge hangs")
        log.error("facts_never_durable", cluster=name, facts=pending, reason=reason)
        self.status = FAILED
        self._reason = f"cluster {name}: {pending:,} facts were never made durable: {reason}"
