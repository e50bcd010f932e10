"""The clients of the known cluster: readers, writers, watcher, auditor, re-reads. They open and close together."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import structlog

from canary.anomalies.online import Findings
from canary.anomalies.violation import RereadRequest
from canary.facts import ProducerLooked
from canary.facts.incarnation import AGREED_S
from canary.kafka.client_inbox import ClientInbox, cluster_of
from canary.metrics.published import Published
from canary.probing.readers.consumer import Target
from canary.probing.readers.random_reads import RandomReader
from canary.probing.readers.reread import RereadWorker
from canary.probing.readers.scrub import Scrubber
from canary.runner.cluster import audit, wiring
from canary.runner.cluster.connection import Connection
from canary.runner.cluster.identities import Identities
from canary.runner.cluster.memory import Memory, Predecessors
from canary.runner.cluster.readers import readings
from canary.runner.cluster.workloads import TopicProbes
from canary.runner.context import ClusterContext
from canary.runner.supervision.supervisor import Supervisor
from canary.runner.topics import probe_topics
from canary.runner.topics.opener import TopicOpener
from canary.runner.watching.besides import Besides
from canary.settings import UserError, admin_config, consumer_config
from canary.threads import system
from canary.threads.worker import Worker, stop_together
from canary.watching.audit.auditor import Auditor
from canary.watching.audit.cluster_config import ClusterConfig
from canary.watching.broker_statistics import observed
from canary.watching.log_sizes import LogSizeWatcher
from canary.watching.other_topics import OtherTopics
from canary.watching.sampler import Watcher
from canary.watching.selection import Selection
from canary.watching.topic_ids import NEVER_SEEN_S, Doubt, TopicIdWatcher
from canary.workloads.catalogue import WORKLOADS
from storage.store import StoreError

log = structlog.get_logger(__name__)

STOP_S = 3.0
_SPARE_S = 5.0
_OPEN_S, _LOOK_S = 1.0, 0.05
"""For so long a start waits for its topics before it watches; and how often it looks."""
_WHOLE_S = 5.0
"""For so long a start waits for all topics and partitions; then it begins with those that answer."""


class ClusterClients:
    """What probes and watches the known cluster.

    Args:
        supervisor: starts the parts, and starts them again.
        remembered: what the start knows: the store's installation, which is in the tag of our records, for example.
        published: returns the last view.
        first_samples: the number of the first sample of each watcher, each above those of the watcher before.
        sending: False to read again only what was promised before, and to send nothing.
    """

    def __init__(
        self,
        context: ClusterContext,
        connection: Connection,
        supervisor: Supervisor,
        *,
        remembered: Memory,
        published: Callable[[], Published],
        first_samples: Iterator[int],
        sending: bool,
    ) -> None:
        self.probes: dict[str, TopicProbes] = {}
        self.auditor = self._new_auditor(context)
        self.besides = Besides(context, remembered.gaps)
        self._context = context
        self._connection = connection
        self._supervisor = supervisor
        self._remembered = remembered
        self._published = published
        self._first_samples = first_samples
        self._sending = sending
        self._watcher: Watcher | None = None
        self._sizes, self._ids = self._new_sizes(), self._new_ids()
        self._rereads = RereadWorker(
            lambda: consumer_config(context.cluster, "read_committed"),
            lambda topic: self.probes[topic].tag(published()),
            context.inbox,
            context.clock,
        )
        self._scrubber = Scrubber(
            lambda: [(one.topic, one.partition) for one in published().partitions if one.topic in self.probes],
            bytes_per_second=context.settings.runner.scrub_rate,
            record_bytes=max(mode.record_bytes for mode in context.cluster.modes.declared().values()),
            inbox=context.inbox,
            clock=context.clock,
        )
        self._random_reader = RandomReader(
            lambda: [
                (one.topic, one.partition, one.start, one.end or 0)
                for one in published().partitions
                if one.topic in self.probes
            ],
            every_s=context.cluster.readers.random_every,
            inbox=context.inbox,
            clock=context.clock,
        )
        self._spares_due = self._whole_until = 0.0
        self._home = ("", "")
        """The store's installation and the cluster's own id."""
        self._predecessors: Predecessors = {}
        self._unopened: dict[str, list[str]] = {}
        """By topic that was not found or made yet: its modes."""
        for mode in context.cluster.modes.enabled():
            self._unopened.setdefault(context.cluster.topic_of(mode), []).append(mode)
        self._topics = tuple(self._unopened)
        self._openers: dict[str, TopicOpener[TopicProbes]] = {}
        """By topic that is being found or made, or made again."""
        self._early: list[RereadRequest] = []
        """What is to be read again in topics that have not answered yet."""

    def open(self, cluster_id: str, predecessors: Predecessors) -> bool:
        """Find or create the modes' topics, and start what watches them; False when stopped before.

        A topic that cannot be had now is asked for again, and begins later than the others.
        """
        self._home, self._predecessors = (self._remembered.installation, cluster_id), predecessors
        for topic, modes in self._unopened.items():
            self._open_topic(topic, partial(self._new_probes, topic, modes, {}))
        until = system.monotonic() + _OPEN_S
        while self._openers and system.monotonic() < until and not self._context.stopping.wait(_LOOK_S):
            self._take_opened()
        self._whole_until = system.monotonic() + _WHOLE_S
        self._watcher = self._new_watcher()
        self._supervisor.begin(*self._observers())
        return not self._context.stopping.is_set()

    def _open_topic(self, topic: str, make: Callable[[], TopicProbes]) -> None:
        """Have a topic found or made beside this loop: a question that gets no answer holds no other one up."""
        opener = TopicOpener(topic, self._connection.attempt, ensure=partial(self._ensure, topic), make=make)
        self._openers[topic] = opener
        opener.start()

    def _new_probes(self, topic: str, modes: Sequence[str], identities: dict[str, Identities]) -> TopicProbes:
        """Return what a topic is probed by; ``identities`` has those that an attempt before has taken.

        Raises:
            StoreError: the store does not answer.
        """
        for mode in modes:
            if mode not in identities:
                known = self._predecessors.get((topic, mode))
                identities[mode] = Identities(self._context, self._home, topic, mode, known)
        probes = self._topic_probes(topic)
        probes.identities.update(identities)
        return probes

    def _take_opened(self) -> None:
        """Take the topics that have answered, and start an opener again that has failed.

        Raises:
            UserError: the settings cannot be run.
        """
        opened = False
        for topic, opener in list(self._openers.items()):
            if opener.done:
                del self._openers[topic]
                if self._unopened.pop(topic, None) and opener.found is not None:  # else its modes cannot run
                    self.probes[topic] = opener.found
                    opened = True
            elif not opener.alive and not opener.stopping.is_set():
                if isinstance(opener.failure, UserError):
                    raise opener.failure
                if self._supervisor.may_start(opener.name, opener):
                    opener.restart()
        if opened:
            early, self._early = self._early, []
            self.act_on(Findings(rereads=early))
            if self._watcher is not None:
                self._watcher.watch(self.probes)

    @property
    def probing(self) -> bool:
        """Whether all that is to be probed is, or else what has answered within _WHOLE_S of the start."""
        begun = [probes.begun for probes in self.probes.values()]
        return any(begun) and (self._is_late or (all(begun) and not self._unopened))

    @property
    def _is_late(self) -> bool:
        return system.monotonic() >= self._whole_until

    def may_begin(self, view: Published) -> bool:
        """Say whether a topic that has not begun can, as ``view`` shows it."""
        return bool(self._due(view))

    def _due(self, view: Published) -> list[TopicProbes]:
        """Return the topics that can begin; what a mode takes its records from begins before it."""
        if view.stopped is not None:
            return []
        waiting = [one for one in self.probes.values() if not one.begun]
        late = self._is_late
        return [one for one in waiting if self._has_sources(one) and one.may_begin(view, whole=not late)]

    def _has_sources(self, probes: TopicProbes) -> bool:
        """Say whether the topics from which the modes of a topic take their records are read already."""
        sources = [WORKLOADS[mode].source for mode in probes.identities]
        topics = {self._context.cluster.topic_of(source) for source in sources if source is not None}
        return all(topic in self.probes and self.probes[topic].begun for topic in topics - {probes.topic})

    def close(self) -> Predecessors:
        """Close every client; return the producers that the next ones succeed."""
        self._leave_openers()
        self._supervisor.leave(*self._observers())
        writers = [writer for probes in self.probes.values() for writer in probes.writers.values()]
        stop_together([*writers, *self._readers(), *self._observers()], STOP_S)
        self.besides.leave()
        identities = [each for probes in self.probes.values() for each in probes.identities.values()]
        mine = {(each.topic, each.mode): (each.first, each.generation) for each in identities}
        return self._predecessors | mine

    def silence(self) -> bool:
        """Stop every writer for good, and read on. Returns whether there were writers."""
        self._sending = False
        writers = [writer for probes in list(self.probes.values()) for writer in probes.silence()]
        stop_together(writers, STOP_S)
        return bool(writers)

    def stop_reading(self) -> None:
        """Stop all that is left after :meth:`silence`."""
        self._leave_openers()
        stop_together([*self._readers(), *self._observers()], STOP_S)

    def _leave_openers(self) -> None:
        """Let no topic be found or made any more; an answer that is still awaited counts for nothing."""
        for opener in self._openers.values():
            opener.ask_stop()

    def act_on(self, findings: Findings) -> None:
        """Read again, renew and look up what the judge asks for."""
        for request in findings.rereads:
            if request.topic in self.probes:
                self._rereads.ask(request)
            elif request.topic in self._unopened:
                self._early.append(request)
        if self._watcher is not None and (findings.rereads or findings.renewed or findings.urgent):
            self._watcher.ask_now()
        if findings.agreed:
            self._context.inbox.put(findings.agreed)
        for topic in dict.fromkeys(findings.renewed):
            if topic in self.probes:  # else it begins with the present incarnation
                self.probes[topic].renew(self._published())
        for producer_id in findings.unknown_producers:
            try:
                generation = self._context.store.identities.generation(producer_id)
            except StoreError as error:
                log.warning("producer_not_looked_up", error=str(error))
                continue
            self._context.inbox.put([ProducerLooked(self._context.clock.now_ns(), producer_id, generation)])

    def look_after(self) -> None:
        """Begin what can begin, and start failed readers and writers again.

        Now and then create deleted topics and take spare generations.
        """
        if self._connection.credentials.changed():
            self._renew_clients()
        self._begin_due()
        for probes in self.probes.values():
            if not self._context.stopping.is_set():
                probes.look_after(self._published())
        if system.monotonic() >= self._spares_due:
            self._spares_due = system.monotonic() + _SPARE_S
            for probes in self.probes.values():
                for identities in probes.identities.values():
                    identities.stock()
            self._create_deleted_topics()

    def _begin_due(self) -> None:
        """Begin with topics that can be had and have answered by now; count what is not sent where nothing answers."""
        self._take_opened()
        for probes in self._due(self._published()):
            probes.begin(self._published(), self._context.stopping)
        for probes in self.probes.values() if self._is_late else ():
            probes.count_skipped(self._published())

    def _create_deleted_topics(self) -> None:
        for one in self._published().topics:
            if (
                one.over_ns is not None and one.topic in self.probes and one.topic not in self._openers
            ):  # its end is said
                self._open_topic(one.topic, partial(self.probes.__getitem__, one.topic))
        if not self._openers:  # a topic is only made in the cluster that the client has met
            self._connection.rest()

    def _renew_clients(self) -> None:
        """Replace every client by one that reads the changed credentials."""
        log.info("credentials_changed", cluster=self._context.cluster.name)
        watching = (self._watcher, self._sizes, self._ids, self.auditor, *self.besides.parts)
        former = [one for one in watching if one is not None]
        self._supervisor.leave(*former)
        for part in former:
            part.ask_stop()
        self._connection.renew()
        self._watcher, self.auditor = self._new_watcher(), self._new_auditor(self._context)
        self._sizes, self._ids = self._new_sizes(), self._new_ids()
        self.besides.renew()
        for probes in self.probes.values():
            probes.start_anew(self._published())
        for part in former:
            part.stop(STOP_S)
        self._supervisor.begin(self._watcher, self._sizes, self._ids, self.auditor, *self.besides.parts)

    def _new_watcher(self) -> Watcher:
        watch, topology = self._context.cluster.watch, self._remembered.tracker.state.topology
        return Watcher(
            admin_config(self._context.cluster) | observed(self._context.meters),
            list(self.probes),
            self._context.inbox,
            self._context.clock,
            self._context.settings.runner.watch_interval,
            first_sample=next(self._first_samples),
            others=OtherTopics(
                Selection((*watch.topics, *watch.epochs), watch.offsets),
                {*topology.topics, *topology.vanished} - set(self._topics),
            ),
        )

    def _new_sizes(self) -> LogSizeWatcher:
        return LogSizeWatcher(
            admin_config(self._context.cluster),
            lambda: frozenset() if self._watcher is None else self._watcher.limited,
            self._context.inbox,
            self._context.clock,
        )

    def _new_ids(self) -> TopicIdWatcher:
        return TopicIdWatcher(
            admin_config(self._context.cluster),
            lambda: doubted_ids(self._published()),
            self._context.inbox,
            self._context.clock,
        )

    @staticmethod
    def _new_auditor(context: ClusterContext) -> Auditor:
        cluster = context.cluster

        def collect(admin: Any) -> ClusterConfig:
            found = audit.collect_config(context.settings, cluster, admin)
            ClientInbox(context.inbox, context.clock, "auditor", lambda: cluster_of(admin)).tell([])
            return found

        return Auditor(
            admin_config(cluster),
            collect,
            context.clock,
            cluster.watch.audit_interval,
        )

    def _readers(self) -> list[Worker]:
        return [tail for probes in self.probes.values() for tail in probes.tails.values()]

    def _observers(self) -> list[Worker]:
        watchers: list[Worker] = (
            [self._sizes, self._ids] if self._watcher is None else [self._watcher, self._sizes, self._ids]
        )
        return [self._rereads, self._scrubber, self._random_reader, *watchers, self.auditor, *self.besides.parts]

    def _ensure(self, topic: str) -> bool:
        return probe_topics.ensure(self._connection.admin, self._context.cluster, topic)

    def _topic_probes(self, topic: str) -> TopicProbes:
        return TopicProbes(
            self._context,
            topic,
            readings=readings(self._context.cluster, topic, self._connection.admin),
            make=lambda identities, under: wiring.make(self._context, identities, under, self._target),
            sending=self._sending,
            may_start=self._supervisor.may_start,
        )

    def _target(self, topic: str) -> Target:
        return self.probes[topic].target


def doubted_ids(view: Published) -> dict[str, Doubt]:
    """Return by topic the other id that brokers have answered with for a while, and with no other one."""
    doubted = ((one, one.doubted_id(view.now_ns)) for one in view.topics)
    for_s = {True: AGREED_S, False: NEVER_SEEN_S}
    return {one.topic: Doubt(topic_id, for_s[one.other_is_former]) for one, topic_id in doubted if topic_id is not None}
