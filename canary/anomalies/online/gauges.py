"""Numbers that are computed from the state when they are asked for: suspicions, unread probes, stalled consumers."""

from canary.anomalies.online.log import Log, Reader
from canary.anomalies.online.state import State, Topic
from canary.anomalies.online.stream import sent_time

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
    return counts


def stalled(state: State, log: Log, reader: Reader) -> bool:
    """Return whether the reader has had something to read for STALLED_NS, and has read nothing."""
    goal = log.goal(reader)
    return goal is not None and reader.position < goal and state.now_ns - reader.moved_at_ns > STALLED_NS


def unseen(state: State, topic: Topic) -> dict[tuple[int, str], tuple[int, float]]:
    """Return, by partition and consumer, how many promised probes wait for it, and the age of the oldest in seconds.

    A consumer that has been given all of them is not in it.
    """
    found: dict[tuple[int, str], tuple[int, int]] = {}
    for stream in topic.streams:
        for consumer, waiting in stream.unseen.items():
            first = waiting.first()
            if first is None:
                continue
            at_ns = sent_time(stream, first)
            count, oldest_ns = found.get((stream.partition, consumer), (0, state.now_ns))
            oldest_ns = oldest_ns if at_ns is None else min(oldest_ns, at_ns)
            found[stream.partition, consumer] = count + waiting.total, oldest_ns
    return {place: (count, (state.now_ns - oldest_ns) / 1e9) for place, (count, oldest_ns) in found.items()}
