"""What of a cluster is verified, and until when; what is not, where, and since when: in words.

The runners know it (canary.metrics.proofs). All durations are by the clock of the runner that reported.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from api.knowledge.views import ClusterView
from api.shapes import clock
from canary.metrics.proofs import Shortfall
from canary.metrics.published import TopicView, Unanswered

UNVERIFIED_NS: Final = 3600 * 10**9
"""What expired unread makes the present unknown for so long; after that it is named beside what was kept."""
UNWATCHED_S: Final = 30.0
"""A runner asks each second; a round takes up to 15 s on a machine that is busy."""
_ENDS: Final = "list_offsets"
_OF_ALL: Final = frozenset({"members", "list_topics"})
"""Questions that every broker answers."""
_SUBJECTS: Final = {
    "describe_topics": "the ids and leaders of topics",
    "members": "the brokers",
    "describe_configs": "the settings of topics",
    "list_topics": "the ids and leaders of topics",
}
"""What is unknown without an answer to a question."""
_NAMED: Final = 3


def plain_duration(seconds: float) -> str:
    """Return a duration for people: "14 s", "3 min", "2 h 5 min", "3 d 4 h"."""
    whole = int(seconds)
    if whole < 90:
        return f"{whole} s"
    if whole < 5400:
        return f"{whole // 60} min"
    if whole < 172800:
        return f"{whole // 3600} h {whole % 3600 // 60} min"
    return f"{whole // 86400} d {whole % 86400 // 3600} h"


def date_and_time(at_ns: int) -> str:
    """Return a time for people."""
    return f"{clock(at_ns, None)} UTC"


def _since(cluster: ClusterView, at_ns: int) -> str:
    return f"since {date_and_time(at_ns)} ({plain_duration(max(cluster.now_ns - at_ns, 0) / 1e9)})"


def _places(topic: str, where: Shortfall) -> str:
    named = ", ".join(f"{topic}-{number}" for number in where.partitions)
    more = where.of - len(where.partitions)
    return f"{named} and {more:,} more partition{'s' if more > 1 else ''}" if more else named


def silent(cluster: ClusterView) -> Iterator[str]:
    """Yield a sentence for each mode that has had no acknowledged probe for too long, in a topic or some partitions."""
    for one in cluster.proofs:
        if one.silent is None:
            continue
        whole = one.silent.of >= one.partitions
        where = one.topic if whole else _places(one.topic, one.silent)
        since = _since(cluster, one.silent.since_ns)
        if whole and not one.acknowledged_ns:
            yield f"{cluster.name} has never acknowledged a {one.promise} {where}: it proves nothing."
        else:
            yield f"{cluster.name} has acknowledged no {one.promise} {where} {since}."


def unread(cluster: ClusterView) -> Iterator[str]:
    """Yield a sentence for each mode whose acknowledged writes were not read back for too long."""
    for one in cluster.proofs:
        if one.late is not None:
            where, since = _places(one.topic, one.late), _since(cluster, one.late.since_ns)
            yield f"What {cluster.name} acknowledged of the mode {one.mode} in {where} was not read back {since}."


def unverified(cluster: ClusterView) -> Iterator[str]:
    """Yield a sentence on writes that lately expired, or went with their topic, before they were read."""
    number = sum(one.unverified for one in cluster.proofs if cluster.now_ns - one.unverified_ns < UNVERIFIED_NS)
    if number:
        yield f"It is unknown whether {cluster.name} kept {_unread(cluster, number)}."


def beside(cluster: ClusterView) -> str:
    """Return what is never to be known, to follow what was kept; "" if everything was verified."""
    number = max(cluster.total("canary_unverified_expired_total"), sum(one.unverified for one in cluster.proofs))
    return f"; it is unknown whether it kept {_unread(cluster, number)}" if number else ""


def _unread(cluster: ClusterView, number: int) -> str:
    last_ns = max((one.unverified_ns for one in cluster.proofs), default=0)
    last = f", the last at {date_and_time(last_ns)}" if last_ns else ""
    writes, they = ("1 acknowledged write", "it") if number == 1 else (f"{number:,} acknowledged writes", "they")
    return (
        f"{writes}, because {they} expired, or went with the topic, before the read_committed consumer read them{last}"
    )


def gone(cluster: ClusterView) -> Iterator[str]:
    """Yield a sentence for each probed topic that is not there."""
    for topic in cluster.topics:
        if topic.gone_since_ns is not None:
            held = f": {topic.voided:,} acknowledged writes went with it" if topic.voided else ""
            yield f"The topic {topic.topic} of {cluster.name} is gone {_since(cluster, topic.gone_since_ns)}{held}."


def other_ids(cluster: ClusterView) -> Iterator[str]:
    """Yield a sentence for each topic, probed or watched, of which brokers give another id than its own."""
    for topic, since in _in_doubt(cluster, cluster.doubted):
        yield (
            f"Brokers of {cluster.name} give two ids of the topic {topic.topic} {since}: whether it was made again, "
            "and what of it is gone, is unknown until they have given one of them alone for a while (30 s to 10 min)."
        )
    for topic, since in _in_doubt(cluster, cluster.topics):
        what, until = (
            ("the id of a former topic", "all agree for 60 s")
            if topic.other_is_former
            else ("another id of topic", "a read of its log shows whose it is, or all agree for 10 min")
        )
        yield (
            f"Brokers of {cluster.name} answer {since} with {what} {topic.topic}: "
            f"whether they have what was written since is unknown until {until}."
        )


def _in_doubt(cluster: ClusterView, topics: Iterable[TopicView]) -> Iterator[tuple[TopicView, str]]:
    """Yield those of which brokers give another id for long, and since when."""
    for topic in topics:
        if topic.other_since_ns is not None and topic.doubted_id(cluster.now_ns) is not None:
            yield topic, _since(cluster, topic.other_since_ns)


def unwatched(cluster: ClusterView) -> Iterator[str]:
    """Yield a sentence on what is unknown of a cluster that a runner's watcher asks nothing any more."""
    if cluster.unwatched_s > UNWATCHED_S:
        since = _since(cluster, cluster.now_ns - round(cluster.unwatched_s * 1e9))
        yield (
            f"What has changed in the topology of {cluster.name} (leaders, ends of logs, ids of topics) {since} is "
            "unknown: the canary has asked nothing about it."
        )


def unanswered(cluster: ClusterView) -> Iterator[str]:
    """Yield a sentence on questions that have no answer: what is unknown, which brokers owe it, and since when."""
    asked: list[Unanswered] = list(cluster.unanswered)
    if not asked:
        return
    since = _since(cluster, min(one.since_ns for one in asked))
    brokers = [] if any(one.question in _OF_ALL for one in asked) else sorted(set(_owing(cluster, asked)))
    who = f"{named_brokers(brokers).capitalize()} of {cluster.name}" if brokers else cluster.name
    have = "have" if len(brokers) > 1 else "has"
    yield f"{who} {have} not answered {since}: unknown are {listed(_subjects(asked))}."


def listed(words: Iterable[str]) -> str:
    """Return "a", "a and b" or "a, b and c", each once."""
    *others, last = dict.fromkeys(words) or [""]
    return f"{', '.join(others)} and {last}" if others else last


def named_brokers(numbers: Sequence[int]) -> str:
    """Return "broker 1", or "brokers 1, 2 and 3"."""
    return f"broker{'s' if len(numbers) > 1 else ''} {listed(map(str, numbers))}"


def _subjects(asked: Sequence[Unanswered]) -> Iterator[str]:
    """Yield what is unknown without answers to these questions."""
    split = [one.question.partition(" ") for one in asked]
    yield from (_SUBJECTS.get(what, what + blank + of) for what, blank, of in split if what != _ENDS)
    ends = [of.replace("[", "-").rstrip("]") for what, _, of in split if what == _ENDS]
    if ends:
        more = len(ends) - _NAMED
        yield f"the ends of {listed([*ends[:_NAMED], *([f'{more:,} other partitions'] if more > 0 else [])])}"


def _owing(cluster: ClusterView, asked: Iterable[Unanswered]) -> Iterator[int]:
    """Yield the leaders of partitions that did not answer."""
    leaders = {f"{_ENDS} {one.topic}[{one.partition}]": one.leader for one in cluster.partitions}
    for one in asked:
        leader = leaders.get(one.question)
        if leader is not None and leader >= 0:
            yield leader


def kept_until(cluster: ClusterView) -> str:
    """Return a sentence on what is verified all the same, "" where nothing is."""
    proofs = [one for one in cluster.last_proofs if one.partitions]
    read = [one for one in proofs if one.verified_ns]
    if not read or (cluster.proofs and cluster.unjudged):  # of a share that no runner judges nothing is verified
        return ""
    modes = "" if len(read) == len(proofs) else f" of the mode {', '.join({one.mode: 0 for one in read})}"
    until = date_and_time(min(one.verified_ns for one in read))
    expired = ", or had expired" if any(one.unverified for one in read) else ""
    return f"All that {cluster.name} acknowledged{modes} until {until} was read back{expired}."
