"""Which incarnation of its topic a fact belongs to (ARCHITECTURE decision 7), for rows in a file.

A fact is enclosed by two samples of the topic's id: the last that was answered before it, and the first that was
*asked* after it. Both the same: that is its topic_id. Different, or the topic was gone: nobody can say which of two
logs the fact speaks of. Such a row must not be judged against either log, and a null topic_id alone would not do that,
because null may meet any dump. So an ack becomes indeterminate (its error says why), and a poll is left out.

Before the first sample ever, the first one counts. At the end of a segment whose successor holds no later sample, the
last one counts.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from canary.facts import TopicGone, TopicSeen, WatchAsked

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from canary.facts import Fact

GONE = ""
"""Stands for the id of a topic that does not exist."""
UNKNOWN = "?"
"""Stands for the id of a fact that two different samples enclose."""


class Place(NamedTuple):
    """Where a fact stands among the samples: the id last told (None: no sample yet), and how many were asked.

    For a probe whose record is marked for an incarnation that is known, that one's id: nobody finds it in another.
    """

    seen: str | None
    asked: int


@dataclass(slots=True)
class TopicIds:
    """The samples of one topic. ``told`` is False while the cluster has told no id (older brokers never do)."""

    seen: str | None = None
    told: bool = False
    dead: list[str] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    ids: list[str | None] = field(default_factory=list)

    def sample(self, asked: int, topic_id: str | None) -> None:
        """Take an answer to the question number ``asked`` (0: one of a segment before)."""
        if topic_id is None or topic_id in self.dead:
            return  # not told, or by a broker that has not heard yet of the new one
        if self.told and self.seen not in {None, GONE, topic_id}:
            self.dead.append(str(self.seen))
        self.told = True
        self.seen = topic_id
        self.asked.append(max(asked, self.asked[-1] if self.asked else 0))
        self.ids.append(topic_id)

    def enclosed(self, first: Place, last: Place, later: str | None) -> str | None:
        """Return the id of what began at ``first`` and ended at ``last``; None if no id is told, or UNKNOWN.

        ``later`` is the id that the following segment tells first, None if it tells none.
        """
        position = bisect_right(self.asked, last.asked)
        after = self.ids[position] if position < len(self.ids) else later
        if after is None:
            after = self.seen
        if first.seen is None or first.seen == after:
            return UNKNOWN if after == GONE else after
        return UNKNOWN


class Incarnations:
    """The samples of every topic within one segment, in ledger order."""

    def __init__(self, seen: Mapping[str, str | None], dead: Mapping[str, Sequence[str]]) -> None:
        self.topics: dict[str, TopicIds] = {}
        for topic, topic_id in seen.items():
            self.topics[topic] = TopicIds(topic_id, topic_id is not None, list(dead.get(topic, ())))
        self._questions: dict[int, int] = {}
        self._asked = 0

    def take(self, fact: WatchAsked | TopicSeen | TopicGone) -> None:
        """Take one fact about samples."""
        if isinstance(fact, WatchAsked):
            self._asked += 1
            self._questions[fact.sample] = self._asked
            return
        topic_id = fact.topic_id if isinstance(fact, TopicSeen) else GONE
        self._topic(fact.topic).sample(self._questions.get(fact.sample, 0), topic_id)

    def here(self, topic: str) -> Place:
        """Return the place of a fact that comes now."""
        return Place(self._topic(topic).seen, self._asked)

    def enclosed(self, topic: str, first: Place, last: Place, later: Mapping[str, str]) -> str | None:
        """Return the topic_id of a fact, None if no id is told, or UNKNOWN."""
        return self._topic(topic).enclosed(first, last, later.get(topic))

    def _topic(self, topic: str) -> TopicIds:
        found = self.topics.get(topic)
        if found is None:
            found = self.topics[topic] = TopicIds()
        return found


def first_told(batches: Iterable[Sequence[Fact]], topics: Iterable[str]) -> dict[str, str]:
    """Return the id that each of ``topics`` is first told to have, asked and answered within ``batches``."""
    missing = set(topics)
    asked: set[int] = set()
    told: dict[str, str] = {}
    for batch in batches:
        for fact in batch:
            if isinstance(fact, WatchAsked):
                asked.add(fact.sample)
            elif isinstance(fact, TopicSeen | TopicGone) and fact.topic in missing and fact.sample in asked:
                topic_id = fact.topic_id if isinstance(fact, TopicSeen) else GONE
                if topic_id is not None:
                    told[fact.topic] = topic_id
                    missing.discard(fact.topic)
        if not missing:
            break
    return told
