"""Whether a topic is another one, or is gone, as all brokers say: the one place where that is more than one answer.

A broker that does not know of a new topic yet, or is cut off, gives a former id, or none: the word of one is not
believed. What is in doubt is settled when every broker that answers, asked one by one, has said so for a while; the
controller is among them, and they are more than half of all. How long that takes:

* an id that was seen before, which restored metadata give: 60 s;
* of a topic that is not probed, an id that was never seen, or that there is none: two rounds;
* of a probed one, an id that was never seen: a fetch shows at once whose it is; where none does, ten minutes.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

import structlog

from canary.facts import Fact, TopicSeen, WatchedAgreed, WatchedGone
from canary.facts.incarnation import AGREED_S
from canary.kafka.client_inbox import ClientInbox
from canary.metrics.published import Published
from canary.threads import system
from canary.threads.ports import Clock, Inbox
from canary.threads.worker import Worker
from canary.wire.errors import WireError

log = structlog.get_logger(__name__)

NEVER_SEEN_S: Final = 600.0
"""The same of an id that was never seen, while fetches do not show whose it is: brokers may lie for a while."""
_EVERY_S: Final = 5.0
_TWICE_S: Final = _EVERY_S - 1.0
"""Two rounds are further apart than this."""
_TIMEOUT_S: Final = 2.0
_Answer = tuple[str | None, int]
"""A topic's id, None if it has none, and its number of partitions."""
GONE: Final[_Answer] = (None, 0)
HIDDEN: Final[_Answer] = (None, -1)
"""The canary may not describe it."""
_UNKNOWN: Final[_Answer] = (None, -2)


class Doubt(NamedTuple):
    """Another id that is answered for a topic, None: there is none; and for how long all brokers must say so."""

    topic_id: str | None
    agreed_s: float
    is_probed: bool = True

    def agrees(self, answers: Collection[_Answer]) -> bool:
        """Return whether these answers say so, or all that they do not say."""
        if self.topic_id is None:
            return set(answers) in ({GONE}, {HIDDEN})
        return all(topic_id == self.topic_id for topic_id, _ in answers)

    def settled(self, at_ns: int, topic: str, answer: _Answer) -> Fact:
        """Return the fact that all brokers have agreed on an answer."""
        topic_id, partitions = answer
        if topic_id is None:
            return WatchedGone(at_ns, 0, topic, by_name=answer == GONE)
        if self.is_probed:
            return TopicSeen(at_ns, 0, topic, topic_id, partitions, agreed=True)
        return WatchedAgreed(at_ns, topic, topic_id)


def doubts(view: Published) -> dict[str, Doubt]:
    """Return what is in doubt by topic; of a probed one, what brokers have answered for a while, and nothing else."""
    probed = ((one, one.doubted_id(view.now_ns)) for one in view.topics)
    return {
        one.topic: Doubt(one.other_id, AGREED_S if one.other_is_former else _TWICE_S, is_probed=False)
        for one in view.doubtful
    } | {
        one.topic: Doubt(topic_id, AGREED_S if one.other_is_former else NEVER_SEEN_S)
        for one, topic_id in probed
        if topic_id is not None
    }


class TopicIdWatcher(Worker):
    """Asks each broker, while a topic is in doubt.

    Args:
        config: librdkafka's properties.
        doubtful: returns what is in doubt, by topic.
    """

    def __init__(
        self, config: Mapping[str, object], doubtful: Callable[[], Mapping[str, Doubt]], inbox: Inbox, clock: Clock
    ) -> None:
        super().__init__("topic-id-watcher")
        self._config = {"client.id": "durability-canary-topic-id-watcher", **config}
        self._doubtful = doubtful
        self._inbox = ClientInbox(inbox, clock, self.name, lambda: self._met)
        self._met: str | None = None
        self._clock = clock
        self._since: dict[tuple[str, Doubt], float] = {}
        """Since when all brokers that were asked have agreed."""

    def run(self) -> None:
        """Look until stopped."""
        while self.wait(_EVERY_S):
            self.look()

    def look(self) -> None:
        """Ask once, if there is a doubt; a round that is not answered is no agreement."""
        doubtful = self._doubtful()
        found: dict[str, _Answer] = {}
        if doubtful:
            try:
                found = self._agreed(doubtful)
            except WireError as error:
                log.info("topic_ids_not_answered", reason=str(error))
        now = system.monotonic()
        self._since = {(topic, doubtful[topic]): self._since.get((topic, doubtful[topic]), now) for topic in found}
        settled = [one for one, since in self._since.items() if now - since >= one[1].agreed_s]
        for topic, doubt in settled:
            del self._since[topic, doubt]
            log.warning("topic_is_settled", topic=topic, topic_id=doubt.topic_id)
        self._inbox.tell([doubt.settled(self._clock.now_ns(), topic, found[topic]) for topic, doubt in settled])

    def _agreed(self, doubtful: Mapping[str, Doubt]) -> dict[str, _Answer]:
        """Return the topics of which every broker says what is in doubt, and what the controller does.

        Raises:
            WireError: no broker answers.
        """
        seen = answers(self._config, doubtful)
        self._met = seen.cluster_id
        if seen.controller not in seen.topics or 2 * len(seen.topics) <= len(seen.brokers):
            return {}
        return {
            topic: seen.topics[seen.controller][topic]
            for topic, doubt in doubtful.items()
            if doubt.agrees([found[topic] for found in seen.topics.values()])
        }


class Answers(NamedTuple):
    """What brokers answer: all there are, the controller to clients, and what those that answer say of each topic."""

    brokers: list[int]
    controller: int
    topics: dict[int, dict[str, _Answer]]
    cluster_id: str | None = None


def answers(config: Mapping[str, object], topics: Collection[str]) -> Answers:
    """Ask each broker for topics by their names.

    Raises:
        WireError: no broker answers.
    """
    from canary.wire import replicas  # noqa: PLC0415  # 23 MB, for whoever has a doubt
    from canary.wire.client import opened  # noqa: PLC0415  # the same

    with opened(config, _TIMEOUT_S) as admin:
        brokers, controller, cluster_id = replicas.members(admin)
        found: dict[int, dict[str, _Answer]] = {}
        for broker in brokers:
            try:
                described = replicas.described(admin, topics, broker)
            except WireError as error:
                log.info("topic_ids_not_answered", broker=broker, reason=str(error))
                continue
            found[broker] = {
                topic: _without(one) if isinstance(one, WireError) else (one[0].topic_id, len(one))
                for topic, one in described.items()
            }
    return Answers(brokers, controller, found, cluster_id)


def _without(error: WireError) -> _Answer:
    if error.code == "UNKNOWN_TOPIC_OR_PARTITION":
        return GONE
    return HIDDEN if error.refused else _UNKNOWN
