"""Asks the cluster about itself, in rounds: every question of a round is asked at once and bounded in time."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import structlog
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import ConfigResource, ResourceType

from canary.facts import BrokerSeen, ClusterSeen, Fact, TopologySeen, WatchAsked, WatchFailed
from canary.kafka import membership
from canary.kafka.client_inbox import ClientInbox, cluster_of
from canary.kafka.membership import Members
from canary.kafka.quiet import ErrorReporter, Gate, calm
from canary.kafka.responses import text_of
from canary.threads import system
from canary.threads.ports import Clock, Inbox
from canary.threads.worker import Worker
from canary.watching import offsets
from canary.watching.offsets import Offsets
from canary.watching.other_topics import OtherTopics
from canary.watching.own_topics import OwnTopics, ids, number, racks_in
from canary.watching.rounds import in_rounds
from canary.watching.selection import Selection

log = structlog.get_logger(__name__)

PACE_S = 0.2
"""Longest wait in one go: bounds the reaction to stop."""
GRACE_S = 0.5
"""What an answer may come later than its request's own timeout."""
_METADATA_S = 0.8
"""How long metadata are waited for: any broker answers them at once."""
_HURRY_S = 0.3
"""What is missing after so long is not waited for when the next round is wanted: it was asked of a broker that died."""


class _Questions(NamedTuple):
    """The futures of one round, and who is in the cluster, for which no future is to be had; None: not answered.

    ``named`` are topics that are not ours: those whose offsets are watched, and those that are not listed any more.
    """

    topics: dict[str, Future[Any]]
    named: dict[str, Future[Any]]
    offsets: dict[offsets.Question, Future[Any]]
    configs: dict[str, Future[Any]]
    members: Members | KafkaError

    def all(self) -> list[Future[Any]]:
        return [one for asked in self[:4] for one in asked.values()]


class Watcher(Worker):
    """The thread that asks.

    Args:
        interval_s: seconds from the beginning of one round to the next; a round that takes longer is followed at once.
        timeout_s: how long an answer is waited for.
        first_sample: number of the first round, less one; above those of a watcher before.
        others: the topics that the canary does not write to; by default none.
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
        others: OtherTopics | None = None,
    ) -> None:
        super().__init__("watcher")
        self._config = dict(config)
        self._topics = tuple(topics)
        self._inbox = ClientInbox(inbox, clock, self.name, lambda: cluster_of(self._admin))
        self._clock = clock
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._sample = first_sample
        self._gate = Gate()
        self._admin: Any = None
        self._own = OwnTopics()
        self._others = others or OtherTopics(Selection())
        self._offsets = Offsets()
        self._brokers: dict[int, tuple[str, str | None]] = {}
        self._racks: dict[int, str | None] = {}
        self._metadata: Any = None
        self._cut_short = False

    @property
    def limited(self) -> frozenset[str]:
        """Its own topics with a retention.bytes, as far as their settings are known."""
        return self._own.limited

    def watch(self, topics: Iterable[str]) -> None:
        """Ask about these topics of ours from the next round on."""
        before, self._topics = self._topics, tuple(topics)
        if before != self._topics:
            self.ask_now()

    def ask_now(self) -> None:
        """Begin the next round at once (or, if one runs, as soon as it ends).

        One that waits for an answer ends early, unless the one before did.
        """
        self.woken.set()

    def run(self) -> None:
        """Ask round after round until stopped."""
        config = calm(self._config, "watcher")
        report = config["error_cb"] = ErrorReporter("watcher", self._inbox.beside, self._clock)
        in_rounds(self, config, report, self._look, self._interval_s)

    def _look(self, admin: Any) -> None:
        self._admin = admin
        try:
            self._round()
        finally:
            self._admin = None  # it is closed by whoever opened it

    def _round(self) -> None:
        self._sample += 1
        self._metadata = None
        self._inbox.tell([WatchAsked(self._clock.now_ns(), self._sample)])
        began = system.monotonic()
        try:
            questions = self._ask()
        except KafkaException as error:
            self._inbox.tell([self._failed("ask", error)])
            return
        if not self._answered(questions.all(), began):
            return
        facts = self._cluster(questions.members, questions.topics)
        facts += self._described(questions.topics)
        facts += self._asked_by_name(questions.named)
        facts += self._others_seen()
        listed = self._listed(questions.offsets, questions.named)
        facts += listed
        facts += self._configured(questions.configs)
        if risen := self._offsets.risen_starts(listed):
            facts += self._in_force(risen)
        self._inbox.tell(facts)

    def _in_force(self, risen: Sequence[str]) -> list[Fact]:
        """Return the settings, as they are now, of topics whose log start has risen.

        The reason may be a lower retention, set to empty the topic, and soon raised again.
        """
        try:
            configs = self._settings(risen)
        except KafkaException as error:
            return [self._failed("describe_configs", error)]
        return self._configured(configs) if self._answered(configs.values(), system.monotonic()) else []

    def _settings(self, topics: Sequence[str]) -> dict[str, Future[Any]]:
        """Ask for the settings of topics; returns an answer to come for each."""
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        asked = self._admin.describe_configs(resources, request_timeout=self._timeout_s) if resources else {}
        return {resource.name: future for resource, future in asked.items()}

    def _answered(self, futures: Iterable[Future[Any]], began: float) -> bool:
        """Wait for answers, as long as a round may take that ``began`` then. Returns False when it is time to stop."""
        pending, may_hurry = set(futures), not self._cut_short
        self._cut_short = False
        while pending and (left := began + self._timeout_s + GRACE_S - system.monotonic()) > 0:
            pending = system.done(pending, min(left, PACE_S))
            if self.stopping.is_set():
                return False
            if may_hurry and self.woken.is_set() and system.monotonic() - began >= _HURRY_S:
                self._cut_short = bool(pending)
                break
        return True

    def _ask(self) -> _Questions:
        """Send every question of a round. Partitions are those of the round before."""
        topics, timeout = self._topics, {"request_timeout": self._timeout_s}
        named = self._others.named(topics)
        described = list(dict.fromkeys([*named, *self._others.doubted()]))
        places = [(topic, p) for topic in topics for p in range(self._own.partitions.get(topic, 0))]
        places += [(topic, p) for topic in named for p in self._others.partitions(topic)]
        return _Questions(
            topics=self._admin.describe_topics(TopicCollection(list(topics)), **timeout) if topics else {},
            named=self._admin.describe_topics(TopicCollection(described), **timeout) if described else {},
            offsets=offsets.ask(self._admin, places, self._timeout_s),
            configs=self._settings([*self._own.unconfigured(topics), *self._others.unconfigured()]),
            members=self._members(),  # last: the other questions are on their way meanwhile
        )

    def _members(self) -> Members | KafkaError:
        try:
            return membership.members(self._admin, _METADATA_S, next(iter(self._topics), None))
        except KafkaException as error:
            return error.args[0]

    def _cluster(self, told: Members | KafkaError, topics: Mapping[str, Future[Any]]) -> list[Fact]:
        """Return who is in the cluster; racks are told with the replicas of ``topics``."""
        if isinstance(told, KafkaError):
            return [self._failed("members", told)]
        self._racks |= racks_in(answer for answer, _ in map(_answer, topics.values()) if answer is not None)
        at_ns = self._clock.now_ns()
        brokers = ids(one.id for one in told.brokers)
        facts: list[Fact] = [ClusterSeen(at_ns, self._sample, told.cluster_id or "", brokers, told.controller)]
        for one in told.brokers:
            where = (one.address, self._racks.get(one.id))
            if self._brokers.get(one.id) != where:
                self._brokers[one.id] = where
                facts.append(BrokerSeen(at_ns, self._sample, one.id, *where))
        return facts

    def _described(self, futures: Mapping[str, Future[Any]]) -> list[Fact]:
        facts: list[Fact] = []
        unanswered = []
        for topic, future in futures.items():
            described, error = _answer(future)
            if error is None:
                facts += self._own.described(topic, described, self._sample, self._clock.now_ns())
                if self._own.grown:
                    self.ask_now()  # offsets of the new partitions were not asked for in this round
            elif error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                gone = self._own.unknown(topic, self._sample, self._clock.now_ns())
                facts += gone or [self._failed(f"describe_topics {topic}", error)]
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

    def _partitions_of(self, topics: Sequence[str]) -> list[Fact]:
        """Ask any broker for leaders and ISR where describe_topics() got no answer.

        describe_topics() goes to the broker last known as controller and times out while that is dead. Metadata is
        answered by every broker, and renews what the client knows of the controller. It has no topic ids, so there is
        no TopicSeen; and it is asked for every topic, since asking by name might create one.
        """
        facts: list[Fact] = self._ask_metadata()
        for topic in topics if self._metadata is not None else ():
            found = self._metadata.topics.get(topic)
            facts += self._own.from_metadata(topic, found, self._sample, self._clock.now_ns())
        return facts

    def _ask_metadata(self) -> list[Fact]:
        """Ask for the metadata of all topics, once a round; return what went wrong."""
        if self._metadata is None:
            try:
                self._metadata = self._admin.list_topics(timeout=_METADATA_S)
            except KafkaException as error:
                return [self._failed("list_topics", error.args[0])]
        return []

    def _others_seen(self) -> list[Fact]:
        """Return changed leaders and replicas of all the other topics, when that is due."""
        if not self._others.due() or self.stopping.is_set():
            return []
        cpu = system.cpu_s()
        facts = self._ask_metadata()
        if self._metadata is not None:
            facts += self._others.seen(self._metadata, self._topics, self._sample, self._clock.now_ns(), cpu)
            facts.append(TopologySeen(self._clock.now_ns(), self._sample, "all"))
            if self._others.moved:
                self.ask_now()  # the log end under the new leader is soon overwritten
        return facts

    def _asked_by_name(self, futures: Mapping[str, Future[Any]]) -> list[Fact]:
        """Return which topics are gone that were listed once."""
        answers = {topic: _answer(future)[1] for topic, future in futures.items()}
        at_ns = self._clock.now_ns()
        return [
            one for topic, error in answers.items() for one in self._others.asked(topic, error, self._sample, at_ns)
        ]

    def _listed(self, futures: Mapping[offsets.Question, Future[Any]], named: Mapping[str, Future[Any]]) -> list[Fact]:
        answers = {question: _answer(future) for question, future in futures.items()}
        described = {topic: _answer(future)[0] for topic, future in named.items()}
        if self._offsets.new_leaders(answers):
            self.ask_now()  # a cut of the log is certain once it was seen twice
        facts, errors = offsets.facts_of(answers, described, self._sample, self._clock.now_ns())
        return facts + [self._failed(what, error) for what, error in errors.items()]

    def _configured(self, futures: Mapping[str, Future[Any]]) -> list[Fact]:
        facts: list[Fact] = []
        for topic, future in futures.items():
            entries, error = _answer(future)
            at_ns = self._clock.now_ns()
            if topic not in self._topics:
                if error is None:
                    least = entries.get("min.insync.replicas")
                    facts.append(self._others.configured(topic, number(least.value) if least else None, at_ns))
                else:
                    self._others.unanswered(topic)
            elif error is None:
                facts.append(self._own.configured(topic, entries, at_ns))
            else:
                self._own.not_configured(topic, 5 * self._interval_s)
                if error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    facts.append(self._failed(f"describe_configs {topic}", error))
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
