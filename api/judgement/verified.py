"""What of a cluster is verified, and until when; what is not, where, and since when: in words.

The runners know it (canary.metrics.proofs). All durations are by the clock of the runner that reported.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Final

from api.knowledge.views import ClusterView
from canary.metrics.proofs import Proof, Shortfall
from canary.metrics.published import Unanswered

UNVERIFIED_NS: Final = 3600 * 10**9
"""What expired unread makes the present unknown for so long; after that it is named beside what was kept."""
_SUBJECTS: Final = {
    "describe_topics": "ids and leaders of topics",
    "describe_cluster": "brokers",
    "describe_configs": "settings of topics",
    "list_offsets": "ends of partitions",
    "list_topics": "leaders of topics",
}
"""What is unknown without an answer to a question."""


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


def moment(at_ns: int) -> str:
    """Return a time for people."""
    return datetime.fromtimestamp(at_ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _since(cluster: ClusterView, at_ns: int) -> str:
    return f"since {moment(at_ns)} ({plain_duration(max(cluster.now_ns - at_ns, 0) / 1e9)})"


def _places(topic: str, where: Shortfall) -> str:
    named = ", ".join(f"{topic}-{number}" for number in where.partitions)
    more = where.of - len(where.partitions)
    return f"{named} and {more:,} more partitions" if more else named


def silent(cluster: ClusterView) -> Iterator[str]:
    """Yield a sentence for each mode that has had no acknowledged probe for too long, in a topic or some partitions."""
    for one in cluster.proofs:
        if one.silent is None:
            continue
        whole = one.silent.of >= one.partitions
        where = one.topic if whole else _places(one.topic, one.silent)
        since = _since(cluster, one.silent.since_ns)
        if whole and not one.acknowledged_ns:
            yield f"{cluster.name} has never acknowledged a write of the mode {one.mode} to {where}: it proves nothing."
        else:
            yield f"{cluster.name} has acknowledged no write of the mode {one.mode} to {where} {since}."


def unread(cluster: ClusterView) -> Iterator[str]:
    """Yield a sentence for each mode whose acknowledged writes were not read back for too long."""
    for one in cluster.proofs:
        if one.late is not None:
            where, since = _places(one.topic, one.late), _since(cluster, one.late.since_ns)
            yield f"What {cluster.name} acknowledged of the mode {one.mode} in {where} was not read back {since}."


def unverified(cluster: ClusterView) -> Iterator[str]:
    """Yield a sentence on writes that lately expired, or went with their topic, before they were read."""
    lately = [one for one in cluster.proofs if one.unverified and cluster.now_ns - one.unverified_ns < UNVERIFIED_NS]
    if lately:
        yield f"Whether {cluster.name} kept {_expired(lately)}, is unknown."


def beside(cluster: ClusterView) -> str:
    """Return what is never to be known, to follow what was kept; "" if everything was verified."""
    found = [one for one in cluster.proofs if one.unverified]
    return f"; of {_expired(found)}, it is unknown" if found else ""


def _expired(found: Iterable[Proof]) -> str:
    rows = list(found)
    number, last_ns = sum(one.unverified for one in rows), max(one.unverified_ns for one in rows)
    writes = "1 acknowledged write, which" if number == 1 else f"{number:,} acknowledged writes, which"
    return f"{writes} expired before a consumer read {'it' if number == 1 else 'them'} (last at {moment(last_ns)})"


def gone(cluster: ClusterView) -> Iterator[str]:
    """Yield a sentence for each probed topic that is not there."""
    for topic in cluster.topics:
        if topic.gone_since_ns is not None:
            held = f": {topic.promises:,} acknowledged writes were in it" if topic.promises else ""
            yield f"The topic {topic.topic} of {cluster.name} is gone {_since(cluster, topic.gone_since_ns)}{held}."


def unanswered(cluster: ClusterView) -> Iterator[str]:
    """Yield a sentence on questions that have no answer: what is unknown, which brokers owe it, and since when."""
    asked: list[Unanswered] = list(cluster.unanswered)
    if not asked:
        return
    since = _since(cluster, min(one.since_ns for one in asked))
    what = " and ".join(dict.fromkeys(_SUBJECTS.get(one.question.split(" ")[0], one.question) for one in asked))
    brokers = sorted(set(_owing(cluster, asked)))
    number = f"broker {brokers[0]}" if len(brokers) == 1 else f"brokers {', '.join(map(str, brokers))}"
    who = f"{number} of {cluster.name} {'does' if len(brokers) == 1 else 'do'}" if brokers else f"{cluster.name} does"
    yield f"{who[0].upper() if brokers else who[0]}{who[1:]} not answer {since}: {what} are unknown."


def _owing(cluster: ClusterView, asked: Iterable[Unanswered]) -> Iterator[int]:
    """Yield the leaders of partitions that did not answer, and of those that acknowledge nothing."""
    leaders = {f"list_offsets {one.topic}[{one.partition}]": one.leader for one in cluster.partitions}
    for one in asked:
        leader = leaders.get(one.question)
        if leader is not None and leader >= 0:
            yield leader


def kept_until(cluster: ClusterView) -> str:
    """Return a sentence on what is verified all the same, "" where nothing is."""
    read = [one for one in cluster.last_proofs if one.verified_ns]
    if not read:
        return ""
    modes = "" if len(read) == len(cluster.last_proofs) else f" of the mode {', '.join({one.mode: 0 for one in read})}"
    until = moment(min(one.verified_ns for one in read))
    expired = ", or had expired" if any(one.unverified for one in read) else ""
    return f"All that {cluster.name} acknowledged{modes} until {until} was read back{expired}."
