"""Which incarnation of its topic a row of the probe log belongs to: the rule of `canary.facts.incarnation`, in a file.

A row of an unknown incarnation must not be judged against either log. A null topic_id would not prevent that, because a
row without one may belong to any dump; so such an ack becomes indeterminate (its error says why), and such a poll is
left out.

Before the first sample ever, the first one counts. At the end of a segment whose successor holds no later sample, the
last one counts.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from canary.facts import Fact, TopicGone, TopicSeen, WatchAsked
from canary.facts.incarnation import Sighting, sighting

SAMPLES = (WatchAsked, TopicSeen, TopicGone)
"""The facts that tell ids of topics."""
GONE = ""
"""In the place of an id: the topic does not exist."""
UNKNOWN = "?"
"""In the place of an id: two different samples enclose the fact."""


class Place(NamedTuple):
    """Where a fact lies among the samples: the id last answered (None: no sample yet), and how many were asked.

    For a probe whose record is marked for a known incarnation, ``seen`` is that one's id: in another log it is foreign,
    though a producer or a reader that has not heard of the new topic yet writes or reads it there.
    """

    seen: str | None
    asked: int


@dataclass(slots=True)
class TopicIds:
    """The samples of one topic: ``ids[n]`` is the answer to the question number ``asked[n]``."""

    known: str | None = None
    gone: bool = False
    asked: list[int] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)

    @property
    def seen(self) -> str | None:
        """The last answer: an id, GONE, or None before the first one."""
        return GONE if self.gone else self.known

    def sample(self, asked: int, topic_id: str | None, *, agreed: bool = False) -> None:
        """Take an answer to the question number ``asked`` (0: one of an earlier segment); ``agreed`` as TopicSeen's."""
        if topic_id is None:
            return
        if topic_id != GONE:
            if sighting(topic_id, self.known, agreed=agreed) is Sighting.DOUBTFUL:
                return
            self.known = topic_id
        self.gone = topic_id == GONE
        self.asked.append(max(asked, self.asked[-1] if self.asked else 0))
        self.ids.append(topic_id)

    def enclosed(self, first: Place, last: Place, later: str | None) -> str | None:
        """Return the id of what began at ``first`` and ended at ``last``; None if no broker tells ids, or UNKNOWN.

        ``later``: the first answer in the following segment, None if it has none.
        """
        position = bisect_right(self.asked, last.asked)
        after = self.ids[position] if position < len(self.ids) else later
        if after is None:
            after = self.seen
        if first.seen is None or first.seen == after:
            return UNKNOWN if after == GONE else after
        return UNKNOWN


class Incarnations:
    """The samples of every topic within one segment, in ledger order.

    Args:
        seen: by topic, the last answer in the segments before (`TopicIds.seen`).
        dead: of a topic that is GONE, the last of these ids is the topic's own.
    """

    def __init__(self, seen: Mapping[str, str | None], dead: Mapping[str, Sequence[str]]) -> None:
        self.topics: dict[str, TopicIds] = {}
        for topic, topic_id in seen.items():
            known = next(reversed(dead.get(topic, ())), None) if topic_id == GONE else topic_id
            self.topics[topic] = TopicIds(known, topic_id == GONE)
        self._questions: dict[int, int] = {}
        self._asked = 0

    def seen(self) -> dict[str, str | None]:
        """Return the last answer by topic, as the next segment takes it."""
        return {name: topic.seen for name, topic in self.topics.items()}

    def dead(self) -> dict[str, list[str]]:
        """Return the ids of topics that are gone, as the next segment takes them."""
        return {name: [one.known] for name, one in self.topics.items() if one.gone and one.known is not None}

    def take(self, fact: WatchAsked | TopicSeen | TopicGone) -> None:
        """Take one fact about samples."""
        if isinstance(fact, WatchAsked):
            self._asked += 1
            self._questions[fact.sample] = self._asked
            return
        agreed = isinstance(fact, TopicSeen) and bool(fact.agreed)
        self._topic(fact.topic).sample(self._questions.get(fact.sample, 0), _answer(fact), agreed=agreed)

    def here(self, topic: str) -> Place:
        """Return the place of a fact that comes now."""
        return Place(self._topic(topic).seen, self._asked)

    def enclosed(self, topic: str, first: Place, last: Place, later: Mapping[str, str]) -> str | None:
        """Return the topic_id of a fact; see TopicIds.enclosed."""
        return self._topic(topic).enclosed(first, last, later.get(topic))

    def _topic(self, topic: str) -> TopicIds:
        return self.topics.setdefault(topic, TopicIds())


def _answer(fact: TopicSeen | TopicGone) -> str | None:
    return fact.topic_id if isinstance(fact, TopicSeen) else GONE


def first_told(batches: Iterable[Sequence[Fact]], topics: Iterable[str]) -> dict[str, str]:
    """Return the first answer for each of ``topics`` that was both asked and given within ``batches``."""
    missing = set(topics)
    asked: set[int] = set()
    answers: dict[str, str] = {}
    for batch in batches:
        for fact in batch:
            if isinstance(fact, WatchAsked):
                asked.add(fact.sample)
            elif isinstance(fact, TopicSeen | TopicGone) and fact.topic in missing and fact.sample in asked:
                topic_id = _answer(fact)
                if topic_id is not None:
                    answers[fact.topic] = topic_id
                    missing.discard(fact.topic)
        if not missing:
            break
    return answers
