"""Streams: made with their first probe, and forgotten, or reduced to a row, when nothing of them is retained or open.

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

A later read of what another generation wrote is a copy, for ever, and there are as many generations as starts of the
runner and deaths of clients. Of a former process's stream a row is kept (`ExpiredGeneration`) once the log's start, as
its leader lists it, has passed all that it can have written, and nothing waits for any of it.
"""

from collections.abc import Iterator
from itertools import dropwhile, islice

from canary.anomalies.online.log import Log, Retired
from canary.anomalies.online.losses.questions import Unplaced
from canary.anomalies.online.scope import Scope
from canary.anomalies.online.state import State, Topic
from canary.anomalies.online.stream import Stream, forget_sent_times, lowest
from canary.anomalies.policy import FENCED, UNORDERED


def forget(scope: Scope, topic: Topic, log: Log) -> None:
    """Forget the streams of a partition that are over; called when the log's start has moved."""
    over = [stream for stream in topic.streams if stream.partition == log.partition and _is_over(scope, topic, stream)]
    if not over:
        return
    for stream in _unused(scope, log, over):
        topic.drop(stream)
        key = stream.producer_id, stream.partition
        topic.forgotten_in[key] = max(topic.forgotten_in.get(key, 0), stream.generation)


def reduce_expired(scope: Scope, topic: Topic, log: Log) -> None:
    """Reduce to a row each stream of a former process of which all has expired, and that nothing refers to.

    Called when the log's start was listed: one that was only computed proves nothing. A transaction of which no write
    is left is forgotten, too: no read will prove that it committed.
    """
    if log.busy or log.cut is not None:
        return
    over = [stream for stream in topic.streams if stream.partition == log.partition and _has_expired(log, stream)]
    if not over:
        return
    unused = _unreferenced(log, over)
    tags, writers = {one.tag for one in unused}, {(one.producer_id, one.generation) for one in unused}
    unsettled = scope.state.transactions
    for key, transaction in [item for item in unsettled.items() if item[0][:2] in writers]:
        transaction.writes = [write for write in transaction.writes if write[0] != topic.name or write[1] not in tags]
        if not transaction.writes:
            del unsettled[key]
    for stream in unused:
        topic.reduce(stream)


def _has_expired(log: Log, stream: Stream) -> bool:
    """Say whether a former process's stream stands below the log's start, and nothing waits for any of it."""
    below, is_former = stream.written_below, not stream.live and stream.mode not in FENCED
    return is_former and below is not None and below <= log.start and not stream.waits


def _unused(scope: Scope, log: Log, streams: list[Stream]) -> list[Stream]:
    """Return the streams that nothing refers to, no transaction either."""
    open_ = {key[:2] for key in scope.state.transactions}
    return [one for one in _unreferenced(log, streams) if (one.producer_id, one.generation) not in open_]


def _unreferenced(log: Log, streams: list[Stream]) -> list[Stream]:
    """Return the streams that nothing refers to in their log."""
    used = log.claims.all_tags() | log.phantoms.all_tags() | {one.tag for one in log.missing}
    used |= {one.tag for one in log.unplaced}
    used |= {held.tag for held in log.held.values()}.union(*(runs.all_tags() for runs in log.held_at.values()))
    used |= {run[3] for reread in log.rereads.values() for run in reread.expected}
    used |= {run[3] for run in (log.regression.runs if log.regression is not None else ())}
    used |= set().union(*(reread.delivered.all_tags() for reread in log.rereads.values()))
    return [stream for stream in streams if stream.tag not in used]


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
        stream = topic.streams[tag]
        _note_end(log, stream, one, asked_ordinal, end)
        if one.end is not None and _seek_unplaced(scope, log, stream, end):
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
                topic.drop(stream)
        reduce_expired(scope, topic, log)


def _note_end(log: Log, stream: Stream, one: Retired, asked_ordinal: int, end: int) -> None:
    """Note the first end that was asked for after the stream's successor began, and below which all of it stands."""
    if one.end is None and asked_ordinal >= one.ordinal:
        one.end = end
        if stream.written_below is None:
            stream.written_below = max(end, log.known_end)


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
