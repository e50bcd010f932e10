"""The topics that the canary writes to: facts of what has changed since the last answer."""

from collections.abc import Iterable, Mapping
from typing import Any

from canary.facts import Fact, PartitionSeen, TopicConfigured, TopicGone, TopicSeen
from canary.kafka.responses import topic_id_of
from canary.threads import system

REPEAT_S = 30.0
"""Leader, replicas and ISR of a partition become a fact when they change, and again after so many seconds."""
CONFIGURED_S = 60.0
"""How often a topic's settings are asked for."""


class OwnTopics:
    """Remembers the last facts of each topic.

    ``partitions`` is how many each topic has; ``grown`` whether the last answer changed that.
    """

    def __init__(self) -> None:
        self.partitions: dict[str, int] = {}
        self.grown = False
        self.limited: frozenset[str] = frozenset()
        """Those with a retention.bytes, by their settings: all there is of them is on the leader's disk."""
        self._ids: dict[str, str | None] = {}
        self._missing: set[str] = set()
        self._seen: dict[tuple[str, int], tuple[float, tuple[int, str, str]]] = {}
        self._config_due: dict[str, float] = {}

    def described(self, topic: str, description: Any, sample: int, at_ns: int) -> list[Fact]:
        """Return what an answer of describe_topics() has that is new."""
        self._missing.discard(topic)
        topic_id, count = topic_id_of(description), len(description.partitions)
        if self._ids.get(topic, topic_id) != topic_id:
            self._config_due.pop(topic, None)
            for place in [place for place in self._seen if place[0] == topic]:
                del self._seen[place]  # of another incarnation, even if leader and replicas are the same
        self._ids[topic] = topic_id
        self.grown = self.partitions.get(topic) != count
        self.partitions[topic] = count
        facts: list[Fact] = [TopicSeen(at_ns, sample, topic, topic_id, count)]
        for part in description.partitions:
            leader = part.leader.id if part.leader is not None else -1
            state = (leader, ids(node.id for node in part.replicas), ids(node.id for node in part.isr))
            facts += self._partition(topic, part.id, state, sample, at_ns)
        return facts

    def from_metadata(self, topic: str, metadata: Any, sample: int, at_ns: int) -> list[Fact]:
        """Return new leaders, replicas and ISRs from an answer of list_topics(); it has no topic ids."""
        facts: list[Fact] = []
        if metadata is not None and metadata.error is None:
            for number, part in sorted(metadata.partitions.items()):
                state = (part.leader, ids(part.replicas), ids(part.isrs))
                facts += self._partition(topic, number, state, sample, at_ns)
        return facts

    def unknown(self, topic: str, sample: int, at_ns: int) -> list[Fact]:
        """Return that a topic is gone, once two rounds in a row answered so: one broker may not know it yet."""
        if topic not in self._missing:
            self._missing.add(topic)
            return []
        self.partitions.pop(topic, None)
        return [TopicGone(at_ns, sample, topic)]

    def _partition(
        self, topic: str, partition: int, state: tuple[int, str, str], sample: int, at_ns: int
    ) -> list[Fact]:
        now = system.monotonic()
        seen_at, seen = self._seen.get((topic, partition), (float("-inf"), None))
        if state == seen and now - seen_at < REPEAT_S:
            return []
        self._seen[topic, partition] = (now, state)
        return [PartitionSeen(at_ns, sample, topic, partition, *state)]

    def unconfigured(self, topics: Iterable[str]) -> list[str]:
        """Return the topics whose settings are to be asked for now."""
        now = system.monotonic()
        return [topic for topic in topics if self._config_due.get(topic, 0.0) <= now]

    def configured(self, topic: str, entries: Mapping[str, Any], at_ns: int) -> Fact:
        """Return a topic's settings as a fact."""
        self._config_due[topic] = system.monotonic() + CONFIGURED_S
        values = {name: entry.value for name, entry in entries.items()}
        kept_bytes = number(values.get("retention.bytes"))
        limits = kept_bytes is not None and kept_bytes >= 0 and values.get("remote.storage.enable") != "true"
        self.limited = self.limited - {topic} | ({topic} if limits else frozenset())
        return TopicConfigured(
            at_ns,
            topic,
            retention_ms=number(values.get("retention.ms")),
            retention_bytes=kept_bytes,
            cleanup_policy=values.get("cleanup.policy"),
            min_insync_replicas=number(values.get("min.insync.replicas")),
        )

    def not_configured(self, topic: str, again_s: float) -> None:
        """Note that a topic's settings were not answered; they are asked for again in so many seconds."""
        self._config_due[topic] = system.monotonic() + again_s


def racks_in(descriptions: Iterable[Any]) -> dict[int, str | None]:
    """Return the racks of brokers, as answers of describe_topics() tell them of replicas whose brokers live."""
    parts = (part for one in descriptions for part in one.partitions)
    return {node.id: node.rack for part in parts for node in part.replicas if node.host}


def ids(numbers: Iterable[int]) -> str:
    """Return broker ids as facts have them: "1,2,3"."""
    return ",".join(map(str, sorted(numbers)))


def number(text: str | None) -> int | None:
    """Return a setting as a number; None where it is not known."""
    return int(text) if text is not None else None
