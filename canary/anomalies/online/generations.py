"""Streams: made with their first probe, and forgotten where a producer begins generations again and again.

The mode ``fencing`` begins a generation in every round. A generation is over in a partition when a later one writes,
none of its probes is open or unseen, and the log's start has passed all of them. A record of it that is read after that
was appended after its fencing; the fact that the generation is over suffices to judge it. It proves nothing in another
partition, where it may have written what a process that died had no time to record. What it was acknowledged without an
offset is looked for as soon as the next one begins: its successor's records say nothing about its place.

Every mode begins a generation when its client dies, which repeats while a right is missing. A generation that wrote
nothing is retired when the next one begins, and forgotten when consumers of both isolation levels have passed an end of
the log that was listed after that: had it written anything, it would have been read. (One of them may have stood there
before: the log was cut below it, and filled again.) Not so what it wrote without an acknowledgement above the high
watermark: replicas catch up, or one that has it is elected, and it is read after all. Its stream is known again then.
Generations that wrote something are kept, because a later read of their probes is a copy; there are as many as starts
of the runner and deaths of clients.
"""

from collections.abc import Iterator
from itertools import dropwhile, islice

from canary.anomalies.online.log import Log, Retired, Unplaced
from canary.anomalies.online.scope import Scope
from canary.anomalies.online.state import State, Topic
from canary.anomalies.online.stream import Stream, forget_sent_times, lowest
from canary.anomalies.policy import FENCED, UNORDERED


def begin(topic: Topic, key: tuple[int, int, int], mode: str) -> Stream:
    """Return a new stream of (producer_id, generation, partition)."""
    if topic.free_tags:
        tag = topic.free_tags.pop()
        stream = topic.streams[tag] = Stream(tag, *key, mode)
    else:
        stream = Stream(len(topic.streams), *key, mode)
        topic.streams.append(stream)
    topic.index[key] = stream.tag
    return stream


def forget(scope: Scope, topic: Topic, log: Log) -> None:
    """Forget the streams of a partition that are over; called when the log's start has moved."""
    over = [stream for stream in topic.streams if stream.partition == log.partition and _is_over(scope, topic, stream)]
    if not over:
        return
    for stream in _unused(scope, log, over):
        _drop(topic, stream)
        log.retired.pop(stream.tag, None)
        key = stream.producer_id, stream.partition
        topic.forgotten_in[key] = max(topic.forgotten_in.get(key, 0), stream.generation)


def _unused(scope: Scope, log: Log, streams: list[Stream]) -> list[Stream]:
    """Return the streams that nothing refers to."""
    used = log.claims.all_tags() | log.phantoms.all_tags() | {one.tag for one in log.missing}
    used |= {one.tag for one in log.unplaced}
    used |= {held.tag for held in log.held.values()}.union(*(runs.all_tags() for runs in log.held_at.values()))
    used |= {run[3] for reread in log.rereads.values() for run in reread.expected}
    used |= {run[3] for run in (log.regression.runs if log.regression is not None else ())}
    open_ = {key[:2] for key in scope.state.transactions}
    return [s for s in streams if s.tag not in used and (s.producer_id, s.generation) not in open_]


def _drop(topic: Topic, stream: Stream) -> None:
    del topic.index[stream.producer_id, stream.generation, stream.partition]
    topic.free_tags.append(stream.tag)
    topic.streams[stream.tag] = Stream(stream.tag, stream.producer_id, -1, stream.partition, stream.mode)


def _is_over(scope: Scope, topic: Topic, stream: Stream) -> bool:
    if stream.mode not in FENCED or (stream.producer_id, stream.generation, stream.partition) not in topic.index:
        return False
    waits = stream.open or stream.unplaced or stream.places or any(stream.unseen.values())
    return not waits and len(list(islice(later(scope.state, stream), 2))) > 1


def later(state: State, stream: Stream) -> Iterator[tuple[int, int]]:
    """Yield (producer_id, generation) of each successor of a stream, in order.

    These are later generations of its producer, and the generations of the producers of later starts.
    """
    own = state.producers.get(stream.producer_id)
    if own is None:
        return
    yield from ((stream.producer_id, generation) for generation in range(stream.generation + 1, own.generation + 1))
    if own.live:
        return  # the usual case: the present start's
    after = dropwhile(lambda item: item[0] != stream.producer_id, state.producers.items())
    for producer_id, producer in islice(after, 1, None):
        if (producer.topic, producer.mode) == (own.topic, own.mode):
            yield from ((producer_id, generation) for generation in range(own.generation + 1, producer.generation + 1))


def retire(scope: Scope, topic: Topic, mode: str) -> None:
    """Another generation begins: earlier ones of the mode, of former starts too, may soon be forgotten.

    In the mode ``fencing`` only those with something to look for: each of them is kept until its records have expired.
    """
    for (_, _, partition), tag in topic.index.items():
        stream = topic.streams[tag]
        if stream.sent_keys:
            forget_sent_times(stream)
        if stream.mode == mode and (mode not in FENCED or stream.unplaced):
            topic.logs[partition].retired.setdefault(tag, Retired(scope.state.ordinal))


def forget_retired(scope: Scope, topic: Topic, log: Log, asked_ordinal: int, end: int) -> None:
    """Forget the retired streams that wrote nothing; the log's ``end`` was asked for at ``asked_ordinal``.

    A consumer above the end has not read what was written since the log was cut below it; nor may a consumer have
    done so while a question about the log is open.
    """
    sought: list[int] = []
    for tag, one in log.retired.items():
        if one.end is None and asked_ordinal >= one.ordinal:
            one.end = end
        if one.end is not None and _seek_unplaced(scope, log, topic.streams[tag], end):
            sought.append(tag)
    if not log.retired or log.busy:
        return
    passed: dict[str, int] = {}
    for reader in log.readers.values():
        at = reader.position if reader.position <= end else -1
        passed[reader.isolation] = max(passed.get(reader.isolation, -1), at)
    read = min(passed.values(), default=-1)
    due = [tag for tag in sought if (log.retired[tag].end or 0) <= read]
    if due:
        for tag in due:
            del log.retired[tag]
        for stream in _unused(scope, log, [topic.streams[tag] for tag in due]):
            known = (stream.open, stream.acked, stream.seen, stream.lost, stream.unplaced, stream.places)
            if not any(known):
                _drop(topic, stream)


def _seek_unplaced(scope: Scope, log: Log, stream: Stream, end: int) -> bool:
    """Look for what was acknowledged without an offset, and by a generation that is over, below the log's end.

    No later probe of that generation will be read, whose place would show where it has to be. Returns whether there is
    no more to look for: the log may have to grow first.
    """
    if stream.mode in UNORDERED:
        return True
    for a, b in list(stream.unplaced):
        low = lowest(stream, a)
        if low < end:
            now = (scope.state.now_ns, scope.state.ordinal)
            log.unplaced.extend(Unplaced(stream.tag, sequence, low, end, *now) for sequence in range(a, b))
            stream.unplaced.remove(a, b)
    return not stream.unplaced
