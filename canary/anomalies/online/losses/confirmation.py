"""Confirmation: an absent probe is a lost write once two later samples give the same topic id (decision 7)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from canary.anomalies.online.log import Log
from canary.anomalies.online.losses import ranges
from canary.anomalies.online.losses.log_end import report_cut
from canary.anomalies.online.losses.questions import Held, Missing, Unplaced
from canary.anomalies.online.missing import PASSED, stop_awaiting
from canary.anomalies.online.rules import relays
from canary.anomalies.online.rules.claims import first_write
from canary.anomalies.online.rules.held import claimed, graded_copies, standing, standing_copies, unheard
from canary.anomalies.online.scope import Scope
from canary.anomalies.online.sets.intervals import IntervalSet
from canary.anomalies.online.sets.runs import Run, RunMap
from canary.anomalies.online.state import Ask, Topic
from canary.anomalies.violation import Records

SAMPLES = 2
"""Equal topic ids, asked after the evidence, before a violation is reported (a resumed broker may give an old one)."""
_APART_NS = 300_000_000
"""Two samples closer together are one. A broker that was just resumed gives an old topic id for 100 ms or so."""


def release(scope: Scope, topic: Topic, asked: Ask) -> None:
    """A sample that was ``asked`` then gives the same topic id: it counts for all that waits since before."""
    for log in topic.logs.values():
        _release_missing(scope, topic, log, asked)
        for u in list(log.unplaced):
            if u.state == "absent" and _enough(u, asked):
                log.unplaced.remove(u)
                _lost_unplaced(scope, topic, log, u)
        for key, held in list(log.held.items()):
            if not _enough(held, asked) or (held.check and log.busy):
                continue
            if not relays.unread(scope, held) and not unheard(topic, log, held):
                _release_held(scope, topic, log, log.let_go(key))
        report_cut(scope, topic, log)


def _enough(waiting: Missing | Unplaced | Held, asked: Ask) -> bool:
    """Count a sample for what waits since before it was asked for; return whether there are enough of them now.

    A clock that was set back since the last one tells nothing: it counts.
    """
    if waiting.ordinal < asked.ordinal and not 0 <= asked.at_ns - waiting.sampled_ns < _APART_NS:
        waiting.samples, waiting.sampled_ns = waiting.samples + 1, asked.at_ns
    return waiting.samples >= SAMPLES


def _release_missing(scope: Scope, topic: Topic, log: Log, asked: Ask) -> None:
    due: list[Missing] = []
    waiting: list[Missing] = []
    for m in log.missing:
        enough = m.state == "absent" and _enough(m, asked)
        ready = enough and m.ordinal < min(asked.ordinal, log.listed_ordinal)
        for part in m.split(log.end or 0) if ready and m.by_end else [m]:
            if ready and part.by_end and part.offset < (log.end or 0):  # filled again, or it was a former leader's end
                part.state, part.samples, part.by_end = "ask", 0, False
                waiting.append(part)
            else:
                (due if ready else waiting).append(part)
    log.missing = waiting
    if not due:
        return
    elsewhere = _copies(log)
    ranges.report(scope, topic, log, [loss for m in due for loss in _lost(scope, topic, log, m, elsewhere)])


def _release_held(scope: Scope, topic: Topic, log: Log, held: Held) -> None:
    if held.check == "stands" and not _wrote_below(scope, topic, log, held):
        return
    stand = standing(topic, log, held)
    if held.check in PASSED and held.violation.offset is not None:
        end = held.sequence + held.violation.count
        stop_awaiting(log, topic.streams[held.tag], held.violation.offset, held.sequence, end)
    if held.violation.kind == "duplicate":
        _release_copies(scope, topic, log, held, stand)
    elif stand:
        found = held.violation.about(stand)
        if found.kind == "inconsistent-offsets":  # an acknowledgement comes before its leader's epoch is known
            found = replace(found, leader_epoch=log.epoch_of_cut)
        scope.emit(found)


def _wrote_below(scope: Scope, topic: Topic, log: Log, held: Held) -> bool:
    """Whether a write of the later generation still stands below: else nothing shows that the older one was fenced.

    What was read, is not lost and has no place any more has expired: it was there.
    """
    violation = held.violation
    producer_id, generation = violation.evidence["later_producer"], violation.evidence["later_generation"]
    later = scope.stream(topic, producer_id, generation, log.partition)
    if later is None:
        return False
    first = later.places.first()
    placed = later.next_sequence if first is None else first
    if any(later.lost.without(a, b) for a, b in later.seen.within(0, placed)):
        return True
    first = first_write(log, later)
    return first is not None and first < (violation.offset or 0)


def _release_copies(scope: Scope, topic: Topic, log: Log, held: Held, stand: list[Records]) -> None:
    for run in stand:
        for said in graded_copies(scope, topic, held.violation.about([run])):
            scope.emit(said)
        if run.offset is not None:
            log.copies.add(run.offset, run.offset + run.size)
    if held.check == "copy":  # where the first one is gone, the copy is the place
        places, both = topic.streams[held.tag].places, standing_copies(log, held)
        for offset in (held.first, held.violation.offset or 0):
            for a, b in claimed(log, held, offset):
                for x, y in both.without(a, b):
                    places.set(held.sequence + x, y - x, offset + x, held.tag)


Copies = Mapping[int, Sequence[RunMap]]
"""Stream to maps of sequence to another offset: of what is a copy, or was read and then acknowledged there."""


def _copies(log: Log) -> Copies:
    maps: dict[int, list[RunMap]] = {}
    for tag, sequence, n, offset in _elsewhere(log):
        free = (places for places in maps.setdefault(tag, []) if not places.touches(sequence, sequence + n))
        found = next(free, None)
        if found is None:
            maps[tag].append(found := RunMap())
        found.set(sequence, n, offset, tag)
    return maps


def _elsewhere(log: Log) -> Iterator[tuple[int, int, int, int]]:
    """Yield (stream, first sequence, number, first offset)."""
    for held in log.held.values():
        if held.check == "copy":
            for offset in (held.first, held.violation.offset or 0):
                yield held.tag, held.sequence, held.violation.count, offset
    for m in log.missing:
        if m.why == "moved":
            yield m.tag, m.sequence, m.count, m.offset
    for a, b in log.copies:
        for run in log.claims.within(a, b):
            yield run.tag, run.value, run.length, run.key


def _stands_elsewhere(topic: Topic, log: Log, m: Missing, a: int, b: int, copies: Copies) -> Iterator[Run]:
    """Yield the sequences of [a, b) that were read or acknowledged at another offset since, with that offset."""
    for known in (topic.streams[m.tag].places, *copies.get(m.tag, ())):
        for place in known.within(a, b):
            if place.value - place.key == m.offset - m.sequence:
                continue
            end, shift = place.value + place.length, place.key - place.value
            for run in log.claims.aligned(place.value, end, shift, m.tag):
                yield Run(run.value, run.length, run.key, run.tag)


def _lost(scope: Scope, topic: Topic, log: Log, m: Missing, copies: Copies) -> Iterator[ranges.Loss]:
    """Yield what of ``m`` is lost for certain, and mark it so; the violations are made of all losses together."""
    stream, shift = topic.streams[m.tag], m.offset - m.sequence
    left = _in_question(scope, topic, log, m)
    for x, y in list(left):
        for run in list(_stands_elsewhere(topic, log, m, x, y, copies)):
            for a, b in left.within(run.key, run.key + run.length):
                stream.places.set(a, b - a, run.value + a - run.key, m.tag)
            left.remove(run.key, run.key + run.length)
    for x, y in list(left):
        acknowledged, read = (sum(b - a for a, b in known.within(x, y)) for known in (stream.acked, stream.seen))
        stream.lost.add(x, y)
        yield ranges.Loss(x + shift, y - x, x, m.tag, m, acknowledged, read)


def _in_question(scope: Scope, topic: Topic, log: Log, m: Missing) -> IntervalSet:
    """Return the sequences of ``m`` that are not known as lost, not claimed again and not expired."""
    stream, shift = topic.streams[m.tag], m.offset - m.sequence
    left = IntervalSet.of(stream.lost.without(m.sequence, m.sequence + m.count))
    for run in log.claims.aligned(m.offset, m.offset + m.count, -shift, m.tag):
        for x, y in left.within(run.value, run.value + run.length):
            # claimed again meanwhile, by a read or a late acknowledgement: read again
            log.missing.append(m.part(x, y - x, scope.state.ordinal))
        left.remove(run.value, run.value + run.length)
    return left


def _lost_unplaced(scope: Scope, topic: Topic, log: Log, u: Unplaced) -> None:
    stream = topic.streams[u.tag]
    if u.sequence in stream.seen or u.sequence in stream.lost or u.low < log.start:
        return
    stream.lost.add(u.sequence, u.sequence + 1)
    ranges.forget(stream, u.sequence, u.sequence + 1)
    run = Records(None, 1, stream.identity(u.sequence))
    summary = f"{ranges.what(1, 1)} gone: the offsets around it were read"
    evidence = {"acknowledged": True, "read_before": False}
    found = scope.of_records("lost-write", topic, log, [run], summary, mode=stream.mode, evidence=evidence)
    ranges.emit(scope, topic, log, found)
