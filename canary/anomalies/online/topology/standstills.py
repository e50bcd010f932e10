"""What makes no progress in a log: probes without an acknowledgement, readers, the last stable offset, suspicions.

`liveness` counts for how long each stands, and reports what stands too long.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from canary.anomalies.online.log import Log
from canary.anomalies.online.state import Topic

PRODUCER, AT, SUSPICION = "producer", "at", "suspicion"
"""The kinds of places that stand, by which their keys begin: KIND/topic/partition, and of AT an offset."""


class Standstill(NamedTuple):
    """What makes no progress in a log: since when (None: first look) and until when it was tried (None: now)."""

    key: str
    why: Callable[[], str]
    since_ns: int | None = None
    until_ns: int | None = None
    offset: int | None = None
    reader: str | None = None


def standing(topic: Topic, log: Log) -> Iterator[Standstill]:
    """Yield what makes no progress, or has made none since the last probe was sent, just now."""
    yield from reading(topic, log)
    if log.tried_ns:
        key = key_of(PRODUCER, topic.name, log.partition)
        yield Standstill(key, partial(_unacknowledged, topic, log), log.tried_ns, log.given_up_ns or None)


def reading(topic: Topic, log: Log) -> Iterator[Standstill]:
    """Yield the last stable offset that does not move, and consumers that do not."""
    stable, end = log.stable, log.end
    if stable is not None and end is not None and stable < end:
        why = f"the last stable offset stands at {stable} and the log ends at {end}: a transaction was never ended"
        yield Standstill(standing_at(topic, log, stable), lambda: why, offset=stable)
    for name, reader in log.readers.items():
        at, goal = reader.position, log.goal(reader)
        if goal is not None and at < goal:
            words = partial("{} stands at {} and may read up to {}: its leader ({}) gives it nothing".format, name)
            said = partial(words, at, goal, log.leader)
            yield Standstill(standing_at(topic, log, at), said, reader.moved_at_ns, offset=at, reader=name)


def _unacknowledged(topic: Topic, log: Log) -> str:
    """Say what of a partition has no acknowledgement."""
    led = f"leader {log.leader}, in sync {log.isr}"
    for stream in topic.streams:
        first = stream.open.first() if stream.live and stream.partition == log.partition else None
        if first is not None:
            waiting = f"{stream.open.total} probes of the mode {stream.mode} wait for an acknowledgement"
            return f"{waiting}, from sequence {first} on: {led}"
    why = "the last one was given up" if log.listed_ordinal else "the partition has not answered since the start"
    return f"no probe was acknowledged, and {why}: {led}"


def suspicions(topic: Topic, log: Log) -> Iterator[Standstill]:
    """Yield the suspicion that promises of a log are lost: a fetch, or the topic's id, is to settle it in seconds."""
    if not log.missing and not log.unplaced:
        return
    since_ns = min(at_ns for at_ns in (*(m.at_ns for m in log.missing), *(u.at_ns for u in log.unplaced)))
    first = min((one.offset for one in log.missing), default=None)
    yield Standstill(key_of(SUSPICION, topic.name, log.partition), partial(_unsettled, log), since_ns, offset=first)


def _unsettled(log: Log) -> str:
    """Say what keeps promises from being found or called lost."""
    number = sum(one.count for one in log.missing) + len(log.unplaced)
    absent = sum(one.count for one in log.missing if one.state == "absent")
    writes = "1 acknowledged write is" if number == 1 else f"{number} acknowledged writes are"
    why = "the topic's id is not answered" if absent == number else "its leader answers no fetch at their places"
    return f"{writes} not found, and neither confirmed as lost nor there: {why}"


def standing_at(topic: Topic, log: Log, offset: int) -> str:
    """Return the key of what stands at an offset."""
    return key_of(AT, topic.name, log.partition, offset)


def key_of(kind: str, topic: str, *place: int | None) -> str:
    """Return the key of a standstill: KIND/topic/partition, and of AT an offset."""
    return "/".join([kind, topic, *map(str, place)])
