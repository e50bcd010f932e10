"""Another id of a topic: an answer that gives one is a question, and a fetch of the last promises is the answer.

A fresh client reads, in a few partitions, the last probe that was promised when brokers gave the known id last. Where
that probe still stands, the topic is not another one, whatever a broker says. Where the log is read and the probe is
not in it, it is. So a topic that was made again is noticed a moment later, and a broker with a wrong id never voids a
promise.
"""

from typing import Final

from canary import facts as f
from canary.anomalies.online.log import Log
from canary.anomalies.online.losses.questions import Reread
from canary.anomalies.online.losses.requests import request
from canary.anomalies.online.rules import retention
from canary.anomalies.online.scope import Scope
from canary.anomalies.online.state import Ask, OtherId, Topic
from canary.anomalies.online.wanted import OTHER_ID

_LOGS: Final = 3
"""So many partitions are read, those that answered last."""
_AGAIN_NS: Final = 5 * 10**9
"""Before that they are not read again."""


def confirmed(topic: Topic, asked: Ask) -> None:
    """The known id was given to a question that was ``asked`` then: what was promised by then is in this topic."""
    for partition, (_, known_end) in asked.ends.get(topic.name, {}).items():
        claim = topic.logs[partition].claims.get(known_end - 1) if known_end and partition in topic.logs else None
        topic.last_promised.pop(partition, None)
        if claim is not None and known_end is not None:
            sent_ns = retention.sent_by(topic.logs[partition], known_end)
            topic.last_promised[partition] = [known_end - 1, *claim, sent_ns]


def told(scope: Scope, topic: Topic, fact: f.TopicSeen) -> None:
    """A broker gives another id: ask the logs whether it may be, unless that id was seen before.

    A broker that was cut off gives an id that was seen before, and serves the log of that topic; all brokers are asked
    for it (TopicIdWatcher).
    """
    other, now_ns = topic.other, scope.state.now_ns
    if other is None or fact.topic_id != other.topic_id:
        topic.other = other = OtherId(str(fact.topic_id), fact.partitions, fact.at_ns)
    known = (topic.logs[one] for one in topic.last_promised if one in topic.logs)
    logs = sorted(known, key=lambda log: -log.listed_ns)[:_LOGS]
    if not topic.is_in_question or any(map(_asked, topic.logs.values())):
        return
    if not logs or topic.over_ns is not None:  # no promise stands in its way
        _agree(scope, topic, other)
    elif not other.asked_ns or not 0 <= now_ns - other.asked_ns < _AGAIN_NS:
        other.asked_ns, other.stands = now_ns, 0
        for log in logs:
            offset, *promise = topic.last_promised[log.partition]
            number = request(scope, topic, log, offset, offset + 1, OTHER_ID, to_the_end=True)
            log.rereads[number].expected = [[offset, 1, *promise]]


def fetched(scope: Scope, topic: Topic, reread: Reread, *, answered: bool) -> None:
    """One of the logs was read, if that was ``answered``; when all were, most of those that were decide.

    A promise that somebody deleted shows nothing; one whose time was over is in no log any more.
    """
    ((offset, _, sequence, tag, sent_ns),) = reread.expected
    other = topic.other
    if other is None:
        return
    if any(reread.delivered.aligned(offset, offset + 1, sequence - offset, tag)):
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
