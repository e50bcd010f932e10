"""Whether a topic is another one, as all brokers say: metadata that was restored names an id that was seen before.

A broker that does not know of a new topic yet, or is cut off, gives a former id, too: the word of one is not believed.
An id that was seen before is accepted when every broker that answers, asked one by one, has given it for 60 s; the
controller is among them, and they are more than half of all. Whose an id is that was never seen, a fetch shows at once;
where none does, that takes ten minutes.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Final, NamedTuple

import structlog

from canary.facts import TopicSeen
from canary.threads import system
from canary.threads.ports import Clock, Inbox
from canary.threads.worker import Worker
from canary.wire.errors import WireError

log = structlog.get_logger(__name__)

NEVER_SEEN_S: Final = 600.0
"""The same of an id that was never seen, while fetches do not show whose it is: brokers may lie for a while."""
_EVERY_S: Final = 5.0
_TIMEOUT_S: Final = 2.0


class Doubt(NamedTuple):
    """Another id that is answered for a topic, and for how long all brokers must give it."""

    topic_id: str
    agreed_s: float


class TopicIdWatcher(Worker):
    """Asks each broker, while there are topics of which another id is answered.

    Args:
        config: librdkafka's properties.
        doubtful: returns those topics.
    """

    def __init__(
        self, config: Mapping[str, object], doubtful: Callable[[], Mapping[str, Doubt]], inbox: Inbox, clock: Clock
    ) -> None:
        super().__init__("topic-id-watcher")
        self._config = {"client.id": "durability-canary-topic-id-watcher", **config}
        self._doubtful = doubtful
        self._inbox = inbox
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
        found: dict[str, int] = {}
        if doubtful:
            try:
                found = self._agreed(doubtful)
            except WireError as error:
                log.info("topic_ids_not_answered", reason=str(error))
        now = system.monotonic()
        self._since = {(topic, doubtful[topic]): self._since.get((topic, doubtful[topic]), now) for topic in found}
        for (topic, doubt), since in list(self._since.items()):
            if now - since >= doubt.agreed_s:
                del self._since[topic, doubt]
                log.warning("topic_is_another_one", topic=topic, topic_id=doubt.topic_id)
                seen = TopicSeen(self._clock.now_ns(), 0, topic, doubt.topic_id, found[topic], agreed=True)
                self._inbox.put([seen])

    def _agreed(self, doubtful: Mapping[str, Doubt]) -> dict[str, int]:
        """Return the topics of which every broker gives that id, and the number of their partitions.

        Raises:
            WireError: no broker answers.
        """
        seen = answers(self._config, doubtful)
        if seen.controller not in seen.topics or 2 * len(seen.topics) <= len(seen.brokers):
            return {}
        return {
            topic: seen.topics[seen.controller][topic][1]
            for topic, doubt in doubtful.items()
            if all(found[topic][0] == doubt.topic_id for found in seen.topics.values())
        }


class Answers(NamedTuple):
    """What brokers answer: all there are, the controller to clients, and of those that answer each topic's id and size.

    The size is the number of partitions; an id is None of a topic that the broker does not know.
    """

    brokers: list[int]
    controller: int
    topics: dict[int, dict[str, tuple[str | None, int]]]


def answers(config: Mapping[str, object], topics: Collection[str]) -> Answers:
    """Ask each broker for the ids of topics.

    Raises:
        WireError: no broker answers.
    """
    from canary.wire import replicas  # noqa: PLC0415  # 23 MB, for whoever has a doubt
    from canary.wire.client import opened  # noqa: PLC0415  # the same

    with opened(config, _TIMEOUT_S) as admin:
        brokers, controller, _ = replicas.members(admin)
        found: dict[int, dict[str, tuple[str | None, int]]] = {}
        for broker in brokers:
            try:
                described = replicas.described(admin, topics, broker)
            except WireError as error:
                log.info("topic_ids_not_answered", broker=broker, reason=str(error))
                continue
            found[broker] = {
                topic: (None, 0) if isinstance(one, WireError) else (one[0].topic_id, len(one))
                for topic, one in described.items()
            }
    return Answers(brokers, controller, found)
