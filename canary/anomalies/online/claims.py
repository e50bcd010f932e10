"""One offset, one identity; one identity, one offset; and in the order in which they were sent."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from canary.anomalies.online.questions import PASSED, miss, not_given, want_tail
from canary.anomalies.online.scope import UNORDERED, severity_of
from canary.anomalies.violation import SENT_AGAIN

if TYPE_CHECKING:
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
    for i in range(count):
        here = offset + i
        scope.hold(
            log,
            scope.violation(
                "inconsistent-offsets",
                topic,
                log.partition,
                here,
                None,
                f"offset {here} was given to two probes",
                mode=stream.mode,
                severity=severity_of(stream.mode, other.mode),
                evidence={
                    "first": list(other.identity(sequence + i)),
                    "second": list(stream.identity(here + shift)),
                },
            ),
        )
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
            severity="warning" if stream.mode in UNORDERED else "critical",
            evidence={"sequences": [low[0], high[0]], "offsets": [low[1], high[1]]},
        ),
        check="order",
        tag=stream.tag,
        sequence=low[0],
        other_sequence=high[0],
    )
    if new:
        want_tail(scope, log, "order", min(low[1], high[1]))


def hold_copy(
    scope: Scope, topic: Topic, log: Log, stream: Stream, sequence: int, offset: int, known: int | None
) -> None:
    """An identity that was delivered before is delivered elsewhere: a copy, if the first still stands.

    What stood at or above a truncation is void, so the first one is read again before anything is said; when its
    offset is forgotten (retention), its being known is enough.
    """
    copy = offset if known is None else max(known, offset)
    first = -1 if known is None else min(known, offset)
    if copy in log.copies:
        return
    new = scope.hold(
        log,
        scope.violation(
            "duplicate",
            topic,
            log.partition,
            copy,
            stream.identity(sequence),
            f"one probe stands at two offsets: {first if known is not None else 'an expired one'} and {copy}",
            mode=stream.mode,
            severity="warning" if stream.mode in UNORDERED else "critical",
            evidence={"offsets": [x for x in (known, offset) if x is not None]},
        ),
        check="copy" if known is not None else "",
        tag=stream.tag,
        sequence=sequence,
        first=first,
    )
    if new and known is not None:
        want_tail(scope, log, "copy", first)


def of_the_client(scope: Scope, topic: Topic, copy: Violation) -> Violation:
    """Return a duplicate as it is to be said: one that the client itself sent again is a warning.

    Brokers know a copy by producer id, epoch and sequence. A client that takes a new epoch while something is in flight
    appends it again if it was appended already (librdkafka issue 4953), and no broker broke its word.
    """
    who = copy.identity
    stream = None if who is None else scope.stream(topic, who.producer_id, who.generation, who.partition)
    if who is None or stream is None or who.sequence not in stream.resent:
        return copy
    return replace(
        copy,
        severity="warning",
        summary=f"{copy.summary}; the client had taken a new producer epoch, and sent it again under that",
        evidence={**copy.evidence, SENT_AGAIN: True},
    )


def settle_held(topic: Topic, log: Log, start: int) -> None:
    """The log's start is about to pass what held violations rest on: what stands now need not stand any longer.

    Where there are signs of a cut and a re-read is still to tell, it stays in doubt, and so will be dropped.
    """
    doubtful = log.busy and (log.cut is not None or log.low_end is not None or log.conflicted)
    if doubtful:
        return
    for held in log.held.values():
        if held.check in {"", "retained"} or not stands(topic, log, held):
            continue
        places = topic.streams[held.tag].places
        rests_on = [held.first]
        if held.check == "order":
            rests_on = [place[0] for place in map(places.get, (held.sequence, held.other_sequence)) if place]
        if min(rests_on) < start:
            held.check = ""


def stands(topic: Topic, log: Log, held: Held) -> bool:
    """Say whether what a held violation rests on is still so, now that every re-read is over."""
    if held.check == "retained":
        return held.violation.offset is None or held.violation.offset >= log.start
    if held.check in PASSED:
        stream = topic.streams[held.tag]
        return bool(not_given(log, stream, held.sequence, held.sequence + 1, held.violation.offset))
    if held.check == "order":
        stream = topic.streams[held.tag]
        low, high = stream.places.get(held.sequence), stream.places.get(held.other_sequence)
        if low is None or high is None or low[0] < high[0]:
            return False
        return log.claims.get(low[0]) == (held.sequence, held.tag) and log.claims.get(high[0]) == (
            held.other_sequence,
            held.tag,
        )
    if held.check == "copy":
        copy = held.violation.offset
        return log.claims.get(held.first) == (held.sequence, held.tag) and (
            copy is not None and log.claims.get(copy) == (held.sequence, held.tag)
        )
    return True
