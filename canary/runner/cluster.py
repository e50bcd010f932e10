"""One cluster, from its first question to its last flush."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from typing import TYPE_CHECKING, Any

import structlog

from canary.anomalies.online import Tracker
from canary.anomalies.online.state import Probed
from canary.anomalies.online.topology import everything
from canary.anomalies.online.topology_state import Limits
from canary.anomalies.online.wrong_cluster import another_cluster
from canary.client.ports import SteadyClock
from canary.client.worker import Worker, stop_together
from canary.errors import FAILED
from canary.facts import ProducerLooked, RunnerStarted, ScrubAsked, WatchFailed
from canary.probing.reread import RereadWorker
from canary.probing.topic import TopicError, ensure_topic
from canary.runner import asking, envelope, managing, memory, mirroring, modes, sharing
from canary.runner.flush import Flusher
from canary.runner.inbox import FactQueue
from canary.runner.judge import Judge, Published
from canary.runner.keeper import TAKEN, Keeper, TakenError, claim
from canary.runner.probes import TopicProbes, is_known
from canary.runner.readers import readings
from canary.runner.rotation import CredentialFiles
from canary.runner.scrub import Scrubber, places_of
from canary.runner.shipping import Shipper
from canary.runner.supervision import Supervisor
from canary.runner.topics import Identities
from canary.settings import UserError, consumer_config
from canary.settings.credentials import files_of
from storage.ledger import Ledger, LedgerError
from storage.store import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka.admin import AdminClient

    from canary.anomalies.online import Findings
    from canary.client.ports import Clock
    from canary.probing.idempotent import Renewal
    from canary.probing.reading import Target
    from canary.runner.modes import Part, Writer
    from canary.settings import ClusterSettings, Settings
    from canary.settings.watch import WatchSettings
    from canary.watching.audit import Auditor
    from canary.watching.sampler import Watcher
    from storage.store import Store

log = structlog.get_logger(__name__)

_PATIENCE_S = 2.0
_GONE_NS = 10 * 10**9
"""A topic that nobody made again for so long is made again by us."""
_LOOP_S = 0.25
_LAST_S = 3.0
_EVERYTHING = 1 << 40
_STOCK_S = 5.0
Known = dict[tuple[str, str], tuple[int, int]]
"""By topic and mode: the first producer id, and the highest generation."""
_LEFT_OUT = object()
"""In place of a topic: its mode cannot run, and the others do."""


class ClusterRunner(Worker):
    """Probes one cluster until stopped.

    Args:
        settings: all settings.
        cluster: this cluster's, with bootstrap.servers.
        store: the store, answering and migrated.
        clock: what time it is.
        sending: False to read again only what was promised before, and to send nothing.

    ``status`` is the exit status that it wants the process to end with, None while all is well.
    """

    def __init__(
        self,
        settings: Settings,
        cluster: ClusterSettings,
        store: Store,
        clock: Clock | None = None,
        *,
        sending: bool = True,
    ) -> None:
        super().__init__(f"cluster-{cluster.name}")
        self._settings = settings
        self._cluster = cluster
        self._store = store
        self._clock: Clock = clock or SteadyClock()
        self._sending = sending
        self._inbox = FactQueue(sharing.keeps(cluster))
        self._recalled = 0
        """How many facts were folded before this process began."""
        self._findings: queue.SimpleQueue[Findings] = queue.SimpleQueue()
        self._supervisor = Supervisor(self._inbox, self._give_up)
        self._probes: dict[str, TopicProbes] = {}
        self._helpers: list[Part] = []
        self._credentials = CredentialFiles(files_of(cluster.kafka))
        self._rotations = 0
        self._auditor = self._new_auditor()
        self._watcher = self._new_watcher()
        self._stocked = 0.0
        self._admin: Any = None  # until it probes
        self._judge: Judge | None = None
        self._flusher: Flusher | None = None
        self._installation = ""
        self._remembered_ns: int | None = None
        self.status: int | None = None
        self.message: str | None = None
        self.probing = threading.Event()
        """Set while producers run."""

    # life

    def ask_stop(self) -> None:
        """Say that it should end, without waiting; nobody waits for room in the queue any more."""
        super().ask_stop()
        self._inbox.release()

    def _give_up(self, reason: str) -> None:
        """End with status FAILED, whatever this thread is waiting for."""
        self.status, self.message = FAILED, f"cluster {self._cluster.name}: {reason}"
        log.error("cluster_ended", cluster=self._cluster.name, reason=reason)
        self.ask_stop()

    def _succeeded(self) -> None:
        """End because another runner has the lease, whatever this thread is waiting for."""
        self.status, self.message = TAKEN, str(TakenError(self._cluster.name, self._settings.runner.name))
        self.ask_stop()

    def run(self) -> None:
        """Live until stopped."""
        try:
            self._live()
        except UserError as error:
            self.status, self.message = error.exit_status, str(error)
            log.error("cluster_ended", cluster=self._cluster.name, reason=str(error))  # noqa: TRY400  # one line

    def _live(self) -> None:
        settings, name = self._settings, self._cluster.name
        runner = settings.runner.name
        ledger = Ledger.open(
            settings.ledger.directory / name / runner,
            segment_bytes=settings.runner.segment_bytes,
            segment_age_s=settings.runner.segment_age,
        )
        with ledger:
            holder = claim(self._store, name, runner, ledger.directory, self.stopping)
            if holder is None:
                return
            recalled = self._recall(ledger)
            if recalled is None:
                return
            tracker, flusher = recalled
            self._flusher = flusher
            keeper = Keeper(self._store, name, runner, holder, self._succeeded)
            self._supervisor.begin(keeper)
            known: Known = {}
            for producer_id, one in tracker.state.producers.items():
                first, highest = known.get((one.topic, one.mode), (producer_id, 0))
                known[one.topic, one.mode] = first, max(highest, one.generation)
            judge = self._judge = Judge(
                ledger,
                tracker,
                inbox=self._inbox,
                findings=self._findings,
                flusher=flusher,
                clock=self._clock,
                fsync_interval=settings.runner.fsync_interval,
            )
            flusher.latest = lambda: judge.published
            flusher.audited = lambda: self._auditor.latest
            flusher.troubles = lambda: self._supervisor.troubles(judge)
            shipper = Shipper(settings.probe_log.url, name, runner, judge, retention_s=settings.probe_log.retention)
            self._supervisor.begin(judge, flusher, shipper)
            self._supervisor.start()
            try:
                self._probe(known)
            finally:
                self._end(judge, flusher, shipper, keeper)

    def _recall(self, ledger: Ledger) -> tuple[Tracker, Flusher] | None:
        """Return what the ledger knows, and begin; say what it has forgotten. None: told to stop."""
        tracker, flusher, damage = self._replay(ledger)
        state, name, runner = tracker.state, self._cluster.name, self._settings.runner.name
        asked = self._ask(
            lambda: (self._store.view(name, runner), self._store.installation(state.installation)), "memory"
        )
        if asked is None:
            return None
        view, self._installation = asked
        self._remembered_ns, began_ns = state.now_ns or None, self._clock.now_ns()
        lost = memory.lost(state, damage, view and view.view, self._installation, began_ns)
        if state.installation not in {None, self._installation}:
            tracker = self._set(Tracker())  # what it holds bears another tag, and is foreign here
        self._recalled = tracker.state.ordinal
        self._begin_anew(began_ns)
        if lost is not None:  # after the beginning: a tracker that was stopped hears of nothing before
            self._inbox.put([lost])
        return tracker, flusher

    def _set(self, tracker: Tracker) -> Tracker:
        """Return the tracker, told of what is set."""
        tracker.state.topology.limits = limits(self._cluster.watch)
        tracker.state.probed = probed(self._cluster)
        return tracker

    def _replay(self, ledger: Ledger) -> tuple[Tracker, Flusher, str | None]:
        """Fold what the ledger holds, and say what is damaged; what was found and not delivered is delivered again."""
        recovery = ledger.recover()
        if recovery.torn:
            log.warning("ledger_tail_dropped", what=recovery.torn)
        try:
            tracker, undelivered, ended = envelope.unseal(recovery.state)
        except ValueError as error:
            raise LedgerError(f"the ledger {ledger.directory} is of another version of canary: {error}") from error
        self._set(tracker)
        flusher = Flusher(self._store, self._cluster.name, self._settings.runner.name, self._clock)
        flusher.share, flusher.properties = self._cluster.share, self._cluster.client_config()
        flusher.night_s = self._settings.schedule.longest_gap_s
        flusher.violations(undelivered)
        flusher.ended(ended)
        began, facts = time.monotonic(), 0
        for batch in recovery.facts:
            tracker.fold(batch)
            facts += len(batch)
            findings = tracker.drain()
            flusher.violations(findings.violations)
            flusher.ended(findings.ended)
            flusher.changed(findings.changes)
        flusher.changed(everything(tracker.state.topology))
        log.info("ledger_replayed", cluster=self._cluster.name, facts=facts, seconds=round(time.monotonic() - began, 3))
        return tracker, flusher, recovery.damage

    def silence(self) -> None:
        """Stop every writer for good, and read on."""
        self._sending = False
        probes = self._probes.values()
        for one in probes:
            one.ask_silence()
        deadline = time.monotonic() + _LAST_S
        for one in probes:
            one.silence(deadline)

    def read_again(self, since_ns: int | None = None) -> int:
        """Ask for a re-read of everything retained by fresh clients.

        Args:
            since_ns: when it was asked for first; a re-read may end early (an election, a broker that is silent), and
                then only what has not been read to its end since, and is not being read, is asked for again.

        Returns:
            When it was asked for, in ns: ``scrubbed_ns`` of a partition is later once it was read to its end.
        """
        assert self._judge is not None  # noqa: S101  # whoever asks has seen ``probing``
        at_ns = self._clock.now_ns()
        view = self._judge.published.view
        if since_ns is not None:
            unread = [p for p in view["partitions"] if p["scrubbed_ns"] <= since_ns and not p["rereading"]]
            view = {"partitions": unread}
        places = [place for place in places_of(view) if place[0] in self._probes]
        self._inbox.put([ScrubAsked(at_ns, topic, partition, _EVERYTHING, start=0) for topic, partition in places])
        return at_ns

    def _end(self, judge: Judge, flusher: Flusher, shipper: Shipper, keeper: Keeper) -> None:
        """Stop sending, give the readers a moment, make the rest durable and tell it."""
        self._supervisor.stop(1.0)
        probes = self._probes.values()
        wrote = any(one.writers for one in probes)
        self.silence()
        if wrote:
            judge.wait_for(_all_seen, 2.0)
        tails = [tail for one in probes for tail in one.tails.values()]
        others: list[Part] = [*tails, *self._helpers, self._watcher, self._auditor]
        stop_together(others, _LAST_S)
        judge.stop(4.0)
        shipper.stop(2.0)
        flusher.stop(3.0)
        keeper.stop(2.0)
        self._tell_undurable(judge)
        log.info("cluster_stopped", cluster=self._cluster.name)

    def _tell_undurable(self, judge: Judge) -> None:
        """Say how many facts the ledger never had, if the judge could not finish."""
        if judge.blocked is None and judge.failure is None and not judge.alive:
            return  # what a thread that is late puts into the queue now tells of nothing that was promised
        reason = judge.blocked or (f"its judge ended: {judge.failure!r}" if judge.failure else "its judge hangs")
        log.error("facts_never_durable", cluster=self._cluster.name, facts=self._inbox.pending, reason=reason)
        self.status = FAILED
        self.message = f"cluster {self._cluster.name}: {self._inbox.pending:,} facts were never made durable: {reason}"

    # probing

    def _probe(self, known: Known) -> None:
        """Probe the known cluster until stopped; after another one answered in its place as soon as it does again."""
        cluster_id = self._known_cluster()
        while cluster_id is not None and self._shown(stopped=False) and self._probe_one(cluster_id, known):
            known = self._close_all()
            cluster_id = self._known_cluster()
            self._begin_anew(self._clock.now_ns())

    def _shown(self, *, stopped: bool) -> bool:
        """Wait until the view shows that judging is stopped, or that it is not; False when told to stop before.

        What a process before this one knew is not shown: of that no question to the cluster is ours.
        """
        assert self._judge is not None  # noqa: S101  # it is started before anything is probed
        while not self.stopping.is_set():
            if self._judge.wait_for(
                lambda shown: shown.facts > self._recalled and bool(shown.view.get("stopped")) is stopped, 1.0
            ):
                break
        return not self.stopping.is_set()

    def _begin_anew(self, at_ns: int) -> None:
        """Tell the tracker that no client is left of those that were there before."""
        started = (at_ns, self._settings.runner.name, _version())
        self._inbox.put([RunnerStarted(*started, self._installation, self._remembered_ns)])

    def _close_all(self) -> Known:
        """Close every client, for the address leads to another cluster; return whom the next producers succeed."""
        self.probing.clear()
        probes = self._probes.values()
        writers = [writer for one in probes for writer in one.writers.values()]
        tails = [tail for one in probes for tail in one.tails.values()]
        others = [*self._helpers, self._watcher, self._auditor]
        self._supervisor.leave(*others)
        stop_together([*writers, *tails, *others], _LAST_S)
        self._shown(stopped=True)
        self._probes, self._helpers = {}, []
        self._rotations += 1
        self._auditor = self._new_auditor()
        with contextlib.suppress(queue.Empty):
            while True:  # what was asked for has no client to answer it
                self._findings.get_nowait()
        identities = [each for one in probes for each in one.identities.values()]
        return {(each.topic, each.mode): (each.first, each.generation) for each in identities}

    def _probe_one(self, cluster_id: str, known: Known) -> bool:
        """Probe until stopped; True: another cluster answers."""
        cluster = self._cluster
        if not self._find(cluster_id, known):
            return False
        rereads = RereadWorker(
            lambda: consumer_config(cluster, "read_committed"),
            lambda topic: self._target(topic).tag,
            self._inbox,
            self._clock,
        )
        self._watcher = self._new_watcher()
        lengths = [mode.record_length for mode in cluster.modes.enabled().values()]
        scrubber = Scrubber(
            lambda: [place for place in places_of(self._published.view) if place[0] in self._probes],
            bytes_per_second=self._settings.runner.scrub_rate,
            record_length=max(lengths),
            inbox=self._inbox,
            clock=self._clock,
        )
        self._helpers = [rereads, scrubber]
        self._supervisor.begin(*self._helpers, self._watcher, self._auditor)
        for topic, probes in self._probes.items():
            if not self._wait_known(topic):
                return bool(self._published.view.get("stopped"))
            probes.begin(self._published.view, self.stopping)
        self.probing.set()
        log.info("probing", cluster=cluster.name, topics=sorted(self._probes))
        return self._serve(rereads)

    def _new_admin(self) -> AdminClient:
        return asking.new_admin(self._cluster, self._inbox, self._clock)

    def _renew_admin(self) -> None:
        """Go on with another admin client; with the one there is while the new credentials are refused."""
        try:
            self._admin = self._new_admin()
        except asking.NoAnswerError as error:
            log.warning("admin_client_not_renewed", cluster=self._cluster.name, reason=str(error))

    def _new_watcher(self) -> Watcher:
        return asking.new_watcher(
            self._settings, self._cluster, self._probes, self._inbox, self._clock, self._rotations
        )

    def _new_auditor(self) -> Auditor:
        return asking.new_auditor(self._settings, self._cluster, self._clock)

    def _rotate(self) -> None:
        """Credentials in files have changed: every client goes on as another one, which reads them anew."""
        log.info("credentials_changed", cluster=self._cluster.name)
        self._rotations += 1
        former = (self._watcher, self._auditor)
        self._supervisor.leave(*former)
        for part in former:
            part.ask_stop()
        self._renew_admin()
        self._watcher, self._auditor = self._new_watcher(), self._new_auditor()
        for probes in self._probes.values():
            probes.start_anew(self._published.view)
        for part in former:
            part.stop(_LAST_S)
        self._supervisor.begin(self._watcher, self._auditor)

    def _find(self, cluster_id: str, known: Known) -> bool:
        """Find or make each mode's topic, and who writes there. Returns whether to go on."""
        cluster = self._cluster
        for mode in cluster.modes.enabled():
            topic = cluster.topic_of(mode)
            if topic not in self._probes:
                found = self._ask(lambda topic=topic: self._ensure(topic), "topic")  # type: ignore[misc]
                if found is None:
                    return False
                if found is _LEFT_OUT:
                    continue
            identities = self._ask(
                lambda topic=topic, mode=mode: Identities(  # type: ignore[misc]
                    self._store,
                    self._inbox,
                    self._clock,
                    cluster=cluster.name,
                    cluster_id=cluster_id,
                    runner=self._settings.runner.name,
                    topic=topic,
                    mode=mode,
                    installation=self._installation,
                    known=known.get((topic, mode)),
                ),
                "identity",
            )
            if identities is None:
                return False
            if topic not in self._probes:
                self._probes[topic] = self._probes_of(topic)
            self._probes[topic].identities[mode] = identities
        return True

    def _serve(self, rereads: RereadWorker) -> bool:
        """Act on findings and look after the parts until stopped; True: another cluster answers."""
        while not self.stopping.is_set():
            try:
                findings = self._findings.get(timeout=_LOOP_S)
            except queue.Empty:
                findings = None
            if findings is not None:
                if findings.stopped:
                    return True
                for request in findings.rereads:
                    rereads.ask(request)
                if findings.rereads or findings.renewed:
                    self._watcher.ask_now()
                for topic in dict.fromkeys(findings.renewed):
                    self._probes[topic].renew(self._published.view)
                self._look_up(findings.unknown_producers)
            self._look_after()
        return False

    def _probes_of(self, topic: str) -> TopicProbes:
        return TopicProbes(
            self._cluster,
            topic,
            {},
            readings=readings(self._cluster, topic, self._admin),
            make=self._make,
            inbox=self._inbox,
            clock=self._clock,
            sending=self._sending,
            may_start=self._supervisor.may_start,
        )

    def _make(self, mode: str, identities: Identities, under: Renewal) -> Writer:
        runner = self._settings.runner.name
        return modes.make(
            modes.Wiring(mode, self._cluster, runner, identities, under, self._target, self._inbox, self._clock)
        )

    def _look_up(self, producer_ids: list[int]) -> None:
        for producer_id in producer_ids:
            try:
                generation = self._store.generation(producer_id)
            except StoreError as error:
                log.warning("producer_not_looked_up", error=str(error))
                continue
            self._inbox.put([ProducerLooked(self._clock.now_ns(), producer_id, generation)])

    def _look_after(self) -> None:
        """Start again readers and writers that failed, make again what is gone, keep a spare generation."""
        if self._credentials.changed():
            self._rotate()
        for probes in self._probes.values():
            if not self.stopping.is_set():
                probes.look_after(self._published.view)
        self._stock()

    def _stock(self) -> None:
        """Now and then: keep a spare generation, and make again a topic that nobody else made again."""
        now = time.monotonic()
        if now - self._stocked >= _STOCK_S:
            self._stocked = now
            for probes in self._probes.values():
                for identities in probes.identities.values():
                    identities.stock()
            for topic in self._published.view.get("topics", []):
                if topic["gone_since_ns"] and self._clock.now_ns() - topic["gone_since_ns"] > _GONE_NS:
                    self._make_again(topic["topic"])

    def _make_again(self, topic: str) -> None:
        try:
            self._ensure(topic)
        except TopicError as error:
            log.warning("topic_not_made_again", topic=topic, error=str(error))

    @property
    def published(self) -> Published | None:
        """What is known of the cluster, None before the ledger is open."""
        return self._judge.published if self._judge is not None else None

    # waiting

    @property
    def _published(self) -> Published:
        assert self._judge is not None  # noqa: S101  # it is started before anything asks
        return self._judge.published

    def _target(self, topic: str) -> Target:
        return self._probes[topic].target

    def _wait_known(self, topic: str) -> bool:
        """Wait until the topic's id and every partition's end are known (and durable); False if nothing is judged."""
        assert self._judge is not None  # noqa: S101
        share = self._cluster.share_of(topic)
        while not self.stopping.is_set() and not self._published.view.get("stopped"):
            if self._judge.wait_for(lambda published: is_known(published.view, topic, share), 1.0):
                return not self.stopping.is_set()
        return False

    def _ensure(self, topic: str) -> object:
        """Return what the topic is, made if it was missing; _LEFT_OUT when what it mirrors does not exist."""
        try:
            wanted = mirroring.wanted(self._admin, self._cluster, topic)
        except mirroring.NoOriginalError as error:
            log.error("nothing_to_mirror", cluster=self._cluster.name, topic=topic, reason=str(error))  # noqa: TRY400  # one line
            if managing.existing(self._admin, topic, ()) is None:
                return _LEFT_OUT
            wanted = mirroring.as_set(self._cluster, topic)
        return ensure_topic(self._admin, topic, wanted.partitions, wanted.replication_factor, wanted.config)

    def _ask(self, question: Callable[[], Any], what: str) -> Any:
        """Ask until there is an answer; None when told to stop before."""
        said: str | None = None
        while not self.stopping.is_set():
            try:
                return question()
            except (TopicError, StoreError, asking.NoAnswerError) as error:
                if str(error) != said:
                    said = str(error)
                    log.warning("waiting", cluster=self._cluster.name, what=what, reason=said)
                if not isinstance(error, StoreError):
                    code = f"{error.code}: " if error.code else ""
                    self._inbox.put([WatchFailed(self._clock.now_ns(), 0, f"{what}: {code}{said}")])
                self.stopping.wait(_PATIENCE_S)
                if self._admin is not None:
                    self._admin.poll(0)  # what it reports on its own: that the cluster refuses us, say
                    if self._credentials.changed():
                        self._renew_admin()
        return None

    def _known_cluster(self) -> str | None:
        """Wait until the known cluster answers, and return its id; None when told to stop before.

        What answers in its place is said, and neither written to nor read. Each question is a new client's: one that
        has met a cluster stays with it, wherever the address leads by now.
        """
        assert self._flusher is not None  # noqa: S101  # it is there before anything is asked
        name = self._cluster.name
        while not self.stopping.is_set():
            self._admin = self._ask(self._new_admin, "admin client")
            found: str | None = self._ask(lambda: asking.cluster_id(self._admin), "cluster id")
            known = found and self._ask(lambda found=found: self._store.remember_cluster(name, found), "store")  # type: ignore[misc]
            if found is None or known is None:
                return None
            at_ns = self._clock.now_ns()
            violation = another_cluster(known, found, at_ns)
            if known == found:
                self._flusher.ended([violation])  # whoever said it: a former process, say
                self.message = None
                return found
            if self.message != violation.summary:
                self.message = violation.summary
                log.error("another_cluster", cluster=name, reason=self.message)
            self._flusher.violations([violation])
            self._inbox.put([WatchFailed(at_ns, 0, violation.summary)])
            self.stopping.wait(_PATIENCE_S)
        return None


def limits(watch: WatchSettings) -> Limits:
    """Return the set times of conditions."""
    return Limits(
        offline_s=watch.offline_after,
        isr_of_one_s=watch.isr_of_one_after,
        under_s=watch.under_replicated_after,
    )


def probed(cluster: ClusterSettings) -> dict[str, Probed]:
    """Return by topic what is to be probed, as it is set."""
    found: dict[str, Probed] = {}
    for mode in cluster.modes.enabled():
        topic = cluster.topic_of(mode)
        known = found.setdefault(topic, Probed([], list(cluster.share_of(topic).mine(cluster.topic.partitions))))
        if mode != "group":  # which only reads
            known.modes.append(mode)
    return found


def _all_seen(published: Published) -> bool:
    return all(
        consumer["unseen"] == 0 for p in published.view.get("partitions", []) for consumer in p["consumers"].values()
    )


def _version() -> str:
    from importlib.metadata import version  # noqa: PLC0415  # costs a directory scan

    return version("kafka-durability-canary")
