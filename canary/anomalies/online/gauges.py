"""Numbers that are computed from the state when they are asked for: suspicions, unread probes, stalled consumers."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from canary.anomalies.online.log import Log, Reader
from canary.anomalies.online.state import State
from canary.anomalies.online.stream import sent_time
from canary.anomalies.online.topology import watched_incarnations

STALLED_NS = 10 * 10**9
"""A consumer is stalled when it has had something to read and has read nothing for this long."""


def suspects(state: State) -> dict[str, int]:
    """Return, by kind, how many suspicions wait for confirmation."""
    counts: dict[str, int] = {"lost-write": 0}
    for topic in state.topics.values():
        for log in topic.logs.values():
            counts["lost-write"] += sum(m.count for m in log.missing) + len(log.unplaced)
            if log.regression is not None or log.lost_offsets:
                counts["truncation"] = counts.get("truncation", 0) + 1
            for held in log.held.values():
                counts[held.violation.kind] = counts.get(held.violation.kind, 0) + held.violation.count
    watched = {one.topic for one in watched_incarnations.doubted(state)}
    ids = len(watched) + sum(topic.other is not None for topic in state.topics.values())
    return counts | ({"topic-recreated": ids} if ids else {})


def stalled(state: State, log: Log, reader: Reader) -> bool:
    """Return whether the reader has had something to read for STALLED_NS, and has read nothing."""
    goal = log.goal(reader)
    return goal is not None and reader.position < goal and state.now_ns - reader.moved_at_ns > STALLED_NS


class Waiting(NamedTuple):
    """How many promises of a mode in a partition a consumer has not been given, the oldest sent at ``oldest_ns``."""

    topic: str
    partition: int
    mode: str
    consumer: str
    number: int
    oldest_ns: int


def waiting(state: State) -> Iterator[Waiting]:
    """Yield what waits for consumers, by stream; a consumer that has been given all of one is not in it."""
    for topic in state.topics.values():
        for stream in topic.streams:
            for consumer, unread in stream.unseen.items():
                first = unread.first()
                if first is not None:
                    at_ns = sent_time(stream, first)
                    oldest_ns = state.now_ns if at_ns is None else min(at_ns, state.now_ns)
                    yield Waiting(topic.name, stream.partition, stream.mode, consumer, unread.total, oldest_ns)


def unseen(state: State, found: Iterable[Waiting]) -> dict[tuple[str, int, str], tuple[int, float]]:
    """Return, by topic, partition and consumer, how many promises wait, and the age of the oldest in seconds."""
    sums: dict[tuple[str, int, str], tuple[int, float]] = {}
    for one in found:
        place = one.topic, one.partition, one.consumer
        count, oldest_s = sums.get(place, (0, 0.0))
        sums[place] = count + one.number, max(oldest_s, (state.now_ns - one.oldest_ns) / 1e9)
    return sums
