"""Positions of tail consumers, and what they pass without a delivery."""

from typing import Any

from canary import facts as f
from canary.anomalies.online.log import READ_COMMITTED, Log, Reader
from canary.anomalies.online.meters import count
from canary.anomalies.online.missing import PASSED, SKIPPED, miss, not_given
from canary.anomalies.online.rules.held import make_certain
from canary.anomalies.online.scope import Found, Probes, Scope, Where, always, is_reread
from canary.anomalies.online.sets.intervals import IntervalSet
from canary.anomalies.online.state import Topic
from canary.anomalies.online.topology import timeline
from canary.anomalies.online.wanted import want_tail
from canary.anomalies.violation import Records
from canary.probe.record import OTHER_TAG


def positioned(scope: Scope, fact: f.Positioned) -> None:
    """The canary put a consumer at an offset."""
    topic, log = scope.place(fact.topic, fact.partition)
    request_id = is_reread(fact.consumer)
    if request_id is not None:
        reread = log.rereads.get(request_id)
        if reread is not None and fact.offset > reread.start:  # what lies below is no longer in the log
            reread.start = reread.begins = fact.offset
        return
    if topic.is_former(fact.topic_id):
        return  # it still reads the former incarnation, and takes the new one's records for foreign
    before = log.readers.get(fact.consumer)
    if before is not None and before.position == fact.offset and not before.astray:
        before.moved_at_ns = scope.state.now_ns  # it continues at its position
        return
    if before is not None and before.astray and (log.cut or {}).get("position", fact.offset) < fact.offset:
        log.cut = None  # it is put forward, to a start of the log that was not listed yet: its position had expired
    if fact.isolation == READ_COMMITTED:
        _put_elsewhere(topic, log, fact, SKIPPED if before is not None and before.astray else PASSED)
    log.readers[fact.consumer] = Reader(fact.isolation, fact.offset, scope.state.now_ns, fact.offset)


def _put_elsewhere(topic: Topic, log: Log, fact: f.Positioned, passed: frozenset[str]) -> None:
    """The consumer starts again: what it passed without a delivery stays skipped, even if it is delivered now.

    Not so for a consumer that was out of range: records acknowledged below its position since are in a log that it did
    not read.
    """
    for m in log.missing:
        if m.why in passed and _awaited(topic, fact.consumer, m.tag).covers(m.sequence, m.sequence + m.count):
            m.given = True
    for key, held in list(log.held.items()):
        if held.check in passed:
            a = held.sequence
            awaited = _awaited(topic, fact.consumer, held.tag).within(a, a + held.violation.count)
            make_certain(log, key, held, [(x - a, y - a) for x, y in awaited])


def _awaited(topic: Topic, consumer: str, tag: int) -> IntervalSet:
    return topic.streams[tag].unseen.get(consumer) or IntervalSet()


def advance(scope: Scope, topic: Topic, log: Log, consumer: str, isolation: str, offset: int, end: int) -> None:
    """A tail consumer's contiguous position moves to ``end``; promises in between are missing.

    ``offset`` is where the delivery begins (equal to ``end`` at an end of partition).
    """
    reader = log.readers.get(consumer)
    if reader is None:
        return  # it was not put into this incarnation of the topic yet
    if offset < reader.position:
        if end > offset:
            summary = f"{consumer} stood at {reader.position} and was given offset {offset} without having been moved"
            evidence = {"consumer": consumer, "position": reader.position}
            where = Where(topic, log.partition, offset)
            scope.hold(log, scope.violation("nonmonotonic-poll", where, summary, evidence=evidence))
        if end > reader.position:  # a run that begins below the reader's position ends above it
            reader.position, reader.moved_at_ns = end, scope.state.now_ns
        return
    reader.heard = scope.state.ordinal
    if isolation == READ_COMMITTED and offset > reader.position:
        _skipped(scope, topic, log, reader.position, offset, astray=reader.astray)
    if end > offset and reader.astray:  # what it is given bears the mark of the present incarnation: it reads that now
        reader.astray, reader.began = False, offset
    if end > reader.position:
        reader.position = end
        reader.moved_at_ns = scope.state.now_ns


def _skipped(scope: Scope, topic: Topic, log: Log, a: int, b: int, *, astray: bool) -> None:
    """A consumer passed [a, b): promises there are missing; one that is astray did not read them, a re-read decides."""
    for m in log.missing:  # a displaced probe may still stand at its place
        if not astray and m.why == "displaced" and a <= m.offset and m.offset + m.count <= b:
            m.why = "skipped"
    for x, y in log.promised.within(a, b):
        for gap_start, gap_end in log.corrupt.without(x, y):
            for run in log.claims.within(gap_start, gap_end):
                probes = Probes(topic, log, topic.streams[run.tag], run.value, run.length, run.key)
                if astray:
                    miss(scope, probes, "reread")
                    continue
                waiting = not_given(log, probes.stream, run.value, probes.end)
                for first, end in waiting:
                    miss(scope, probes.part(first, end), "skipped")
                for first, end in waiting.without(run.value, probes.end):
                    miss(scope, probes.part(first, end), "skipped", given=True)


def refused(scope: Scope, fact: f.Refused) -> None:
    """A consumer was given a record that is no intact probe of the canary."""
    topic, log = scope.place(fact.topic, fact.partition)
    request_id = is_reread(fact.consumer)
    reread = log.rereads.get(request_id) if request_id is not None else None
    of_former = fact.error == OTHER_TAG.detail and timeline.was_recreated(scope, topic.name)
    if fact.refusal == "corrupt":
        _corrupt(scope, topic, log, fact)
        if reread is not None:
            reread.corrupt.add(fact.offset, fact.offset + 1)
    else:
        name = "reread" if request_id is not None else fact.consumer
        count(scope.meters(fact.topic, fact.partition).foreign, name, 1)
        if reread is not None and of_former:  # maybe by a leader that was cut off, whatever its epoch
            reread.former |= fact.offset in log.promised
        elif fact.refusal == "foreign" and fact.leader_epoch == log.epoch and fact.offset in log.promised:
            log.given_again.add(fact.offset, fact.offset + 1)
    if request_id is None:  # the record itself is passed, too: a probe may be promised there
        reader = log.readers.get(fact.consumer)
        if reader is not None and of_former and fact.offset >= reader.position:
            reader.astray = True  # what is, or will be, acknowledged here may be in a log that it does not read
        advance(scope, topic, log, fact.consumer, fact.isolation, fact.offset, fact.offset)
        if reader is not None and fact.offset == reader.position:
            if fact.isolation == READ_COMMITTED:  # at a corrupt record nothing is missing
                _skipped(scope, topic, log, fact.offset, fact.offset + 1, astray=reader.astray)
            reader.position = fact.offset + 1
            reader.moved_at_ns = scope.state.now_ns


def _corrupt(scope: Scope, topic: Topic, log: Log, fact: f.Refused) -> None:
    if fact.offset in log.corrupt:
        return
    log.corrupt.add(fact.offset, fact.offset + 1)
    evidence: dict[str, Any] = {"consumer": fact.consumer, "isolation": fact.isolation, "error": fact.error}
    known = log.claims.get(fact.offset)
    if known is not None:
        stream = topic.streams[known[1]]
        evidence["promised_here"] = list(stream.identity(known[0]))
        for unseen in stream.unseen.values():
            unseen.remove(known[0], known[0] + 1)
    words = "a record that bears our magic and tag is damaged", "records that bear our magic and tag are damaged"
    one, several = (f"{what}: {fact.error}" for what in words)
    found = Found("corrupt", None, always(one, evidence), several, leader_epoch=fact.leader_epoch)
    scope.emit_run(topic, log, Records(fact.offset, 1, None), found)


def end_of_partition(scope: Scope, fact: f.EndOfPartition) -> None:
    """A consumer reached the end of what it may read."""
    if is_reread(fact.consumer) is not None:
        return
    topic, log = scope.place(fact.topic, fact.partition)
    reader = log.readers.get(fact.consumer)
    if reader is not None and fact.offset < reader.position:
        return  # by a replica that lags: the listed end decides
    if reader is not None:
        advance(scope, topic, log, fact.consumer, fact.isolation, fact.offset, fact.offset)
        reader.moved_at_ns = scope.state.now_ns


def out_of_range(scope: Scope, fact: f.OutOfRange) -> None:
    """A consumer's position is not in the log (retention, recreation or truncation): its tail is read again.

    A promise that stands below it was not cut off, nor was anything below that: only what is beyond the ends known so
    far may have been written since.
    """
    if is_reread(fact.consumer) is not None:
        return
    topic, log = scope.place(fact.topic, fact.partition)
    reader = log.readers.get(fact.consumer)
    if reader is None:
        return  # its position was in a former incarnation of the topic
    reader.astray = True
    if fact.offset > log.start:
        before = log.cut or {}
        position = max(fact.offset, before.get("position", 0))  # the highest shows a cut, if any does
        ends = [end for end in (log.known_end, log.end, before.get("known_end")) if end is not None]
        evidence = {
            "consumer": fact.consumer,
            "position": position,
            "known_end": min(position, *ends),
            "error": fact.error,
            "at_ns": fact.at_ns,
        }
        log.see_cut(evidence, topic.streams)
        want_tail(scope, log, "out-of-range", fact.offset)
