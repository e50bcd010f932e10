"""One offset, one identity; one identity, one offset; and in the order in which they were sent."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from canary.anomalies import policy
from canary.anomalies.online.intervals import IntervalSet
from canary.anomalies.online.questions import PASSED, miss, not_given, want, want_tail
from canary.anomalies.online.scope import Found
from canary.anomalies.violation import SENT_AGAIN, Records

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from canary.anomalies.online.scope import Scope
    from canary.anomalies.online.state import Held, Log, Stream, Topic
    from canary.anomalies.violation import Violation


def claim(
    scope: Scope, topic: Topic, log: Log, stream: Stream, sequence: int, n: int, offset: int, *, promise: bool
) -> None:
    """Somebody says that ``n`` identities from ``sequence`` stand at ``offset`` and after.

    Whoever was said to stand there before, by an acknowledgement or a read, contradicts it: inconsistent-offsets (held
    until the topic id is known to be the same), and the promised one of the two is looked for again.
    """
    claims = log.claims
    known = claims.matches(offset, n, sequence, stream.tag)
    if not known and offset < claims.end():
        for run in claims.within(offset, offset + n):
            if run.tag == stream.tag and run.value - run.key == sequence - offset:
                continue
            _conflict(scope, topic, log, stream, run, sequence - offset)
    if not known:
        claims.set(offset, n, sequence, stream.tag)
    if promise:
        log.promised.add(offset, offset + n)


def _conflict(scope: Scope, topic: Topic, log: Log, stream: Stream, run: tuple[int, int, int, int], shift: int) -> None:
    offset, count, sequence, tag = run
    log.conflicted = True
    other = topic.streams[tag]

    def words(run: Records) -> tuple[str, dict[str, Any]]:
        here = offset if run.offset is None else run.offset
        evidence = {
            "first": list(other.identity(sequence + here - offset)),
            "second": list(stream.identity(here + shift)),
        }
        return f"offset {here} was given to two probes", evidence

    severity = policy.severity("inconsistent-offsets", stream.mode, other.mode)
    found = Found("inconsistent-offsets", stream.mode, words, "offsets were given to two probes each", severity)
    scope.hold_run(topic, log, Records(offset, count, None), -1, found)
    for a, b in log.promised.within(offset, offset + count):
        miss(scope, log, other, a, b - a, sequence + a - offset, "displaced")
    log.promised.remove(offset, offset + count)
    want_tail(scope, log, "conflict", offset)


def hold_order(
    scope: Scope, topic: Topic, log: Log, stream: Stream, sequence: int, n: int, offset: int, *, read: bool
) -> None:
    """Find out whether the sequence order of a stream differs from the offset order, and hold it for confirmation."""
    before = stream.places.before(sequence)
    if before is not None and before[1] > offset and not _late(stream, before[0], sequence):
        _hold_reorder(scope, topic, log, stream, (before[0], before[1]), (sequence, offset), read=read)
    after = stream.places.after(sequence + n - 1)
    if after is not None and after[1] < offset + n - 1 and not _late(stream, after[0], sequence + n - 1):
        _hold_reorder(scope, topic, log, stream, (sequence + n - 1, offset + n - 1), after, read=read)


def _late(stream: Stream, *sequences: int) -> bool:
    """An indeterminate send may land whenever it likes; that is no reordering."""
    return any(sequence in stream.indeterminate for sequence in sequences)


def _hold_reorder(
    scope: Scope,
    topic: Topic,
    log: Log,
    stream: Stream,
    low: tuple[int, int],
    high: tuple[int, int],
    *,
    read: bool,
) -> None:
    """``low`` is the lower sequence (and its greater offset), ``high`` the higher (and its smaller offset)."""
    new = scope.hold(
        log,
        scope.violation(
            "reorder" if read else "nonmonotonic-send",
            topic,
            log.partition,
            high[1],
            stream.identity(high[0]),
            f"sequence {high[0]} stands at offset {high[1]}, before sequence {low[0]} at offset {low[1]}",
            mode=stream.mode,
            evidence={"sequences": [low[0], high[0]], "offsets": [low[1], high[1]]},
        ),
        check="order",
        tag=stream.tag,
        sequence=low[0],
        other_sequence=high[0],
    )
    if new:
        want_tail(scope, log, "order", min(low[1], high[1]))
        want(scope, log, low[1], low[1] + 1, "order")  # acknowledged just now, and no promise yet


def hold_copy(
    scope: Scope, topic: Topic, log: Log, stream: Stream, sequence: int, n: int, offset: int, known: int | None
) -> None:
    """``n`` identities that were delivered before are delivered elsewhere: copies, if the first ones still stand.

    What stood at or above a truncation is void, so the first ones (from ``known`` on) are read again before anything is
    said; when their offsets are forgotten (retention), their being known is enough.
    """
    copy = offset if known is None else max(known, offset)
    first = -1 if known is None else min(known, offset)
    found = copies(stream, copy, [x for x in (known, offset) if x is not None], None if known is None else first)
    check = "copy" if known is not None else ""
    new = False
    for a, b in log.copies.without(copy, copy + n):
        run = Records(a, b - a, stream.identity(sequence + a - copy))
        at = first + a - copy if known is not None else -1
        new |= scope.hold_run(topic, log, run, stream.tag, found, check=check, first=at)
    if new and known is not None:
        want_tail(scope, log, "copy", first)


def copies(stream: Stream, copy: int, offsets: list[int], first: int | None) -> Found:
    """Return what is wrong with probes that stand at ``copy`` and after, and (None: expired ones) at ``first``."""

    def words(run: Records) -> tuple[str, dict[str, Any]]:
        skip = 0 if run.offset is None else run.offset - copy
        where = "an expired one" if first is None else first + skip
        return f"one probe stands at two offsets: {where} and {copy + skip}", {"offsets": [x + skip for x in offsets]}

    return Found("duplicate", stream.mode, words, "probes stand at two offsets each")


def as_said(scope: Scope, topic: Topic, copy: Violation) -> Iterator[Violation]:
    """Yield duplicates as they are to be said: those that the client itself sent again are a warning.

    Brokers know a copy by producer id, epoch and sequence. A client that takes a new epoch while something is in flight
    appends it again if it was appended already (librdkafka issue 4953), and no broker broke its word.
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
            yield _of_the_client(part) if (a, b) in again else part


def _of_the_client(copy: Violation) -> Violation:
    return replace(
        copy,
        severity="warning",
        summary=f"{copy.summary}; the client had taken a new producer epoch, and sent it again under that",
        evidence={**copy.evidence, SENT_AGAIN: True},
    )


def settle_held(topic: Topic, log: Log, start: int) -> None:
    """The log's start is about to pass what held violations rest on: what stands now need not stand any longer.

    Where there are signs of a cut and a re-read is still to tell, it stays in doubt, and so will be dropped. An order
    is such a sign itself.
    """
    doubtful = log.busy and (log.cut is not None or log.low_end is not None or log.conflicted)
    if doubtful:
        return
    for key, held in list(log.held.items()):
        if held.check == "order" and standing(topic, log, held) and not log.busy:
            places = topic.streams[held.tag].places
            rests_on = [place[0] for place in map(places.get, (held.sequence, held.other_sequence)) if place]
            if min(rests_on) < start:
                held.check = ""
        elif held.check == "copy":
            make_certain(log, key, held, standing_copies(log, held).within(0, start - held.first))
        elif held.check in PASSED:
            make_certain(log, key, held, gone_past(topic, log, held).within(0, start - (held.violation.offset or 0)))


def make_certain(log: Log, key: str, held: Held, certain: Iterable[tuple[int, int]]) -> None:
    """Of held records, all of one run, these (counted from 0) are beyond doubt; the others stay in it."""
    sure = IntervalSet()
    for a, b in certain:
        sure.add(a, b)
    if not sure:
        return
    del log.held[key]
    for a, b in sorted([*sure, *sure.without(0, held.violation.count)]):
        violation = held.violation.about([held.violation.runs[0].part(a, b - a)])
        part = replace(held, violation=violation, first=held.first + a, sequence=held.sequence + a)
        part.check = "" if a in sure else held.check
        log.held[f"{key} {a}" if a else key] = part


def standing(topic: Topic, log: Log, held: Held) -> list[Records]:
    """Return the records of which what is held rests on is still so, now that every re-read is over."""
    runs = list(held.violation.runs)
    if held.check == "retained":
        gone = [log.start - (log.start if run.offset is None else run.offset) for run in runs]
        return [run.part(max(n, 0), run.size - max(n, 0)) for run, n in zip(runs, gone, strict=True) if n < run.size]
    if held.check in PASSED:
        return [runs[0].part(a, b - a) for a, b in gone_past(topic, log, held)]
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
    return log.claims.get(low[0]) == (held.sequence, held.tag) and log.claims.get(high[0]) == (
        held.other_sequence,
        held.tag,
    )


def gone_past(topic: Topic, log: Log, held: Held) -> IntervalSet:
    """Return which of held skips, counted from 0, a consumer has gone past without a delivery."""
    a, offset = held.sequence, held.violation.offset
    found = IntervalSet()
    for x, y in not_given(log, topic.streams[held.tag], a, a + held.violation.count, offset):
        found.add(x - a, y - a)
    return found


def standing_copies(log: Log, held: Held) -> IntervalSet:
    """Return which of held copies, counted from 0, stand where they were read, and their first ones, too."""
    copy, both = held.violation.offset or 0, IntervalSet()
    first = claimed(log, held, held.first)
    for a, b in claimed(log, held, copy):
        for x, y in first.within(a, b):
            both.add(x, y)
    return both


def claimed(log: Log, held: Held, offset: int) -> IntervalSet:
    """Return which of the probes of held copies, counted from 0, are known to stand at ``offset`` and after."""
    found = IntervalSet()
    for run in log.claims.within(offset, offset + held.violation.count):
        if run.tag == held.tag and run.value - run.key == held.sequence - offset:
            found.add(run.key - offset, run.key - offset + run.length)
    return found
