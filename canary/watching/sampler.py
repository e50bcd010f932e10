"""Asks the cluster about itself, in rounds, with every question of a round asked at once and bounded in time."""

from __future__ import annotations

import concurrent.futures
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import structlog
from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec, ResourceType

from canary.client.answers import text_of, topic_id_of
from canary.client.opening import opened_in_time
from canary.client.quiet import ErrorReporter, Gate, calm, quiet_logger
from canary.client.worker import Worker, in_background
from canary.facts import (
    BrokerSeen,
    ClusterSeen,
    Fact,
    Listed,
    PartitionSeen,
    TopicConfigured,
    TopicGone,
    TopicSeen,
    TopologySeen,
    WatchAsked,
    WatchFailed,
)
from canary.watching import others
from canary.watching.others import Others
from canary.watching.selection import Selection

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from concurrent.futures import Future

    from canary.client.ports import Clock, Inbox

log = structlog.get_logger(__name__)

REPEAT_S = 30.0
"""A partition's leader, replicas and ISR are told when they change, and again after so many seconds."""
CONFIGURED_S = 60.0
"""How often a topic's settings are asked for."""
PACE_S = 0.2
"""Longest wait in one go: bounds the reaction to stop."""
GRACE_S = 0.5
"""What an answer may come later than its request's own timeout."""

_ANSWERS = {
    "start": (OffsetSpec.earliest, IsolationLevel.READ_UNCOMMITTED),
    "end": (OffsetSpec.latest, IsolationLevel.READ_UNCOMMITTED),
    "stable": (OffsetSpec.latest, IsolationLevel.READ_COMMITTED),
}


class _Questions(NamedTuple):
    """The futures of one round; ``listings`` by (which bound, topic, partition)."""

    cluster: Future[Any]
    topics: dict[str, Future[Any]]
    named: dict[str, Future[Any]]
    """Topics that are not ours and whose offsets are watched."""
    listings: dict[tuple[str, str, int], Future[Any]]
    configs: dict[str, Future[Any]]

    def all(self) -> list[Future[Any]]:
        told = [*self.topics.values(), *self.named.values(), *self.listings.values(), *self.configs.values()]
        return [self.cluster, *told]


class Watcher(Worker):
    """The thread that asks.

    Args:
        config: librdkafka properties.
        topics: names of the topics to watch.
        inbox: where facts go.
        clock: what time it is.
        interval_s: seconds from the beginning of one round to the next; a round that takes longer is followed at once.
        timeout_s: how long an answer is waited for.
        first_sample: number of the first round, less one; where a predecessor's facts are replayed, its last.
        selection: what is watched of topics that we do not write to.
    """

    def __init__(
        self,
        config: Mapping[str, object],
        topics: Iterable[str],
        inbox: Inbox,
        clock: Clock,
        interval_s: float = 1.0,
        *,
        timeout_s: float = 2.0,
        first_sample: int = 0,
        selection: Selection | None = None,
    ) -> None:
        super().__init__("watcher")
        self._config = dict(config)
        self._topics = tuple(topics)
        self._inbox = inbox
        self._clock = clock
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._sample = first_sample
        self._lock = threading.Lock()
        self._partitions: dict[str, int] = {}
        self._epochs: dict[tuple[object, ...], int] = {}
        self._told: dict[tuple[str, int], tuple[float, tuple[int, str, str]]] = {}
        self._config_due: dict[str, float] = {}
        self._starts: dict[tuple[str, int], int] = {}
        self._gone: dict[str, int] = {}
        self._ids: dict[str, str | None] = {}
        self._gate = Gate()
        self._admin: Any = None
        self._others = Others(selection or Selection())
        self._brokers: dict[int, tuple[str, str | None]] = {}
        self._metadata: Any = None

    def watch(self, topics: Iterable[str]) -> None:
        """Watch these topics from the next round on, which begins at once."""
        with self._lock:
            self._topics = tuple(topics)
        self.ask_now()

    def ask_now(self) -> None:
        """Begin the next round at once (or, if one runs, as soon as it ends)."""
        self.woken.set()

    def run(self) -> None:
        """Ask round after round until stopped."""
        config = calm(self._config, "watcher")
        report = config["error_cb"] = ErrorReporter("watcher", self._inbox, self._clock)
        self._admin = opened_in_time(lambda: AdminClient(config, logger=quiet_logger("watcher")), report, self.stopping)
        going = self._admin is not None
        while going:
            began = time.monotonic()
            self._round()
            self._admin.poll(0)  # lets it call the logger and error_cb
            going = self.wait(max(0.0, self._interval_s - (time.monotonic() - began)))
        holder, self._admin = [self._admin], None
        in_background(holder.clear, "watcher-closing")  # its end may wait for answers

    def _round(self) -> None:
        self._sample += 1
        self._metadata = None
        with self._lock:
            topics = self._topics
        self._inbox.put([WatchAsked(self._clock.now_ns(), self._sample)])
        try:
            questions = self._ask(topics)
        except KafkaException as error:
            self._inbox.put([self._failed("ask", error)])
            return
        if not self._answered(questions.all()):
            return
        facts = self._cluster(questions.cluster)
        facts += self._described(questions.topics)
        facts += self._others_seen(topics)
        listed = self._listed(questions.listings, questions.named)
        facts += listed
        facts += self._configured(questions.configs, topics)
        if moved := self._moved(listed):
            facts += self._in_force(moved, topics)
        self._inbox.put(facts)

    def _moved(self, listed: Sequence[Fact]) -> list[str]:
        """Return the topics of which a log's start is above where it was listed before."""
        starts = {(f.topic, f.partition): f.start for f in listed if isinstance(f, Listed)}
        moved = {place[0] for place, start in starts.items() if start > self._starts.get(place, start)}
        self._starts |= starts
        return sorted(moved)

    def _in_force(self, moved: Sequence[str], topics: Sequence[str]) -> list[Fact]:
        """Return the settings of some topics as they are now.

        Is it the retention? Whoever lowered it to empty the topic may raise it again any moment.
        """
        try:
            configs = self._settings(moved)
        except KafkaException as error:
            return [self._failed("describe_configs", error)]
        return self._configured(configs, topics) if self._answered(configs.values()) else []

    def _settings(self, topics: Sequence[str]) -> dict[str, Future[Any]]:
        """Ask for the settings of topics; returns an answer to come for each."""
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        asked = self._admin.describe_configs(resources, request_timeout=self._timeout_s) if resources else {}
        return {resource.name: future for resource, future in asked.items()}

    def _answered(self, futures: Iterable[Future[Any]]) -> bool:
        """Wait for answers, as long as a round may take. Returns False when it is time to stop."""
        deadline = time.monotonic() + self._timeout_s + GRACE_S
        pending = set(futures)
        while pending and (left := deadline - time.monotonic()) > 0:
            pending = concurrent.futures.wait(pending, min(left, PACE_S)).not_done
            if self.stopping.is_set():
                return False
        return True

    def _ask(self, topics: Sequence[str]) -> _Questions:
        """Send every question of a round. Partitions are those of the round before."""
        timeout = {"request_timeout": self._timeout_s}
        listings: dict[tuple[str, str, int], Future[Any]] = {}
        named = self._others.named(topics)
        places = [TopicPartition(t, p) for t in topics for p in range(self._partitions.get(t, 0))]
        places += [TopicPartition(t, p) for t in named for p in self._others.partitions(t)]
        if places:
            for bound, (spec, isolation) in _ANSWERS.items():
                asked = {place: spec() for place in places}
                answers = self._admin.list_offsets(asked, isolation_level=isolation, **timeout)
                listings |= {(bound, place.topic, place.partition): future for place, future in answers.items()}
        now = time.monotonic()
        due = [topic for topic in topics if self._config_due.get(topic, 0.0) <= now]
        return _Questions(
            cluster=self._admin.describe_cluster(**timeout),
            topics=self._admin.describe_topics(TopicCollection(list(topics)), **timeout) if topics else {},
            named=self._admin.describe_topics(TopicCollection(named), **timeout) if named else {},
            listings=listings,
            configs=self._settings([*due, *self._others.unconfigured()]),
        )

    def _cluster(self, future: Future[Any]) -> list[Fact]:
        cluster, error = _answer(future)
        if error is not None:
            return [self._failed("describe_cluster", error)]
        brokers = _ids(cluster.nodes)
        controller = cluster.controller.id if cluster.controller is not None else None
        at_ns = self._clock.now_ns()
        facts: list[Fact] = [ClusterSeen(at_ns, self._sample, cluster.cluster_id or "", brokers, controller)]
        for node in cluster.nodes:
            where = (f"{node.host}:{node.port}", node.rack)
            if self._brokers.get(node.id) != where:
                self._brokers[node.id] = where
                facts.append(BrokerSeen(at_ns, self._sample, node.id, *where))
        return facts

    def _described(self, futures: Mapping[str, Future[Any]]) -> list[Fact]:
        facts: list[Fact] = []
        unanswered = []
        for topic, future in futures.items():
            described, error = _answer(future)
            if error is None:
                facts += self._topic(topic, described)
            elif error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                facts.append(self._unknown(topic, error))
            else:
                facts.append(self._failed(f"describe_topics {topic}", error))
                unanswered.append(topic)
        whole = bool(futures)
        if unanswered and not self.stopping.is_set():
            facts += self._partitions_of(unanswered)
            whole = self._metadata is not None
        if whole:
            facts.append(TopologySeen(self._clock.now_ns(), self._sample, "probe"))
        return facts

    def _topic(self, topic: str, described: Any) -> list[Fact]:
        self._gone.pop(topic, None)
        topic_id, count = topic_id_of(described), len(described.partitions)
        if self._ids.get(topic, topic_id) != topic_id:
            self._config_due.pop(topic, None)
            for place in [place for place in self._told if place[0] == topic]:
                del self._told[place]  # another incarnation's are told again even if they are the same
        self._ids[topic] = topic_id
        if self._partitions.get(topic) != count:
            self._partitions[topic] = count
            self.ask_now()  # their bounds have not been asked for in this round
        facts: list[Fact] = [TopicSeen(self._clock.now_ns(), self._sample, topic, topic_id, count)]
        for part in described.partitions:
            leader = part.leader.id if part.leader is not None else -1
            facts += self._partition(topic, part.id, leader, _ids(part.replicas), _ids(part.isr))
        return facts

    def _unknown(self, topic: str, error: KafkaError) -> Fact:
        """Tell that a topic is gone when two rounds in a row heard so: one broker may not have learnt of it yet."""
        self._gone[topic] = self._gone.get(topic, 0) + 1
        if self._gone[topic] < 2:
            return self._failed(f"describe_topics {topic}", error)
        self._partitions.pop(topic, None)
        return TopicGone(self._clock.now_ns(), self._sample, topic)

    def _partitions_of(self, topics: Sequence[str]) -> list[Fact]:
        """Ask any broker for leaders and ISR where describe_topics() got no answer.

        describe_topics() goes to the broker last known as controller and times out while that is dead; this one is
        answered by all and renews what the client knows of the controller. It tells no topic id, so there is no
        TopicSeen; and it asks for every topic, since asking by name might make one.
        """
        facts: list[Fact] = self._ask_metadata()
        for topic in topics if self._metadata is not None else ():
            seen = self._metadata.topics.get(topic)
            for number, part in sorted(seen.partitions.items()) if seen is not None and seen.error is None else ():
                isr, replicas = (",".join(map(str, sorted(ids))) for ids in (part.isrs, part.replicas))
                facts += self._partition(topic, number, part.leader, replicas, isr)
        return facts

    def _ask_metadata(self) -> list[Fact]:
        """Ask for the metadata of all topics, once a round; return what went wrong."""
        if self._metadata is None:
            try:
                self._metadata = self._admin.list_topics(timeout=PACE_S * 4)
            except KafkaException as error:
                return [self._failed("list_topics", error.args[0])]
        return []

    def _others_seen(self, ours: Sequence[str]) -> list[Fact]:
        """Leaders and replicas of all the other topics, when that is due."""
        if not self._others.due() or self.stopping.is_set():
            return []
        cpu = time.thread_time()
        facts = self._ask_metadata()
        if self._metadata is not None:
            facts += self._others.seen(self._metadata, ours, self._sample, self._clock.now_ns(), cpu)
            facts.append(TopologySeen(self._clock.now_ns(), self._sample, "all"))
            if self._others.moved:
                self.ask_now()  # what the end of a log was under its new leader is soon overwritten
        return facts

    def _partition(self, topic: str, partition: int, leader: int, replicas: str, isr: str) -> list[Fact]:
        now, state = time.monotonic(), (leader, replicas, isr)
        told_at, told = self._told.get((topic, partition), (float("-inf"), None))
        if state == told and now - told_at < REPEAT_S:
            return []
        self._told[topic, partition] = (now, state)
        return [PartitionSeen(self._clock.now_ns(), self._sample, topic, partition, leader, replicas, isr)]

    def _listed(
        self, futures: Mapping[tuple[str, str, int], Future[Any]], named: Mapping[str, Future[Any]]
    ) -> list[Fact]:
        ids = {topic: _answer(future)[0] for topic, future in named.items()}
        answers = {place: _answer(future) for place, future in futures.items()}
        facts: list[Fact] = []
        errors: dict[str, KafkaError] = {}
        at_ns = self._clock.now_ns()
        self._look_again_under_new_leaders(answers)
        for _, topic, partition in (place for place in answers if place[0] == "start"):
            (start, no_start), (end, no_end), (stable, no_stable) = (
                answers[bound, topic, partition] for bound in _ANSWERS
            )
            for error in (no_start, no_end, no_stable):
                if error is not None:
                    errors.setdefault(f"list_offsets {topic}[{partition}]", error)
            if topic in named:
                seen = ids[topic]
                bounds = (start, end, stable)
                fact = others.listed((topic, partition), seen and topic_id_of(seen), bounds, self._sample, at_ns)
                facts += [fact] if fact is not None and seen is not None else []
                continue
            if start is not None and end is not None and start.offset >= 0 and end.offset >= 0:
                # without a leader librdkafka answers -1001 and no error at all
                epoch = end.leader_epoch if end.leader_epoch is not None and end.leader_epoch >= 0 else None
                lso = stable.offset if stable is not None and stable.offset >= 0 else None
                facts.append(Listed(at_ns, self._sample, topic, partition, start.offset, end.offset, lso, epoch))
        return facts + [self._failed(what, error) for what, error in errors.items()]

    def _look_again_under_new_leaders(self, answers: Mapping[tuple[str, str, int], tuple[Any, Any]]) -> None:
        """Begin the next round at once where a leader epoch is new: a cut is sure when it was seen twice."""
        for (bound, *place), (answer, _) in answers.items():
            if bound != "end" or answer is None or answer.leader_epoch is None:
                continue
            known = self._epochs.setdefault(tuple(place), answer.leader_epoch)
            self._epochs[tuple(place)] = answer.leader_epoch
            if answer.leader_epoch > known:
                self.ask_now()

    def _configured(self, futures: Mapping[str, Future[Any]], ours: Sequence[str]) -> list[Fact]:
        facts: list[Fact] = []
        for topic, future in futures.items():
            entries, error = _answer(future)
            if topic not in ours:
                if error is not None:
                    self._others.unanswered(topic)
                    continue
                least = entries and entries.get("min.insync.replicas")
                facts.append(self._others.configured(topic, _int(least.value) if least else None, self._clock.now_ns()))
                continue
            if error is not None:
                self._config_due[topic] = time.monotonic() + 5 * self._interval_s
                if error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    facts.append(self._failed(f"describe_configs {topic}", error))
                continue
            self._config_due[topic] = time.monotonic() + CONFIGURED_S
            setting = {name: entry.value for name, entry in entries.items()}
            facts.append(
                TopicConfigured(
                    self._clock.now_ns(),
                    topic,
                    retention_ms=_int(setting.get("retention.ms")),
                    retention_bytes=_int(setting.get("retention.bytes")),
                    cleanup_policy=setting.get("cleanup.policy"),
                    min_insync_replicas=_int(setting.get("min.insync.replicas")),
                )
            )
        return facts

    def _failed(self, what: str, error: Any) -> WatchFailed:
        text = f"{what}: {text_of(error)}" if isinstance(error, KafkaError) else f"{what}: {error}"
        kept_back = self._gate.admit(what)
        if kept_back is not None:
            log.warning("watch_failed", error=text, kept_back=kept_back)
        return WatchFailed(self._clock.now_ns(), self._sample, text)


def _answer(future: Future[Any]) -> tuple[Any, KafkaError | None]:
    """Return (answer, None) or (None, error) of a future; one that is not done is a timeout."""
    if not future.done():
        return None, KafkaError(KafkaError._TIMED_OUT)  # noqa: SLF001  # public in librdkafka
    raised = future.exception()
    if raised is None:
        return future.result(), None
    if isinstance(raised, KafkaException):
        return None, raised.args[0]
    return None, KafkaError(KafkaError._FAIL, str(raised))  # noqa: SLF001  # public in librdkafka


def _ids(nodes: Iterable[Any]) -> str:
    return ",".join(str(number) for number in sorted(node.id for node in nodes))


def _int(text: str | None) -> int | None:
    return int(text) if text is not None else None
