"""Held violations: on which places each rests, and whether they still hold when it is to be reported.

A violation is held until two samples give the same topic id (decision 7). Meanwhile the log may be cut or its start may
move, so it is reported only for those records whose places still hold.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from canary.anomalies.online.log import Log
from canary.anomalies.online.losses.questions import Held
from canary.anomalies.online.missing import PASSED, not_given
from canary.anomalies.online.scope import Scope
from canary.anomalies.online.sets.intervals import IntervalSet
from canary.anomalies.online.state import Topic
from canary.anomalies.violation import SENT_AGAIN, Records, Violation


def graded_copies(scope: Scope, topic: Topic, copy: Violation) -> Iterator[Violation]:
    """Yield duplicates as they are reported: those that the client itself sent again are a warning.

    Brokers recognise a copy by producer id, epoch and sequence. A client that takes a new epoch while a batch is in
    flight appends it again if it was appended already (librdkafka issue 4953), and no broker broke its promise.
    """
    for run in copy.runs:
        who = run.identity
        stream = None if who is None else scope.stream(topic, who.producer_id, who.generation, who.partition)
        if who is None or stream is None:
            yield copy.about([run])
            continue
        first, end = who.sequence, who.sequence + run.size
        again = stream.resent.within(first, end)
        for a, b in sorted([*again, *stream.resent.without(first, end)]):
            part = copy.about([run.part(a - first, b - a)])
            if (a, b) in again:
                summary = f"{copy.summary}; the client had taken a new producer epoch, and sent it again under that"
                part = replace(part, severity="warning", summary=summary, evidence={**copy.evidence, SENT_AGAIN: True})
            yield part


def settle_held(topic: Topic, log: Log, start: int) -> None:
    """Decide held violations before the log's start passes the places on which they rest.

    What stands now is certain and needs no later check. With signs of a cut and a re-read under way it stays in doubt,
    and is dropped later. A reordering is such a sign itself.
    """
    if log.busy and (log.cut is not None or log.low_end is not None or log.conflicted):
        return
    for key, held in list(log.held.items()):
        if held.check == "order" and standing(topic, log, held) and not log.busy:
            places = topic.streams[held.tag].places
            rests_on = [place[0] for place in map(places.get, (held.sequence, held.other_sequence)) if place]
            if min(rests_on) < start:
                held.check = ""
        elif held.check == "stands":
            make_certain(log, key, held, _stands(log, held).within(0, start - (held.violation.offset or 0)))
        elif held.check == "copy":
            make_certain(log, key, held, standing_copies(log, held).within(0, start - held.first))
        elif held.check in PASSED:
            make_certain(log, key, held, passed_over(topic, log, held).within(0, start - (held.violation.offset or 0)))


def make_certain(log: Log, key: str, held: Held, certain: Iterable[tuple[int, int]]) -> None:
    """Split held records, all of one run: the ``certain`` ones (counted from 0) need no further check."""
    sure = IntervalSet.of(certain)
    if not sure:
        return
    del log.held[key]
    for a, b in sorted([*sure, *sure.without(0, held.violation.count)]):
        violation = held.violation.about([held.violation.runs[0].part(a, b - a)])
        part = replace(held, violation=violation, first=held.first + a, sequence=held.sequence + a)
        part.check = "" if a in sure else held.check
        log.held[f"{key} {a}" if a else key] = part


def standing(topic: Topic, log: Log, held: Held) -> list[Records]:
    """Return the held records whose places still hold, now that every re-read is over."""
    runs = list(held.violation.runs)
    if held.check in {"retained", "untaken"}:
        gone = [log.start - (log.start if run.offset is None else run.offset) for run in runs]
        return [run.part(max(n, 0), run.size - max(n, 0)) for run, n in zip(runs, gone, strict=True) if n < run.size]
    if held.check in PASSED:
        return [runs[0].part(a, b - a) for a, b in passed_over(topic, log, held, held.ordinal)]
    if held.check == "stands":
        return [runs[0].part(a, b - a) for a, b in _stands(log, held)]
    if held.check == "order":
        return runs if _disordered(topic, log, held) else []
    if held.check == "copy":
        return [runs[0].part(a, b - a) for a, b in standing_copies(log, held)]
    return runs


def _disordered(topic: Topic, log: Log, held: Held) -> bool:
    places = topic.streams[held.tag].places
    low, high = places.get(held.sequence), places.get(held.other_sequence)
    if low is None or high is None or low[0] < high[0]:
        return False
    if log.end is not None and low[0] >= log.end:
        return False  # it stands nowhere: a leader acknowledged it alone, and the log was cut
    expected = [(held.sequence, held.tag), (held.other_sequence, held.tag)]
    return [log.claims.get(low[0]), log.claims.get(high[0])] == expected


def unheard(topic: Topic, log: Log, held: Held) -> bool:
    """Whether it was passed by a consumer that may yet be told that the log was cut below its position."""
    is_passed = held.check in PASSED and bool(passed_over(topic, log, held))
    return is_passed and not passed_over(topic, log, held, heard_since=held.ordinal)


def passed_over(topic: Topic, log: Log, held: Held, heard_since: int = -1) -> IntervalSet:
    """Return the held skips, counted from 0, that a consumer (heard of since then) has passed without a delivery."""
    a, offset = held.sequence, held.violation.offset
    waiting = not_given(log, topic.streams[held.tag], a, a + held.violation.count, offset, heard_since)
    return IntervalSet.of((x - a, y - a) for x, y in waiting)


def standing_copies(log: Log, held: Held) -> IntervalSet:
    """Return the held copies, counted from 0, of which both records stand where they were read."""
    first = claimed(log, held, held.first)
    copies = claimed(log, held, held.violation.offset or 0)
    return IntervalSet.of(part for a, b in copies for part in first.within(a, b))


def _stands(log: Log, held: Held) -> IntervalSet:
    """Return the held records, counted from 0, that stand where they were read."""
    return claimed(log, held, held.violation.offset or 0)


def claimed(log: Log, held: Held, offset: int) -> IntervalSet:
    """Return the held probes, counted from 0, that are claimed at ``offset`` and after."""
    runs = log.claims.aligned(offset, offset + held.violation.count, held.sequence - offset, held.tag)
    return IntervalSet.of((run.key - offset, run.end - offset) for run in runs)
