"""Which incarnation of its topic a row of the probe log belongs to: the rule of `canary.facts.incarnation`, in a file.

A row of an unknown incarnation must not be judged against either log. A null topic_id would not prevent that, because a
row without one may belong to any dump; so such an ack becomes indeterminate (its error says why), and such a poll is
left out.

Before the first sample ever, the first one counts. At the end of a segment whose successor holds no later sample, the
last one counts.

What another cluster answers at the known one's address is no sample. Once a client has met it, and until the next
start, any acknowledgement may be the other one's; so may any that no answered question to the known cluster has
followed. They are of an unknown incarnation, too. A record that was read bears the known cluster's tag.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias

from canary.facts import ClusterMet, ClusterSeen, Fact, RunnerStarted, TopicGone, TopicSeen, WatchAsked
from canary.facts.incarnation import Sighting, sighting

Sample: TypeAlias = WatchAsked | TopicSeen | TopicGone | ClusterMet | ClusterSeen | RunnerStarted
SAMPLES: Final = (WatchAsked, TopicSeen, TopicGone, ClusterMet, ClusterSeen, RunnerStarted)
"""The facts that tell ids of topics, and in which cluster they were told."""
CLUSTER: Final = ""
"""In the place of a topic: the cluster, whose answer is GONE where it is another one's."""
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
        cluster_id: of the known cluster, empty before one was told.
        elsewhere: a client is in another cluster, and no process has begun since.
        in_doubt: the known cluster has not answered since.
    """

    def __init__(
        self,
        seen: Mapping[str, str | None],
        dead: Mapping[str, Sequence[str]],
        cluster_id: str = "",
        *,
        elsewhere: bool = False,
        in_doubt: bool = False,
    ) -> None:
        self.cluster_id, self.elsewhere = cluster_id, elsewhere
        self._clusters: list[tuple[int, bool]] = [(1, False)] if in_doubt else []
        """The number of a question, and whether the known cluster answered; else another one may have since."""
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

    @property
    def in_doubt(self) -> bool:
        """Whether the known cluster has not answered since another one was met."""
        return bool(self._clusters) and not self._clusters[-1][1]

    def take(self, fact: Sample) -> None:
        """Take one fact about samples."""
        match fact:
            case WatchAsked():
                self._asked += 1
                self._questions[fact.sample] = self._asked
            case ClusterMet() | ClusterSeen():
                self._met(fact)
            case RunnerStarted():
                if self.elsewhere:
                    self._in_doubt()
                self.elsewhere = False
            case TopicSeen() | TopicGone() if not self.elsewhere:
                agreed = isinstance(fact, TopicSeen) and bool(fact.agreed)
                self._topic(fact.topic).sample(self._questions.get(fact.sample, 0), _answer(fact), agreed=agreed)

    def _met(self, fact: ClusterMet | ClusterSeen) -> None:
        self.cluster_id = self.cluster_id or fact.cluster_id
        if fact.cluster_id != self.cluster_id:
            self.elsewhere = True
            self._in_doubt()
        elif isinstance(fact, ClusterSeen) and not self.elsewhere:
            number = self._questions.get(fact.sample, 0)
            self._asked += self.in_doubt and not number  # asked in the segment before: the doubt ends here
            before = self._clusters[-1][0] if self._clusters else 0
            self._clusters.append((max(before, number), True))

    def _in_doubt(self) -> None:
        """What was not followed by a question to the known cluster, and its answer, stays in doubt."""
        self._clusters.append((self._asked + 1, False))

    def _may_be_elsewhere(self, last: Place, later: Mapping[str, str]) -> bool:
        position = bisect_right(self._clusters, last.asked, key=itemgetter(0))
        if position < len(self._clusters):
            return not self._clusters[position][1]
        return self.elsewhere or later.get(CLUSTER) == GONE

    def here(self, topic: str) -> Place:
        """Return the place of a fact that comes now."""
        return Place(self._topic(topic).seen, self._asked)

    def enclosed(
        self, topic: str, first: Place, last: Place, later: Mapping[str, str], *, read: bool = False
    ) -> str | None:
        """Return the topic_id of a fact; see TopicIds.enclosed. ``read``: it is that a record of ours was read."""
        if not read and self._may_be_elsewhere(last, later):
            return UNKNOWN
        return self._topic(topic).enclosed(first, last, later.get(topic))

    def _topic(self, topic: str) -> TopicIds:
        return self.topics.setdefault(topic, TopicIds())


def _answer(fact: TopicSeen | TopicGone) -> str | None:
    return fact.topic_id if isinstance(fact, TopicSeen) else GONE


def first_told(batches: Iterable[Sequence[Fact]], topics: Iterable[str], cluster_id: str = "") -> dict[str, str]:
    """Return the first answer for each of ``topics`` that was both asked and given within ``batches``.

    CLUSTER: GONE is among them where another cluster than ``cluster_id`` answered before that one did: then no answer
    after it counts.
    """
    missing = {*topics, CLUSTER}
    asked: set[int] = set()
    answers: dict[str, str] = {}
    for batch in batches:
        for fact in batch:
            if isinstance(fact, WatchAsked):
                asked.add(fact.sample)
            elif isinstance(fact, ClusterMet | ClusterSeen):
                if fact.cluster_id != (cluster_id or fact.cluster_id):
                    return answers | ({CLUSTER: GONE} if CLUSTER in missing else {})
                if isinstance(fact, ClusterSeen) and fact.sample in asked:
                    missing.discard(CLUSTER)
            elif isinstance(fact, TopicSeen | TopicGone) and fact.topic in missing and fact.sample in asked:
                topic_id = _answer(fact)
                if topic_id is not None:
                    answers[fact.topic] = topic_id
                    missing.discard(fact.topic)
        if not missing:
            break
    return answers
