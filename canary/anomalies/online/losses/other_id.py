"""Another id of a topic: an answer that gives one is a question, and a fetch of the last promises is the answer.

A fresh client reads, in a few partitions, the last probes that were promised when brokers had given the known id for a
while. Where any of them still stands, the topic is not another one, whatever a broker says. Where the log is read and
none is in it, it is. So a topic that was made again is noticed a moment later, and a broker with a wrong id never voids
a promise.
"""

from typing import Final, cast

from canary import facts as f
from canary.anomalies.online.log import Log
from canary.anomalies.online.losses.questions import Reread
from canary.anomalies.online.losses.requests import request
from canary.anomalies.online.rules import retention
from canary.anomalies.online.scope import Scope
from canary.anomalies.online.state import Ask, LastPromised, OtherId, Topic
from canary.anomalies.online.topology import clock
from canary.anomalies.online.wanted import OTHER_ID

_LOGS: Final = 3
"""So many partitions are read, those that answered last."""
_PROBES: Final = 10
"""So many probes of each at most: one may be lost, and the topic is the same."""
_AGAIN_NS: Final = 5 * 10**9
"""Before that they are not read again."""
_EXPIRED: Final = -1
"""In place of the tag of a stream of which all has expired."""
_SETTLED_NS: Final = 30 * 10**9
"""A broker that does not know of a new topic yet may give the known id once more; not for so long."""


def confirmed(scope: Scope, topic: Topic, asked: Ask) -> None:
    """The known id was given to a question that was ``asked`` then: what was promised by then is in this topic."""
    now_ns = scope.state.now_ns
    for partition, (_, known_end) in asked.ends.get(topic.name, {}).items():
        kept = topic.last_promised.setdefault(partition, [])
        if kept and clock.lately(scope.state, kept[-1].noted_ns, _SETTLED_NS):
            continue
        last = _last(topic, topic.logs[partition], known_end, now_ns) if known_end and partition in topic.logs else None
        topic.last_promised[partition] = [*kept[-1:], last] if last is not None else []


def _last(topic: Topic, log: Log, end: int, now_ns: int) -> LastPromised | None:
    """Return the last promises below ``end`` that stand side by side."""
    claim = log.claims.get(end - 1)
    if claim is None:
        return None
    sequence, tag = claim
    (*_, run) = log.claims.aligned(max(end - _PROBES, 0), end, sequence - end + 1, tag)
    number = end - max(run.key, end - _PROBES)
    writer, sent_ns = topic.streams[tag], retention.sent_by(log, end)
    first = sequence - number + 1
    return LastPromised(end - number, number, first, writer.producer_id, sent_ns, now_ns, writer.generation)


def told(scope: Scope, topic: Topic, fact: f.TopicSeen) -> None:
    """A broker gives another id: ask the logs whether it may be, unless that id was seen before.

    A broker that was cut off gives an id that was seen before, and serves the log of that topic; all brokers are asked
    for it (TopicIdWatcher). They are, too, where none of the partitions is told that hold promises.
    """
    other = topic.other
    if other is None or fact.topic_id != other.topic_id:
        topic.other = other = OtherId(str(fact.topic_id), fact.partitions, fact.at_ns)
    if not topic.is_in_question or any(map(_asked, topic.logs.values())):
        return
    latest = sorted(topic.logs.values(), key=lambda log: -log.listed_ns)
    promised = [(log, kept[0]) for log in latest if (kept := topic.last_promised.get(log.partition))]
    asked = [one for one in promised if one[0].partition < fact.partitions][:_LOGS]
    if not promised or topic.over_ns is not None:  # no promise stands in its way
        _agree(scope, topic, other)
    elif asked and not clock.lately(scope.state, topic.id_asked_ns, _AGAIN_NS):
        topic.id_asked_ns, other.stands = scope.state.now_ns, 0
        for log, known in asked:
            end = known.offset + known.number
            number = request(scope, topic, log, known.offset, end, OTHER_ID, to_the_end=True)
            who = known.producer_id, known.generation, log.partition
            expected = [known.offset, known.number, known.sequence, topic.index.get(who, _EXPIRED), known.sent_ns]
            log.rereads[number].expected = [[*expected, *who]]


def fetched(scope: Scope, topic: Topic, reread: Reread, *, answered: bool) -> None:
    """One of the logs was read, if that was ``answered``; when all were, most of those that were decide.

    Promises that somebody deleted show nothing; those whose time was over are in no log any more.
    """
    ((offset, count, sequence, _, sent_ns, *who),) = reread.expected
    other = topic.other
    if other is None:
        return
    writer = cast("tuple[int, int, int]", tuple(who))
    tag = topic.index.get(writer, _EXPIRED)  # a row may be whole again, by this very reading
    if any(reread.delivered.aligned(offset, offset + count, sequence - offset, tag)):
        other.stands += 1
    elif answered and (reread.begins is None or retention.is_over(scope, topic, sent_ns)):
        other.stands -= 1
    if other.stands < 0 and not any(map(_asked, topic.logs.values())):
        _agree(scope, topic, other)


def _asked(log: Log) -> bool:
    return any(reread.reason == OTHER_ID for reread in log.rereads.values())


def _agree(scope: Scope, topic: Topic, other: OtherId) -> None:
    scope.found.agreed.append(
        f.TopicSeen(scope.state.now_ns, 0, topic.name, other.topic_id, other.partitions, agreed=True)
    )
